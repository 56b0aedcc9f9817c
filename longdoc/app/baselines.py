"""What a result has to beat: a linear model, and a random choice of sentences at the same budget."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from longdoc.text.classes import ClassScheme
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import UNSPACED_LANGUAGES
from longdoc.training.class_metrics import class_scores, tuned_thresholds
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.data import DocumentDataModule
from longdoc.training.module import DocumentModule

log = logging.getLogger(__name__)

Texts = dict[str, list[str]]


def linear_score(
    texts: Texts, gold: Mapping[str, np.ndarray], scheme: ClassScheme, language: str, seed: int = 0
) -> float:
    """Train a linear model on TF-IDF of words (of two to four signs where words are not spaced), and score it.

    As in a model, the thresholds of several labels are tuned on dev.

    Args:
        texts: Of ``train``, ``dev`` and ``test``.
        gold: As ``ClassScheme.encode`` gives it. *Shape of each:* (num_documents, K + 1).
        scheme: The classes.
        language: ISO 639-1 code.
        seed: Of the solver.
    """
    has_words = any(re.search(r"\w\w", text) for text in texts["train"])
    terms = {"analyzer": "char", "ngram_range": (2 if has_words else 1, 4)}
    if has_words and language not in UNSPACED_LANGUAGES:
        terms = {"ngram_range": (1, 2)}
    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=200_000, **terms).fit(texts["train"])
    features = {split: vectorizer.transform(of_split) for split, of_split in texts.items()}
    probs = {split: np.zeros((features[split].shape[0], len(scheme.labels))) for split in ("dev", "test")}
    classifier = LogisticRegression(C=10.0, max_iter=1000, random_state=seed)
    train = gold["train"]
    if scheme.task == "regression":
        model = Ridge().fit(features["train"], train[:, 0])
        probs["test"][:, 0] = model.predict(features["test"])
    elif scheme.task == "single_label":
        model = classifier.fit(features["train"], train.argmax(axis=1))
        probs["test"][:, model.classes_] = model.predict_proba(features["test"])
    else:
        for k, answers in enumerate(train[:, :-1].T):
            always = answers.all()  # there is nothing to tell then, and scikit-learn refuses
            model = None if always or not answers.any() else classifier.fit(features["train"], answers)
            for split in ("dev", "test"):
                told = float(always) if model is None else model.predict_proba(features[split])[:, 1]
                probs[split][:, k] = told
    several = scheme.task == "multi_label"
    thresholds = tuned_thresholds(probs["dev"], gold["dev"]) if several else np.zeros(len(scheme.labels))
    return float(class_scores(scheme, probs["test"], gold["test"], thresholds)["score"])


def baselines(
    module: DocumentModule, datamodule: DocumentDataModule, preprocessor: Preprocessor
) -> dict[str, float | int]:
    """Score what stands beside a result.

    Classification: ``linear``, TF-IDF and a linear model on the whole text; where sentences are selected,
    ``linear_selected`` and ``linear_random`` on those and on as many random ones. Tagging with selection: ``ceiling``
    and ``ceiling_random``, the share of gold entities of the test split that the selected or random sentences hold.
    """
    at_random = None
    if preprocessor.selection is not None:
        at_random = replace(preprocessor, selection=replace(preprocessor.selection, method="random"), scorer=None)
    if not isinstance(module, DocumentClassificationModule):
        if at_random is None:
            return {}
        documents = datamodule.splits["test"]
        return {"ceiling": _ceiling(datamodule.encoded("test")), "ceiling_random": _ceiling(map(at_random, documents))}
    scheme = module.scheme
    annotated = {
        split: [(d, row) for d in datamodule.splits[split] if (row := scheme.encode(scheme.gold(d))) is not None]
        for split in ("train", "dev", "test")
    }
    if not all(annotated.values()):
        return {}
    gold = {split: np.stack([row for _, row in rows]) for split, rows in annotated.items()}

    def score(read: Preprocessor | None) -> float:
        texts = {split: [_text(read, d) for d, _ in rows] for split, rows in annotated.items()}
        return linear_score(texts, gold, scheme, preprocessor.language)

    log.info("TF-IDF and a linear model are fitted on the whole text, to compare with")
    found: dict[str, float | int] = {"linear": score(None)}
    if at_random is not None:
        found |= {"linear_selected": score(preprocessor), "linear_random": score(at_random)}
    return found


def _text(read: Preprocessor | None, document: Any) -> str:
    """What is read of a document."""
    kept = None if read is None else read(document).kept
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
