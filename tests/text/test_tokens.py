import json
import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from longdoc.errors import ConfigError
from longdoc.text.tokens import WordTokenizer
from longdoc.text.words import split_words
from tests.text.worlds import FRAGMENTS, GIANT, TOKENIZERS, any_character, texts, tokenizer_of

every_kind = pytest.mark.parametrize("kind", TOKENIZERS)


def pieces_of_words(tokenizer: WordTokenizer, text: str) -> list[list[str]]:
    words = split_words(text)
    tokens = tokenizer(text, words)
    found: list[list[str]] = [[] for _ in words]
    for token, word in zip(tokens.ids.tolist(), tokens.word.tolist(), strict=True):
        if word >= 0:
            found[word].append(tokenizer.backend.id_to_token(token))
    return found


def check(tokenizer: WordTokenizer, text: str) -> None:
    words = split_words(text)
    tokens = tokenizer(text, words)
    assert tokens.ids.dtype == tokens.word.dtype == np.int32
    assert len(tokens.ids) == len(tokens.word) == len(tokens)
    assert ((tokens.ids >= 0) & (tokens.ids < tokenizer.vocab_size)).all()
    own = tokens.word[tokens.word >= 0]
    assert (np.diff(own) >= 0).all()
    assert np.unique(own).tolist() == list(range(len(words)))


@every_kind
@given(text=st.one_of(texts(), st.text(any_character, max_size=40)))
@example(text="".join(FRAGMENTS))
@example(text=GIANT + "今" + GIANT)
@example(text="\ud800")
@example(text="\u0301\u200b\u0301")
def test_every_word_has_tokens_in_order(kind, text):
    check(tokenizer_of(kind), text)


@every_kind
@given(before=texts(max_pieces=4), after=texts(max_pieces=4))
def test_a_word_far_away_changes_nothing(kind, before, after):
    # No token mixes words: what stands behind a line and a dash leaves the tokens before it as they are.
    tokenizer = tokenizer_of(kind)
    alone, both = before + " \n- ", before + " \n- " + after
    num_words = len(split_words(alone))
    assert pieces_of_words(tokenizer, both)[:num_words] == pieces_of_words(tokenizer, alone)


def mixing_tokenizer() -> WordTokenizer:
    vocabulary = {token: i for i, token in enumerate(["<unk>", "▁", "2017,", "▁2017", "2017", ",", "▁in", "x"])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    return WordTokenizer(backend, unk_id=0, pad_id=0)


def test_a_token_that_mixes_words_is_encoded_in_parts():
    assert pieces_of_words(mixing_tokenizer(), "2017, in") == [["▁2017"], [","], ["▁in"]]
    assert pieces_of_words(mixing_tokenizer(), "in 2017,x") == [["<unk>"], ["▁2017"], [","], ["x"]]


def test_offsets_after_accents_and_special_tokens_written_as_text():
    text = "A, naïve [MASK] AllenNLP sentence."
    expected = ["A", ",", "naïve", "[", "MASK", "]", "AllenNLP", "sentence", "."]
    assert [text[s:e] for s, e in split_words(text).tolist()] == expected
    for kind in TOKENIZERS:
        check(tokenizer_of(kind), text)
    plain = [["".join(word).replace("##", "") for word in pieces_of_words(tokenizer_of("wordpiece"), text)]]
    assert plain[0][2] == "naive"


def test_three_bytes_of_one_character_belong_to_one_word():
    found = pieces_of_words(tokenizer_of("byte_level"), "i ⭢ j")
    assert [len(word) for word in found][1] >= 1
    assert "".join(found[1]).lstrip("Ġ") == "âŃ¢"


@every_kind
@pytest.mark.parametrize("written", ["[MASK]", "[SEP]", "</s>", "<s>", "<pad>", "<unk>"])
def test_special_tokens_written_in_a_text_are_text(kind, written):
    tokenizer = tokenizer_of(kind)
    special = set(tokenizer.prefix_ids + tokenizer.suffix_ids)
    text = f"see {written} here"
    tokens = tokenizer(text, split_words(text))
    assert not special & set(tokens.ids.tolist())
    assert not special & set(tokenizer(written, split_words(written)).ids.tolist())


@every_kind
def test_cjk_has_a_token_for_every_character(kind):
    tokenizer = tokenizer_of(kind)
    assert [len(word) > 0 for word in pieces_of_words(tokenizer, "今天天气很好")] == [True] * 6


@every_kind
@pytest.mark.parametrize("word", ["˜", "\u200b", "\ufffd", "\ud800\udc00", "\U0001f9d1", "\ue000", "\u0301"])
def test_a_word_without_pieces_does_not_shift_the_others(kind, word):
    tokenizer = tokenizer_of(kind)
    with_it = pieces_of_words(tokenizer, f"hello {word} court")
    without = pieces_of_words(tokenizer, "hello court")
    assert with_it[0] == without[0]
    assert with_it[-1] == without[-1]
    assert all(with_it)


def test_a_normaliser_that_deletes_characters():
    backend = Tokenizer.from_str(tokenizer_of("wordpiece").backend.to_str())
    backend.normalizer = normalizers.Sequence([normalizers.Replace("e", ""), normalizers.Replace(",", "")])
    tokenizer = WordTokenizer(backend, unk_id=1, pad_id=0)
    found = pieces_of_words(tokenizer, "the, e held")
    assert found[1:3] == [["[UNK]"], ["[UNK]"]]
    assert "".join(found[0]).replace("##", "") == "th"
    assert "".join(found[3]).replace("##", "") == "hld"


def test_a_normaliser_that_adds_and_joins_characters():
    backend = Tokenizer.from_str(tokenizer_of("wordpiece").backend.to_str())
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace("a", "aaa"), normalizers.Strip()]
    )
    for fragment in FRAGMENTS:
        check(WordTokenizer(backend, unk_id=1, pad_id=0), f"  {fragment} a ﬁn ")


