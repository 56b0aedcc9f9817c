"""What a tokenizer says of token ids, whichever library it comes from."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import lightning as L
import numpy as np

from longdoc.errors import ConfigError
from longdoc.text.tokens import WordTokenizer
from longdoc.text.words import split_words

_PLACES = ("tokenizer", "preprocessor.tokenizer")
_STARTS = ("▁", "Ġ")


def find_vocabulary(trainer: L.Trainer, pl_module: L.LightningModule, path: str | None = None) -> "Vocabulary | None":
    """Find the vocabulary of a project, None where it has no tokenizer.

    Args:
        trainer: Its datamodule is looked at too.
        pl_module: The module.
        path: Dotted name of a tokenizer in either; None looks at ``tokenizer`` and ``preprocessor.tokenizer``.
    """
    for owner in (pl_module, getattr(trainer, "datamodule", None)):
        for place in _PLACES if path is None else (path,):
            found: Any = owner
            for name in place.split("."):
                found = getattr(found, name, None)
            if isinstance(found, WordTokenizer) or hasattr(found, "all_special_ids"):
                return Vocabulary(found)
            if found is not None and path is not None:
                raise ConfigError(
                    f"tokenizer={path!r}: expected a tokenizer of transformers, got {type(found).__name__}"
                )
    if path is not None:
        raise ConfigError(f"tokenizer={path!r}: neither module nor datamodule has such an attribute")
    return None


class Vocabulary:
    """The pieces of a tokenizer.

    Args:
        tokenizer: Of transformers, or longdoc's own.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if isinstance(tokenizer, WordTokenizer):
            self.unk_id: int | None = tokenizer.unk_id
            self.special_ids = {*tokenizer.prefix_ids, *tokenizer.suffix_ids, tokenizer.pad_id} - {self.unk_id}
            self._pieces = tokenizer.backend.get_vocab()
        else:
            self.unk_id = tokenizer.unk_token_id
            self.special_ids = set(tokenizer.all_special_ids) - {self.unk_id}
            self._pieces = tokenizer.get_vocab()

    @cached_property
    def starts_word(self) -> np.ndarray:
        """Whether each id begins a word, as its piece is written; special tokens do not. *Shape:* (num_ids,)."""
        inside = any(piece.startswith("##") for piece in self._pieces)
        table = np.zeros(max(self._pieces.values(), default=-1) + 1, dtype=bool)
        for piece, i in self._pieces.items():
            table[i] = not piece.startswith("##") if inside else piece.startswith(_STARTS)
        table[sorted(self.special_ids)] = False
        return table

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with special tokens and not cut."""
        if isinstance(self.tokenizer, WordTokenizer):
            ids = self.tokenizer(text, split_words(text)).ids.tolist()
            return [*self.tokenizer.prefix_ids, *ids, *self.tokenizer.suffix_ids]
        return self.tokenizer(text, truncation=False, verbose=False)["input_ids"]

    def shown(self, ids: Sequence[int]) -> list[str]:
        """Each id as a reader sees it."""
        decoder = self.tokenizer.backend if isinstance(self.tokenizer, WordTokenizer) else self.tokenizer
        pieces = [decoder.decode([i], skip_special_tokens=False).replace("▁", " ") for i in ids]
        return [" ".join(piece.split()) or "␣" for piece in pieces]
