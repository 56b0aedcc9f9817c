"""The plot of a judgment: who is in it, what is said where, and which mentions are far."""

from collections.abc import Sequence

from longdoc.app.corpus.writer import YEARS, Person, Piece, Writer
from longdoc.text.documents import Document, Span
from longdoc.text.words import split_words

# At least this many words lie between a far mention and any passage that tells the role of the person named.
FAR_WORDS = 540
FAR_SHARE = 0.125

OUTCOMES = {
    (True, True): "both_allowed",
    (True, False): "claim_allowed",
    (False, True): "counterclaim_allowed",
    (False, False): "both_dismissed",
}

# Role: table of names, label, how many.
_CAST = {
    "P": ("party", "PLAINTIFF", 2),
    "D": ("party", "DEFENDANT", 2),
    "W": ("person", "WITNESS", 4),
    "C": ("person", "COUNSEL", 4),
    "J": ("person", "JUDGE", 3),
}
_SPEAKERS = {"claimant": "P", "defendant": "D", "witness": "W", "counsel": "C", "judge": "J"}
_WORDS = ("says", "tells", "tells")
_OPENINGS = {
    **dict.fromkeys(("claimant", "defendant"), ("role_opens",)),
    **{kind: ("role_opens", "named", f"{kind}_opens") for kind in ("witness", "counsel", "judge")},
    **{kind: (f"{kind}_opens",) for kind in ("authority", "procedure")},
}
_BODIES = {
    **dict.fromkeys(_SPEAKERS, (*_WORDS, *["role_tells"] * 4)),
    "authority": (*_WORDS, *["authority_tells"] * 3, "steps", "steps"),
    "procedure": ("steps",),
}

# Most judgments are short, a few long.
_EXTRA_PARAGRAPHS = (0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 9, 12, 16, 24)

Paragraph = list[list[Piece]]  # sentences


def _num_words(paragraph: Paragraph) -> int:
    """How many words a paragraph has, a little less than the tokens of any tokenizer."""
    return len(split_words("".join(piece.text for sentence in paragraph for piece in sentence)))


