"""From a plain configuration to the objects of a run."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightning as L
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger, WandbLogger

from longdoc.app.data import DataSettings
from longdoc.app.distillation import copy_head_, cut_encoder, load_teacher
from longdoc.app.model import ModelSettings
from longdoc.app.precision import choose_precision
from longdoc.errors import ConfigError, DataError, MissingExtra, check_choice, check_integer
from longdoc.models.distillation import DistillConfig
from longdoc.models.sentence_scorer import SentenceScorer, build_sentence_scorer
from longdoc.text.classes import ClassScheme, check_one_label
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import Selection
from longdoc.text.tags import TagScheme
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.data import DocumentDataModule
from longdoc.training.distillation import DistillationModule
from longdoc.training.freezing import freeze_
from longdoc.training.module import DocumentModule
from longdoc.training.ner import NERModule
from longdoc.training.store import DocumentTable

log = logging.getLogger(__name__)

# What is predicted -> the gold that rows must have.
READ_TASKS: dict[str, Any] = {
    "ner": "ner",
    "single_label": "classification",
    "multi_label": "classification",
    "regression": "regression",
}
TASKS = tuple(READ_TASKS)
LOGGER_EXTRAS = ("tensorboard", "wandb", "mlflow")
KEYS = (
    "task", "data", "model", "selection", "windows", "attention", "aggregation", "loss", "distill", "teacher", "optim",
    "trainer", "callbacks", "logger", "test_size_tokens", "seed", "resume", "output_dir",
)  # fmt: skip


@dataclass
class Run:
    """What a run is made of.

    Args:
        module: The model.
        fitted: What is trained: the model, or what teaches it.
        datamodule: The data.
        callbacks: By the name they have in the configuration.
        loggers: Where numbers go.
    """

    module: DocumentModule
    fitted: DocumentModule | DistillationModule
    datamodule: DocumentDataModule
    callbacks: dict[str, L.Callback]
    loggers: list[Logger]


def make(node: Mapping[str, Any]) -> Any:
    """Build what ``_target_`` names, from plain containers; a value of a wrong type is a ConfigError."""
    try:
        return instantiate(dict(node), _convert_="all")
    except InstantiationException as error:
        extra = next((name for name in LOGGER_EXTRAS if name in node["_target_"].lower()), None)
        if isinstance(error.__cause__, ModuleNotFoundError) and extra is not None:
            raise MissingExtra(extra, extra, f"logger={extra}") from error
        if isinstance(error.__cause__, (ConfigError, DataError)):
            raise error.__cause__ from None
        if not isinstance(error.__cause__, TypeError):
            raise
        settings = ", ".join(f"{name}={value!r}" for name, value in node.items() if name != "_target_")
        raise ConfigError(f"{node['_target_']}: {error.__cause__}; it was given {settings}") from error


def close(loggers: Sequence[Logger]) -> None:
    """End what would go on in the next run of the same process."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.finish()


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """Check the top-level keys and fill in what depends on other settings."""
    unknown = sorted(set(config) - set(KEYS))
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: no such key at the top level; expected {', '.join(KEYS)}")
    unknown = sorted(set(config["aggregation"]) - {"method"})
    if unknown:
        raise ConfigError(f"aggregation.{unknown[0]}: no such key; expected method")
    check_choice("task", config["task"], TASKS)
    check_integer("seed", config["seed"], 0)
    optim = dict(config["optim"])
    if optim["lr"] is None:
        cut = config["teacher"] if config["distill"]["student_layers"] is not None else None
        optim["lr"] = ModelSettings(name=cut or config["model"]["name"]).default_lr
    trainer = dict(config["trainer"])
    if trainer["max_epochs"] is None:
        trainer["max_epochs"] = DataSettings(path=config["data"]["path"]).default_epochs
    if trainer["precision"] == "auto":
        trainer["precision"], reason = choose_precision(trainer["accelerator"])
        log.info("precision %s: %s", trainer["precision"], reason)
    if str(trainer["precision"]) in ("16-true", "bf16-true", "transformer-engine"):
        raise ConfigError(
            f"trainer.precision={trainer['precision']}: weights and losses need 32 bits; expected 32-true, bf16-mixed "
            "or 16-mixed"
        )
    if trainer["profiler"] in ("simple", "pytorch"):
        trace = f"{config['output_dir']}/trace.json" if trainer["profiler"] == "pytorch" else None
        trainer["profiler"] = {"_target_": "longdoc.training.profiling.StepProfiler", "trace_path": trace}
    return {**config, "optim": optim, "trainer": trainer}


