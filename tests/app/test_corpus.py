"""The embedded corpus: reproducible, well-formed, and as hard as it says."""

import hashlib
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longdoc.app.corpus import LABELS, LANGUAGES, OUTCOMES, generate
from longdoc.app.corpus.writer import LABEL_OF_TABLE, SPLITS, read_tables, share
from longdoc.errors import ConfigError
from longdoc.text.documents import Document
from longdoc.text.words import split_words

PEOPLE = {"PLAINTIFF", "DEFENDANT", "WITNESS", "COUNSEL", "JUDGE"}
SHAPES = {
    "en": {
        "DATE": r"\d{1,2} [A-Z][a-z]+ \d{4}",
        "AMOUNT": r"£[\d,]+(\.\d\d)?|[\d,]+ pounds",
        "STATUTE": r"(section \d+(\(\d\))? of the )?[A-Z][a-z]+( and [A-Z][a-z]+| \([A-Z][a-z]+\))? Act \d{4}",
        "CASE_NUMBER": r"[A-Z]{2}-\d{4}-\d{4}|[A-Z]{2}/\d+/\d{4}|\d{4} [A-Z]{2} \d+",
        "COURT": r"[A-Z]?[\w, ]*(Court|Registry)[\w, ]*",
    },
    "zh": {
        "DATE": r"\d{4}年\d{1,2}月\d{1,2}日",
        "AMOUNT": r"[\d,.]+万?元",
        "STATUTE": r"《\w+》(第\w+条(第\w款)?)?",
        "CASE_NUMBER": r"（\d{4}）\w\d+民\w\d+号",
        "COURT": r"\w+法院",
    },
}


@pytest.fixture(scope="module", params=sorted(LANGUAGES))
def corpus(request: pytest.FixtureRequest) -> dict[str, list[Document]]:
    return {split: generate(request.param, split, 40, 0) for split in SPLITS}


def language_of(document: Document) -> str:
    return document.id[:2]


def surfaces(documents: list[Document], labels: set[str]) -> set[str]:
    return {d.text[s.start : s.end] for d in documents for s in d.spans or () if s.label in labels}


@pytest.mark.parametrize(("language", "digest"), [("en", "fa411ca9f15704eb"), ("zh", "c4610b22703ea5a8")])
def test_bytes_never_change(language: str, digest: str) -> None:
    documents = [document for split in SPLITS for document in generate(language, split, 4, 7)]
    assert hashlib.sha256(repr(documents).encode()).hexdigest()[:16] == digest


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    assert generate("en", "train", 5, 3)[:2] == generate("en", "train", 2, 3)
    assert generate("en", "train", 2, 3) != generate("en", "train", 2, 4)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(LANGUAGES)), st.sampled_from(SPLITS), st.integers(0, 10**6))
def test_spans_are_what_they_say(language: str, split: str, seed: int) -> None:
    (document,) = generate(language, split, 1, seed)
    words = split_words(document.text)
    starts, ends = set(words[:, 0].tolist()), set(words[:, 1].tolist())
    previous = 0
    for span in document.spans or ():
        surface = document.text[span.start : span.end]
        assert previous <= span.start < span.end <= len(document.text)
        assert span.start in starts, surface
        assert span.end in ends, surface
        assert span.label in LABELS
        assert span.slice in (None, "far")
        if span.label in PEOPLE:
            assert re.fullmatch(r"\w[\w ]*", surface)
        else:
            assert re.fullmatch(SHAPES[language][span.label], surface), surface
        previous = span.end
    assert not re.search(r"[{}\[\]<>#|]|  ", document.text)
    assert document.labels is not None
    assert document.labels[0] in OUTCOMES.values()


def test_lengths(corpus: dict[str, list[Document]]) -> None:
    sizes = [len(split_words(document.text)) for documents in corpus.values() for document in documents]
    assert min(sizes) >= 1000
    assert max(sizes) <= 6000
    assert 1500 <= sum(sizes) / len(sizes) <= 3000


def test_splits_share_no_name_and_no_phrasing(corpus: dict[str, list[Document]]) -> None:
    language = language_of(corpus["train"][0])
    for labels in (PEOPLE, {"COURT"}, {"STATUTE"}, {"CASE_NUMBER"}):
        names = [surfaces(corpus[split], labels) for split in SPLITS]
        assert all(names)
        assert len(set.union(*names)) == sum(map(len, names))
    for name, items in read_tables(language).dealt.items():
        assert len(set(items)) == len(items), f"{name} repeats an item"
        assert sorted(item for split in SPLITS for item in share(items, split)) == sorted(items)
        assert all(share(items, split) for split in SPLITS)


def test_every_table_is_used_and_every_slot_known() -> None:
    for dealt, common in map(read_tables, LANGUAGES):
        named = {
            slot.rstrip("!")
            for items in (*dealt.values(), *common.values())
            for item in items
            for slot in re.findall(r"\{([a-z_]+!?)\}", item)
        } - {"year"}
        known = {*dealt, *common} | {name.partition("_")[0] for name in common}
        assert named <= known
        assert set(LABEL_OF_TABLE) <= known


def test_far_share(corpus: dict[str, list[Document]]) -> None:
    for documents in corpus.values():
        spans = [span for document in documents for span in document.spans or ()]
        far = Counter(span.label for span in spans if span.slice == "far")
        assert 0.10 <= far.total() / len(spans) <= 0.15
        assert set(far) == {"PLAINTIFF", "DEFENDANT", "WITNESS"}
        assert max(far.values()) <= 1.25 * min(far.values())


def test_nothing_near_a_far_mention_tells_the_role(corpus: dict[str, list[Document]]) -> None:
    for document in (document for documents in corpus.values() for document in documents):
        far = [span for span in document.spans or () if span.slice == "far"]
        assert far
        place = {start: number for number, start in enumerate(split_words(document.text)[:, 0].tolist())}
        for surface in {document.text[span.start : span.end] for span in far}:
            inside = [place[span.start] for span in far if document.text[span.start : span.end] == surface]
            all_places = [place[match.start()] for match in re.finditer(re.escape(surface), document.text)]
            assert len(set(all_places)) > len(set(inside)), "the role is told nowhere"
            outside = [number for number in all_places if number not in inside]
            assert max(outside) + 512 < min(inside)


def test_role_words_stay_out_of_far_passages(corpus: dict[str, list[Document]]) -> None:
    cues = re.compile("claimant|plaintiff|defendant|witness|counsel|judge|原告|被告|证人|代理|审判员|法官")
    for document in (document for documents in corpus.values() for document in documents):
        far = [span for span in document.spans or () if span.slice == "far"]
        start = document.text.rindex("\n\n", 0, far[0].start)
        assert not cues.search(document.text[start : far[-1].end])


def test_every_label_and_every_class_occurs(corpus: dict[str, list[Document]]) -> None:
    for documents in corpus.values():
        assert {span.label for document in documents for span in document.spans or ()} == set(LABELS)
    classes = Counter(document.labels for documents in corpus.values() for document in documents)
    assert {label for labels in classes for label in labels or ()} == set(OUTCOMES.values())
    assert min(classes.values()) >= 15


@pytest.mark.parametrize(
    ("language", "split", "num_documents", "word"),
    [("fr", "train", 1, "language"), ("en", "valid", 1, "split"), ("en", "train", -1, "num_documents")],
)
def test_wrong_arguments_are_named(language: str, split: str, num_documents: int, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        generate(language, split, num_documents, 0)