def test_truncation_and_padding_of_the_tokenizer_file_are_switched_off():
    backend = Tokenizer.from_str(tokenizer_of("wordpiece").backend.to_str())
    backend.enable_truncation(8)
    backend.enable_padding(length=64, pad_id=0, pad_token="[PAD]")
    tokenizer = WordTokenizer(backend, unk_id=1, pad_id=0)
    text = "the court held that " * 20
    assert pieces_of_words(tokenizer, text) == pieces_of_words(tokenizer_of("wordpiece"), text)
    assert backend.truncation is not None, "the tokenizer that was given must stay as it was"


def test_special_tokens_around_a_window():
    assert tokenizer_of("wordpiece").prefix_ids == (2,)
    assert tokenizer_of("wordpiece").suffix_ids == (3,)
    assert tokenizer_of("byte_level").num_special == 2
    backend = Tokenizer.from_str(tokenizer_of("wordpiece").backend.to_str())
    state = json.loads(backend.to_str())
    state["post_processor"] = None
    assert WordTokenizer(Tokenizer.from_str(json.dumps(state)), 1, 0).num_special == 0


@every_kind
def test_pickle_and_state_round_trip(kind):
    tokenizer = tokenizer_of(kind)
    text = " ".join(FRAGMENTS)
    words = split_words(text)
    expected = tokenizer(text, words)
    for copy in (
        pickle.loads(pickle.dumps(tokenizer)),
        WordTokenizer.from_state(json.loads(json.dumps(tokenizer.state()))),
    ):
        assert copy(text, words).ids.tolist() == expected.ids.tolist()
        assert copy(text, words).word.tolist() == expected.word.tolist()
        assert (copy.unk_id, copy.pad_id, copy.prefix_ids) == (tokenizer.unk_id, tokenizer.pad_id, tokenizer.prefix_ids)


@pytest.mark.parametrize(("unk_id", "pad_id"), [(-1, 0), (0, 10**6)])
def test_ids_outside_the_vocabulary_are_refused(unk_id, pad_id):
    with pytest.raises(ConfigError, match="vocabulary"):
        WordTokenizer(tokenizer_of("wordpiece").backend, unk_id, pad_id)


@every_kind
def test_giant_word(kind):
    found = pieces_of_words(tokenizer_of(kind), f"see {GIANT} John")
    assert len(found) == 3
    assert all(found)


@every_kind
def test_byte_order_mark_and_leading_blanks(kind):
    tokenizer = tokenizer_of(kind)
    plain = pieces_of_words(tokenizer, " The court")
    assert pieces_of_words(tokenizer, "\n\t The court") == plain
    assert [word[-1] for word in pieces_of_words(tokenizer, "\ufeffThe court")][1] == plain[1][-1]


def test_the_first_word_of_a_byte_level_text_is_read_like_any_other():
    tokenizer = tokenizer_of("byte_level")
    assert pieces_of_words(tokenizer, "court court") == [["Ġcourt"], ["Ġcourt"]]
