"""Longer position tables for Hugging Face encoders.

Shapes: B rows, L slots of a row, P positions, D width.
"""

import logging
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from longdoc.attention.pattern import Pattern
from longdoc.attention.positions import interpolate, tile
from longdoc.errors import ConfigError, check_choice, check_integer

log = logging.getLogger(__name__)

Positions = Literal["auto", "native", "tile", "interpolate", "alibi"]


def learned_positions(model: PreTrainedModel) -> nn.Embedding | None:
    """Find the table of learned positions of an encoder, None if it has none."""
    table = getattr(_embeddings(model), "position_embeddings", None)
    return table if isinstance(table, nn.Embedding) else None


def num_special_rows(model: PreTrainedModel) -> int:
    """Count the first rows of the table that are no positions.

    RoBERTa's family begins behind its padding id. Others (Nystromformer, MRA, YOSO) begin at 2, and have as many rows
    more than the configuration says.
    """
    table = learned_positions(model)
    if table is None:
        return 0
    if table.padding_idx is not None:
        return table.padding_idx + 1
    return max(0, table.num_embeddings - getattr(model.config, "max_position_embeddings", table.num_embeddings))


def num_positions(model: PreTrainedModel) -> int | None:
    """Count the tokens that the position table serves, None if there is no table and so no limit."""
    table = learned_positions(model)
    return None if table is None else table.num_embeddings - num_special_rows(model)


def position_ids(model: PreTrainedModel, pattern: Pattern) -> Tensor:
    """Give the ids that the encoder looks up in its table, or turns by, for each slot. *Shape:* (B, L)."""
    return pattern.position_ids + num_special_rows(model)


def set_positions_(model: PreTrainedModel, positions: Positions = "auto", max_tokens: int | None = None) -> None:
    """Make an encoder serve longer inputs. What it saves can be loaded again as an ordinary checkpoint.

    Args:
        model: An encoder, alone or under a head.
        positions: "native" leaves the table alone, "tile" repeats it, "interpolate" stretches it, "alibi" sets it to
            zero for good, so that only the distance bias tells positions apart, and "auto" repeats it if it is too
            short.
        max_tokens: Longest segment that must fit; None for what fits already.

    Raises:
        ConfigError: A choice that cannot work or has no effect.
    """
    served = num_positions(model)
    name = type(model).__name__
    check_choice("positions", positions, get_args(Positions))
    if max_tokens is not None:
        check_integer("max_tokens", max_tokens, 1)
    too_short = served is not None and max_tokens is not None and max_tokens > served
    if positions == "native" and too_short:
        raise ConfigError(
            f"positions='native': the table of {name} serves {served} tokens, max_tokens={max_tokens} does not fit; "
            "use 'tile', 'interpolate' or 'alibi'"
        )
    if positions in ("tile", "interpolate") and not too_short:
        have = "has no table of learned positions" if served is None else f"serves {served} tokens already"
        raise ConfigError(
            f"positions={positions!r} would change nothing: {name} {have}, max_tokens={max_tokens}; "
            "use 'auto' or 'native'"
        )
    if positions == "alibi" and served is None:
        raise ConfigError(f"positions='alibi': {name} has no table of learned positions to silence; use alibi=True")
    if too_short and max_tokens is not None:
        _lengthen_(model, max_tokens, "interpolate" if positions == "interpolate" else "tile")
        log.info("%s: position table lengthened from %s to %s tokens (%s)", name, served, max_tokens, positions)
    table = learned_positions(model)
    if positions == "alibi" and table is not None:
        nn.init.zeros_(table.weight)
        table.weight.requires_grad_(False)


def _lengthen_(model: PreTrainedModel, max_tokens: int, how: str) -> None:
    embeddings, old = _embeddings(model), learned_positions(model)
    assert old is not None
    stretch = tile if how == "tile" else interpolate
    rows = stretch(old.weight.detach(), max_tokens, num_special_rows(model))
    table = nn.Embedding(len(rows), rows.shape[1], padding_idx=old.padding_idx, device=rows.device, dtype=rows.dtype)
    table.weight = nn.Parameter(rows.clone(), requires_grad=old.weight.requires_grad)
    embeddings.position_embeddings = table
    count, buffered = len(rows), getattr(embeddings, "position_ids", None)
    first = 0 if buffered is None else int(buffered.min())
    for buffer, values in (
        ("position_ids", torch.arange(first, count)),
        ("token_type_ids", torch.zeros(count, dtype=torch.long)),
    ):
        if isinstance(getattr(embeddings, buffer, None), Tensor):
            persistent = buffer not in embeddings._non_persistent_buffers_set
            embeddings.register_buffer(buffer, values.to(rows.device)[None], persistent=persistent)
    base: Any = model.base_model
    for config in {id(part.config): part.config for part in (model, base)}.values():
        config.max_position_embeddings += count - old.num_embeddings


def _embeddings(model: PreTrainedModel) -> Any:
    return getattr(model.base_model, "embeddings", None)
