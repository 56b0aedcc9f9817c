"""``longdoc export``: a folder for transformers, or ONNX files, that give the scores of the checkpoint."""

import copy
import os
import shutil
from argparse import Namespace
from functools import partial
from pathlib import Path
from timeit import repeat

import torch
from rich.console import Console
from torch import Tensor
from transformers import PreTrainedModel

from longdoc.app.build import READ_TASKS
from longdoc.app.model_card import model_card
from longdoc.app.predict import annotated, score_documents
from longdoc.app.quiet import quieten
from longdoc.errors import ConfigError, DataError
from longdoc.models.aggregation import LSTM, Transformer
from longdoc.models.batch import Batch
from longdoc.models.classification import WindowPool, pool_windows
from longdoc.models.encoder import Encoder
from longdoc.models.hf_heads import LIMIT, HeadTask, headed_model, hf_tokenizer, probe_batch
from longdoc.models.onnx import ENCODER, HEAD, OnnxModel, make_int8, open_session, write_encoder, write_head
from longdoc.training.checkpoint import load, save_without_encoder
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.ner import NERModule

Task = NERModule | DocumentClassificationModule

_PROBE_TOKENS = 512
_NUM_TIMINGS = 5


@quieten()
def export_command(options: Namespace) -> None:
    """Write the folder whole or not at all, and say what was measured."""
    if options.int8 != (options.data is not None):
        raise ConfigError(
            "--int8 and --data go together: annotated documents show what is lost with the smaller weights; got "
            + ("--int8 alone" if options.int8 else "--data alone")
        )
    module = load(options.checkpoint)
    assert isinstance(module, Task)
    if not isinstance(module.encoder.model, PreTrainedModel):
        raise ConfigError(f"{options.checkpoint} was exported already; give the checkpoint it was made of")
    target = Path(options.folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target}: expected a new or an empty folder")
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    onnx = options.onnx or options.int8
    try:
        part.mkdir(parents=True)
        notes = write_onnx(module, part) if onnx else write_transformers(module, part)
        if options.int8:
            notes += _int8(module, part, options)
        card = model_card(module, Path(options.checkpoint), target.name, onnx, notes)
        (part / "README.md").write_text(card, encoding="utf-8")
        if target.is_dir():
            target.rmdir()
        os.replace(part, target)
    except OSError as error:
        raise ConfigError(f"{target}: expected a folder that can be written ({error})") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    console = Console()
    for line in (*notes, f"Everything is in {target}"):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def write_transformers(module: Task, folder: Path) -> list[str]:
    """Write what ``AutoModelForTokenClassification`` or ``AutoModelForSequenceClassification`` opens.

    Raises:
        ConfigError: The architecture allows none that gives the same scores, with the reason.
    """
    batch, linear = _probe(module), copy.deepcopy(module.head.linear)
    expected = _logits(module, module.encoder, batch)
    task: HeadTask = "ner"
    pool: WindowPool = "first"
    if isinstance(module, DocumentClassificationModule):
        task, pool = module.scheme.task, module.pool
        if isinstance(module.head.aggregator, (LSTM, Transformer)):
            name = module.settings()["aggregation"]
            raise ConfigError(f"aggregation={name}: transformers has no such layers behind the encoder; use --onnx")
        if task == "regression":  # in the units of the data
            mean, std = module.scheme.target_mean, module.scheme.target_std
            expected = expected * std + mean
            linear.weight.data.mul_(std)
            linear.bias.data.mul_(std).add_(mean)
    elif module.head.subword == "max":
        raise ConfigError("model.subword=max: transformers scores tokens, not the maximum over a word; use --onnx")
    size_tokens = module.preprocessor.windower.size_tokens
    model, error = headed_model(module.encoder, linear, _names(module), task, batch, expected, pool, size_tokens)
    model.save_pretrained(folder)
    hf_tokenizer(module.preprocessor.tokenizer, size_tokens).save_pretrained(folder)
    return [f"{type(model).__name__} gives the scores of longdoc on a window; largest difference {error:.1e}"]