def build(config: dict[str, Any]) -> Run:
    """Build the parts of a run; the seed must have been set before."""
    task = config["task"]
    data: DataSettings = make(config["data"])
    model: ModelSettings = make(config["model"])
    windower, selection = make(config["windows"]), make(config["selection"])
    distill: DistillConfig = make(config["distill"])
    teacher = None if config["teacher"] is None else load_teacher(config["teacher"], windower)
    if teacher is None and distill != DistillConfig():
        raise ConfigError("distill: needs a teacher, got teacher=null; set teacher to a run folder or a checkpoint")
    if teacher is not None:
        teacher.max_tokens_per_forward = model.max_tokens_per_forward
    splits = data.splits(READ_TASKS[task])
    taken = None
    if teacher is not None and distill.student_layers is not None:
        taken = cut_encoder(teacher, distill, model.attention_dropout)
    encoder, tokenizer = model.encoder(splits["train"].column("text"), make(config["attention"]), windower, taken)
    scheme = None if task == "ner" else ClassScheme.of(splits["train"], task)
    labels = labels_of(splits["train"]) if scheme is None else scheme.labels
    if scheme is None and not splits["dev"].span_values("label"):
        log.warning("split dev: expected annotated entities to choose the best checkpoint by, got none: dev/f1 stays 0")
    if task == "single_label":
        for split in ("dev", "test"):
            for document in splits.get(split, ()):
                check_one_label(document)
    preprocessor = Preprocessor(
        tokenizer,
        windower,
        TagScheme(labels, model.tag_scheme) if scheme is None else None,
        data.overlapping,
        data.language,
        None if selection.method == "none" else selection,
        _sentence_scorer(selection, splits["train"], task, labels, data.language),
    )
    if config["test_size_tokens"] is not None:
        replace(preprocessor, windower=replace(windower, size_tokens=config["test_size_tokens"]))  # checks it now
    datamodule = data.datamodule(splits, preprocessor, config["seed"])
    shared = {
        "optimizer": make(config["optim"]),
        "aggregation": config["aggregation"]["method"],
        "dropout": model.dropout,
        "max_tokens_per_forward": model.max_tokens_per_forward,
        "loss": make(config["loss"]),
    }
    module: DocumentModule
    if scheme is None:
        tag_counts = None if shared["loss"].weight == "none" else datamodule.tag_counts()
        module = NERModule(
            encoder, preprocessor, subword=model.subword, slices=slices_of(splits), tag_counts=tag_counts, **shared
        )
    else:
        module = DocumentClassificationModule(encoder, preprocessor, scheme, pool=model.pool, **shared)
    if taken is not None and teacher is not None:
        copy_head_(module, teacher)
    freeze_(module, model.freeze_layers, model.freeze_embeddings, model.freeze_patterns)
    return Run(
        module=module,
        fitted=module if teacher is None else DistillationModule(module, teacher, distill),
        datamodule=datamodule,
        callbacks=_callbacks(config["callbacks"]),
        loggers=[make(node) for node in config["logger"].values() if node is not None],
    )


def _callbacks(nodes: Mapping[str, Any]) -> dict[str, L.Callback]:
    nodes = {name: node for name, node in nodes.items() if node is not None}
    for name, node in nodes.items():
        if not isinstance(node, Mapping) or "_target_" not in node:
            raise ConfigError(f"callbacks.{name}: has no _target_; choose what brings one: callbacks='[default,NAME]'")
    callbacks = {name: make(node) for name, node in nodes.items()}
    if not any(isinstance(callback, ModelCheckpoint) and callback.monitor for callback in callbacks.values()):
        raise ConfigError("callbacks: expected callbacks.best, which keeps the model to test; keep default among them")
    return callbacks


def _sentence_scorer(
    selection: Selection, documents: DocumentTable, task: str, labels: Sequence[str], language: str
) -> SentenceScorer | None:
    """Train what ``selection=cnn`` asks, on training documents."""
    if selection.method != "cnn":
        return None
    return build_sentence_scorer(documents, READ_TASKS[task], labels, language, selection.splitter, selection.seed)


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
