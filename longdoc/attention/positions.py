"""Positions: the slopes of a distance bias, longer tables for learned positions, sinusoidal and rotary ones.

Shapes: P positions, D width, B rows, L slots of a row, H heads, E width of a head.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from longdoc.errors import ConfigError


def alibi_slopes(num_heads: int) -> Tensor:
    """Give each head the slope m of its distance bias -m|i - j|, the symmetric form for encoders. *Shape:* (H,).

    A power of two n gets the geometric series that starts at 2 ** (-8 / n). Any other number gets the series of the
    next smaller power of two, then every second value of that of the next larger one: by design not monotonic.

    **Source:** Press et al. (2022), section 3, and the authors' published code for other numbers of heads.

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    if num_heads < 1:
        raise ConfigError(f"num_heads={num_heads}: expected at least 1")
    whole = 2 ** int(math.log2(num_heads))
    slopes = _series(whole)
    if whole < num_heads:
        slopes += _series(2 * whole)[::2][: num_heads - whole]
    return torch.tensor(slopes, dtype=torch.float32)


def _series(num_heads: int) -> list[float]:
    start = 2.0 ** (-8.0 / num_heads)
    return [start ** (i + 1) for i in range(num_heads)]


def tile(table_PD: Tensor, num_positions: int, num_special: int = 0) -> Tensor:
    """Lengthen a table of learned positions by repeating it; those that fitted before keep their vectors, bit for bit.

    Args:
        table_PD: Learned vectors. *Shape:* (P, D).
        num_positions: Positions that the result serves, special rows not counted; at least as many as before.
        num_special: First rows that are no positions and are not repeated (RoBERTa: padding id + 1).

    Returns:
        *Shape:* (num_special + num_positions, D).

    **Source:** Beltagy et al. (2020), section 5.
    """
    special, body = _cut(table_PD, num_positions, num_special)
    repeats = -(-num_positions // body.shape[0])
    return torch.cat((special, body.repeat(repeats, 1)[:num_positions]))


def interpolate(table_PD: Tensor, num_positions: int, num_special: int = 0) -> Tensor:
    """Do what `tile` does by stretching the table linearly; first and last position keep their vectors."""
    special, body = _cut(table_PD, num_positions, num_special)
    stretched = F.interpolate(body.T[None].float(), size=num_positions, mode="linear", align_corners=True)
    return torch.cat((special, stretched[0].T.to(body.dtype)))


def sinusoidal(num_positions: int, width: int, base: float = 10000.0) -> Tensor:
    """Make the fixed table of sines (even columns) and cosines (odd columns). *Shape:* (P, D).

    **Source:** Vaswani et al. (2017), section 3.5.
    """
    powers = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * base**-powers
    table = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, :width]
    return table.float()


def rope_angles(position_ids_BL: Tensor, head_width: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Give cosine and sine of the rotary angles, for an even head width E. *Shape:* two of (B, 1, L, E / 2).

    **Source:** Su et al. (2021), equation 15.
    """
    if head_width % 2:
        raise ConfigError(f"head_width={head_width}: rotary positions turn pairs, expected an even number")
    powers = torch.arange(0, head_width, 2, dtype=torch.float32, device=position_ids_BL.device) / head_width
    angles = position_ids_BL[:, None, :, None].float() * base**-powers
    return angles.cos(), angles.sin()


def rope(x_BHLE: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs (i, i + E / 2) of each head by the angles of their position. *Shape:* (B, H, L, E)."""
    cos, sin = (part.to(x_BHLE.dtype) for part in angles)
    first, second = x_BHLE.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def _cut(table_PD: Tensor, num_positions: int, num_special: int) -> tuple[Tensor, Tensor]:
    rows = table_PD.shape[0] - num_special
    if rows < 1:
        raise ConfigError(f"num_special={num_special}: the table has only {table_PD.shape[0]} rows")
    if num_positions < rows:
        raise ConfigError(f"num_positions={num_positions}: the table serves {rows} already; it can only be lengthened")
    return table_PD[:num_special], table_PD[num_special:]
