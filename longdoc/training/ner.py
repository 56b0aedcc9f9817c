"""NER on whole documents."""

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from torchmetrics import MeanMetric

from longdoc.errors import ConfigError, check_choice
from longdoc.models.batch import Batch, WindowRef, collate
from longdoc.models.encoder import Encoder
from longdoc.models.losses import LossConfig, class_weights, tagging_loss
from longdoc.models.tagging import Subword, TaggingHead, tag_probs
from longdoc.text.preprocess import EncodedDocument, Preprocessor, window_items
from longdoc.text.results import DocumentResult
from longdoc.text.stitching import Aggregation, Stitcher, decode_spans
from longdoc.training.metrics import SpanF1
from longdoc.training.module import DocumentModule, Split
from longdoc.training.optim import OptimizerConfig


class NERModule(DocumentModule[DocumentResult]):
    """Tags the words of long documents.

    ``training_step`` takes a ``Batch`` of windows. ``validation_step``, ``test_step`` and ``predict_step`` take a list
    of ``EncodedDocument`` and return a list of ``DocumentResult``.

    Args:
        encoder: Encoder of token vectors.
        preprocessor: With ``tags``; the one that encodes the data.
        optimizer: How to train; None for a module that only predicts.
        subword: How the tokens of a word become its vector.
        aggregation: How windows become one answer: ``owner`` or ``mean``.
        dropout: Before the last layer.
        max_tokens_per_forward: Budget of one forward pass in evaluation, padding included; bounds its memory.
        slices: Names of gold slices whose scores are reported apart.
        loss: Weights of tags, focal loss and label smoothing.
        tag_counts: Training words of each tag, for the weights. *Shape:* (num_tags,).
    """

    task = "ner"
    shown = ("f1", "precision", "recall", "loss")
    tag_weight: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        preprocessor: Preprocessor,
        optimizer: OptimizerConfig | None = None,
        subword: Subword = "first",
        aggregation: Aggregation = "mean",
        dropout: float = 0.1,
        max_tokens_per_forward: int = 8192,
        slices: Sequence[str] = (),
        loss: LossConfig | None = None,
        tag_counts: Sequence[int] | None = None,
    ) -> None:
        if preprocessor.tags is None:
            raise ConfigError("NERModule: expected a preprocessor with tags, got tags=None")
        settings = {"subword": subword, "aggregation": aggregation, "dropout": dropout, "slices": list(slices)}
        labels = preprocessor.tags.labels
        super().__init__(encoder, preprocessor, optimizer, max_tokens_per_forward, "ner", labels, settings)
        self.tags = preprocessor.tags
        self.aggregation = aggregation
        self.loss = loss or LossConfig()
        check_choice("aggregation", aggregation, get_args(Aggregation))
        if tag_counts is None and self.loss.weight != "none":
            raise ConfigError(f"NERModule: loss.weight={self.loss.weight!r} needs tag_counts, got None")
        weight = None if tag_counts is None else class_weights(tag_counts, self.loss.weight, self.loss.beta)
        self.register_buffer("tag_weight", weight, persistent=False)
        self.head = TaggingHead(encoder.width, len(self.tags), subword, dropout)
        self.dev_scores, self.test_scores = SpanF1(labels, slices), SpanF1(labels, slices)
        self.dev_loss = MeanMetric()

    def forward(self, batch: Batch) -> Tensor:
        """Score the tags of every word of a batch. *Shape:* (num_items, num_tags)."""
        return self.head(self.encoder(batch), batch)

    def loss_of(self, logits_NK: Tensor, batch: Batch) -> Tensor:
        """Loss of a batch of windows."""
        loss = tagging_loss(logits_NK, batch.item_tags, batch.num_labelled, self.tag_weight, self.loss)
        return loss * batch.num_shares

    def score(self, documents: Sequence[EncodedDocument], split: Split) -> list[DocumentResult]:
        """Tag annotated documents, and count them in the scores of a split; ``dev`` has a loss, too."""
        results, gold = [], [np.zeros(0)]
        for encoded, probs in zip(documents, self.answers(documents), strict=True):
            results.append(self._result(encoded, probs))
            if encoded.tags is not None:
                gold.append(probs[np.arange(len(probs)), encoded.tags][encoded.seen_words])
        if split == "dev":
            told = np.concatenate(gold)
            self.dev_loss.update(-np.log(np.maximum(told, 1e-12)).sum() / max(len(told), 1), weight=len(told))
        self._scores(split).update(results)
        return results

    def epoch_scores(self, split: Split) -> dict[str, float]:
        """Strict F1, in test those of labels and slices too."""
        scores = {name: float(value) for name, value in self._scores(split).compute().items()}
        self._scores(split).reset()
        if split == "test":
            return scores
        shown = {name: scores[name] for name in ("f1", "precision", "recall")} | {"score": scores["f1"]}
        loss = float(self.dev_loss.compute())  # on all processes, also on those without documents
        self.dev_loss.reset()
        return shown if np.isnan(loss) else {**shown, "loss": loss}

    def results(self, documents: Sequence[EncodedDocument]) -> list[DocumentResult]:
        """Tag whole documents, each decoded once on its stitched scores."""
        return [self._result(e, probs) for e, probs in zip(documents, self.answers(documents), strict=True)]

    @torch.inference_mode()
    def answers(self, documents: Sequence[EncodedDocument]) -> list[np.ndarray]:
        """Tag probabilities of every word of every document. *Shape of each:* (num_words, num_tags)."""
        stitchers = [Stitcher(len(e.words), len(self.tags), self.aggregation) for e in documents]
        where = [(d, w) for d, e in enumerate(documents) for w in range(len(e.windows))]
        for group in self._forward_groups(documents, where):
            batch = collate([WindowRef(documents[d], w) for d, w in group], self.preprocessor.tokenizer)
            probs = tag_probs(self(batch.to(self.device))).cpu().numpy()
            at = 0
            for d, w in group:
                items = window_items(documents[d], w)
                stitchers[d].add(items.word, probs[at : at + len(items.word)], items.context, items.owned)
                at += len(items.word)
        return [stitcher.probs() for stitcher in stitchers]

    def _forward_groups(
        self, documents: Sequence[EncodedDocument], where: list[tuple[int, int]]
    ) -> Iterator[list[tuple[int, int]]]:
        """Windows of similar length together, within ``evaluation_tokens`` when padded to the longest."""
        length = {(d, w): int(documents[d].windows.end[w] - documents[d].windows.start[w]) for d, w in where}
        group: list[tuple[int, int]] = []
        for place in sorted(where, key=lambda place: (-length[place], place)):
            longest = length[group[0] if group else place] + self.preprocessor.tokenizer.num_special
            if group and (len(group) + 1) * longest > self.evaluation_tokens:
                yield group
                group = []
            group.append(place)
        if group:
            yield group

    def _result(self, encoded: EncodedDocument, probs: np.ndarray) -> DocumentResult:
        document = encoded.document
        return DocumentResult(
            id=document.id,
            text=document.text,
            gold=document.spans,
            predicted=tuple(decode_spans(probs, self.tags, encoded.words)),
            lost=encoded.lost,
            truncated=encoded.truncated,
            num_tokens=self.num_encoder_tokens(encoded),
        )
