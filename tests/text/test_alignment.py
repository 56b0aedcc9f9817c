import pytest
from hypothesis import given
from hypothesis import strategies as st

from longdoc.errors import ConfigError, DataError
from longdoc.text.alignment import align, without_overlap, word_spans
from longdoc.text.documents import Document, Span
from longdoc.text.words import split_words
from tests.text.worlds import entity_plans, planned_document, read_lener, texts


def aligned_words(text: str, *bounds: tuple[int, int]) -> list[tuple[int, int] | None]:
    spans = tuple(Span(start, end, "A") for start, end in bounds)
    aligned, lost = align(Document("d", text, spans), split_words(text))
    assert [span for span, _, _ in aligned] + [item.span for item in lost] == sorted(
        spans, key=lambda span: span in [item.span for item in lost]
    )
    assert {item.reason for item in lost} <= {"unalignable"}
    place = {span: (first, stop) for span, first, stop in aligned}
    return [place.get(span) for span in spans]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 2, (0, 1)),
        (3, 7, (1, 2)),
        (3, 9, (1, 4)),
        (0, 9, (0, 4)),
        (7, 8, (2, 3)),
        (3, 6, None),  # ends inside a word
        (4, 7, None),  # begins inside a word
        (2, 7, None),  # begins with a blank
        (0, 3, None),  # ends with a blank
        (2, 3, None),  # nothing but a blank
    ],
)
def test_golden(start, end, expected):
    assert aligned_words("in 2018).", (start, end)) == [expected]


def test_texts_without_words():
    assert aligned_words(" \n", (0, 1)) == [None]
    assert align(Document("d", "in", None), split_words("in")) == ([], [])


@given(texts(max_pieces=20), st.lists(st.tuples(st.integers(0, 80), st.integers(1, 20)), max_size=8))
def test_a_span_is_aligned_exactly_if_its_ends_are_word_ends(text, wanted):
    words = split_words(text)
    starts, ends = words[:, 0].tolist(), words[:, 1].tolist()
    for start, length in wanted:
        if start + length <= len(text):
            (place,) = aligned_words(text, (start, start + length))
            if start in starts and start + length in ends:
                assert place == (starts.index(start), ends.index(start + length) + 1)
            else:
                assert place is None


@given(texts(max_pieces=20), entity_plans)
def test_word_spans_are_never_lost(text, plan):
    document = planned_document(text, plan)
    aligned, lost = align(document, split_words(text))
    assert lost == []
    assert without_overlap(aligned, "error", "d") == (aligned, [])


NESTED = "a b c d e f g"


def kept_and_lost(policy: str, *bounds: tuple[int, int]) -> tuple[list, list]:
    spans = tuple(Span(start, end, "A") for start, end in bounds)
    aligned, _ = align(Document("d", NESTED, spans), split_words(NESTED))
    kept, lost = without_overlap(aligned, policy, "d")  # type: ignore[arg-type]
    assert {item.reason for item in lost} <= {"overlapping"}
    return [(first, stop) for first, stop, _ in word_spans(kept)], [(item.span.start, item.span.end) for item in lost]


def test_outermost_goes_through_the_text():
    assert kept_and_lost("outermost", (0, 3), (2, 7), (6, 7)) == ([(0, 2), (3, 4)], [(2, 7)])
    assert kept_and_lost("outermost", (2, 3), (0, 7), (4, 7)) == ([(0, 4)], [(2, 3), (4, 7)])


def test_longest_first_keeps_the_longest():
    assert kept_and_lost("longest_first", (0, 3), (2, 7), (6, 7)) == ([(1, 4)], [(0, 3), (6, 7)])


def test_equal_lengths_keep_the_first():
    assert kept_and_lost("longest_first", (2, 5), (0, 3)) == ([(0, 2)], [(2, 5)])


def test_overlap_is_an_error_unless_chosen():
    with pytest.raises(DataError, match=r"document 'd': span 2-7 \(A\) overlaps.*outermost or longest_first"):
        kept_and_lost("error", (0, 3), (2, 7))
    assert kept_and_lost("error", (0, 3), (4, 7)) == ([(0, 2), (2, 4)], [])


def test_wrong_policy():
    with pytest.raises(ConfigError, match="overlapping='innermost'"):
        kept_and_lost("innermost", (0, 3))


def test_less_than_half_a_percent_of_real_entities_cannot_be_aligned(shared, record_property):
    for split in ("train", "dev", "test"):
        documents = read_lener(shared("data/lener_br"), split)
        lost = sum(len(align(document, split_words(document.text))[1]) for document in documents)
        total = sum(len(document.spans or ()) for document in documents)
        record_property(split, f"{lost} of {total}")
        print(f"LeNER-Br {split}: {lost} of {total} entities cannot be aligned")
        assert lost < 0.005 * total
