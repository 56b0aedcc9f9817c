"""From a checkpoint file to a module that predicts."""

from pathlib import Path
from typing import Any

import torch

from longdoc.errors import ConfigError
from longdoc.models.onnx import ENCODER, onnx_encoder
from longdoc.models.scratch import ScratchModel  # noqa: F401  (registers the from-scratch encoder)
from longdoc.training.checkpoint_io import read_checkpoint, write_checkpoint
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.module import CHECKPOINT_KEY, DocumentModule
from longdoc.training.ner import NERModule

_WITHOUT_ENCODER = "longdoc.ckpt"
_MODULES: dict[str, type[DocumentModule]] = {
    module.task: module for module in (NERModule, DocumentClassificationModule)
}


def load(checkpoint: str | Path, device: str | torch.device = "cpu") -> DocumentModule:
    """Load a checkpoint for prediction. The file holds all that is needed; no code in it is run.

    Args:
        checkpoint: A ``.ckpt`` file, a run's output folder that holds ``best.ckpt``, or a folder that
            ``longdoc export --onnx`` wrote.
        device: Where to predict.
    """
    path, onnx = Path(checkpoint), Path(checkpoint) / ENCODER
    if path.is_dir():
        path = path / (_WITHOUT_ENCODER if onnx.is_file() else "best.ckpt")
    if not path.is_file():
        raise ConfigError(
            f"checkpoint {str(checkpoint)!r}: expected a .ckpt file, a run folder with best.ckpt in it, or a folder of "
            "longdoc export --onnx"
        )
    content = read_checkpoint(path)
    if not isinstance(content, dict) or not isinstance(content.get(CHECKPOINT_KEY), dict):
        raise ConfigError(
            f"checkpoint {str(path)!r} was not written by a longdoc module: it has no {CHECKPOINT_KEY!r} entry"
        )
    rest = content[CHECKPOINT_KEY]
    try:
        encoder = onnx_encoder(onnx, rest["encoder"]["pad_id"]) if onnx.is_file() else None
        module = _MODULES[rest["task"]].from_checkpoint(content, encoder)
    except (KeyError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"checkpoint {str(path)!r} is damaged or of another version of longdoc: {type(error).__name__}: {error}"
        ) from error
    return module.to(device)


def save_without_encoder(module: DocumentModule, folder: Path) -> None:
    """Write what ``load`` needs beside an encoder in ONNX."""
    content: dict[str, Any] = {}
    module.on_save_checkpoint(content)
    content["state_dict"] = {k: v for k, v in module.state_dict().items() if not k.startswith("encoder.")}
    write_checkpoint(content, folder / _WITHOUT_ENCODER)
