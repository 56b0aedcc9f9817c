"""The parts of an encoder that counting needs: its tokenizer, and the longest input it takes. No weights are read."""

import torch
from transformers import AutoConfig, AutoModel

from longdoc.errors import ConfigError
from longdoc.models.encoder import input_limit, load_tokenizer
from longdoc.models.scratch import train_tokenizer

__all__ = ["encoder_limit", "load_tokenizer", "train_tokenizer"]


def encoder_limit(name: str) -> tuple[int | None, str]:
    """Find the longest input of an encoder from its configuration, and where that limit comes from."""
    try:
        config = AutoConfig.from_pretrained(name)
        with torch.device("meta"):
            return input_limit(AutoModel.from_config(config))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--model {name!r}: expected a folder with config.json, or a name on the hub ({error})"
        ) from error
