"""From a plain configuration to the objects of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lightning as L
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch.loggers import Logger

from longdoc.app.data import DataSettings
from longdoc.app.model import ModelSettings
from longdoc.errors import ConfigError, DataError
from longdoc.text.preprocess import Preprocessor
from longdoc.text.tags import TagScheme
from longdoc.training.data import DocumentDataModule
from longdoc.training.ner import NERModule
from longdoc.training.store import DocumentTable

KEYS = (
    "data",
    "model",
    "windows",
    "attention",
    "aggregation",
    "optim",
    "trainer",
    "callbacks",
    "logger",
    "seed",
    "output_dir",
)


@dataclass
class Run:
    """What a run is made of.

    Args:
        module: The model.
        datamodule: The data.
        callbacks: By the name they have in the configuration.
        loggers: Where numbers go.
        labels: Entity types.
        slices: Names of gold slices.
    """

    module: NERModule
    datamodule: DocumentDataModule
    callbacks: dict[str, L.Callback]
    loggers: list[Logger]
    labels: tuple[str, ...]
    slices: tuple[str, ...]


def make(node: Mapping[str, Any]) -> Any:
    """Build what ``_target_`` names, from plain containers; a value of a wrong type is a ConfigError."""
    try:
        return instantiate(dict(node), _convert_="all")
    except InstantiationException as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        settings = ", ".join(f"{name}={value!r}" for name, value in node.items() if name != "_target_")
        raise ConfigError(f"{node['_target_']}: {error.__cause__}; it was given {settings}") from error


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """Check the top-level keys and fill in what depends on other settings."""
    unknown = sorted(set(config) - set(KEYS))
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: no such key at the top level; expected {', '.join(KEYS)}")
    if type(config["seed"]) is not int or config["seed"] < 0:
        raise ConfigError(f"seed={config['seed']!r}: expected an integer from 0")
    optim = dict(config["optim"])
    if optim["lr"] is None:
        optim["lr"] = ModelSettings(name=config["model"]["name"]).default_lr
    trainer = dict(config["trainer"])
    if trainer["max_epochs"] is None:
        trainer["max_epochs"] = DataSettings(path=config["data"]["path"]).default_epochs
    return {**config, "optim": optim, "trainer": trainer}


def build(config: dict[str, Any]) -> Run:
    """Build the parts of a run; the seed must have been set before."""
    data: DataSettings = make(config["data"])
    model: ModelSettings = make(config["model"])
    windower, optimizer = make(config["windows"]), make(config["optim"])
    splits = data.splits()
    encoder, tokenizer = model.encoder(splits["train"].column("text"), make(config["attention"]), windower)
    labels, slices = labels_of(splits["train"]), slices_of(splits)
    preprocessor = Preprocessor(
        tokenizer, windower, TagScheme(labels, model.tag_scheme), data.overlapping, data.language
    )
    module = NERModule(
        encoder,
        preprocessor,
        optimizer,
        subword=model.subword,
        aggregation=config["aggregation"]["method"],
        dropout=model.dropout,
        max_tokens_per_forward=model.max_tokens_per_forward,
        slices=slices,
    )
    return Run(
        module=module,
        datamodule=data.datamodule(splits, preprocessor, config["seed"]),
        callbacks={name: make(node) for name, node in config["callbacks"].items() if node is not None},
        loggers=[make(node) for node in config["logger"].values() if node is not None],
        labels=labels,
        slices=slices,
    )


def labels_of(documents: DocumentTable) -> tuple[str, ...]:
    """The entity types that a training split uses, sorted."""
    labels = sorted(documents.span_values("label"))
    if not labels:
        raise DataError(
            "split train: expected annotated entities, got none; which field holds them? set data.fields.spans=NAME"
        )
    return tuple(labels)


def slices_of(splits: Mapping[str, DocumentTable]) -> tuple[str, ...]:
    """The slices that gold spans name, sorted."""
    return tuple(sorted({name for documents in splits.values() for name in documents.span_values("slice")}))
