"""Attention for long documents: windows, global tokens and distance bias over packed or padded batches."""

from longdoc.attention.engine import attend, choose_backend
from longdoc.attention.pattern import Pattern, first_tokens
from longdoc.attention.positions import alibi_slopes
from longdoc.attention.probes import attention_rows, head_entropy

__all__ = ["Pattern", "alibi_slopes", "attend", "attention_rows", "choose_backend", "first_tokens", "head_entropy"]
