import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longdoc.errors import ConfigError
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import EncodedDocument, Preprocessor, window_items
from longdoc.text.selection import Selection
from longdoc.text.sentences import split_sentences
from longdoc.text.stitching import Aggregation
from longdoc.text.tags import Scheme, TagScheme
from longdoc.text.windows import Windower
from tests.text.worlds import (
    GIANT,
    LENER_LABELS,
    TOKENIZERS,
    entity_plans,
    oracle_spans,
    planned_document,
    read_lener,
    texts,
    tokenizer_of,
)

NUM_SPECIAL = 2
every_kind = pytest.mark.parametrize("kind", TOKENIZERS)
every_aggregation = pytest.mark.parametrize("aggregation", ["owner", "mean"])

LONG_ENTITIES = [(1, 3, "A"), (0, 90, "B"), (2, 1, "A"), (0, 40, "A"), (0, 1, "B"), (0, 120, "B")]
MIXED_SCRIPTS = (
    "\ufeff\t The nai\u0308ve court of São Paulo held in 2018), 今天天气很好。 مُحَمَّد بن سلمان हिन्दी में สวัสดีครับน้ำ "
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\r\n\ud800 ˜ \ufffd zero\u200bwidth AC20150110436469APC 5.975,74 "
)


@st.composite
def windowers(draw: st.DrawFn) -> Windower:
    size = draw(st.integers(8, 64))
    overlap = draw(st.integers(0, size - NUM_SPECIAL - 1))
    return Windower(size, overlap, draw(st.sampled_from(["word", "sentence"])))


def check_oracle(preprocessor: Preprocessor, document: Document, aggregation: Aggregation) -> None:
    encoded = preprocessor(document)
    assert preprocessor.tags is not None
    assert encoded.lost == ()
    assert not encoded.truncated
    found = oracle_spans(encoded, preprocessor.tags, aggregation)
    assert [span.key for span in found] == [span.key for span in document.spans or ()]
    assert all(span.score == pytest.approx(1.0, abs=1e-5) for span in found)


@every_kind
@every_aggregation
@pytest.mark.parametrize("scheme", ["BIOES", "IOB2"])
@settings(max_examples=60)
@given(text=texts(), plan=entity_plans, windower=windowers())
@example(text=MIXED_SCRIPTS * 4, plan=LONG_ENTITIES, windower=Windower(8, 0))
@example(
    text=f"see {GIANT} John {GIANT}今{GIANT} ", plan=[(1, 1, "A"), (0, 2, "B"), (1, 1, "A")], windower=Windower(16, 3)
)
@example(text="", plan=[], windower=Windower(8, 5))
@example(text=" \r\n\u200b", plan=[], windower=Windower(8, 5))
def test_an_oracle_comes_back_whole(
    kind: str, aggregation: Aggregation, scheme: Scheme, text: str, plan: list, windower: Windower
) -> None:
    preprocessor = Preprocessor(tokenizer_of(kind), windower, TagScheme(("A", "B"), scheme))
    check_oracle(preprocessor, planned_document(text, plan), aggregation)


@every_kind
def test_an_oracle_comes_back_whole_at_every_size_and_overlap(kind):
    document = planned_document(
        MIXED_SCRIPTS + MIXED_SCRIPTS[:90], [(2, 1, "A"), (3, 30, "B"), (0, 2, "A"), (1, 4, "A"), (0, 1, "B")]
    )
    scheme = TagScheme(("A", "B"))
    whole = Preprocessor(tokenizer_of(kind), Windower(None), scheme)(document)
    wanted = [span.key for span in document.spans or ()]
    assert len(wanted) == 5
    assert 64 < len(whole.token_ids) < 400
    for size in range(8, 65):
        for overlap in range(size - NUM_SPECIAL):
            windows = Windower(size, overlap)(whole.token_word, NUM_SPECIAL)
            encoded = replace(whole, windows=windows)
            aggregation: Aggregation = "mean" if (size + overlap) % 2 else "owner"
            assert [span.key for span in oracle_spans(encoded, scheme, aggregation)] == wanted, (size, overlap)


