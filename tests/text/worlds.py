"""What the property tests share: hostile texts, a tokenizer of each kind, and a scorer that is always right."""

import json
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from longdoc.models.scratch import train_tokenizer
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import EncodedDocument, window_items
from longdoc.text.stitching import Aggregation, Stitcher, decode_spans
from longdoc.text.tags import TagScheme
from longdoc.text.tokens import WordTokenizer
from longdoc.text.words import split_words

FRAGMENTS = (
    "The court held in 2018).",
    "nai\u0308ve Schro\u0308dinger e\u0301\u0323\u0327x",
    "São Paulo, 5.975,74",
    "今天天气很好。",
    "東京タワーへ",
    "서울특별시",
    "مُحَمَّد بن سلمان",
    "हिन्दी में क्षत्रिय",
    "สวัสดีครับน้ำ",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd\U0001f1e7\U0001f1f7 \u2764\ufe0f",
    "\r\n",
    "\t",
    "   ",
    "\n\n",
    "\u200b",
    "\ufeff",
    "\u00ad",
    "zero\u200bwidth",
    "\u0301",
    "\ud800",
    "\udc00\ud83d",
    "\x00",
    "\ufffd",
    "˜",
    "´",
    "Ġ",
    "▁",
    "##ing",
    "[MASK]",
    "[SEP]</s><s>",
    "i ⭢ j",
    "AC20150110436469APC",
    "http://example.org/a?b=c&d=e",
    "ﬁnancial ½ ㎏ ǅ",
    "...",
    "«»",
)
SEPARATORS = ("", " ", "  ", "\r\n", "\t", "\u00a0", "\u3000", "\u200b")
GIANT = "a" * 3000

TRAINING_TEXTS = [
    " ".join(FRAGMENTS[i:] + FRAGMENTS[:i]).encode("utf-8", "replace").decode() for i in range(len(FRAGMENTS))
] + [
    "The naive court held that the case of São Paulo was closed.",
    "we read all of it, line by line\nand page by page",
] * 4

any_character = st.characters(exclude_categories=())

pieces = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.sampled_from(FRAGMENTS),
    st.text(any_character, max_size=6),
    st.text("abcXYZ019", min_size=1, max_size=9),
)


@st.composite
def texts(draw: st.DrawFn, max_pieces: int = 60) -> str:
    """Texts of many scripts, from empty to about 500 tokens; now and then with a word of 3,000 characters."""
    parts = draw(st.lists(st.tuples(pieces, st.sampled_from(SEPARATORS)), max_size=max_pieces))
    if parts and draw(st.integers(0, 9)) == 0:
        parts.insert(draw(st.integers(0, len(parts))), (GIANT, " "))
    return "".join(piece + separator for piece, separator in parts)


# Gap to the entity before, length, label: all counted in words.
entity_plans = st.lists(
    st.tuples(st.integers(0, 12), st.one_of(st.integers(1, 4), st.integers(1, 120)), st.sampled_from("AB")), max_size=30
)


def planned_document(text: str, plan: list[tuple[int, int, str]]) -> Document:
    """A document whose entities begin and end at words, as the plan says."""
    words = split_words(text)
    spans, at = [], 0
    for gap, length, label in plan:
        first, stop = at + gap, min(at + gap + length, len(words))
        if first >= stop:
            break
        spans.append(Span(int(words[first, 0]), int(words[stop - 1, 1]), label))
        at = stop
    return Document("planned", text, tuple(spans))


def read_lener(folder: Path, split: str) -> list[Document]:
    """A split of the Portuguese judgments."""
    rows = [json.loads(line) for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        Document(row["id"], row["text"], tuple(Span(e["start"], e["end"], e["label"]) for e in row["entities"]))
        for row in rows
    ]


LENER_LABELS = ("JURISPRUDENCIA", "LEGISLACAO", "LOCAL", "ORGANIZACAO", "PESSOA", "TEMPO")


def oracle_spans(encoded: EncodedDocument, scheme: TagScheme, aggregation: Aggregation) -> list[Span]:
    """Stitch and decode the answers of a scorer that knows the tag of every word.

    For ``owner`` it lies in all windows but the owner.
    """
    assert encoded.tags is not None
    stitcher = Stitcher(len(encoded.words), len(scheme), aggregation)
    right = np.eye(len(scheme), dtype=np.float32)
    for window in range(len(encoded.windows)):
        items = window_items(encoded, window)
        tags = encoded.tags[items.word]
        if aggregation == "owner":
            tags = np.where(items.owned, tags, (tags + 1) % len(scheme))
        stitcher.add(items.word, right[tags], items.context, items.owned)
    return decode_spans(stitcher.probs(), scheme, encoded.words)


def _around(start: str, start_id: int, end: str, end_id: int) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(single=f"{start} $A {end}", special_tokens=[(start, start_id), (end, end_id)])


def _wordpiece() -> WordTokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        TRAINING_TEXTS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = _around("[CLS]", 2, "[SEP]", 3)
    return WordTokenizer(tokenizer, unk_id=1, pad_id=0)


def _byte_level() -> WordTokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXTS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return WordTokenizer(tokenizer, unk_id=3, pad_id=1)


def _unigram() -> WordTokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING_TEXTS, trainer)
    tokenizer.post_processor = _around("<s>", 0, "</s>", 2)
    return WordTokenizer(tokenizer, unk_id=3, pad_id=1)


TOKENIZERS = {
    "scratch": lambda: train_tokenizer(TRAINING_TEXTS, vocab_size=400),
    "wordpiece": _wordpiece,
    "byte_level": _byte_level,
    "unigram": _unigram,
}


@cache
def tokenizer_of(kind: str) -> WordTokenizer:
    """The tokenizer of a kind, trained on first use."""
    return TOKENIZERS[kind]()
