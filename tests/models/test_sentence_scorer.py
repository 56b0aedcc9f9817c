import io
import logging
import pickle
import random

import numpy as np
import pytest
import torch

from longdoc.errors import ConfigError, DataError
from longdoc.models.sentence_scorer import SentenceScorer, build_sentence_scorer
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import Selection
from longdoc.text.windows import Windower
from tests.text.worlds import tokenizer_of

FILLER = ("the", "case", "was", "heard", "and", "closed", "after", "long", "delay", "by", "them")
TELLING = {"good": 2.0, "bad": -2.0}
PLAIN = ("The case was heard.", "It closed after long delay.", "They heard them and closed the case.")


def sentence(rng: random.Random, *words: str) -> str:
    chosen = [*rng.choices(FILLER, k=8), *words]
    rng.shuffle(chosen)
    return " ".join(chosen) + ".\n"


def with_names(seed: int) -> Document:
    """Every other sentence names somebody."""
    rng = random.Random(seed)
    text, spans = "", []
    for i in range(40):
        text += sentence(rng, *(["Mr", "Smith"] if i % 2 else []))
        at = text.find("Smith", spans[-1].end if spans else 0)
        if at >= 0:
            spans.append(Span(at, at + 5, "PER"))
    return Document(f"d{seed}", text, tuple(spans))


def telling(seed: int) -> Document:
    """One sentence in four tells the label and the target."""
    rng = random.Random(seed)
    label = rng.choice(sorted(TELLING))
    text = "".join(sentence(rng, *([label] if i % 4 == 0 else [])) for i in range(20))
    return Document(f"d{seed}", text, labels=(label,), target=TELLING[label])


@pytest.fixture(scope="module")
def names() -> SentenceScorer:
    return build_sentence_scorer([with_names(i) for i in range(40)], "ner", splitter="line")


def test_sentences_with_entities_are_found(names):
    scores = names([*PLAIN, "The case of Mr Smith was heard."])
    assert scores[-1] > 0.9
    assert scores[:-1].max() < 0.1


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_sentences_that_tell_the_label_are_found(task):
    documents = [telling(i) for i in range(100)]
    scorer = build_sentence_scorer(documents, task, sorted(TELLING), splitter="line")
    scores = scorer([*PLAIN, "The case was good and closed.", "Bad was not bad for them."])
    assert scores[-2:].min() > 2 * scores[:-2].max()


def test_a_score_does_not_depend_on_the_other_sentences(names):
    sentences = [with_names(99).text, *PLAIN, "", "Smith", "今天天气很好。", "\ud800 Mr"]
    together = names(sentences)
    assert together.tolist() == [float(names([one])[0]) for one in sentences]
    assert names([]).shape == (0,)


def test_it_comes_out_the_same_and_leaves_the_random_state_alone(names):
    before = torch.get_rng_state()
    again = build_sentence_scorer((with_names(i) for i in range(40)), "ner", splitter="line")
    assert (torch.get_rng_state() == before).all()
    other = build_sentence_scorer([with_names(i) for i in range(40)], "ner", splitter="line", seed=1)
    sentences = with_names(99).text.splitlines()
    assert (again(sentences) == names(sentences)).all()
    assert (other(sentences) != names(sentences)).any()


def test_a_checkpoint_holds_the_scorer(names):
    selection = Selection("cnn", 300, splitter="line")
    preprocessor = Preprocessor(tokenizer_of("scratch"), Windower(), selection=selection, scorer=names)
    file = io.BytesIO()
    torch.save(preprocessor.state(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    document = Document("d", with_names(99).text)
    kept = preprocessor(document).kept
    assert sum("Smith" in document.text[start:end] for start, end in kept.tolist()) >= len(kept) - 1 > 3
    for copy in (
        Preprocessor.from_state(state, SentenceScorer.from_state(state["scorer"])),
        pickle.loads(pickle.dumps(preprocessor)),
    ):
        assert (copy(document).kept == kept).all()
        assert (copy(with_names(99)).kept == kept).all()


def test_more_sentences_than_are_kept_are_sampled_down(caplog, monkeypatch):
    monkeypatch.setattr("longdoc.models.sentence_scorer._MOST_SENTENCES", 50)
    documents = [with_names(i) for i in range(5)]
    with caplog.at_level(logging.INFO):
        build_sentence_scorer(documents, "ner", splitter="line")
    assert "trained on 50 of 200 training sentences" in caplog.text


def test_what_cannot_be_learned_from():
    with pytest.raises(ConfigError, match="task='tagging': expected one of ner"):
        build_sentence_scorer([], "tagging")
    with pytest.raises(DataError, match="expected annotated training documents"):
        build_sentence_scorer([Document("d", "text"), Document("e", " ", ())], "ner")


def test_scores_are_finite_where_all_targets_are_equal():
    documents = [Document("d", "one. two.", labels=("a",), target=3.0)]
    for task in ("classification", "regression"):
        assert np.isfinite(build_sentence_scorer(documents, task, ["a"])(["one", "three"])).all()
