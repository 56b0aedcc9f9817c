"""A corpus small enough to be learned by heart in seconds, and the parts that learn it."""

import random
from pathlib import Path

import lightning as L
import torch

from longdoc.models.scratch import scratch_encoder, train_tokenizer
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import Preprocessor
from longdoc.text.stitching import Aggregation
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.training.data import DocumentDataModule
from longdoc.training.ner import NERModule
from longdoc.training.optim import OptimizerConfig

NAMES = ("Anna Berg", "Otto Klein", "Ivo Marsh", "Mia Stone")
COURTS = ("District Court", "Court of Appeal", "High Court")
FILLER = ("the", "case", "was", "heard", "and", "closed", "after", "a", "long", "delay", "by", ",", ".")


def document(seed: int, num_phrases: int = 60) -> Document:
    """A text of random words with names and courts in it."""
    rng = random.Random(seed)
    text, spans = "", []
    for _ in range(num_phrases):
        label, phrases = rng.choice((("PER", NAMES), ("ORG", COURTS), ("", FILLER), ("", FILLER), ("", FILLER)))
        phrase = rng.choice(phrases)
        if label:
            spans.append(Span(len(text), len(text) + len(phrase), label))
        text += phrase + rng.choice((" ", " ", "\n"))
    return Document(f"d{seed}", text, tuple(spans))


def corpus() -> dict[str, list[Document]]:
    """Twelve, three and three documents."""
    return {
        "train": [document(i) for i in range(12)],
        "dev": [document(i) for i in range(100, 103)],
        "test": [document(i) for i in range(200, 203)],
    }


def preprocessor() -> Preprocessor:
    """Windows of 32 tokens with overlap 8."""
    tokenizer = train_tokenizer([d.text for d in corpus()["train"]], vocab_size=200)
    return Preprocessor(tokenizer, Windower(32, 8), TagScheme(("ORG", "PER")))


def module(aggregation: Aggregation = "mean", max_tokens_per_forward: int = 8192, lr: float = 5e-3) -> NERModule:
    """A module with random weights, the same at every call."""
    torch.manual_seed(0)
    prepared = preprocessor()
    return NERModule(
        scratch_encoder(prepared.tokenizer, width=32, num_layers=1, num_heads=2, dropout=0.0),
        prepared,
        OptimizerConfig(lr=lr),
        aggregation=aggregation,
        dropout=0.0,
        max_tokens_per_forward=max_tokens_per_forward,
    )


def data(folder: Path, **settings: int) -> DocumentDataModule:
    """The corpus in batches of 128 tokens."""
    return DocumentDataModule(
        corpus(), preprocessor(), **{"max_tokens_per_batch": 128, **settings}, cache_dir=folder / "cache"
    )


def trainer(folder: Path, epochs: int, accumulate: int = 1) -> L.Trainer:
    """A plain Trainer on one CPU, silent."""
    return L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        accumulate_grad_batches=accumulate,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )
