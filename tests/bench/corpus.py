"""How hard the embedded corpus is: strict span F1 on its test split of a gazetteer and of a linear model on local features.

Run as ``python -m tests.bench.corpus``.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier

from longdoc.app.corpus import LANGUAGES, generate
from longdoc.text.documents import Document
from longdoc.text.words import split_words

Key = tuple[int, int, str]


def words(text: str) -> list[tuple[int, int]]:
    """Word offsets as plain numbers."""
    return [(start, end) for start, end in split_words(text).tolist()]


def gazetteer(train: Sequence[Document], test: Sequence[Document]) -> list[set[Key]]:
    """Label the longest stretches of words that are entities of the training split."""
    labels: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for document in train:
        for span in document.spans or ():
            surface = document.text[span.start : span.end]
            labels[tuple(surface[start:end] for start, end in words(surface))][span.label] += 1
    longest = max(map(len, labels))
    found = []
    for document in test:
        offsets = words(document.text)
        texts = [document.text[start:end] for start, end in offsets]
        keys: set[Key] = set()
        place = 0
        while place < len(texts):
            for size in range(min(longest, len(texts) - place), 0, -1):
                if (entry := labels.get(tuple(texts[place : place + size]))) is not None:
                    keys.add((offsets[place][0], offsets[place + size - 1][1], entry.most_common(1)[0][0]))
                    break
            else:
                size = 1
            place += size
        found.append(keys)
    return found


def shape(word: str) -> str:
    """Upper case, lower case, digit and other, runs shortened."""
    signs = ["X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word]
    return "".join(sign for place, sign in enumerate(signs) if signs[place - 2 : place] != [sign, sign])


def features(texts: Sequence[str]) -> Iterable[list[str]]:
    """Words, shapes and affixes of each word and of three neighbours either side, with neighbouring pairs."""
    padded = ["<"] * 4 + list(texts) + [">"] * 4
    shapes = [shape(word) for word in padded]
    for place in range(4, len(texts) + 4):
        word = padded[place]
        row = ["bias", f"p{word[:2]}", f"P{word[:3]}", f"s{word[-2:]}", f"S{word[-3:]}"]
        for step in range(-3, 4):
            row += [f"w{step}{padded[place + step].lower()}", f"h{step}{shapes[place + step]}"]
        row += [f"b{step}{padded[place + step].lower()} {padded[place + step + 1].lower()}" for step in range(-3, 3)]
        yield row


def tags(document: Document, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """IOB2 tags of the words."""
    starts = {span.start: span for span in document.spans or ()}
    found, span = [], None
    for start, _ in offsets:
        if start in starts:
            span = starts[start]
            found.append(f"B-{span.label}")
        elif span is not None and start < span.end:
            found.append(f"I-{span.label}")
        else:
            found.append("O")
    return found


def linear(train: Sequence[Document], test: Sequence[Document]) -> list[set[Key]]:
    """Tag each word by logistic regression on local features."""
    hasher = FeatureHasher(2**20, input_type="string", alternate_sign=False)
    rows: list[list[str]] = []
    gold: list[str] = []
    for document in train:
        offsets = words(document.text)
        rows += features([document.text[start:end] for start, end in offsets])
        gold += tags(document, offsets)
    model = SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=20, tol=None, random_state=0, average=True)
    model.fit(hasher.transform(rows), gold)
    found = []
    for document in test:
        offsets = words(document.text)
        predicted = model.predict(hasher.transform(features([document.text[start:end] for start, end in offsets])))
        keys: set[Key] = set()
        first = None
        for place, tag in enumerate([*predicted, "O"]):
            if first is not None and tag != f"I-{predicted[first][2:]}":
                keys.add((offsets[first][0], offsets[place - 1][1], predicted[first][2:]))
                first = None
            if tag.startswith("B-"):
                first = place
        found.append(keys)
    return found


def f1(test: Sequence[Document], found: Sequence[set[Key]]) -> float:
    """Strict micro F1 over start, end and label."""
    gold = [{span.key for span in document.spans or ()} for document in test]
    hits = sum(len(a & b) for a, b in zip(gold, found, strict=True))
    return 2 * hits / (sum(map(len, gold)) + sum(map(len, found)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=160, help="training documents")
    parser.add_argument("--test", type=int, default=40, help="test documents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--language", choices=sorted(LANGUAGES), nargs="*", default=sorted(LANGUAGES))
    args = parser.parse_args()
    for language in args.language:
        train = generate(language, "train", args.train, args.seed)
        test = generate(language, "test", args.test, args.seed)
        for name, baseline in (("gazetteer", gazetteer), ("linear", linear)):
            print(f"{language} {name:10} F1 {f1(test, baseline(train, test)):.3f}", flush=True)


if __name__ == "__main__":
    main()