@every_kind
@given(text=texts(max_pieces=25), windower=windowers())
def test_items_of_windows(kind, text, windower):
    encoded = Preprocessor(tokenizer_of(kind), windower)(Document("d", text))
    owned = []
    for window in range(len(encoded.windows)):
        items = window_items(encoded, window)
        start = int(encoded.windows.start[window])
        assert (encoded.token_word[start + items.token] == items.word).all()
        assert (encoded.first_token[items.word] == start + items.token).all()
        assert (np.diff(items.word) > 0).all()
        assert (items.context >= 0).all()
        owned += items.word[items.owned].tolist()
    assert owned == list(range(len(encoded.words)))


@given(text=texts(max_pieces=25), plan=entity_plans, windower=windowers())
def test_gold_has_no_influence_on_tokens_and_windows(text, plan, windower):
    preprocessor = Preprocessor(tokenizer_of("scratch"), windower, TagScheme(("A", "B")))
    with_gold, without = preprocessor(planned_document(text, plan)), preprocessor(Document("planned", text))
    assert without.tags is None
    assert with_gold.tags is not None
    for name in ("words", "token_ids", "token_word", "first_token"):
        assert (getattr(with_gold, name) == getattr(without, name)).all()
    assert (with_gold.windows.start == without.windows.start).all()
    assert (with_gold.windows.own_end == without.windows.own_end).all()


@st.composite
def selections(draw: st.DrawFn) -> Selection:
    budget = draw(st.one_of(st.integers(1, 60), st.floats(0.01, 1.0)))
    return Selection(
        draw(st.sampled_from(["lead", "head_tail", "random", "tfidf", "textrank"])),
        budget_tokens=budget if isinstance(budget, int) else None,
        budget_ratio=budget if isinstance(budget, float) else None,
        neighbours=draw(st.integers(0, 2)),
        splitter=draw(st.sampled_from(["sentencex", "line"])),
        seed=draw(st.integers(0, 3)),
    )


def check_kept(encoded: EncodedDocument, whole: EncodedDocument, selection: Selection) -> None:
    """What is read are sentences of the document, whole, in order and within the budget."""
    text, words, read = encoded.document.text, encoded.words, encoded.first_token >= 0
    assert encoded.num_document_tokens == len(whole.token_ids)
    assert len(encoded.token_ids) <= selection.budget(len(whole.token_ids))
    if encoded.kept is None:
        assert (encoded.token_ids == whole.token_ids).all()
        return
    assert len(encoded.token_ids) > 0
    starts = split_sentences(text, selection.splitter)[:, 0]
    sentence = np.searchsorted(starts, words[:, 0], side="right")
    kept_sentences = np.unique(sentence[read])
    bounds = [(words[sentence == s][0, 0], words[sentence == s][-1, 1]) for s in kept_sentences]
    cut = len(bounds) == 1 and encoded.kept[0, 1] < bounds[0][1]
    assert [tuple(row) for row in encoded.kept.tolist()] == ([(bounds[0][0], encoded.kept[0, 1])] if cut else bounds)
    inside = np.zeros(len(words), dtype=bool)
    for start, end in encoded.kept.tolist():
        inside |= (words[:, 0] >= start) & (words[:, 1] <= end)
    assert (read == inside).all()
    ids = whole.token_ids[np.isin(whole.token_word, np.flatnonzero(read))]
    found = encoded.token_ids[encoded.token_word >= 0]
    # A word longer than the budget is the only one that is not read to its end.
    assert len(found) == len(ids) or read.sum() == 1
    assert (found == ids[: len(found)]).all()


@every_kind
@settings(max_examples=60)
@given(text=texts(), plan=entity_plans, windower=windowers(), selection=selections())
@example(
    text="The court met. " * 9 + GIANT, plan=LONG_ENTITIES, windower=Windower(8, 2), selection=Selection("textrank", 7)
)
@example(text=f"{GIANT} a.", plan=[(0, 1, "A"), (0, 1, "B")], windower=Windower(8, 2), selection=Selection("lead", 5))
def test_an_oracle_comes_back_from_what_was_selected(kind, text, plan, windower, selection):
    tokenizer, scheme = tokenizer_of(kind), TagScheme(("A", "B"))
    document = planned_document(text, plan)
    encoded = Preprocessor(tokenizer, windower, scheme, selection=selection)(document)
    check_kept(encoded, Preprocessor(tokenizer, windower, scheme)(document), selection)
    inside = {
        span.key
        for span in document.spans or ()
        if (encoded.first_token[(encoded.words[:, 0] >= span.start) & (encoded.words[:, 1] <= span.end)] >= 0).all()
    }
    assert {item.reason for item in encoded.lost} <= {"not_selected"}
    assert {item.span.key for item in encoded.lost} == {span.key for span in document.spans or ()} - inside
    assert encoded.truncated == (encoded.kept is not None)
    for aggregation in ("owner", "mean"):
        assert {span.key for span in oracle_spans(encoded, scheme, aggregation)} == inside


