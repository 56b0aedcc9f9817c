"""A small convolutional network that learns from the task's labels which sentences are worth reading.

Shapes: S sentences, T words of all of them with padding between, D width, F filters, K outputs.
"""

import logging
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from longdoc.errors import DataError, check_choice
from longdoc.text.documents import Document
from longdoc.text.sentences import sentence_words
from longdoc.text.words import split_words

log = logging.getLogger(__name__)

Task = Literal["ner", "classification", "regression"]

_NUM_BUCKETS = 2**15
_REACH = 1  # words either side that a filter sees
_DECIMALS = 5
_MOST_SENTENCES = 100_000  # more are sampled down
_EPOCHS, _SENTENCES_PER_BATCH, _RATE = 5, 128, 3e-3


class _Network(nn.Module):
    """Hashed words to scores: embedding, convolution, maximum over the sentence, linear layer."""

    def __init__(self, num_outputs: int, width: int = 32, num_filters: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_NUM_BUCKETS + 1, width, padding_idx=0)
        self.convolution = nn.Conv1d(width, num_filters, 2 * _REACH + 1, padding=_REACH)
        self.output = nn.Linear(num_filters, num_outputs)

    def forward(self, sentences: Sequence[Tensor]) -> Tensor:
        """Score sentences of bucket numbers, each at least one long. *Shape:* (S, K)."""
        lengths = torch.tensor([len(sentence) + _REACH for sentence in sentences])
        gap = torch.zeros(_REACH, dtype=torch.long)  # keeps filters from seeing two sentences
        words_T = torch.cat([part for sentence in sentences for part in (sentence, gap)])
        found_FT = torch.relu(self.convolution(self.embedding(words_T).T[None]))[0]
        found_FT = found_FT.masked_fill(words_T == 0, 0.0)
        return self.output(torch.segment_reduce(found_FT.T.contiguous(), "max", lengths=lengths))


class SentenceScorer:
    """Scores sentences by how far what they say of the labels is from saying nothing.

    Args:
        network: Trained.
        prior: What a sentence that says nothing gives. *Shape:* (K,).
        is_probability: Whether an output is the logit of a probability, or a number.
    """

    def __init__(self, network: _Network, prior: Tensor, is_probability: bool) -> None:
        self.network = network.eval()
        self.prior = prior
        self.is_probability = is_probability

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Score sentences: the largest distance of an output from its prior. *Shape:* (num_sentences,)."""
        if not sentences:
            return np.zeros(0)
        with _one_thread():
            outputs = self.network([_buckets(sentence) for sentence in sentences])
        outputs = outputs.sigmoid() if self.is_probability else outputs
        # Rounded, so that the last bits, which differ between machines, decide nothing.
        return (outputs - self.prior).abs().amax(dim=1).double().numpy().round(_DECIMALS)

    def state(self) -> dict[str, Any]:
        """Everything ``from_state`` needs: tensors in plain containers."""
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        return {"weights": weights, "prior": self.prior, "is_probability": self.is_probability}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "SentenceScorer":
        """Build the scorer that ``state`` came from."""
        with _one_thread():
            network = _Network(len(state["prior"]))
            network.load_state_dict(state["weights"])
        return cls(network, state["prior"], state["is_probability"])

    def __reduce__(self) -> tuple:
        return SentenceScorer.from_state, (self.state(),)


def build_sentence_scorer(
    documents: Iterable[Document],
    task: Task,
    labels: Sequence[str] = (),
    language: str = "en",
    splitter: str = "sentencex",
    seed: int = 0,
) -> SentenceScorer:
    """Train a scorer on the sentences of training documents.

    A sentence learns whether an entity begins in it (the score is that probability), the labels of its document (the
    largest distance of a label's probability from its share in training) or its document's target (the distance from
    the mean, in standard deviations).

    Args:
        documents: Gone through once; those that are not annotated are passed over.
        task: ``ner``, ``classification`` or ``regression``.
        labels: Classes of a classification.
        language: ISO 639-1 code for the sentence splitter.
        splitter: As in ``Selection``.
        seed: Of the sample, the weights and the order.
    """
    check_choice("task", task, get_args(Task))
    rng, num_seen = random.Random(seed), 0
    sample: list[tuple[Tensor, list[float]]] = []
    for item in _examples(documents, task, labels, language, splitter):
        num_seen += 1
        if len(sample) < _MOST_SENTENCES:
            sample.append(item)
        elif (place := rng.randrange(num_seen)) < _MOST_SENTENCES:
            sample[place] = item
    if not sample:
        raise DataError("selection method='cnn': expected annotated training documents with text, got none")
    targets_SK = torch.tensor([target for _, target in sample])
    mean_K = targets_SK.mean(dim=0)
    if task == "regression":
        targets_SK = (targets_SK - mean_K) / targets_SK.std(dim=0, correction=0).clamp(min=1e-6)
    prior_K = mean_K if task == "classification" else torch.zeros_like(mean_K)
    network = _train([words for words, _ in sample], targets_SK, task != "regression", seed)
    log.info("sentence scorer: trained on %s of %s training sentences", f"{len(sample):,}", f"{num_seen:,}")
    return SentenceScorer(network, prior_K, task != "regression")


def _train(sentences: Sequence[Tensor], targets_SK: Tensor, is_probability: bool, seed: int) -> _Network:
    """Train by cross-entropy per output, or by squared error; leaves the global random state as it was."""
    loss_of = nn.BCEWithLogitsLoss() if is_probability else nn.MSELoss()
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = _Network(targets_SK.shape[1])
        optimizer = torch.optim.Adam(network.parameters(), lr=_RATE, fused=True)
        for _ in range(_EPOCHS):
            for batch in torch.randperm(len(sentences)).split(_SENTENCES_PER_BATCH):
                loss = loss_of(network([sentences[i] for i in batch.tolist()]), targets_SK[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return network


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: the same on every machine, and in a forked process, which has no pool of threads."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def _examples(
    documents: Iterable[Document], task: Task, labels: Sequence[str], language: str, splitter: str
) -> Iterator[tuple[Tensor, list[float]]]:
    for document in documents:
        gold = {"ner": document.spans, "classification": document.labels, "regression": document.target}[task]
        words = split_words(document.text)
        if gold is None or len(words) == 0:
            continue
        first = sentence_words(document.text, words, splitter, language)
        last = np.append(first[1:], len(words)) - 1
        starts = np.sort([span.start for span in document.spans or ()])
        known = document.labels or ()
        of_document = [document.target or 0.0] if task == "regression" else [float(name in known) for name in labels]
        for start, end in zip(words[first, 0].tolist(), words[last, 1].tolist(), strict=True):
            holds = float(np.searchsorted(starts, start) < np.searchsorted(starts, end))
            yield _buckets(document.text[start:end]), [holds] if task == "ner" else of_document


def _buckets(sentence: str) -> Tensor:
    """Words as bucket numbers from 1; 0 is padding. *Shape:* (num_words,), at least one."""
    words = [sentence[start:end].encode("utf-8", "surrogatepass") for start, end in split_words(sentence).tolist()]
    return torch.tensor([1 + zlib.crc32(word) % _NUM_BUCKETS for word in words] or [0])
