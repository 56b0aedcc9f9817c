"""What stands beside a result."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longdoc.app.baselines import baseline_lines, baselines, linear_score
from longdoc.app.build import build, complete
from longdoc.text.classes import ClassScheme
from longdoc.text.documents import Document
from longdoc.text.selection import Selection
from tests.app.conftest import SMALL

MARKED = {"appeal": "the appeal was heard", "claim": "the claim was heard"}


def score(task: str, train: list, test: list, language: str = "en") -> float:
    """The linear score where a document says its classes or its number; dev is the test."""

    def document(number: int, gold) -> Document:
        if task == "regression":
            return Document(str(number), "much " * int(gold) + "was heard", target=gold)
        return Document(str(number), " ".join(MARKED.get(label, label) for label in gold) or "heard", labels=gold)

    splits = {"train": train, "dev": test, "test": test}
    documents = {name: [document(i, gold) for i, gold in enumerate(split)] for name, split in splits.items()}
    scheme = ClassScheme.of(documents["train"], task)  # type: ignore[arg-type]
    gold = {name: np.stack([scheme.encode(scheme.gold(d)) for d in split]) for name, split in documents.items()}
    return linear_score({name: [d.text for d in split] for name, split in documents.items()}, gold, scheme, language)


A, C = ("appeal",), ("claim",)


def test_a_linear_model_tells_what_words_tell() -> None:
    assert score("single_label", [A, C] * 4, [A, C, C]) == 1.0
    assert score("multi_label", [A, C, (), A + C] * 4, [A, A + C, ()]) == 1.0
    assert score("regression", [1.0, 2.0, 3.0, 4.0] * 3, [1.0, 4.0]) > 0.5
    assert score("single_label", [("原告",), ("被告",)] * 4, [("原告",), ("被告",)], "zh") == 1.0


def test_classes_that_nothing_can_tell() -> None:
    # One that all have, and one that no document of the smaller training data had.
    assert score("multi_label", [A, A], [A, A]) == 1.0
    assert score("multi_label", [A, A + C, A], [A, A + C]) == 1.0
    assert score("multi_label", [A, (), A, ()], [A, (), (*A, "theft")]) == pytest.approx(4 / 5)
    assert score("single_label", [A, C] * 4, [A, ("theft",)]) == 0.5


def test_texts_without_words() -> None:
    assert score("single_label", [("?",), ("!",)] * 4, [("?",), ("!",)]) == 1.0


def test_on_documents_and_on_what_is_selected(class_corpus: Path, composed: Callable, tmp_path: Path) -> None:
    few = [f"data.path={class_corpus}", f"data.cache_dir={tmp_path}", *SMALL, "task=single_label"]
    parts = build(complete(composed(*few, "selection=lead", "selection.budget_tokens=12")))
    found = baselines(parts.module, parts.datamodule, parts.module.preprocessor)
    assert set(found) == {"linear", "linear_selected", "linear_random"}
    assert found["linear"] > 0.7
    whole = replace(parts.module.preprocessor, selection=Selection("lead", budget_ratio=1.0))
    everything = baselines(parts.module, parts.datamodule, whole)
    assert everything["linear_selected"] == everything["linear_random"] == found["linear"]
    assert set(baselines(parts.module, parts.datamodule, replace(whole, selection=None))) == {"linear"}
    lines = baseline_lines(found)
    assert lines[0] == f"TF-IDF and a linear model on the whole text: {found['linear']:.4f}"
    assert len(lines) == 3


def test_the_ceiling_of_selected_entities(corpus: Path, composed: Callable, tmp_path: Path) -> None:
    few = [f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, "trainer.max_epochs=1"]
    parts = build(complete(composed(*few, "selection=lead", "selection.budget_tokens=30")))
    found = baselines(parts.module, parts.datamodule, parts.module.preprocessor)
    inside = num_gold = 0
    for encoded in parts.datamodule.encoded("test"):
        assert encoded.kept is not None
        end = int(encoded.kept[-1, 1])
        inside += sum(span.end <= end for span in encoded.document.spans or ())
        num_gold += len(encoded.document.spans or ())
    assert 0 < found["ceiling"] < 1
    assert found["ceiling"] == pytest.approx(inside / num_gold)
    assert 0 < found["ceiling_random"] < 1
    assert "recall ceiling: entities inside the selected sentences" in baseline_lines(found)[0]
    parts = build(complete(composed(*few)))
    assert baselines(parts.module, parts.datamodule, parts.module.preprocessor) == {}
