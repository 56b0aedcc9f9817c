"""``longdoc export``: a folder for transformers, or ONNX files, that give the scores of the checkpoint."""

import copy
import os
import shutil
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from transformers import PreTrainedModel

from longdoc.app.build import READ_TASKS
from longdoc.app.model_card import model_card
from longdoc.app.predict import annotated, score_documents
from longdoc.errors import ConfigError, DataError
from longdoc.models.aggregation import LSTM, Transformer
from longdoc.models.batch import Batch
from longdoc.models.classification import pool_windows
from longdoc.models.encoder import Encoder
from longdoc.models.hf_heads import LIMIT, headed_model, hf_tokenizer, probe_batch
from longdoc.models.onnx import ENCODER, HEAD, OnnxModel, make_int8, open_session, write_encoder, write_head
from longdoc.training.checkpoint import load, save_without_encoder
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.module import DocumentModule
from longdoc.training.ner import NERModule

_PROBE_TOKENS = 512
_NUM_TIMINGS = 5


def export_command(options: Namespace) -> None:
    """Write the folder whole or not at all, and say what was measured."""
    if options.int8 != (options.data is not None):
        raise ConfigError(
            f"--int8={options.int8}, --data={options.data}: expected both or none; the loss is measured on that data"
        )
    module = load(options.checkpoint)
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


def write_transformers(module: DocumentModule, folder: Path) -> list[str]:
    """Write what ``AutoModelForTokenClassification`` or ``AutoModelForSequenceClassification`` opens.

    Raises:
        ConfigError: The architecture allows none that gives the same scores, with the reason.
    """
    batch = _probe(module)
    expected = _logits(module, module.encoder, batch)
    tokenizer, size_tokens = module.preprocessor.tokenizer, module.preprocessor.windower.size_tokens
    if isinstance(module, DocumentClassificationModule):
        scheme, linear = module.scheme, copy.deepcopy(module.head.linear)
        if isinstance(module.head.aggregator, (LSTM, Transformer)):
            name = module.settings()["aggregation"]
            raise ConfigError(f"aggregation={name}: transformers has no such layers behind the encoder; use --onnx")
        if scheme.task == "single_label":
            expected = expected.log_softmax(-1)
        if scheme.task == "regression":  # in the units of the data
            expected = expected * scheme.target_std + scheme.target_mean
            with torch.no_grad():
                linear.weight.mul_(scheme.target_std)
                linear.bias.mul_(scheme.target_std).add_(scheme.target_mean)
        model, error = headed_model(
            module.encoder, linear, scheme.labels, scheme.task, batch, expected, module.pool, size_tokens
        )
    else:
        assert isinstance(module, NERModule)
        if module.head.subword == "max":
            raise ConfigError("model.subword=max: transformers scores tokens, not the maximum over a word; use --onnx")
        model, error = headed_model(
            module.encoder, module.head.linear, module.tags.tags, "ner", batch, expected, size_tokens=size_tokens
        )
    model.save_pretrained(folder)
    hf_tokenizer(tokenizer, size_tokens).save_pretrained(folder)
    return [f"{type(model).__name__} gives the scores of longdoc on a window; largest difference {error:.1e}"]


def write_onnx(module: DocumentModule, folder: Path) -> list[str]:
    """Write ``encoder.onnx``, ``head.onnx`` and what ``longdoc.load`` needs beside them, and compare them with torch.

    Raises:
        ConfigError: The scores differ, or torch cannot trace the model.
    """
    head: Any = module.head
    write_encoder(module.encoder, folder / ENCODER)
    write_head(head, folder / HEAD)
    save_without_encoder(module, folder)
    config = copy.deepcopy(module.encoder.model.config)
    names = module.tags.tags if isinstance(module, NERModule) else module.labels
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    config.save_pretrained(folder)
    hf_tokenizer(module.preprocessor.tokenizer, module.preprocessor.windower.size_tokens).save_pretrained(folder)
    batch, session = _probe(module), open_session(folder / HEAD)
    vectors = _vectors(module, load(folder).encoder, batch)
    rows = [vectors] if isinstance(module, NERModule) else vectors.split(1)
    logits = [torch.from_numpy(session.run(None, {"vectors": row.numpy()})[0]) for row in rows]
    expected = _logits(module, module.encoder, batch)
    error = float((torch.cat(logits).view_as(expected) - expected).abs().max())
    if not error <= LIMIT:
        raise ConfigError(
            f"{ENCODER} and {HEAD} differ from torch by {error:.1e}, more than {LIMIT}; nothing was written"
        )
    return [f"{ENCODER} and {HEAD} give the logits of torch; largest difference {error:.1e}"]


def _int8(module: DocumentModule, folder: Path, options: Namespace) -> list[str]:
    """Quantise the encoder in place; refuse it where it loses too much."""
    task = module.scheme.task if isinstance(module, DocumentClassificationModule) else "ner"
    documents = list(annotated(options, READ_TASKS[task]))
    plain, small = folder / ENCODER, folder / "int8.onnx"
    make_int8(plain, small)
    files = (plain, small)
    sizes = [sum(f.stat().st_size for f in (file, file.with_name(f"{file.name}.data")) if f.exists()) for file in files]
    times = _seconds([OnnxModel(file, num_threads=1) for file in files], _probe(module))
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


def _seconds(models: list[OnnxModel], batch: Batch) -> list[float]:
    """Least time of the first window, measured in turn."""
    ids = batch.windows(0, 1).input_ids[None]
    best = [float("inf")] * len(models)
    for _ in range(_NUM_TIMINGS):
        for i, model in enumerate(models):
            start = time.perf_counter()
            model(ids, torch.ones_like(ids))
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def _probe(module: DocumentModule) -> Batch:
    tokenizer, size = module.preprocessor.tokenizer, module.preprocessor.windower.size_tokens
    longest = min(size or _PROBE_TOKENS, _PROBE_TOKENS)
    least = tokenizer.num_special + 1
    return probe_batch(tokenizer, (longest, max(longest // 2, least), least))


@torch.inference_mode()
def _vectors(module: DocumentModule, encoder: Encoder, batch: Batch) -> Tensor:
    """Vectors of tokens in tagging, else of windows. *Shape:* (T, D) or (W, D)."""
    hidden = encoder(batch)
    return (
        pool_windows(hidden, batch.bounds, module.pool) if isinstance(module, DocumentClassificationModule) else hidden
    )


@torch.inference_mode()
def _logits(module: DocumentModule, encoder: Encoder, batch: Batch) -> Tensor:
    """Scores of tokens in tagging, else of windows, each a document of its own. *Shape:* (T, K) or (W, K)."""
    vectors, head = _vectors(module, encoder, batch), module.head
    assert isinstance(head, nn.Module)
    if isinstance(module, NERModule):
        return module.head.linear(vectors)
    return head(vectors, batch.document_bounds)[0]
