import numpy as np
import pytest

from longdoc.errors import ConfigError, DataError
from longdoc.text.classes import ClassScheme, check_one_label
from longdoc.text.documents import Document

SINGLE = ClassScheme("single_label", ("a", "b", "c"), (1, 1, 1), 3)
MULTI = ClassScheme("multi_label", ("a", "b", "c"), (1, 1, 1), 3)


def documents(*labels: tuple[str, ...] | None) -> list[Document]:
    return [Document(str(i), "text", labels=given) for i, given in enumerate(labels)]


def test_classes_are_read_off_training_documents():
    scheme = ClassScheme.of(documents(("b",), ("a",), None, ("b",)), "single_label")
    assert scheme == ClassScheme("single_label", ("a", "b"), (1, 2), 3)
    # A document without any class is annotated, one without gold is not.
    scheme = ClassScheme.of(documents(("b", "a", "b"), (), None, ("b",)), "multi_label")
    assert scheme == ClassScheme("multi_label", ("a", "b"), (1, 2), 3)


def test_targets_are_standardised_and_come_back():
    targets = [Document(str(i), "text", target=t) for i, t in enumerate((1.0, 5.0, None, 3.0))]
    scheme = ClassScheme.of(targets, "regression")
    assert (scheme.labels, scheme.num_documents, scheme.target_mean) == (("target",), 3, 3.0)
    assert scheme.target_std == pytest.approx((8 / 3) ** 0.5)
    for document in targets:
        row = scheme.encode(scheme.gold(document))
        assert row is None if document.target is None else scheme.target(row[0]) == pytest.approx(document.target)
    assert ClassScheme.of(targets[:1], "regression").target_std == 1.0


def test_gold_in_numbers():
    assert MULTI.encode(("c", "a")).tolist() == [1, 0, 1, 0]
    assert MULTI.encode(()).tolist() == [0, 0, 0, 0]
    assert MULTI.encode(None) is None
    # What the model does not know is counted in a column of its own, and what stands there twice once.
    assert MULTI.encode(("x", "b", "y", "b")).tolist() == [0, 1, 0, 2]
    assert ClassScheme("regression", ("target",), (2,), 2, 10.0, 4.0).encode(12.0).tolist() == [0.5, 0]


def test_numbers_back_in_classes():
    probs = np.array([0.3, 0.6, 0.6])
    assert SINGLE.decode(probs, [0.5] * 3) == ("b",)
    assert MULTI.decode(probs, [0.3, 0.5, 0.7]) == ("b", "a")
    assert MULTI.decode(probs, [0.9] * 3) == ()


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("single_label", [("a",), ("a", "b")], "document '1': expected one label, got 2; .*set task=multi_label"),
        ("single_label", [("a",), ()], "document '1': expected one label, got 0"),
        ("single_label", [("a",), ("a",)], r"at least 2 classes, got \['a'\].*set data.fields.labels=NAME"),
        ("multi_label", [(), ()], r"at least 1 class, got \[\]"),
        ("multi_label", [("a|b",), ("a",)], "class 'a|b' seems to be several; call the column .* 'labels'"),
        ("regression", [("a",)], "expected documents with a target, got none; set data.fields.target=NAME"),
    ],
)
def test_data_that_teaches_no_classes(task, labels, message):
    with pytest.raises(DataError, match=message):
        ClassScheme.of(documents(*labels), task)


@pytest.mark.parametrize("value", [0.1, 5.0, 1 / 3])
def test_equal_targets_have_no_spread(value):
    scheme = ClassScheme.of([Document(str(i), "text", target=value) for i in range(3)], "regression")
    assert (scheme.target_mean, scheme.target_std) == (pytest.approx(value), 1.0)


def test_a_class_may_have_any_name():
    assert ClassScheme.of(documents(("a|b",), ("a", "b")), "multi_label").labels == ("a", "a|b", "b")
    assert ClassScheme.of(documents(("a|b",), ("a",)), "single_label").labels == ("a", "a|b")


def test_refusals():
    with pytest.raises(ConfigError, match="task='ner': expected one of single_label, multi_label, regression"):
        ClassScheme("ner", ("a",), (1,), 1)  # type: ignore[arg-type]
    check_one_label(Document("d", "text"))
    with pytest.raises(DataError, match="document 'd': expected one label, got 2"):
        check_one_label(Document("d", "text", labels=("a", "b")))
