"""What a result has to beat: a linear model, and a random choice of sentences at the same budget."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from longdoc.text.classes import ClassScheme
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import UNSPACED_LANGUAGES
from longdoc.training.class_metrics import DEFAULT_THRESHOLD, class_scores
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.data import DocumentDataModule
from longdoc.training.module import DocumentModule

Texts = dict[str, list[str]]


def linear_score(
    texts: Texts, gold: Mapping[str, np.ndarray], scheme: ClassScheme, language: str, seed: int = 0
) -> float:
    """Train a linear model on TF-IDF of words (of two to four signs where words are not spaced), and score it.

    Args:
        texts: Of ``train`` and ``test``.
        gold: As ``ClassScheme.encode`` gives it. *Shape of each:* (num_documents, K + 1).
        scheme: The classes.
        language: ISO 639-1 code.
        seed: Of the solver.
    """
    chars = {"analyzer": "char", "ngram_range": (2, 4)} if language in UNSPACED_LANGUAGES else {"ngram_range": (1, 2)}
    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=200_000, **chars)
    train, width = gold["train"], len(scheme.labels)
    if scheme.task == "regression":
        model = make_pipeline(vectorizer, Ridge()).fit(texts["train"], train[:, 0])
        probs = model.predict(texts["test"])[:, None]
    elif scheme.task == "single_label":
        classifier = LogisticRegression(C=10.0, max_iter=1000, random_state=seed)
        model = make_pipeline(vectorizer, classifier).fit(texts["train"], train.argmax(axis=1))
        probs = np.zeros((len(texts["test"]), width))
        probs[:, model.classes_] = model.predict_proba(texts["test"])
    else:
        each = OneVsRestClassifier(LogisticRegression(C=10.0, max_iter=1000, random_state=seed))
        model = make_pipeline(vectorizer, each).fit(texts["train"], train[:, :-1].astype(int))
        probs = model.predict_proba(texts["test"])
    thresholds = np.full(width, DEFAULT_THRESHOLD)
    return float(class_scores(scheme, probs, gold["test"], thresholds)["score"])


def baselines(
    module: DocumentModule, datamodule: DocumentDataModule, preprocessor: Preprocessor
) -> dict[str, float | int]:
    """Score what stands beside a result.

    Classification: ``linear``, TF-IDF and a linear model on the whole text; where sentences are selected,
    ``linear_selected`` and ``linear_random`` on those and on as many random ones. Tagging with selection: ``ceiling``
    and ``ceiling_random``, the share of gold entities of the test split that the selected or random sentences hold.
    """
    selection = preprocessor.selection
    at_random = None
    if selection is not None:
        at_random = replace(preprocessor, selection=replace(selection, method="random"), scorer=None)
    if not isinstance(module, DocumentClassificationModule):
        if at_random is None:
            return {}
        documents = datamodule.splits["test"]
        return {"ceiling": _ceiling(datamodule.encoded("test")), "ceiling_random": _ceiling(map(at_random, documents))}
    scheme = module.scheme
    annotated = {
        split: [(d, row) for d in datamodule.splits[split] if (row := scheme.encode(scheme.gold(d))) is not None]
        for split in ("train", "test")
    }
    if not all(annotated.values()):
        return {}
    gold = {split: np.stack([row for _, row in rows]) for split, rows in annotated.items()}

    def score(read: Preprocessor | None) -> float:
        texts = {split: [_text(read, d) for d, _ in rows] for split, rows in annotated.items()}
        return linear_score(texts, gold, scheme, preprocessor.language)

    found: dict[str, float | int] = {"linear": score(None)}
    if at_random is not None:
        found |= {"linear_selected": score(preprocessor), "linear_random": score(at_random)}
    return found


def _text(read: Preprocessor | None, document: Any) -> str:
    """What is read of a document."""
    if read is None:
        return document.text
    kept = read(document).kept
    return document.text if kept is None else "\n".join(document.text[start:end] for start, end in kept.tolist())


def _ceiling(encoded_documents: Iterable[Any]) -> float:
    num_gold = num_lost = 0
    for encoded in encoded_documents:
        num_gold += len(encoded.document.spans or ())
        num_lost += sum(lost.reason == "not_selected" for lost in encoded.lost)
    return 1 - num_lost / num_gold if num_gold else 1.0


def baseline_lines(found: Mapping[str, float | int]) -> list[str]:
    """Say what stands beside the result, a line each."""
    names = {
        "linear": "TF-IDF and a linear model on the whole text",
        "linear_selected": "the same on the selected sentences",
        "linear_random": "the same on random sentences, equal budget",
        "ceiling": "recall ceiling: entities inside the selected sentences",
        "ceiling_random": "recall ceiling of random sentences, equal budget",
    }
    return [f"{names[name]}: {value:.4f}" for name, value in found.items()]
