"""Sentences with character offsets."""

import re

import numpy as np
import sentencex

from longdoc.errors import ConfigError
from longdoc.text.words import without_surrogates

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def split_sentences(text: str, splitter: str = "sentencex", language: str = "en") -> np.ndarray:
    """Cut a text into sentences that cover it without gaps.

    Args:
        text: The original text.
        splitter: ``sentencex`` (rules of the language) or ``line`` (a line is a sentence).
        language: ISO 639-1 code, for ``sentencex``.

    Returns:
        Half-open character offsets. *Shape:* (num_sentences, 2), int64.
    """
    if splitter == "sentencex":
        lengths = [len(s) for s in sentencex.segment(language, without_surrogates(text))]
    elif splitter == "line":
        lengths = [len(s) for s in _LINE.findall(text)]
    else:
        raise ConfigError(f"splitter={splitter!r}: expected 'sentencex' or 'line'")
    ends = np.cumsum(np.array([n for n in lengths if n], dtype=np.int64))
    if len(ends) and ends[-1] != len(text):
        raise RuntimeError(f"{splitter} returned {ends[-1]} of {len(text)} characters")
    return np.stack([np.concatenate(([0], ends[:-1])), ends], axis=1) if len(ends) else np.zeros((0, 2), dtype=np.int64)