def write_onnx(module: Task, folder: Path) -> list[str]:
    """Write ``encoder.onnx``, ``head.onnx`` and what ``longdoc.load`` needs beside them, and compare them with torch.

    Raises:
        ConfigError: The scores differ, or torch cannot trace the model.
    """
    write_encoder(module.encoder, folder / ENCODER)
    write_head(module.head, folder / HEAD)
    save_without_encoder(module, folder)
    config, names = copy.deepcopy(module.encoder.model.config), _names(module)
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    config.save_pretrained(folder)
    hf_tokenizer(module.preprocessor.tokenizer, module.preprocessor.windower.size_tokens).save_pretrained(folder)
    batch, session = _probe(module), open_session(folder / HEAD)
    vectors = _vectors(module, load(folder).encoder, batch)
    rows = [vectors] if module.task == "ner" else vectors.split(1)
    logits = [torch.from_numpy(session.run(None, {"vectors": row.numpy()})[0]) for row in rows]
    expected = _logits(module, module.encoder, batch)
    error = float((torch.cat(logits).view_as(expected) - expected).abs().max())
    if not error <= LIMIT:
        raise ConfigError(
            f"{ENCODER} and {HEAD} differ from torch by {error:.1e}, more than {LIMIT}; nothing was written"
        )
    return [f"{ENCODER} and {HEAD} give the logits of torch; largest difference {error:.1e}"]


def _int8(module: Task, folder: Path, options: Namespace) -> list[str]:
    """Quantise the encoder in place; refuse it where it loses too much."""
    task = module.scheme.task if isinstance(module, DocumentClassificationModule) else "ner"
    documents = list(annotated(options, READ_TASKS[task]))
    plain, small = folder / ENCODER, folder / "int8.onnx"
    make_int8(plain, small)
    files = (plain, small)
    sizes = [sum(f.stat().st_size for f in (file, file.with_name(f"{file.name}.data")) if f.exists()) for file in files]
    ids = _probe(module).windows(0, 1).input_ids[None]
    runs = [partial(OnnxModel(file, num_threads=1), ids, torch.ones_like(ids)) for file in files]
    times = [min(repeat(run, number=1, repeat=_NUM_TIMINGS)) for run in runs]
    before = score_documents(load(folder), documents)
    if not before["num_documents"]:
        raise DataError(f"{options.data}: expected annotated documents, got none")
    os.replace(small, plain)
    plain.with_name(f"{plain.name}.data").unlink(missing_ok=True)
    after = score_documents(load(folder), documents)
    loss = before["score"] - after["score"]
    if loss > options.max_loss:
        raise ConfigError(
            f"--int8: the score falls from {before['score']:.4f} to {after['score']:.4f}, by {loss:.4f}; --max-loss="
            f"{options.max_loss} allows less, so nothing was written; leave --int8 out, or allow more"
        )
    return [
        f"int8: score {before['score']:.4f} before, {after['score']:.4f} after, on {before['num_documents']} documents",
        f"int8: {sizes[0] / 1e6:.1f} MB before, {sizes[1] / 1e6:.1f} MB after",
        f"int8: {1000 * times[0]:.1f} ms a window before, {1000 * times[1]:.1f} ms after, on one thread: "
        f"{times[0] / times[1]:.2f} times as fast",
    ]


def _probe(module: Task) -> Batch:
    tokenizer, size = module.preprocessor.tokenizer, module.preprocessor.windower.size_tokens
    longest = min(size or _PROBE_TOKENS, _PROBE_TOKENS)
    least = tokenizer.num_special + 1
    return probe_batch(tokenizer, (longest, max(longest // 2, least), least))


def _names(module: Task) -> tuple[str, ...]:
    return module.labels if isinstance(module, DocumentClassificationModule) else module.tags.tags


@torch.inference_mode()
def _vectors(module: Task, encoder: Encoder, batch: Batch) -> Tensor:
    """Vectors of tokens in tagging, else of windows. *Shape:* (T, D) or (W, D)."""
    hidden = encoder(batch)
    return hidden if isinstance(module, NERModule) else pool_windows(hidden, batch.bounds, module.pool)


@torch.inference_mode()
def _logits(module: Task, encoder: Encoder, batch: Batch) -> Tensor:
    """Scores of tokens in tagging, else of windows, each a document of its own. *Shape:* (T, K) or (W, K)."""
    vectors = _vectors(module, encoder, batch)
    if isinstance(module, NERModule):
        return module.head.linear(vectors)
    return module.head(vectors, batch.document_bounds)[0]
