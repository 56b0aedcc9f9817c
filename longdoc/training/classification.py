"""Classification of whole documents."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longdoc.errors import ConfigError
from longdoc.models.aggregation import Attention, Method, build_aggregator
from longdoc.models.batch import Batch, collate_documents
from longdoc.models.classification import ClassificationHead, WindowPool, class_probs, encode_windows
from longdoc.models.encoder import Encoder
from longdoc.models.losses import LossConfig, class_weights, classification_loss
from longdoc.text.classes import ClassScheme, check_one_label
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.text.results import ClassificationResult, Evidence
from longdoc.text.sentences import sentence_words
from longdoc.training.class_metrics import DEFAULT_THRESHOLD, ClassScores, class_scores, log_loss, tuned_thresholds
from longdoc.training.data import DocumentBatch
from longdoc.training.module import CHECKPOINT_KEY, DocumentModule, Split
from longdoc.training.optim import OptimizerConfig

# Parts that are left out in turn to tell what carried a decision; in longer documents a part is several windows.
_MAX_PARTS = 128


class DocumentClassificationModule(DocumentModule[ClassificationResult]):
    """Classifies long documents: one class, any number of classes, or a number.

    All steps take a list of ``EncodedDocument``; those of evaluation and prediction return a list of
    ``ClassificationResult``.

    Args:
        encoder: Encoder of token vectors.
        preprocessor: The one that encodes the data.
        scheme: The classes, read off the training split.
        optimizer: How to train; None for a module that only predicts.
        aggregation: How the vectors of the windows become that of the document; see ``build_aggregator``.
        pool: How the tokens of a window become its vector: ``first`` or ``mean``.
        dropout: Before the last layer.
        loss: Class weights, focal loss and label smoothing.
        max_tokens_per_forward: Budget of one forward pass, padding included. A document that is longer is encoded in
            several, in training under activation checkpointing, so that memory does not grow with it.
    """

    task = "classification"
    shown = ("score", "loss")
    class_weight: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        preprocessor: Preprocessor,
        scheme: ClassScheme,
        optimizer: OptimizerConfig | None = None,
        aggregation: Method = "mean",
        pool: WindowPool = "first",
        dropout: float = 0.1,
        loss: LossConfig | None = None,
        max_tokens_per_forward: int = 8192,
    ) -> None:
        settings = {"scheme": asdict(scheme), "aggregation": aggregation, "pool": pool, "dropout": dropout}
        super().__init__(encoder, preprocessor, optimizer, max_tokens_per_forward, scheme.task, scheme.labels, settings)
        num_labels = len(scheme.labels)
        self.scheme = scheme
        self.pool: WindowPool = pool
        self.loss = loss or LossConfig()
        aggregator = build_aggregator(aggregation, encoder.width, num_labels)
        self.head = ClassificationHead(encoder.width, num_labels, scheme.task, aggregator, dropout)
        self.register_buffer("class_weight", self._class_weight(), persistent=False)
        # Tuned on dev. No buffer: an average of the weights would take a copy of it, and the tuning would not reach it.
        self.thresholds = np.full(num_labels, DEFAULT_THRESHOLD)
        self.dev_scores, self.test_scores = ClassScores(scheme), ClassScores(scheme)

    def _class_weight(self) -> Tensor | None:
        if self.scheme.task == "regression":
            if self.loss != LossConfig():
                raise ConfigError(f"task=regression: expected loss=cross_entropy as it is, got {self.loss}")
            return None
        counts = torch.tensor(self.scheme.counts)
        if self.scheme.task == "multi_label":
            counts = torch.stack((self.scheme.num_documents - counts, counts), 1)
        return class_weights(counts, self.loss.weight, self.loss.beta)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Score the documents of a batch.

        Returns:
            Logits, and what each window weighs where the aggregation tells. *Shape:* (B, K), and (W,) or (W, K).
        """
        vectors = encode_windows(self.encoder, batch, self.pool, self.max_tokens_per_forward)
        return self.head(vectors, batch.document_bounds)

    def _collate(self, documents: Sequence[EncodedDocument]) -> Batch:
        return collate_documents(documents, self.preprocessor.tokenizer).to(self.device)

    def logits(self, batch: Sequence[EncodedDocument]) -> Tensor:
        """Scores of the labels of every document."""
        return self(self._collate(batch))[0]

    def loss_of(self, logits_NK: Tensor, batch: list[EncodedDocument]) -> Tensor:
        """Loss of a batch of documents."""
        shared = batch if isinstance(batch, DocumentBatch) else DocumentBatch(batch)
        targets, task = self._targets(batch).to(self.device), self.scheme.task
        loss = classification_loss(logits_NK, targets, task, shared.num_labelled, self.class_weight, self.loss)
        return loss * shared.num_shares

    def _targets(self, documents: Sequence[EncodedDocument]) -> Tensor:
        """Gold as the loss wants it; a document without gold teaches nothing."""
        task = self.scheme.task
        missing = np.full(len(self.scheme.labels) + 1, np.nan if task == "regression" else -100, dtype=np.float32)
        rows = torch.from_numpy(np.stack([missing if row is None else row for row in self._gold(documents)]))
        if task == "regression":
            return rows[:, 0]
        if task == "multi_label":
            return rows[:, :-1]
        known = rows[:, :-1] == 1  # a class that is not in the scheme teaches nothing either
        return torch.where(known.any(1), known.int().argmax(1), -100)

    def _gold(self, documents: Sequence[EncodedDocument]) -> list[np.ndarray | None]:
        """Gold in numbers, as ``ClassScheme.encode`` gives it."""
        for encoded in documents if self.scheme.task == "single_label" else ():
            check_one_label(encoded.document)
        return [self.scheme.encode(self.scheme.gold(encoded.document)) for encoded in documents]

    def answers(self, documents: Sequence[EncodedDocument]) -> list[np.ndarray]:
        """Probabilities of the labels of every document, or its number. *Shape of each:* (1, K)."""
        return list(self._evaluate(documents)[0][:, None])

    def epoch_scores(self, split: Split) -> dict[str, float]:
        """Scores of documents; those of dev tune the thresholds of several labels first."""
        counted = self._scores(split)
        probs, gold = counted.compute()
        counted.reset()
        if split == "dev" and self.scheme.task == "multi_label" and len(probs):
            self.thresholds = tuned_thresholds(probs, gold)
        scores = class_scores(self.scheme, probs, gold, self.thresholds)
        if split == "dev":
            scores["loss"] = log_loss(self.scheme, probs, gold)
        return {name: float(value) for name, value in scores.items() if isinstance(value, (int, float))}

    def score(self, documents: Sequence[EncodedDocument], split: Split) -> list[ClassificationResult]:
        """Classify annotated documents, without evidence, and count them in the scores of a split."""
        probs, _, _ = self._evaluate(documents)
        self._scores(split).update(probs, self._gold(documents))
        return [self._result(encoded, row) for encoded, row in zip(documents, probs, strict=True)]

    def results(self, documents: Sequence[EncodedDocument]) -> list[ClassificationResult]:
        """Classify whole documents, with the parts that carried the decision."""
        probs, vectors, weights = self._evaluate(documents)
        results, at = [], 0
        for encoded, row in zip(documents, probs, strict=True):
            own = slice(at, at + len(encoded.windows))
            at = own.stop
            told = None if weights is None else weights[own]
            results.append(self._result(encoded, row, self._evidence(encoded, row, vectors[own], told)))
        return results

    @torch.inference_mode()
    def _evaluate(self, documents: Sequence[EncodedDocument]) -> tuple[np.ndarray, Tensor, Tensor | None]:
        """Probabilities, window vectors and window weights. *Shapes:* (B, K), (W, D), (W,) or (W, K) or None."""
        if not documents:
            return np.zeros((0, len(self.labels)), dtype=np.float32), torch.zeros(0, self.encoder.width), None
        batch = self._collate(documents)
        vectors = encode_windows(self.encoder, batch, self.pool, self.evaluation_tokens)
        logits, weights = self.head(vectors, batch.document_bounds)
        return class_probs(logits, self.scheme.task).cpu().numpy(), vectors, weights

    def _result(
        self, encoded: EncodedDocument, probs: np.ndarray, evidence: tuple[Evidence, ...] = ()
    ) -> ClassificationResult:
        document, scheme = encoded.document, self.scheme
        regression = scheme.task == "regression"
        return ClassificationResult(
            id=document.id,
            text=document.text,
            gold=scheme.gold(document),
            predicted=scheme.target(probs[0]) if regression else scheme.decode(probs, self.thresholds),
            probs={} if regression else dict(zip(scheme.labels, map(float, probs), strict=True)),
            evidence=evidence,
            truncated=encoded.truncated,
            num_tokens=self.num_encoder_tokens(encoded),
        )

    @torch.inference_mode()
    def _evidence(
        self, encoded: EncodedDocument, probs: np.ndarray, vectors_ND: Tensor, weights: Tensor | None
    ) -> tuple[Evidence, ...]:
        """What each part weighs for the likeliest class: its share of attention, or the fall without its vectors."""
        num_windows, top = len(encoded.windows), int(probs.argmax())
        if num_windows == 1 and self.pool == "mean":
            return self._sentence_evidence(encoded, probs)
        if num_windows < 2:
            return ()
        if isinstance(self.head.aggregator, Attention) and weights is not None:
            parts = [(w, w + 1) for w in range(num_windows)]
            told = (weights if weights.dim() == 1 else weights[:, top]).tolist()
        else:
            parts = _parts(num_windows)
            told = [self._fall(probs, torch.cat((vectors_ND[:start], vectors_ND[stop:]))) for start, stop in parts]
        windows = encoded.windows
        words = [encoded.token_word[windows.start[start] : windows.end[stop - 1]] for start, stop in parts]
        return tuple(Evidence(*_span_of(encoded, w), round(x, 6)) for w, x in zip(words, told, strict=True))

    def _sentence_evidence(self, encoded: EncodedDocument, probs: np.ndarray) -> tuple[Evidence, ...]:
        """What the sentences of a single window weigh: the fall when their tokens are left out of its mean."""
        prepared = self.preprocessor
        splitter = "sentencex" if prepared.selection is None else prepared.selection.splitter
        first_words = sentence_words(encoded.document.text, encoded.words, splitter, prepared.language)
        token_word = encoded.token_word[: encoded.windows.num_covered]
        sentence = np.where(token_word < 0, -1, np.searchsorted(first_words, token_word, side="right") - 1)
        read = np.unique(sentence[sentence >= 0])
        if len(read) < 2:
            return ()
        hidden_TD = self.encoder(self._collate([encoded]))
        behind = np.full(len(hidden_TD), -1)
        num_before = len(prepared.tokenizer.prefix_ids)
        behind[num_before : num_before + len(sentence)] = sentence
        found = []
        for start, stop in _parts(len(read)):
            inside = (behind >= read[start]) & (behind <= read[stop - 1])
            rest_D = hidden_TD[torch.from_numpy(~inside).to(hidden_TD.device)].mean(0)
            span = _span_of(encoded, token_word[inside[num_before : num_before + len(sentence)]])
            found.append(Evidence(*span, round(self._fall(probs, rest_D[None]), 6)))
        return tuple(found)

    def _fall(self, probs: np.ndarray, rest_ND: Tensor) -> float:
        """By how much the likeliest class, or the number, falls if only these window vectors are left."""
        top = int(probs.argmax())
        logits, _ = self.head(rest_ND, torch.tensor([0, len(rest_ND)]))
        return (float(probs[top]) - float(class_probs(logits, self.scheme.task)[0, top])) * self.scheme.target_std

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the thresholds as well."""
        super().on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY]["thresholds"] = self.thresholds.tolist()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the thresholds."""
        self.thresholds = np.array(checkpoint[CHECKPOINT_KEY]["thresholds"])


def _parts(count: int) -> list[tuple[int, int]]:
    """Deal out windows or sentences to parts, as (start, stop)."""
    return list(pairwise(np.linspace(0, count, min(count, _MAX_PARTS) + 1).astype(int).tolist()))


def _span_of(encoded: EncodedDocument, token_word: np.ndarray) -> tuple[int, int]:
    """First and last character of the words of some tokens."""
    words = token_word[token_word >= 0]
    return (int(encoded.words[words[0], 0]), int(encoded.words[words[-1], 1])) if len(words) else (0, 0)
