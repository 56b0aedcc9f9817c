"""Tokens that never mix words, cut from the raw text by any Hugging Face fast tokenizer.

Offsets of the tokenizer decide which word a token belongs to. A token that covers more than one word (``2017,``) is
encoded word by word instead, and a word for which the tokenizer has nothing gets the unknown token, so that every word
has at least one token and no word shifts another.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from tokenizers import Tokenizer

from longdoc.errors import ConfigError
from longdoc.text.words import without_surrogates

_BLANK_PIECE = re.compile(r"[▁ĠĊĉč\s]+")
_WORD_PREFIXES = ("▁", "Ġ")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one document, special tokens not included.

    Args:
        ids: Vocabulary ids. *Shape:* (num_tokens,), int32.
        word: Index of the word each token belongs to; -1 for a blank. Never decreases but for the -1.
            *Shape:* (num_tokens,), int32.
    """

    ids: np.ndarray
    word: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


class WordTokenizer:
    """A fast tokenizer, applied so that each token belongs to one word.

    Args:
        backend: The tokenizer of the ``tokenizers`` library; copied, truncation and padding switched off.
        unk_id: Stands for a word that the tokenizer encodes as nothing.
        pad_id: Fills padded batches.
    """

    def __init__(self, backend: Tokenizer, unk_id: int, pad_id: int) -> None:
        self.backend = Tokenizer.from_str(backend.to_str())
        self.backend.no_truncation()
        self.backend.no_padding()
        # "[SEP]" written in a document is text, not a separator.
        self.backend.encode_special_tokens = True
        self.vocab_size = self.backend.get_vocab_size(with_added_tokens=True)
        if not (0 <= unk_id < self.vocab_size and 0 <= pad_id < self.vocab_size):
            raise ConfigError(
                f"unk_id={unk_id}, pad_id={pad_id}: expected ids below {self.vocab_size}, the size of the vocabulary"
            )
        self.unk_id = unk_id
        self.pad_id = pad_id
        sample = self.backend.encode("a", add_special_tokens=True)
        text_positions = [i for i, special in enumerate(sample.special_tokens_mask) if not special]
        first, last = (text_positions[0], text_positions[-1]) if text_positions else (len(sample.ids), len(sample.ids))
        self.prefix_ids: tuple[int, ...] = tuple(sample.ids[:first])
        self.suffix_ids: tuple[int, ...] = tuple(sample.ids[last + 1 :])
        state = json.loads(self.backend.to_str())
        self._is_byte_level = '"ByteLevel"' in json.dumps(state["pre_tokenizer"])
        self._blank_ids = np.array(
            sorted(i for piece, i in self.backend.get_vocab().items() if _BLANK_PIECE.fullmatch(piece)), dtype=np.int64
        )
        self._encode_word = lru_cache(maxsize=65536)(self._encode_word_uncached)

    @property
    def num_special(self) -> int:
        """How many special tokens stand around every window."""
        return len(self.prefix_ids) + len(self.suffix_ids)

    def state(self) -> dict[str, object]:
        """Everything ``from_state`` needs, in plain containers."""
        return {"backend": self.backend.to_str(), "unk_id": self.unk_id, "pad_id": self.pad_id}

    @classmethod
    def from_state(cls, state: dict) -> "WordTokenizer":
        """Build the tokenizer that ``state`` came from."""
        return cls(Tokenizer.from_str(state["backend"]), state["unk_id"], state["pad_id"])

    def __reduce__(self) -> tuple:
        return WordTokenizer.from_state, (self.state(),)

    def __call__(self, text: str, words: np.ndarray) -> Tokens:
        """Encode a text.

        Args:
            text: The original text.
            words: Its words as ``split_words`` gives them. *Shape:* (num_words, 2).
        """
        if len(words) == 0:
            empty = np.zeros(0, dtype=np.int32)
            return Tokens(empty, empty)
        text = without_surrogates(text)
        ids, starts, ends = self._encode_text(text)
        first = np.searchsorted(words[:, 1], starts, side="right")
        last = np.searchsorted(words[:, 0], ends, side="left") - 1
        word = np.where(first <= last, first, -1)
        word[np.isin(ids, self._blank_ids)] = -1

        alone = np.zeros(len(words) + 1, dtype=np.int64)
        mixing = last > first
        np.add.at(alone, first[mixing], 1)
        np.add.at(alone, last[mixing] + 1, -1)
        alone_mask = np.cumsum(alone[:-1]) > 0
        keep = (word < 0) | ~alone_mask[word]
        keep &= ~(mixing & (word < 0))
        ids, word, starts = ids[keep], word[keep], np.maximum.accumulate(starts[keep])
        alone_mask |= np.bincount(word[word >= 0], minlength=len(words)) == 0
        return self._insert_alone(text, words, np.flatnonzero(alone_mask), ids, word, starts)

    def _encode_text(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # Byte-level vocabularies write the blank into the word: the first word gets one too.
        lead = 1 if self._is_byte_level and not text[0].isspace() else 0
        encoding = self.backend.encode(" " + text if lead else text, add_special_tokens=False)
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) - lead
        return np.array(encoding.ids, dtype=np.int64), np.maximum(offsets[:, 0], 0), np.maximum(offsets[:, 1], 0)

    def _insert_alone(
        self, text: str, words: np.ndarray, alone: np.ndarray, ids: np.ndarray, word: np.ndarray, starts: np.ndarray
    ) -> Tokens:
        new_ids: list[int] = []
        counts = np.zeros(len(alone), dtype=np.int64)
        for i, (start, end) in enumerate(words[alone].tolist()):
            pieces = self._encode_word(text[start:end], start == 0 or text[start - 1].isspace())
            new_ids.extend(pieces)
            counts[i] = len(pieces)
        at = np.repeat(np.searchsorted(starts, words[alone, 0], side="left"), counts)
        return Tokens(
            np.insert(ids, at, new_ids).astype(np.int32), np.insert(word, at, np.repeat(alone, counts)).astype(np.int32)
        )

    def _encode_word_uncached(self, surface: str, after_blank: bool) -> tuple[int, ...]:
        """Encode one word by the tokenizer's own stages, without the blank that some put before every string."""
        normalizer, pre_tokenizer = self.backend.normalizer, self.backend.pre_tokenizer
        string = " " + surface if after_blank else surface
        string = normalizer.normalize_str(string) if normalizer is not None else string
        pieces = [p for p, _ in pre_tokenizer.pre_tokenize_str(string)] if pre_tokenizer is not None else [string]
        if pieces and not after_blank and pieces[0][:1] in _WORD_PREFIXES and surface[:1] not in _WORD_PREFIXES:
            pieces[0] = pieces[0][1:]
        ids = tuple(token.id for piece in pieces if piece for token in self.backend.model.tokenize(piece))
        while len(ids) > 1 and ids[0] in self._blank_ids:
            ids = ids[1:]
        return ids or (self.unk_id,)
