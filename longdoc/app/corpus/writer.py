"""A small template language: tables of phrasings in, text with spans out.

In a template ``[a|b]`` is a choice, ``{table}`` an item of a table, ``{table!}`` one with a capital, ``{1-28}`` a number,
``{,1000-9000}`` one with commas, ``{0001-9999}`` one with leading zeros, ``{X}`` a person and ``{X.full}`` their full name. What
stands before ``#`` is written but is not part of the entity; the short form of a name stands between ``<`` and ``>``.
"""

import random
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import NamedTuple

SPLITS = ("train", "dev", "test")
LABEL_OF_TABLE = {"date": "DATE", "amount": "AMOUNT", "statute": "STATUTE", "court": "COURT", "number": "CASE_NUMBER"}
YEARS = (1990, 2021)

_DEAL = ("train", "train", "test", "train", "dev", "train", "test", "train")
_LONGEST_DECK = 200
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{([^{}]+)\}")
_NUMBER = re.compile(r"(,?)(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that is one entity (``label``) or none."""

    text: str
    label: str | None = None
    slice: str | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody named in a document: ``Alice Hartley`` in full, ``Ms Hartley`` for short."""

    full: str
    short: str
    title: str
    label: str | None


class Tables(NamedTuple):
    """What each name in a template may stand for: dealt out to the splits item by item, or whole for every split."""

    dealt: dict[str, tuple[str, ...]]
    common: dict[str, tuple[str, ...]]


@cache
def read_tables(language: str) -> Tables:
    """Read ``en.toml`` or ``zh.toml``: a list is a table as it stands, a string holds single words.

    Tables under ``joined`` are dealt out, too: every way to put their parts together.
    """
    sections = tomllib.loads(files(__package__).joinpath(f"{language}.toml").read_text("utf-8"))
    parts, dealt, common = (
        {name: tuple(items.split() if isinstance(items, str) else items) for name, items in sections[kind].items()}
        for kind in ("parts", "dealt", "common")
    )
    for name, ways in sections["joined"].items():
        dealt[name] = tuple("".join(one) for way in ways for one in product(*(parts[part] for part in way)))
    return Tables(dealt, common)


def share(items: Sequence[str], split: str) -> tuple[str, ...]:
    """The items of a table that one split may use: 5 of 8 for train, 1 for dev, 2 for test, none twice."""
    return tuple(item for place, item in enumerate(items) if _DEAL[place % len(_DEAL)] == split)


class Writer:
    """Fills templates for one document.

    Args:
        tables: What each name in a template may stand for.
        rng: Source of every choice.
    """

    def __init__(self, tables: dict[str, tuple[str, ...]], rng: random.Random):
        self.rng = rng
        self._tables = tables
        self._decks: dict[str, list[str]] = {}
        self._names: set[str] = set()
        self._titled = rng.random() < 0.5
        self.year = rng.randrange(*YEARS)
        self.ours: dict[str, list[str]] = {}

    def draw(self, table: str) -> str:
        """An item of a table; of a short one, none comes twice before all have come once."""
        if len(self._tables[table]) > _LONGEST_DECK:
            return self.rng.choice(self._tables[table])
        deck = self._decks.setdefault(table, [])
        if not deck:
            deck.extend(self._tables[table])
            self.rng.shuffle(deck)
        return deck.pop()

    def unfold(self, template: str) -> str:
        """Make the choices of a template, but for who and what are its entities."""
        template = _CHOICE.sub(lambda match: self.rng.choice(match[1].split("|")), template)
        return _SLOT.sub(lambda match: self._fill(match[1]), template)

    def person(self, table: str, label: str | None) -> Person:
        """Somebody new: no name of a document begins with another."""
        while True:
            title, _, name = self.unfold(self.draw(table)).rpartition("#")
            short = name[name.index("<") + 1 : name.index(">")]
            if not any(short.startswith(other) or other.startswith(short) for other in self._names):
                self._names.add(short)
                return Person(name.replace("<", "").replace(">", ""), short, title if self._titled else "", label)

    def write(
        self, template: str, people: dict[str, Person], *, ours: bool = True, person_slice: str | None = None
    ) -> list[Piece]:
        """Fill a template and keep the entities apart from the text around them.

        Args:
            template: What to write.
            people: Who the letters of the template stand for.
            ours: Whether the text is about this case; entities of other cases have no label.
            person_slice: Slice of the names of people.
        """
        pieces: list[Piece] = []
        for place, part in enumerate(_SLOT.split(self.unfold(template))):
            if place % 2 == 0:
                pieces.append(Piece(part))
            elif part in LABEL_OF_TABLE:
                pieces += self._entity(part, ours)
            else:
                name, _, form = part.partition(".")
                person = people[name]
                pieces.append(Piece("" if form else person.title))
                pieces.append(Piece(person.full if form == "full" else person.short, person.label, person_slice))
        return [piece for piece in pieces if piece.text]

    def _entity(self, table: str, ours: bool) -> list[Piece]:
        """One of the courts, statutes and numbers of this case where it has such, else a new one."""
        known = self.ours.get(table) if ours else None
        before, _, text = (self.rng.choice(known) if known else self.unfold(self.draw(table))).rpartition("#")
        return [Piece(before), Piece(text, LABEL_OF_TABLE[table] if ours else None)]

    def _fill(self, slot: str) -> str:
        if slot in LABEL_OF_TABLE or slot[0].isupper():
            return f"{{{slot}}}"
        if slot == "year":
            return str(self.year + self.rng.randrange(3))
        if (match := _NUMBER.fullmatch(slot)) is not None:
            number = self.rng.randrange(int(match[2]), int(match[3]) + 1)
            if match[1]:
                return f"{number:,}"
            return f"{number:0{len(match[2])}d}" if match[2].startswith("0") else str(number)
        if slot[-1] == "!":
            filled = self.unfold(self.draw(slot[:-1]))
            return filled[0].upper() + filled[1:]
        return self.unfold(self.draw(slot))
