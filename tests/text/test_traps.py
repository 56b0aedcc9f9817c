"""Faults that people reported against tools of this kind, each with its smallest input and the right answer."""

import numpy as np
import pytest

from longdoc.errors import ConfigError
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import EncodedDocument, Preprocessor, window_items
from longdoc.text.stitching import Aggregation, Stitcher, decode_spans
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.text.words import split_words
from tests.text.worlds import TOKENIZERS, oracle_spans, tokenizer_of

SCHEME = TagScheme(("PER", "ORG"))
every_aggregation = pytest.mark.parametrize("aggregation", ["owner", "mean"])
every_kind = pytest.mark.parametrize("kind", TOKENIZERS)


def found(
    text: str, *surfaces: str, windower: Windower, kind: str = "scratch", aggregation: Aggregation = "mean"
) -> list[str]:
    """What an oracle finds of the given names; each must stand in the text once."""
    gold = tuple(Span(text.index(s), text.index(s) + len(s), "PER") for s in surfaces)
    encoded = Preprocessor(tokenizer_of(kind), windower, SCHEME)(Document("d", text, gold))
    assert encoded.lost == ()
    return [text[span.start : span.end] for span in oracle_spans(encoded, SCHEME, aggregation)]


@every_kind
@every_aggregation
def test_a_name_at_word_550_of_600(kind, aggregation):
    text = " ".join("Anna" if i == 550 else "word" for i in range(600))
    assert found(text, "Anna", windower=Windower(128, 32), kind=kind, aggregation=aggregation) == ["Anna"]


def test_an_address_behind_the_first_1500_characters():
    text = ("x " * 950).ljust(1900) + "ann@example.org " + "y" * 84
    assert found(text, "ann@example.org", windower=Windower(64, 16)) == ["ann@example.org"]


def test_overlap_too_big_names_the_largest_legal_one():
    with pytest.raises(ConfigError, match="largest legal overlap is 509"):
        Preprocessor(tokenizer_of("wordpiece"), Windower(512, 510))
    Preprocessor(tokenizer_of("wordpiece"), Windower(512, 509))


def test_windows_are_in_order():
    windows = Windower(40, 20)(np.arange(50), num_special=0)
    assert windows.start.tolist() == [0, 20]
    assert windows.end.tolist() == [40, 50]


def test_all_gold_of_a_long_document_stands_in_the_training_windows():
    text = " ".join(f"Name{i}" if i % 100 == 0 else "word" for i in range(1500))
    gold = tuple(
        Span(text.index(f"Name{i} "), text.index(f"Name{i} ") + len(f"Name{i}"), "PER") for i in range(0, 1500, 100)
    )
    encoded = Preprocessor(tokenizer_of("scratch"), Windower(512, 128), SCHEME)(Document("d", text, gold))
    assert encoded.tags is not None
    learned = {int(word) for w in range(len(encoded.windows)) for word in window_items(encoded, w).word}
    assert learned == set(range(len(encoded.words)))
    assert (encoded.tags > 0).sum() >= 15
    assert encoded.lost == ()


@pytest.mark.parametrize("num_words", [200, 719])
def test_every_word_gets_a_label(num_words):
    encoded = Preprocessor(tokenizer_of("wordpiece"), Windower(128, 32), SCHEME)(Document("d", "word " * num_words, ()))
    stitcher = Stitcher(len(encoded.words), len(SCHEME))
    for w in range(len(encoded.windows)):
        items = window_items(encoded, w)
        stitcher.add(items.word, np.ones((len(items.word), len(SCHEME))), items.context, items.owned)
    assert stitcher.seen.all()
    assert len(stitcher.probs()) == num_words


@every_kind
def test_a_very_long_word_keeps_its_label(kind):
    long = "http://" + "a" * 200
    assert found(f"see {long} John", "see", long, "John", windower=Windower(32, 8), kind=kind) == ["see", long, "John"]


@every_kind
@every_aggregation
def test_three_thousand_characters_without_a_blank(kind, aggregation):
    text = "中" * 1000 + "北京" + "中" * 1998
    encoded = Preprocessor(tokenizer_of(kind), Windower(64, 16), SCHEME)(Document("d", text))
    assert (encoded.windows.end - encoded.windows.start <= 62).all()
    assert len(encoded.words) == 3000
    assert found(text, "北京", windower=Windower(64, 16), kind=kind, aggregation=aggregation) == ["北京"]


@every_kind
@every_aggregation
def test_a_giant_word_is_split_over_windows_and_joined_again(kind, aggregation):
    giant = "ab" * 1500
    assert found(f"see {giant} John", giant, windower=Windower(16, 4), kind=kind, aggregation=aggregation) == [giant]


@pytest.mark.parametrize("overlap", [0, 64])
@every_aggregation
def test_an_entity_across_the_border_is_found_once_and_whole(overlap, aggregation):
    words = [f"w{chr(97 + i % 26)}" for i in range(600)]
    words[126:132] = ["the", "city", "of", "new", "york", "police"]
    text = " ".join(words)
    entity = "the city of new york police"
    assert found(text, entity, windower=Windower(256, overlap), aggregation=aggregation) == [entity]


def one_token_a_word(text: str, windower: Windower) -> EncodedDocument:
    words = split_words(text)
    tokens = np.arange(len(words), dtype=np.int32)
    return EncodedDocument(Document("d", text), words, tokens, tokens, tokens, windower(tokens, 0), None, ())


