"""What a model says of a document: the output of evaluation and prediction steps that callbacks read."""

from dataclasses import dataclass

from longdoc.text.alignment import LostSpan
from longdoc.text.documents import Span, Unmoved


@dataclass(frozen=True, slots=True)
class DocumentResult(Unmoved):
    """One document after the model.

    Args:
        id: Of the document.
        text: The original text.
        gold: Its raw gold spans, lost ones included; None where it is not annotated.
        predicted: What the model found, in order of appearance.
        lost: Gold spans that the model could not see, with the reason; they count as missed.
        truncated: Whether a part of the text was not read.
        num_tokens: Tokens that went through the encoder for it, overlap and special tokens included.
    """

    id: str
    text: str
    gold: tuple[Span, ...] | None
    predicted: tuple[Span, ...]
    lost: tuple[LostSpan, ...] = ()
    truncated: bool = False
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """A part of a document and what it weighed in the decision.

    Args:
        start: First character.
        end: One past the last character.
        weight: Share of attention, or by how much the likeliest class's probability, or the number, falls without its
            vectors; what others have read of it stays.
    """

    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class ClassificationResult(Unmoved):
    """The class of one document after the model.

    Args:
        id: Of the document.
        text: The original text.
        gold: Its raw classes, or its number in regression; None where it is not annotated.
        predicted: The classes the model gives it, the likeliest first, or a number.
        probs: Probability of each class; empty in regression.
        evidence: What carried the decision, in order of appearance; empty where nobody asked.
        truncated: Whether a part of the text was not read.
        num_tokens: Tokens that went through the encoder for it, overlap and special tokens included.
    """

    id: str
    text: str
    gold: tuple[str, ...] | float | None
    predicted: tuple[str, ...] | float
    probs: dict[str, float]
    evidence: tuple[Evidence, ...] = ()
    truncated: bool = False
    num_tokens: int = 0


Result = DocumentResult | ClassificationResult
