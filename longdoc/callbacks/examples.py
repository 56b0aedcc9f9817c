"""The documents that a model got most wrong, as a page to read."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning as L

from longdoc.callbacks.documents import STAGES, DocumentCallback, gather
from longdoc.errors import check_integer
from longdoc.text.documents import Span
from longdoc.text.results import DocumentResult, Result

# Text keeps its own direction, and what it does to direction ends with it.
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Errors</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100%; table-layout: fixed }
th, td { border: 1px solid #ddd; padding: .4em .6em; text-align: left; vertical-align: top }
th:first-child, td:first-child { width: 5em; color: #666 }
td p { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext }
mark { unicode-bidi: isolate; border-radius: 3px; padding: 0 .15em }
mark.same { background: #cfeccf } mark.missed { background: #ffd9a8 } mark.wrong { background: #f7c0c0 }
mark.lost { background: #ddd; text-decoration: line-through }
small { font-size: 70%; font-weight: bold; margin-left: .3em; unicode-bidi: isolate }
summary { cursor: pointer; padding: .4em 0 } h1 { font-size: 1.3em } bdi { font-weight: bold }
</style></head><body>
"""
_LEGEND = (
    '<p><mark class="same">found</mark> <mark class="missed">missed</mark> <mark class="wrong">not in the gold</mark> '
    '<mark class="lost">lost before the model saw it</mark></p>\n'
)


def num_errors(result: Result) -> float:
    """Wrong and missing entities or classes of an annotated document, or how far a number is off; 0 without gold."""
    if result.gold is None:
        return 0
    if isinstance(result, DocumentResult):
        return len({span.key for span in result.gold} ^ {span.key for span in result.predicted})
    if isinstance(result.gold, tuple) and isinstance(result.predicted, tuple):
        return len(set(result.gold) ^ set(result.predicted))
    return abs(float(result.gold) - float(result.predicted))  # type: ignore[arg-type]


def error_page(results: Iterable[Result], title: str, context_chars: int = 150) -> str:
    """Show documents as HTML, gold and predictions side by side; whatever they hold is shown as text.

    Args:
        results: The documents, in the order of the page.
        title: Its heading.
        context_chars: Text shown around each entity that is wrong or missing; what lies between is left out.
    """
    parts = [_HEAD, f"<h1>{escape(title)}</h1>\n", _LEGEND]
    for number, result in enumerate(results):
        parts.append(f"<details{' open' if number < 3 else ''}><summary><bdi>{escape(result.id)}</bdi>: ")
        parts.append(f"{num_errors(result):g} off{', not read whole' if result.truncated else ''}</summary>\n")
        parts.append("<table><tr><th>from</th><th>gold</th><th>predicted</th></tr>\n")
        rows = _span_rows(result, context_chars) if isinstance(result, DocumentResult) else _class_rows(result)
        parts += [f"<tr><td>{at}</td><td><p>{gold}</p></td><td><p>{said}</p></td></tr>\n" for at, gold, said in rows]
        parts.append("</table></details>\n")
    return "".join([*parts, "</body></html>\n"])


def _span_rows(result: DocumentResult, context_chars: int) -> Iterator[tuple[str, str, str]]:
    gold, said = ({span.key for span in spans or ()} for spans in (result.gold, result.predicted))
    reasons: dict[Any, str] = {item.span.key: item.reason for item in result.lost}
    left = [
        (span, "same" if span.key in said else "lost" if span.key in reasons else "missed", reasons.get(span.key, ""))
        for span in result.gold or ()
    ]
    right = [
        (span, "same" if span.key in gold else "wrong", "" if span.score is None else f"{span.score:.2f}")
        for span in result.predicted
    ]
    for start, end in _passages(sorted(gold ^ said), len(result.text), context_chars):
        yield f"{start:,}", _marked(result.text, start, end, left), _marked(result.text, start, end, right)


def _passages(wrong: Sequence[tuple[int, int, str]], length: int, context_chars: int) -> list[tuple[int, int]]:
    passages: list[tuple[int, int]] = []
    for start, end, _ in wrong:
        start, end = max(0, start - context_chars), min(length, end + context_chars)
        if passages and start <= passages[-1][1]:
            passages[-1] = passages[-1][0], max(end, passages[-1][1])
        else:
            passages.append((start, end))
    return passages


def _marked(text: str, start: int, end: int, spans: Sequence[tuple[Span, str, str]]) -> str:
    inside = [item for item in spans if item[0].start < end and item[0].end > start]
    edges = {start, end, *(place for span, _, _ in inside for place in (span.start, span.end) if start < place < end)}
    shown = ["…" if start > 0 else ""]
    for a, b in pairwise(sorted(edges)):
        over = [item for item in inside if item[0].start <= a and b <= item[0].end]
        piece = escape(text[a:b])
        for span, kind, note in over:
            label = f"<small>{escape(span.label)}</small>" if b == span.end else ""
            piece = f'<mark class="{kind}" title="{escape(f"{span.label} {note}".strip())}">{piece}{label}</mark>'
        shown.append(piece)
    return "".join(shown) + ("…" if end < len(text) else "")


def _class_rows(result: Any) -> Iterator[tuple[str, str, str]]:
    def told(answer: Any, other: Any, kind: str) -> str:
        if not isinstance(answer, tuple):
            return f"{answer:g}"
        right = set(other if isinstance(other, tuple) else ())
        marks = []
        for label in answer:
            prob = f"<small>{result.probs[label]:.2f}</small>" if label in result.probs else ""
            marks.append(f'<mark class="{"same" if label in right else kind}">{escape(label)}{prob}</mark>')
        return " ".join(marks)

    yield "", told(result.gold, result.predicted, "missed"), told(result.predicted, result.gold, "wrong")
    for evidence in result.evidence:
        yield f"{evidence.start:,}", "", f"{escape(result.text[evidence.start : evidence.end])} ({evidence.weight:.2f})"


class ErrorExamples(DocumentCallback):
    """Writes the worst documents of the latest validation or test as one HTML page, gold and predictions side by side.

    Args:
        path: The page; it is written anew each time.
        num_documents: How many are shown at most.
        context_chars: See ``error_page``.
    """

    stages = ("validate", "test")

    def __init__(self, path: str | Path, num_documents: int = 20, context_chars: int = 150) -> None:
        check_integer("num_documents", num_documents, 1)
        self.path = Path(path)
        self.num_documents = num_documents
        self.context_chars = context_chars
        self._worst: list[Result] = []

    def begin(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._worst = []

    def see(self, results: Sequence[Result], trainer: L.Trainer) -> None:
        found = {result.id: result for result in (*self._worst, *results) if num_errors(result) > 0}
        self._worst = sorted(found.values(), key=lambda r: (-num_errors(r), r.id))[: self.num_documents]

    def end(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for worst in gather(self._worst, trainer):
            self.see(worst, trainer)
        if trainer.is_global_zero:
            title = f"Worst documents of {STAGES[stage]} after step {trainer.global_step}"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            page = error_page(self._worst, title, self.context_chars)
            self.path.write_text(page, encoding="utf-8", errors="replace")
