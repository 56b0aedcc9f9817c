"""The README.md of an exported model: how it is used, its scores and data, how documents were read, what is lost."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from longdoc.app.class_report import score_line
from longdoc.training.module import DocumentModule

_CARD = """---
library_name: {library}
pipeline_tag: {pipeline}
tags: [longdoc]
---

# {name}

Trained with longdoc on whole documents, to tell {labels}.

## Use

{use}

{notes}

## Scores and data

{scores}

{data}

## How documents were read

```yaml
{reading}```
{lost}"""

_USE_TRANSFORMERS = """```python
from transformers import pipeline

print(pipeline("{pipeline}", "{name}", {arguments})("..."))
```"""
_USE_ONNX = """```python
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
    pipeline = "token-classification" if tags else "text-classification"
    arguments = 'aggregation_strategy="simple"' if tags else "truncation=True, top_k=None"
    head = "the vectors of words, (words, width)" if tags else "all windows of one document, (windows, width)"
    use = _USE_ONNX.format(name=name, head=head) if onnx else ""
    lost = "".join(f"* {line}\n" for line in _lost(module))
    return _CARD.format(
        library="onnx" if onnx else "transformers",
        pipeline=pipeline,
        name=name,
        labels=", ".join(f"`{label}`" for label in module.labels),
        use=use or _USE_TRANSFORMERS.format(pipeline=pipeline, name=name, arguments=arguments),
        notes="\n".join(f"* {note}" for note in notes),
        scores=_scores(_beside(checkpoint, "metrics.json").get("test")),
        data=_data(_beside(checkpoint, "config.yaml"), _beside(checkpoint, "metrics.json")),
        reading=yaml.safe_dump(_reading(module), sort_keys=False, allow_unicode=True),
        lost="" if onnx else f"\n## What is lost without longdoc\n\n{lost}",
    )


def _beside(checkpoint: Path, name: str) -> dict[str, Any]:
    """Read a file of the run whose best checkpoint this is; nothing where there is none."""
    path = (checkpoint if checkpoint.is_dir() else checkpoint.parent) / name
    if not path.is_file() or not (checkpoint.is_dir() or checkpoint.name == "best.ckpt"):
        return {}
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def _scores(test: dict[str, Any] | None) -> str:
    if test is None:
        return "No `metrics.json` with scores of a test split stood beside the checkpoint."
    told = f"F1 of whole entities {test['f1']:.4f}" if test.get("task", "ner") == "ner" else score_line(test)
    names = ("precision", "recall", "f1")
    rows = [
        f"| {label} | {' | '.join(f'{row[name]:.4f}' for name in names)} | {row['num_gold']:.0f} |"
        for label, row in test["labels"].items()
    ]
    table = ["| | precision | recall | F1 | support |", "|---|---|---|---|---|", *rows] if rows else []
    return "\n".join([f"On {test['num_documents']} test documents: {told}.", "", *table]).strip()


def _data(config: dict[str, Any], metrics: dict[str, Any]) -> str:
    if not config:
        return "No `config.yaml` stood beside the checkpoint, so the data is not known."
    path, encoder = config["data"]["path"], config["model"]["name"]
    data = "the corpus that comes with longdoc" if path is None else f"`{Path(path).name}`"
    # A folder is named without its place, which means nothing elsewhere.
    start = "from scratch" if encoder is None else f"from `{Path(encoder).name if Path(encoder).is_dir() else encoder}`"
    number = metrics.get("train", {}).get("num_documents", "the")
    return f"Trained {start}, on {number} training documents of {data}, seed {config['seed']}."


def _reading(module: DocumentModule) -> dict[str, Any]:
    kept = module.preprocessor.state()
    settings = {key: value for key, value in module.settings().items() if key not in ("scheme", "dropout", "slices")}
    reading = {"windows": kept["windower"], "selection": kept["selection"], **settings}
    if module.task == "ner":
        return {**reading, "tag_scheme": kept["tags"]["scheme"]}
    scheme: Any = module.settings()["scheme"]
    if scheme["task"] == "multi_label":
        thresholds: Any = module.thresholds
        reading["thresholds"] = dict(zip(module.labels, map(float, thresholds), strict=True))
    return {"task": scheme["task"], **reading}


def _lost(module: DocumentModule) -> Iterator[str]:
    if module.preprocessor.windower.mode == "overlap":
        yield "Windows: transformers reads one, and cuts off or refuses what lies beyond. longdoc reads them all."
    if module.preprocessor.selection is not None:
        yield "The selection of sentences."
    yield "Words: in longdoc no token mixes two, as in `2017,`; where none does, both read the same ids."
    if module.task == "ner":
        yield "Stitching: longdoc joins the scores of all windows, so an entity on a border comes back whole."
        yield "Decoding: longdoc finds the best legal sequence of tags; a pipeline may break an entity up."
        if module.settings()["subword"] == "mean":
            yield "The score of a word, which is the mean of the logits of its tokens."
        return
    yield "Aggregation: the answer is that of one window."
    if "thresholds" in _reading(module):
        yield "The thresholds above."
    yield (
        "A hidden layer that the architecture has in its head lets vectors through unchanged, in float32: keep that "
        "precision, and train further from the checkpoint, not from this folder."
    )