COURTS = "".join(f"Court number {i} held case {i * 7} open. It met on day {i}. " for i in range(60))


@pytest.mark.parametrize("method", ["random", "tfidf", "textrank"])
def test_gold_has_no_influence_on_what_is_selected(method):
    preprocessor = Preprocessor(
        tokenizer_of("scratch"), Windower(64, 8), TagScheme(("A",)), selection=Selection(method, 100)
    )
    labelled = Document("d", COURTS, (Span(0, 5, "A"), Span(len(COURTS) - 4, len(COURTS) - 2, "A")), ("x",), 0.5)
    with_gold, without = preprocessor(labelled), preprocessor(Document("d", COURTS))
    assert len(without.kept) > 3
    assert (with_gold.kept == without.kept).all()
    assert (with_gold.token_ids == without.token_ids).all()


def test_windows_of_selected_sentences_end_where_sentences_do():
    preprocessor = Preprocessor(
        tokenizer_of("scratch"), Windower(64, 8, border="sentence"), selection=Selection("random", 400)
    )
    encoded = preprocessor(Document("d", COURTS))
    assert encoded.num_document_tokens > 800
    ends = encoded.words[encoded.token_word[encoded.windows.end[:-1]], 0]
    assert len(ends) > 4
    assert np.isin(ends, encoded.kept[:, 0]).all()


def test_no_selection_reads_everything():
    plain = Preprocessor(tokenizer_of("scratch"), Windower(64, 8))
    document = Document("d", COURTS)
    for selection in (Selection("none"), Selection("lead", budget_ratio=1.0), Selection("textrank", 10_000)):
        encoded = replace(plain, selection=selection)(document)
        assert encoded.kept is None
        assert encoded.num_unselected == 0
        assert (encoded.token_ids == plain(document).token_ids).all()


def test_truncation_counts_within_what_was_selected():
    selection = Selection("lead", 150)
    cut = Preprocessor(
        tokenizer_of("scratch"), Windower(32, 0, mode="truncate"), TagScheme(("A",)), selection=selection
    )
    first, late, last = COURTS.index("0"), COURTS.index("case 7"), COURTS.index("day 59")
    spans = (Span(first, first + 1, "A"), Span(late, late + 4, "A"), Span(last, last + 3, "A"))
    encoded = cut(Document("d", COURTS, spans))
    assert encoded.truncated
    assert [(item.span, item.reason) for item in encoded.lost] == [(spans[1], "truncated"), (spans[2], "not_selected")]


def test_a_learned_selection_and_its_scorer_come_together():
    tokenizer = tokenizer_of("scratch")
    with pytest.raises(ConfigError, match="method='cnn' needs a trained scorer"):
        Preprocessor(tokenizer, Windower(), selection=Selection("cnn", 10))
    with pytest.raises(ConfigError, match="no other method takes one"):
        Preprocessor(tokenizer, Windower(), selection=Selection("lead", 10), scorer=len)


def reasons(preprocessor: Preprocessor, text: str, *spans: tuple[int, int, str]) -> list[tuple[int, int, str]]:
    encoded = preprocessor(Document("d", text, tuple(Span(*span) for span in spans)))
    return [(item.span.start, item.span.end, item.reason) for item in encoded.lost]


def test_lost_gold_has_a_reason():
    preprocessor = Preprocessor(tokenizer_of("scratch"), Windower(None), TagScheme(("A",)), "longest_first")
    lost = reasons(
        preprocessor, "in 2018 at court", (0, 2, "A"), (3, 5, "A"), (3, 10, "A"), (8, 10, "A"), (11, 16, "C")
    )
    assert lost == [(3, 5, "unalignable"), (11, 16, "unknown_label"), (8, 10, "overlapping")]