def said(
    encoded: EncodedDocument, aggregation: Aggregation, tags_of_window: list[dict[int, str]], sure: float
) -> list[str]:
    stitcher = Stitcher(len(encoded.words), len(SCHEME), aggregation)
    for window, tags in enumerate(tags_of_window):
        items = window_items(encoded, window)
        probs = np.full((len(items.word), len(SCHEME)), (1 - sure) / (len(SCHEME) - 1))
        for i, word in enumerate(items.word.tolist()):
            probs[i, SCHEME.tags.index(tags.get(word, "O"))] = sure
        stitcher.add(items.word, probs, items.context, items.owned)
    text = encoded.document.text
    return [f"{s.label} {text[s.start : s.end]}" for s in decode_spans(stitcher.probs(), SCHEME, encoded.words)]


@every_aggregation
def test_the_window_with_more_context_is_believed(aggregation):
    # The first window ends within "New York Bagels" and is sure of a person; the second sees it all.
    text = "they all went to New York Bagels on Monday at noon"
    encoded = one_token_a_word(text, Windower(6, 4))
    assert encoded.windows.start.tolist()[:2] == [0, 2]
    wrong = {4: "B-PER", 5: "E-PER"}
    right = {4: "B-ORG", 5: "I-ORG", 6: "E-ORG"}
    rest = [right] * (len(encoded.windows) - 1)
    assert said(encoded, aggregation, [wrong, *rest], 0.9) == ["ORG New York Bagels"]


@every_aggregation
def test_an_entity_longer_than_the_overlap_comes_back_whole(aggregation):
    text = " ".join(f"w{i:02d}" for i in range(80))
    encoded = one_token_a_word(text, Windower(40, 10))
    tags = {10: "B-ORG", **dict.fromkeys(range(11, 59), "I-ORG"), 59: "E-ORG"}
    assert said(encoded, aggregation, [tags] * len(encoded.windows), 0.9) == [f"ORG {text[40:239]}"]


def test_a_word_in_two_windows_can_weigh_once():
    text = "the man went to the store and bought a gallon of milk"
    encoded = one_token_a_word(text, Windower(6, 3))
    owned = [
        word
        for w in range(len(encoded.windows))
        for word in window_items(encoded, w).word[window_items(encoded, w).owned]
    ]
    assert [int(word) for word in owned] == list(range(12))


@pytest.mark.parametrize("num_words", [1, 5, 10, 11])
def test_a_document_no_longer_than_the_overlap_has_a_window(num_words):
    windows = Windower(40, 10)(np.arange(num_words), num_special=2)
    assert windows.end.tolist() == [num_words]


@pytest.mark.parametrize(
    ("num_tokens", "size", "overlap"), [(600, 510, 0), (600, 510, 255), (511, 510, 101), (199, 40, 10)]
)
def test_no_window_inside_the_one_before_and_no_token_twice(num_tokens, size, overlap):
    windows = Windower(size, overlap)(np.arange(num_tokens), num_special=0)
    assert (np.diff(windows.end) > 0).all()
    assert windows.num_covered == num_tokens
    owned = [t for s, e in zip(windows.own_start, windows.own_end, strict=True) for t in range(s, e)]
    assert owned == list(range(num_tokens))


def test_truncation_is_never_silent():
    text = "word " * 20 + "Anna"
    gold = (Span(len(text) - 4, len(text), "PER"),)
    encoded = Preprocessor(tokenizer_of("scratch"), Windower(12, mode="truncate"), SCHEME)(Document("d", text, gold))
    assert encoded.truncated
    assert [(item.span, item.reason) for item in encoded.lost] == [(gold[0], "truncated")]


def test_a_number_of_many_pieces_is_one_span():
    assert found("total 5.975,74 euro", "5.975,74", windower=Windower(32, 8)) == ["5.975,74"]


def test_tags_that_begin_again_and_again_are_made_legal():
    # B B B B over "5.975,74": legal in IOB2 as four spans, in BIOES no B may follow a B.
    encoded = one_token_a_word("5.975,74", Windower(None))
    assert len(said(encoded, "mean", [dict.fromkeys(range(5), "B-ORG")], 0.6)) <= 3


def test_one_label_a_word_where_a_lone_piece_comes_first():
    for kind in TOKENIZERS:
        encoded = Preprocessor(tokenizer_of(kind), Windower(16, 4))(Document("d", "pencil 0000000000000000 phone"))
        items = [window_items(encoded, w) for w in range(len(encoded.windows))]
        assert np.concatenate([i.word[i.owned] for i in items]).tolist() == [0, 1, 2]


@every_kind
@pytest.mark.parametrize("odd", [" ", "˜", "\u200b", "\ufffd"])
def test_words_without_pieces_shift_nothing(kind, odd):
    assert found(f"hello {odd} hm {odd} Anna", "Anna", windower=Windower(8, 2), kind=kind) == ["Anna"]


def test_sub_words_of_one_word_cannot_disagree():
    text = "Microsoft said"
    encoded = Preprocessor(tokenizer_of("scratch"), Windower(None), SCHEME)(Document("d", text))
    assert len(encoded.token_ids) > len(encoded.words) == 2
    assert window_items(encoded, 0).word.tolist() == [0, 1]


def test_raw_text_is_read_as_it_stands():
    assert split_words("Berlin.").tolist() == [[0, 6], [6, 7]]
    assert split_words("Berlin .").tolist() == [[0, 6], [7, 8]]