class Judgment:
    """Writes one judgment.

    Args:
        writer: Phrasings of one language and split.
        space: What stands between two sentences.
        numbering: What stands before a paragraph, with the number in braces.
    """

    def __init__(self, writer: Writer, space: str, numbering: str):
        self.writer, self.rng = writer, writer.rng
        self.space, self.numbering = space, numbering
        self.cast = {role: [writer.person(table, label) for _ in range(size)] for role, (table, label, size) in _CAST.items()}
        self.everybody = {f"{role}{place}": who for role, people in self.cast.items() for place, who in enumerate(people)}
        for table, size in (("court", 2), ("number", 2), ("statute", 3)):
            writer.ours[table] = [writer.unfold(writer.draw(table)) for _ in range(size)]
        self.far_cast = [self.rng.choice(self.cast[role]) for role in "PDW"]

    def write(self, document_id: str) -> Document:
        """Plan the paragraphs, then set them one after the other.

        The people of the far mentions are named with their roles in the ``early`` zone, in the ``far`` zone, and nowhere else.
        """
        claim, counterclaim = self.rng.random() < 0.5, self.rng.random() < 0.5
        num_extra = self.rng.choice(_EXTRA_PARAGRAPHS)
        zones: dict[str, list[Paragraph]] = {
            "early": [
                [self._sentence("introduces"), *self._introductions("claimant"), *self._introductions("defendant")],
                self._introductions("witness"),
                *(self._paragraph() for _ in range(2 + num_extra // 3)),
                self._finding("claim", claim),
            ],
            "middle": [],
            "far": [],
            "late": [self._paragraph(self.far_cast) for _ in range(1 + num_extra - num_extra // 3)],
            "end": [self._finding("counterclaim", counterclaim), [self._sentence("closes")]],
        }
        while sum(map(_num_words, zones["middle"])) < FAR_WORDS:
            zones["middle"].append(self._paragraph(self.far_cast))
        caption, signature = self._sentence("caption", self.everybody), self._sentence("signature", self.everybody)
        near = [caption, signature, *(sentence for zone in zones.values() for paragraph in zone for sentence in paragraph)]
        num_near = sum(piece.label is not None for sentence in near for piece in sentence)
        zones["far"] = self._far_paragraphs(round(num_near * FAR_SHARE / (1 - FAR_SHARE)))
        return _document(document_id, self._set(caption, zones, signature), OUTCOMES[claim, counterclaim])

    def _paragraph(self, hidden: Sequence[Person] = ()) -> Paragraph:
        """One or two scenes; the hidden are not named."""
        return [sentence for _ in range(self.rng.choice((1, 1, 1, 2))) for sentence in self._scene(hidden)]

    def _scene(self, hidden: Sequence[Person]) -> Paragraph:
        """An opening that says whose words or which case follows, then a few sentences, some of which say it again."""
        kind = self.writer.draw("scene")
        ours, year = kind != "authority", self.writer.year
        if ours:
            hidden = (*hidden, self.cast["J"][0])  # who writes the judgment does not quote himself
            people = [who for who in self.cast.get(_SPEAKERS.get(kind, ""), []) if who not in hidden]
        else:
            self.writer.year = self.rng.randrange(*YEARS)
            people = [self.writer.person("party", None) for _ in range(2)]
        scene = [self._told(kind, self.rng.choice(_OPENINGS[kind]), self._bind(people))]
        if self.rng.random() < 0.3:
            scene.append(self._sentence(self.rng.choice(("asides", "remark"))))
        for _ in range(self.rng.randrange(2, 5)):
            scene.append(self._told(kind, self.rng.choice(_BODIES[kind]), self._bind(people)))
            if self.rng.random() < 0.15:
                scene.append(self._sentence(self.rng.choice(("asides", "remark"))))
        self.writer.year = year
        return scene

    def _introductions(self, kind: str) -> Paragraph:
        """Name everybody who has a role, two in a sentence."""
        names = list(self._bind(self.cast[_SPEAKERS[kind]], "ABCD").values())
        pairs = zip(names[::2], names[1::2], strict=True)
        return [self._told(kind, "named", self._bind(pair)) for pair in pairs]

    def _told(self, kind: str, table: str, people: dict[str, Person]) -> list[Piece]:
        """A sentence that may say whose words these are."""
        template = self.writer.draw(table).replace("{who", f"{{who_{kind}").replace("{them", f"{{them_{kind}")
        return self.writer.write(template, people, ours=kind != "authority")

    def _finding(self, matter: str, allowed: bool) -> Paragraph:
        """Say three times what becomes of the claim or of the counterclaim."""
        templates = [self.writer.draw("finding").replace("{matter", f"{{matter_{matter}") for _ in range(3)]
        return [self.writer.write(template.replace("{so", f"{{so_{allowed}"), {}) for template in templates]

    def _far_paragraphs(self, num_mentions: int) -> list[Paragraph]:
        """Sentences about people whose roles were told at the beginning of the judgment only."""
        paragraphs: list[Paragraph] = []
        turns: list[Person] = []
        while num_mentions > 0:
            paragraph = [self._sentence("far_opens")]
            for _ in range(self.rng.randrange(3, 6)):
                table = self.rng.choice((*_WORDS, "meets", "meets"))
                turns = turns or list(self._bind(self.far_cast).values())
                first = turns.pop()
                people = {"X": first, **self._bind([who for who in self.far_cast if who is not first], "YZ")}
                paragraph.append(self._sentence(table, people, "far"))
            num_mentions -= sum(piece.slice == "far" for sentence in paragraph for piece in sentence)
            paragraphs.append(paragraph)
        return paragraphs

    def _bind(self, people: Sequence[Person], letters: str = "XYZ") -> dict[str, Person]:
        """Who the letters stand for in the next sentence."""
        people = list(people)
        self.rng.shuffle(people)
        return dict(zip(letters, people, strict=False))

    def _sentence(
        self, table: str, people: dict[str, Person] | None = None, person_slice: str | None = None
    ) -> list[Piece]:
        return self.writer.write(self.writer.draw(table), people or {}, person_slice=person_slice)

    def _set(self, caption: list[Piece], zones: dict[str, list[Paragraph]], signature: list[Piece]) -> list[Piece]:
        """Number the paragraphs and put headings over the zones."""
        pieces = [*caption]
        number = 0
        for zone, paragraphs in zones.items():
            pieces.append(Piece(f"\n\n{self.writer.draw('heading_' + zone)}"))
            for paragraph in paragraphs:
                number += 1
                lead = "\n\n" + self.numbering.format(number)
                for sentence in paragraph:
                    pieces += [Piece(lead), *sentence]
                    lead = self.space
        return [*pieces, Piece("\n\n"), *signature, Piece("\n")]


def _document(document_id: str, pieces: list[Piece], outcome: str) -> Document:
    """Join pieces into a text; the labelled ones become its spans."""
    spans: list[Span] = []
    offset = 0
    for piece in pieces:
        end = offset + len(piece.text)
        if piece.label is not None:
            spans.append(Span(offset, end, piece.label, slice=piece.slice))
        offset = end
    return Document(document_id, "".join(piece.text for piece in pieces), tuple(spans), (outcome,))
