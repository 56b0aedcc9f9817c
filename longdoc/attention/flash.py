"""The flash backend: flash-attn's kernel for segments of different lengths, on CUDA.

Shapes: B rows, L slots of a row, T real tokens, H heads, D width of a head.
"""

import importlib.util

import torch
from torch import Tensor

from longdoc.attention.pattern import Pattern

_MOST_WIDTH = 256
_DTYPES = (torch.float16, torch.bfloat16)


def why_not_flash(pattern: Pattern, q: Tensor, dropout: float) -> str | None:  # noqa: ARG001 - same form for all backends
    """Say why flash-attn cannot compute a pattern, None if it can."""
    if q.device.type != "cuda":
        return f"flash-attn needs a CUDA device, the tensors are on {q.device.type}"
    if importlib.util.find_spec("flash_attn") is None:
        return "flash-attn is not installed (pip install 'longdoc[flash]')"
    if q.dtype not in _DTYPES:
        return f"flash-attn needs float16 or bfloat16, not {q.dtype}"
    if pattern.global_tokens is not None:
        return "flash-attn knows no global tokens"
    if q.shape[-1] > _MOST_WIDTH:
        return f"flash-attn takes heads of at most {_MOST_WIDTH}, not {q.shape[-1]}"
    return None


def flash_attention(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float, dropout: float) -> Tensor:
    """Attend with flash-attn. *Shape:* (B, H, L, D)."""
    from flash_attn import flash_attn_varlen_func

    rows, heads, slots, width = q.shape
    stream = [x.transpose(1, 2).reshape(rows * slots, heads, x.shape[-1]) for x in (q, k, v)]
    index = None if pattern.slots is None else pattern.slots.to(q.device)
    if index is not None:
        stream = [x.index_select(0, index) for x in stream]
    bounds = torch.tensor(pattern.bounds, dtype=torch.int32, device=q.device)
    longest = max(pattern.lengths, default=0)
    out_THD = flash_attn_varlen_func(
        *stream,
        bounds,
        bounds,
        longest,
        longest,
        dropout_p=dropout,
        softmax_scale=scale,
        window_size=(-1 if pattern.left is None else pattern.left, -1 if pattern.right is None else pattern.right),
        alibi_slopes=None if pattern.slopes is None else pattern.slopes.to(q.device, torch.float32),
    )
    if index is not None:
        out_THD = out_THD.new_zeros((rows * slots, heads, width)).index_copy(0, index, out_THD)
    return out_THD.view(rows, slots, heads, width).transpose(1, 2)
