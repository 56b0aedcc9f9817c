"""Attention with linear biases, the symmetric form for encoders.

Shapes: H heads.
"""

import math

import torch
from torch import Tensor

from longdoc.errors import ConfigError


def alibi_slopes(num_heads: int) -> Tensor:
    """Give each head the slope m of its distance bias -m|i - j|.

    A power of two n gets the geometric series that starts at 2 ** (-8 / n). Any other number gets the series of the
    next smaller power of two, then every second value of that of the next larger one: by design not monotonic.

    Args:
        num_heads: H, at least 1.

    Returns:
        The slopes in float32. *Shape:* (H,).

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
