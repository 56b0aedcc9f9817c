"""The README.md of an exported model: how it is used, its scores and data, how documents were read, what is lost."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from longdoc.app.class_report import score_line
from longdoc.training.module import DocumentModule

_TRANSFORMERS = """```python
from transformers import pipeline

print(pipeline("{pipeline}", "{name}", {arguments})("..."))
```"""
_ONNX = """```python
import longdoc

print(longdoc.load("{name}").predict("...").predicted)
```

`longdoc predict {name} FILE` and `longdoc evaluate {name} DATA` take the folder as well. For other programs:
`encoder.onnx` makes vectors of tokens from `input_ids` and `attention_mask`, int64 of shape (windows, tokens), and
`head.onnx` logits of {head}. `longdoc.ckpt` is what longdoc keeps beside them."""


def model_card(module: DocumentModule, checkpoint: Path, name: str, onnx: bool, notes: Sequence[str]) -> str:
    """Write the card.

    Args:
        module: What is exported.
        checkpoint: Where it comes from; ``metrics.json`` and ``config.yaml`` are read if they stand there.
        name: Of the exported folder.
        onnx: Whether it is ONNX, which longdoc runs, or for transformers alone.
        notes: What was measured.
    """
    tags = module.task == "ner"
    told = {
        "name": name,
        "pipeline": "token-classification" if tags else "text-classification",
        "arguments": 'aggregation_strategy="simple"' if tags else "truncation=True, top_k=None",
        "head": "the vectors of words, (words, width)" if tags else "all windows of one document, (windows, width)",
    }
    labels = ", ".join(f"`{label}`" for label in module.labels)
    config, metrics, reading = _beside(checkpoint, "config.yaml"), _beside(checkpoint, "metrics.json"), _reading(module)
    front = {"library_name": "onnx" if onnx else "transformers", "pipeline_tag": told["pipeline"], "tags": ["longdoc"]}
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---",
        f"# {name}",
        f"Trained with longdoc on whole documents, to tell {labels}.",
        "## Use",
        (_ONNX if onnx else _TRANSFORMERS).format(**told),
        _listed(notes),
        "## Scores and data",
        _scores(metrics.get("test")),
        _data(config, metrics),
        "## How documents were read",
        f"```yaml\n{yaml.safe_dump(reading, sort_keys=False, allow_unicode=True)}```",
    ]
    return "\n\n".join(parts if onnx else [*parts, "## What is lost without longdoc", _listed(_lost(reading))]) + "\n"


def _listed(lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join(f"* {line}" for line in lines)


def _beside(checkpoint: Path, name: str) -> dict[str, Any]:
    """Read a file of the run whose best checkpoint this is, JSON too; nothing where there is none."""
    path = (checkpoint if checkpoint.is_dir() else checkpoint.parent) / name
    if not path.is_file() or not (checkpoint.is_dir() or checkpoint.name == "best.ckpt"):
        return {}
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def _scores(test: dict[str, Any] | None) -> str:
    if test is None:
        return "No `metrics.json` with scores of a test split stood beside the checkpoint."
    told = f"F1 of whole entities {test['f1']:.4f}" if test.get("task", "ner") == "ner" else score_line(test)
    rows = [
        f"| {label} | {row['precision']:.4f} | {row['recall']:.4f} | {row['f1']:.4f} | {row['num_gold']:.0f} |"
        for label, row in test["labels"].items()
    ]
    table = ["", "| | precision | recall | F1 | support |", "|---|---|---|---|---|", *rows] if rows else []
    return "\n".join([f"On {test['num_documents']} test documents: {told}.", *table])


def _data(config: dict[str, Any], metrics: dict[str, Any]) -> str:
    if not config:
        return "No `config.yaml` stood beside the checkpoint, so the data is not known."
    path, encoder = config["data"]["path"], config["model"]["name"]
    data = "the corpus that comes with longdoc" if path is None else f"`{Path(path).name}`"
    # A folder is named without its place, which means nothing elsewhere.
    start = "from scratch" if encoder is None else f"from `{Path(encoder).name if Path(encoder).is_dir() else encoder}`"
    if layers := config.get("distill", {}).get("student_layers"):
        start = f"with {layers} layers cut out of `{Path(config['teacher']).name}`"
    number = metrics.get("train", {}).get("num_documents", "the")
    return f"Trained {start}, on {number} training documents of {data}, seed {config['seed']}."


def _reading(module: DocumentModule) -> dict[str, Any]:
    kept = module.preprocessor.state()
    settings = {key: value for key, value in module.settings().items() if key not in ("scheme", "dropout", "slices")}
    reading = {"windows": kept["windower"], "selection": kept["selection"], **settings}
    if module.task == "ner":
        return {"task": "ner", **reading, "tag_scheme": kept["tags"]["scheme"]}
    scheme: Any = module.settings()["scheme"]
    if scheme["task"] == "multi_label":
        thresholds: Any = module.thresholds
        reading["thresholds"] = dict(zip(module.labels, map(float, thresholds), strict=True))
    return {"task": scheme["task"], **reading}


def _lost(reading: dict[str, Any]) -> Iterator[str]:
    if reading["windows"]["mode"] == "overlap":
        yield "Windows: transformers reads one, and cuts off or refuses what lies beyond. longdoc reads them all."
    if reading["selection"] is not None:
        yield "The selection of sentences."
    yield "Words: in longdoc no token mixes two, as in `2017,`; where none does, both read the same ids."
    if reading["task"] == "ner":
        yield "Stitching: longdoc joins the scores of all windows, so an entity on a border comes back whole."
        yield "Decoding: longdoc finds the best legal sequence of tags; a pipeline may break an entity up."
        if reading["subword"] == "mean":
            yield "The score of a word, which is the mean of the logits of its tokens."
        return
    yield "Aggregation: the answer is that of one window."
    if "thresholds" in reading:
        yield "The thresholds above."
    yield (
        "A hidden layer that the architecture has in its head lets vectors through unchanged, in float32: keep that "
        "precision, and train further from the checkpoint, not from this folder."
    )