def test_truncation_loses_what_lies_behind_and_what_is_cut():
    preprocessor = Preprocessor(tokenizer_of("scratch"), Windower(7, mode="truncate"), TagScheme(("A",)))
    text = "1 2 3 4 5 6 7 8 9"
    encoded = preprocessor(Document("d", text, (Span(0, 1, "A"), Span(6, 13, "A"), Span(16, 17, "A"))))
    assert encoded.truncated
    assert [(item.span.start, item.reason) for item in encoded.lost] == [(6, "truncated"), (16, "truncated")]
    assert encoded.tags is not None
    assert np.flatnonzero(encoded.tags).tolist() == [0]
    found = oracle_spans(encoded, TagScheme(("A",)), "mean")
    assert [span.key for span in found] == [(0, 1, "A")]


def test_a_document_full_of_truncated_entities_is_encoded_in_seconds():
    text = "7 " * 20_000
    spans = tuple(Span(i, i + 1, "A") for i in range(0, len(text), 2))
    preprocessor = Preprocessor(tokenizer_of("scratch"), Windower(20_000, 0, mode="truncate"), TagScheme(("A",)))
    encoded = preprocessor(Document("d", text, spans))
    assert encoded.tags is not None
    assert len(encoded.lost) == 20_000 - int((encoded.tags > 0).sum())


def test_sentence_borders_are_used():
    text = "The court held it. " * 8
    preprocessor = Preprocessor(tokenizer_of("scratch"), Windower(24, 4, border="sentence"))
    encoded = preprocessor(Document("d", text))
    ends = encoded.windows.end[:-1]
    assert len(ends) > 1
    surfaces = [text[s:e] for s, e in encoded.words[encoded.token_word[ends]].tolist()]
    assert surfaces == ["The"] * len(ends)


def test_a_document_without_words():
    encoded = Preprocessor(tokenizer_of("scratch"), Windower(8, 2), TagScheme(("A",)))(Document("d", " \n", ()))
    assert len(encoded.windows) == len(encoded.words) == 0
    assert encoded.tags is not None
    assert len(encoded.tags) == 0
    assert not encoded.truncated


def test_sizes_are_checked_when_it_is_built():
    with pytest.raises(ConfigError, match="largest legal overlap is 5"):
        Preprocessor(tokenizer_of("scratch"), Windower(8, 6))


@every_kind
def test_state_and_pickle_round_trip(kind):
    preprocessor = Preprocessor(
        tokenizer_of(kind),
        Windower(16, 4, "sentence"),
        TagScheme(("A", "B"), "IOB2"),
        "outermost",
        "pt",
        Selection("random", budget_ratio=0.5, neighbours=1, splitter="line", seed=3),
    )
    document = planned_document(MIXED_SCRIPTS, LONG_ENTITIES)
    expected = preprocessor(document)
    for copy in (Preprocessor.from_state(preprocessor.state()), pickle.loads(pickle.dumps(preprocessor))):
        assert (copy.windower, copy.tags, copy.overlapping, copy.language, copy.selection) == (
            preprocessor.windower, preprocessor.tags, "outermost", "pt", preprocessor.selection,
        )  # fmt: skip
        encoded = copy(document)
        assert (encoded.token_ids == expected.token_ids).all()
        assert (encoded.windows.start == expected.windows.start).all()
        assert (encoded.tags == expected.tags).all()


@every_kind
def test_real_entities_with_every_tokenizer(kind, shared, record_property):
    """What is lost on real judgments depends on words alone, and all the rest comes back through small windows."""
    lost = total = 0
    preprocessor = Preprocessor(tokenizer_of(kind), Windower(128, 32), TagScheme(LENER_LABELS))
    for document in read_lener(shared("data/lener_br"), "test"):
        encoded = preprocessor(document)
        assert preprocessor.tags is not None
        assert {item.reason for item in encoded.lost} <= {"unalignable"}
        missed = {item.span.key for item in encoded.lost}
        found = {span.key for span in oracle_spans(encoded, preprocessor.tags, "mean")}
        assert found == {span.key for span in document.spans or ()} - missed
        total += len(document.spans or ())
        lost += len(missed)
    record_property("lost", f"{lost} of {total}")
    print(f"LeNER-Br test, {kind}: {lost} of {total} entities lost")
    assert total > 1000
    assert lost < 0.005 * total
