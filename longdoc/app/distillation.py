"""Teachers of a run: where they come from, students that are cut out of them, and how the two compare at the end."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import lightning as L
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForTokenClassification

from longdoc.app.model import check_windows
from longdoc.app.report import evaluate
from longdoc.callbacks import ResultCollector, Throughput
from longdoc.callbacks.documents import DocumentCallback
from longdoc.callbacks.monitor import Monitor
from longdoc.errors import ConfigError
from longdoc.models.distillation import DistillConfig, map_layers, separate_layers, take_layers_
from longdoc.models.encoder import (
    Encoder,
    build_encoder,
    encoder_state,
    load_tokenizer,
    set_attention_dropout,
    without_pooler,
)
from longdoc.text.preprocess import Preprocessor
from longdoc.text.results import DocumentResult
from longdoc.text.tags import Scheme, TagScheme
from longdoc.text.tokens import WordTokenizer
from longdoc.text.windows import Windower
from longdoc.training.checkpoint import load
from longdoc.training.data import DocumentDataModule
from longdoc.training.distillation import DistillationModule
from longdoc.training.module import DocumentModule
from longdoc.training.ner import NERModule

_AGREEMENT = {"ner": "F1 of entities", "regression": "correlation"}


def load_teacher(name: str, windower: Windower) -> DocumentModule:
    """Load a teacher.

    Args:
        name: Checkpoint or run folder of longdoc; else a folder or hub name of a tagger of Hugging Face.
        windower: Cuts documents for the latter.
    """
    path = Path(name)
    if path.is_file() or (path / "best.ckpt").is_file():
        return load(path)
    return _hub_tagger(name, windower)


def _hub_tagger(name: str, windower: Windower) -> NERModule:
    try:
        model: Any = AutoModelForTokenClassification.from_pretrained(name, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"teacher={name!r}: expected a checkpoint or a run folder of longdoc, or a tagger of Hugging Face by "
            f"folder or hub name ({error})"
        ) from error
    head = getattr(model, "classifier", None)
    parts = sorted({parameter.split(".")[0] for parameter, _ in model.named_parameters()} - {model.base_model_prefix})
    if not isinstance(head, torch.nn.Linear) or head.bias is None or parts != ["classifier"]:
        raise ConfigError(
            f"teacher={name!r}: expected a tagger with one linear layer 'classifier', got {type(model).__name__} with "
            f"{', '.join(parts)}; train a teacher with longdoc, by model.name={name}"
        )
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    labels = tuple(sorted({tag.split("-", 1)[1] for tag in names if "-" in tag}))
    schemes = [TagScheme(labels, scheme) for scheme in get_args(Scheme)] if labels else []
    schemes = [scheme for scheme in schemes if sorted(scheme.tags) == sorted(names)]
    if not schemes:
        raise ConfigError(f"teacher={name!r}: expected the tags of IOB2 or BIOES, got {', '.join(names)}")
    tokenizer, num_embeddings = load_tokenizer(name), model.get_input_embeddings().num_embeddings
    if tokenizer.vocab_size > num_embeddings:
        raise ConfigError(f"teacher={name!r}: its tokenizer has {tokenizer.vocab_size} entries, it {num_embeddings}")
    encoder = Encoder(without_pooler(model.base_model), tokenizer.pad_id)
    check_windows(windower, encoder, tokenizer)
    module = NERModule(encoder, Preprocessor(tokenizer, windower, schemes[0]))
    order = [names.index(tag) for tag in schemes[0].tags]
    with torch.no_grad():
        module.head.linear.weight.copy_(head.weight[order])
        module.head.linear.bias.copy_(head.bias[order])
    return module


def cut_encoder(
    teacher: DocumentModule, config: DistillConfig, attention_dropout: float | None
) -> tuple[Encoder, WordTokenizer]:
    """Copy the encoder of a teacher with as many of its layers as ``distill.student_layers`` says."""
    assert config.student_layers is not None
    whole = deepcopy(teacher.encoder)
    if attention_dropout is not None:
        set_attention_dropout(whole.model.config, attention_dropout)
    # Built anew: layers read the dropout when they are made, and all learns but a table that is zero for good.
    encoder = build_encoder(encoder_state(whole))
    encoder.load_state_dict(whole.state_dict())
    layers = map_layers(config.mapping, config.student_layers, len(separate_layers(encoder)[1]))
    take_layers_(encoder, layers)
    return encoder.train(), teacher.preprocessor.tokenizer


def copy_head_(student: DocumentModule, teacher: DocumentModule) -> None:
    """Begin with the head of the teacher, where it says the same in the same order."""
    ours, theirs = (module.get_submodule("head") for module in (student, teacher))
    shapes = [{name: value.shape for name, value in head.state_dict().items()} for head in (ours, theirs)]
    if student.labels == teacher.labels and shapes[0] == shapes[1]:
        ours.load_state_dict(theirs.state_dict())


def compare_with_teacher(
    fitted: DistillationModule,
    trainer: L.Trainer,
    datamodule: DocumentDataModule,
    collector: ResultCollector,
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """Test the teacher as its student was tested.

    Args:
        fitted: Both of them.
        trainer: The one that has just tested the student.
        datamodule: The documents.
        collector: What the student said of them; then it holds what the teacher says.
        metrics: Test and speed of the student.

    Returns:
        Score, parameters and tokens a second of both, and their ``agreement``.
    """
    said = list(collector.results)
    by_teacher = datamodule.encoded_by(fitted.teacher.preprocessor)
    told: Any = trainer  # whose callbacks and loggers are for the student: its predictions, its examples, its scores
    callbacks, loggers = told.callbacks, told.loggers
    told.callbacks = [c for c in callbacks if c is collector or not isinstance(c, (DocumentCallback, Monitor))]
    told.loggers = []
    try:
        trainer.test(fitted.teacher, datamodule=by_teacher, verbose=False)
    finally:
        told.callbacks, told.loggers = callbacks, loggers
    lengths = {encoded.document.id: encoded.num_document_tokens for encoded in by_teacher.encoded("test")}
    clocks = [callback.summary() for callback in callbacks if isinstance(callback, Throughput)]
    scored = evaluate(fitted.teacher, collector.results, lengths)
    return {
        "student": _row(fitted.student, metrics["test"], metrics.get("speed")),
        "teacher": _row(fitted.teacher, scored, clocks[0] if clocks else None),
        "agreement": agreement(said, collector.results),
    }


def _row(module: DocumentModule, scores: Mapping[str, Any], speed: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "score": scores.get("score"),
        "num_parameters": sum(p.numel() for p in module.parameters()),
        "tokens_per_second": None if speed is None else speed["test_tokens_per_second"],
    }


def agreement(student: Sequence[Any], teacher: Sequence[Any]) -> float:
    """How far two sides say the same: F1 of entities, share of documents with equal classes, or correlation of numbers.

    Args:
        student: Results of one side.
        teacher: Results of the other.
    """
    by_id = {result.id: result for result in teacher}
    pairs = [(result, by_id[result.id]) for result in student if result.id in by_id]
    if not pairs:
        return float("nan")
    if isinstance(pairs[0][0], DocumentResult):
        ours, theirs = ([{span.key for span in one.predicted} for one in side] for side in zip(*pairs, strict=True))
        common = sum(len(one & other) for one, other in zip(ours, theirs, strict=True))
        total = sum(map(len, ours)) + sum(map(len, theirs))
        return 2 * common / total if total else 1.0
    if isinstance(pairs[0][0].predicted, float):
        ours, theirs = torch.tensor([[one.predicted, other.predicted] for one, other in pairs], dtype=torch.double).T
        return float(torch.cosine_similarity(ours - ours.mean(), theirs - theirs.mean(), dim=0))  # 0 of a constant
    return sum(set(one.predicted) == set(other.predicted) for one, other in pairs) / len(pairs)


def print_comparison(found: Mapping[str, Any], task: str, console: Console) -> None:
    """Print student and teacher side by side."""
    table = Table("", "score", "parameters", "tokens/s")
    for name in ("teacher", "student"):
        row = found[name]
        speed = "-" if row["tokens_per_second"] is None else f"{row['tokens_per_second']:,.0f}"
        table.add_row(name, f"{row['score']:.4f}", f"{row['num_parameters']:,}", speed)
    console.print(table)
    what = _AGREEMENT.get(task, "share of documents with the same classes")
    console.print(f"student and teacher agree: {found['agreement']:.4f} ({what})", highlight=False)
