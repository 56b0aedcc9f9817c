import pytest
from hypothesis import given
from hypothesis import strategies as st

from longdoc.errors import ConfigError
from longdoc.text.sentences import sentence_words, split_sentences
from longdoc.text.words import split_words
from tests.text.worlds import any_character, texts


@pytest.mark.parametrize("splitter", ["sentencex", "line"])
@given(text=st.one_of(texts(max_pieces=20), st.text(any_character, max_size=60)))
def test_sentences_cover_the_text_without_gaps(splitter, text):
    sentences = split_sentences(text, splitter)
    bounds = [0, *sentences[:, 1].tolist()]
    assert sentences[:, 0].tolist() == bounds[:-1]
    assert bounds[-1] == len(text)
    assert (sentences[:, 0] < sentences[:, 1]).all()


@pytest.mark.parametrize("splitter", ["sentencex", "line"])
def test_nothing(splitter):
    assert split_sentences("", splitter).shape == (0, 2)


@pytest.mark.parametrize(("language", "sentence"), [("en", "The court held it. He left."), ("zh", "今天天气很好。")])
def test_paragraphs_of_a_long_text_are_covered(language, sentence):
    text = f"{sentence}\n\n" * 2_000
    sentences = split_sentences(text, language=language)
    assert sentences[0, 0] == 0
    assert sentences[-1, 1] == len(text)
    assert (sentences[1:, 0] == sentences[:-1, 1]).all()


def test_sentences_without_a_word_are_left_out():
    text = "\none\n \ntwo e\n\u0301x three\n"
    words = split_words(text)
    surfaces = [text[start:end] for start, end in words.tolist()]
    assert [surfaces[i] for i in sentence_words(text, words, "line")] == ["one", "two", "\u0301x"]


def surfaces(text: str, **settings: str) -> list[str]:
    return [text[s:e].strip() for s, e in split_sentences(text, **settings).tolist()]


def test_golden():
    assert surfaces("Dr. Smith came. He left.") == ["Dr. Smith came.", "He left."]
    assert surfaces("今天天气很好。我们走吧。", language="zh") == ["今天天气很好。", "我们走吧。"]
    assert surfaces("one\ntwo\n\nthree", splitter="line") == ["one", "two", "", "three"]


def test_wrong_name():
    with pytest.raises(ConfigError, match="splitter='spacy'"):
        split_sentences("a", "spacy")
