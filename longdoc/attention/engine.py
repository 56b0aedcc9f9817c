"""One function over all backends.

Shapes: B rows, L slots of a row, H heads, J heads of keys and values, D width of a head.
"""

import logging
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from longdoc.attention.blocked import blocked_attention
from longdoc.attention.flash import flash_attention, why_not_flash
from longdoc.attention.flex import flex_attention, why_not_flex
from longdoc.attention.pattern import Pattern
from longdoc.attention.reference import reference_attention
from longdoc.errors import ConfigError, check_choice

log = logging.getLogger(__name__)

Backend = Literal["auto", "reference", "blocked", "flex", "flash"]
BACKENDS = get_args(Backend)

_said: set[tuple[str, str]] = set()


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: Backend = "auto",
) -> Tensor:
    """Attend as a pattern says. Padding gets zeros, and nothing that stands in padding reaches anything.

    Args:
        q: Queries. *Shape:* (B, H, L, D), with (B, L) as in the pattern.
        k: Keys; J divides H, and each of its heads serves H / J heads of the queries. *Shape:* (B, J, L, D).
        v: Values. *Shape:* (B, J, L, D).
        pattern: Who may see whom.
        scale: Factor of the scores; 1 / sqrt(D) by default.
        dropout: Share of the attention weights set to zero, 0 to 1; pass 0 outside training.
        backend: See `choose_backend`.

    Returns:
        A view that is contiguous as (B, L, H, D). *Shape:* (B, H, L, D).

    Raises:
        ConfigError: Shapes that do not fit, or a backend that cannot compute the pattern, with the reason.
    """
    _check_shapes(q, k, v, pattern, dropout)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    if pattern.control == "uniform":
        whole = pattern
        q, pattern = q * 0, whole._once("uniform", lambda: replace(whole, slopes=None, control=None))
    k, v = k.to(q.dtype), v.to(q.dtype)
    chosen = choose_backend(pattern, q, dropout, backend)
    if chosen == "flash":
        return _stored_by_slot(flash_attention(q, k, v, pattern, scale, dropout))
    if chosen == "flex":
        return _stored_by_slot(flex_attention(q, k, v, pattern, scale))
    compute = reference_attention if chosen == "reference" else blocked_attention
    # Scores kept in half precision would lose too much, and most CPUs multiply float32 faster.
    wide = torch.float32 if q.dtype in (torch.bfloat16, torch.float16) else q.dtype
    with torch.autocast(q.device.type, enabled=False):
        return _stored_by_slot(compute(q.to(wide), k.to(wide), v.to(wide), pattern, scale, dropout).to(q.dtype))


def choose_backend(pattern: Pattern, q: Tensor, dropout: float = 0.0, backend: Backend = "auto") -> str:
    """Choose what computes a pattern; the log says once which and why.

    Args:
        pattern: Who may see whom.
        q: Queries, for their device and dtype.
        dropout: Share of the attention weights set to zero.
        backend: "auto", or the name of a backend, which is refused if it cannot compute this.

    Raises:
        ConfigError: The backend that was asked for cannot do it.
    """
    check_choice("backend", backend, BACKENDS)
    reasons = {"flash": why_not_flash(pattern, q, dropout), "flex": why_not_flex(pattern, q, dropout)}
    if backend != "auto":
        if reasons.get(backend) is not None:
            raise ConfigError(
                f"backend={backend!r} cannot be used here: {reasons[backend]}; set it to 'auto' or 'blocked'"
            )
        return backend
    chosen = next((name for name, reason in reasons.items() if reason is None), "blocked")
    passed = [f"no {name}: {reason}" for name, reason in reasons.items() if reason is not None and name != chosen]
    why = "; ".join(passed) or "the fastest that computes this pattern"
    if q.device.type == "cpu":
        why = "the one for a CPU"
    if (chosen, why) not in _said:
        _said.add((chosen, why))
        log.info("attention is computed by the backend %s: %s", chosen, why)
    return chosen


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, dropout: float) -> None:
    rows, slots = pattern.batch_shape
    if q.dim() != 4 or (q.shape[0], q.shape[2]) != (rows, slots):
        raise ConfigError(f"q: the pattern expects shape ({rows}, heads, {slots}, width), got {tuple(q.shape)}")
    for name, x in (("k", k), ("v", v)):
        if x.dim() != 4 or (x.shape[0], x.shape[2]) != (rows, slots) or q.shape[1] % x.shape[1]:
            raise ConfigError(
                f"{name}: expected rows and slots as in q {tuple(q.shape)} and a number of heads that divides its own, "
                f"got {tuple(x.shape)}; attention between two sequences is not supported"
            )
    if pattern.slopes is not None and pattern.slopes.shape != (q.shape[1],):
        raise ConfigError(f"slopes: expected one for each of {q.shape[1]} heads, got {tuple(pattern.slopes.shape)}")
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout={dropout}: expected a share from 0 to below 1")


def _stored_by_slot(out_BHLD: Tensor) -> Tensor:
    return out_BHLD.transpose(1, 2).contiguous().transpose(1, 2)
