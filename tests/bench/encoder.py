"""Packed against padded, and longdoc against the Hugging Face pipeline, on the real lengths of LeNER-Br.

    python -m tests.bench.encoder --data FOLDER --model ENCODER [--tagger TOKEN_CLASSIFICATION_FOLDER]

Training steps run over paragraphs, which are short and of mixed length, and over windows of 512 tokens, which are nearly
all full. Inference runs over whole documents, with the same weights on both sides: those of a Hugging Face
token-classification folder with IOB2 labels. All figures of a table come from one run, its rows taken in turn; they are
medians, and the last column says how many times the speed of the first row a row reaches.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from longdoc.models.batch import Batch, WindowRef, collate
from longdoc.models.encoder import AttentionConfig, Encoder, load_encoder, set_attention, word_tokenizer
from longdoc.text.documents import Document, Span
from longdoc.text.formats import read
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.text.results import DocumentResult
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.training.metrics import SpanF1
from longdoc.training.ner import NERModule
from longdoc.training.sampler import fill_batches

BUDGET_TOKENS = 2048
MAX_TOKENS = 512


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder with train.jsonl and test.jsonl")
    parser.add_argument("--model", required=True, help="encoder, by name or folder")
    parser.add_argument("--tagger", help="folder of a Hugging Face token classifier for the second table")
    parser.add_argument("--batches", type=int, default=8, help="training steps a row; 0 leaves training out")
    parser.add_argument("--documents", type=int, default=4, help="test documents a row")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    documents = list(read(arguments.data / "train.jsonl"))
    for name, cut in (("paragraphs", paragraphs), ("windows of 512", windows)) if arguments.batches else ():
        Console().print(training_table(name, cut, documents, arguments.model, arguments.batches))
    if arguments.tagger:
        test = list(read(arguments.data / "test.jsonl"))
        shortest_first = sorted(test, key=lambda document: len(document.text))
        Console().print(inference_table(shortest_first[: arguments.documents], arguments.tagger))


def paragraphs(document: Document, preprocessor: Preprocessor) -> list[EncodedDocument]:
    """Each line of a document as a document of its own, at most a window long."""
    lines = [line for line in document.text.split("\n") if line.strip()]
    return [preprocessor(Document(f"{document.id}:{i}", line, ())) for i, line in enumerate(lines)]


def windows(document: Document, preprocessor: Preprocessor) -> list[EncodedDocument]:
    """The document itself."""
    return [preprocessor(Document(document.id, document.text, ()))]


def training_table(
    name: str,
    cut: Callable[[Document, Preprocessor], list[EncodedDocument]],
    documents: Sequence[Document],
    model: str,
    num_batches: int,
) -> Table:
    """Time forward and backward of the same windows, padded and packed."""
    padded, tokenizer = load_encoder(model, attention_dropout=0.0)
    packed = Encoder(load_encoder(model, attention_dropout=0.0)[0].model, padded.pad_id)
    set_attention(packed, AttentionConfig(), MAX_TOKENS)
    preprocessor = Preprocessor(tokenizer, Windower(MAX_TOKENS, 128), TagScheme(("X",)))
    encoded = [part for document in documents[:15] for part in cut(document, preprocessor)]
    refs = [WindowRef(one, w) for one in encoded for w in range(len(one.windows))]
    order = np.random.default_rng(0).permutation(len(refs))
    lengths = np.concatenate([one.windows.end - one.windows.start for one in encoded]) + tokenizer.num_special
    batches = fill_batches(order.tolist(), lengths, BUDGET_TOKENS)[:num_batches]
    chosen = np.concatenate(batches)
    by_length = fill_batches(chosen[np.argsort(lengths[chosen], kind="stable")].tolist(), lengths, BUDGET_TOKENS)
    rows = {
        "padded, unsorted": (padded, [collate([refs[i] for i in batch], tokenizer) for batch in batches]),
        "padded, by length": (padded, [collate([refs[i] for i in batch], tokenizer) for batch in by_length]),
        "packed": (packed, [collate([refs[i] for i in batch], tokenizer) for batch in batches]),
    }
    speeds: dict[str, list[float]] = {row: [] for row in rows}
    for repeat in range(4):
        for row, (encoder, made) in rows.items():
            seconds = sum(_train_step(encoder, batch) for batch in made)
            if repeat:
                speeds[row].append(sum(len(batch.input_ids) for batch in made) / seconds)
    table = Table(
        title=f"Training step, {name}: {len(chosen)} windows of {lengths[chosen].mean():.0f} tokens on average"
    )
    for column in ("rows", "fill", "tokens/s", "ratio"):
        table.add_column(column, justify="left" if column == "rows" else "right")
    first = statistics.median(speeds["padded, unsorted"])
    for row, (encoder, made) in rows.items():
        fill = 1.0 if encoder.packed else _fill(made)
        speed = statistics.median(speeds[row])
        table.add_row(row, f"{fill:.2f}", f"{speed:,.0f}", f"{speed / first:.2f}")
    return table


def _fill(batches: Sequence[Batch]) -> float:
    real = sum(len(batch.input_ids) for batch in batches)
    return real / sum(batch.num_windows * int(batch.lengths.max()) for batch in batches)


def _train_step(encoder: Encoder, batch: Batch) -> float:
    encoder.train()
    start = time.perf_counter()
    encoder(batch).square().mean().backward()
    seconds = time.perf_counter() - start
    encoder.zero_grad()
    return seconds


def inference_table(documents: Sequence[Document], folder: str) -> Table:
    """Time the prediction of whole documents with the same weights."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32).eval()
    labels = tuple(dict.fromkeys(tag[2:] for tag in model.config.id2label.values() if tag != "O"))
    tagger = pipeline(
        "token-classification", model=model, tokenizer=tokenizer, stride=128, aggregation_strategy="simple"
    )
    rows: dict[str, Callable[[Document], DocumentResult]] = {
        "pipeline, stride 128": lambda document: _piped(tagger, document),
        "longdoc, windows 512/128": _module(folder, labels, Windower(MAX_TOKENS, 128), AttentionConfig()).predict,
        "longdoc, windows 512/64": _module(folder, labels, Windower(MAX_TOKENS, 64), AttentionConfig()).predict,
        "longdoc, windows 512/16": _module(folder, labels, Windower(MAX_TOKENS, 16), AttentionConfig()).predict,
        "longdoc, one stream": _module(
            folder, labels, Windower(None), AttentionConfig(left=128, right=128, global_tokens=(0,), positions="tile")
        ).predict,
    }
    seconds: dict[str, list[float]] = {row: [] for row in rows}
    scores: dict[str, float] = {}
    for repeat in range(4):
        for row, predict in rows.items():
            start = time.perf_counter()
            results = [predict(document) for document in documents]
            if repeat:
                seconds[row].append(time.perf_counter() - start)
            metric = SpanF1(labels)
            metric.update(results)
            scores[row] = metric.compute()["f1"]
    table = Table(title=f"Prediction of {len(documents)} documents, {sum(len(d.text) for d in documents):,} characters")
    for column in ("rows", "strict F1", "seconds", "ratio"):
        table.add_column(column, justify="left" if column == "rows" else "right")
    first = statistics.median(seconds["pipeline, stride 128"])
    for row in rows:
        median = statistics.median(seconds[row])
        table.add_row(row, f"{scores[row]:.3f}", f"{median:.1f}", f"{first / median:.2f}")
    return table


def _module(folder: str, labels: tuple[str, ...], windower: Windower, attention: AttentionConfig) -> NERModule:
    classifier = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32)
    tokenizer = word_tokenizer(AutoTokenizer.from_pretrained(folder))
    encoder = Encoder(classifier.base_model, tokenizer.pad_id)
    set_attention(encoder, attention, MAX_TOKENS if windower.size_tokens else 65536)
    module = NERModule(encoder, Preprocessor(tokenizer, windower, TagScheme(labels, "IOB2")))
    module.head.linear.load_state_dict(classifier.classifier.state_dict())
    return module.eval()


def _piped(tagger, document: Document) -> DocumentResult:
    text, spans = document.text, []
    for found in tagger(text):
        start, end = found["start"], found["end"]
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        spans.append(Span(start, end, found["entity_group"]))
    return DocumentResult(document.id, text, document.spans, tuple(spans))


if __name__ == "__main__":
    main()
