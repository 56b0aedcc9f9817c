"""Sentences with character offsets."""

import re

import numpy as np
import sentencex

from longdoc.errors import check_choice
from longdoc.text.words import without_surrogates

SPLITTERS = ("sentencex", "line")


def split_sentences(text: str, splitter: str = "sentencex", language: str = "en") -> np.ndarray:
    """Cut a text into sentences that cover it without gaps.

    Args:
        text: The original text.
        splitter: ``sentencex`` (rules of the language) or ``line`` (a line is a sentence).
        language: ISO 639-1 code, for ``sentencex``.

    Returns:
        Half-open character offsets. *Shape:* (num_sentences, 2), int64.
    """
    check_choice("splitter", splitter, SPLITTERS)
    if splitter == "sentencex":
        # Taken are the beginnings: between sentences it now and then leaves out the end of a paragraph.
        found = sentencex.get_sentence_boundaries(language, without_surrogates(text))
        starts = [sentence["start_index"] for sentence in found]
    else:
        starts = [end.end() for end in re.finditer("\n", text)]
    bounds = np.unique(np.array([0, *starts, len(text)], dtype=np.int64))
    return np.stack([bounds[:-1], bounds[1:]], axis=1)


def sentence_words(text: str, words: np.ndarray, splitter: str = "sentencex", language: str = "en") -> np.ndarray:
    """Find the first word of each sentence that has one; a word that a border cuts belongs to the sentence before.

    They come as sorted indices of words, which are those of ``split_words``. *Shape:* (num_sentences,), int64.
    """
    first = np.unique(np.searchsorted(words[:, 0], split_sentences(text, splitter, language)[:, 0]))
    return first[first < len(words)]
