"""From a checkpoint file to a module that predicts."""

from pathlib import Path

import torch

from longdoc.errors import ConfigError
from longdoc.models.scratch import ScratchModel  # noqa: F401  (registers the from-scratch encoder)
from longdoc.training.checkpoint_io import read_checkpoint
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.module import CHECKPOINT_KEY, DocumentModule
from longdoc.training.ner import NERModule

_MODULES: dict[str, type[DocumentModule]] = {
    module.task: module for module in (NERModule, DocumentClassificationModule)
}


def load(checkpoint: str | Path, device: str | torch.device = "cpu") -> DocumentModule:
    """Load a checkpoint for prediction. The file holds all that is needed; no code in it is run.

    Args:
        checkpoint: A ``.ckpt`` file, or a run's output folder that holds ``best.ckpt``.
        device: Where to predict.
    """
    path = Path(checkpoint)
    if path.is_dir():
        path = path / "best.ckpt"
    if not path.is_file():
        raise ConfigError(f"checkpoint {str(checkpoint)!r}: expected a .ckpt file or a run folder with best.ckpt in it")
    content = read_checkpoint(path)
    if not isinstance(content, dict) or not isinstance(content.get(CHECKPOINT_KEY), dict):
        raise ConfigError(
            f"checkpoint {str(path)!r} was not written by a longdoc module: it has no {CHECKPOINT_KEY!r} entry"
        )
    try:
        module = _MODULES[content[CHECKPOINT_KEY]["task"]].from_checkpoint(content)
    except (KeyError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"checkpoint {str(path)!r} is damaged or of another version of longdoc: {type(error).__name__}: {error}"
        ) from error
    return module.to(device)
