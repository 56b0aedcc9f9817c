import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longdoc.models.batch import WindowRef, collate
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import Preprocessor
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from tests.text.worlds import entity_plans, planned_document, texts, tokenizer_of

SCHEME = TagScheme(("A", "B"))


@settings(max_examples=40)
@given(
    text=texts(max_pieces=25),
    other=texts(max_pieces=5),
    plan=entity_plans,
    size=st.integers(8, 40),
    overlap=st.integers(0, 5),
)
def test_a_batch_holds_its_windows_without_padding(text, other, plan, size, overlap):
    tokenizer = tokenizer_of("wordpiece")
    preprocessor = Preprocessor(tokenizer, Windower(size, overlap), SCHEME)
    documents = [preprocessor(planned_document(text, plan)), preprocessor(Document("other", other, ()))]
    refs = [WindowRef(d, w) for d in documents for w in range(len(d.windows))][::-1]
    if not refs:
        return
    batch = collate(refs, tokenizer)
    assert batch.num_windows == len(refs)
    assert batch.lengths.tolist() == [ref.num_tokens(tokenizer.num_special) for ref in refs]
    assert batch.bounds[-1] == len(batch.input_ids) == len(batch.token_item)
    item = 0
    for w, ref in enumerate(refs):
        encoded, cut = ref.document, ref.document.windows
        start, end = int(cut.start[ref.window]), int(cut.end[ref.window])
        at = int(batch.bounds[w])
        row = batch.input_ids[at : int(batch.bounds[w + 1])].tolist()
        assert row == [*tokenizer.prefix_ids, *encoded.token_ids[start:end].tolist(), *tokenizer.suffix_ids]
        for position in range(start, end):
            word = int(encoded.token_word[position])
            if word >= 0 and encoded.first_token[word] == position:
                place = at + 1 + position - start
                assert batch.item_token[item] == place
                assert encoded.tags is not None
                assert batch.item_tags[item] == encoded.tags[word]
                belongs = (batch.token_item == item).nonzero().flatten()
                same_word = np.flatnonzero(encoded.token_word[start:end] == word) + at + 1
                assert belongs.tolist() == same_word.tolist()
                item += 1
    assert item == len(batch.item_token) == len(batch.item_tags)
    assert set(batch.token_item.tolist()) <= {-1, *range(item)}


def encoded_words(num_words: int = 20, annotated: bool = True):
    gold = (Span(0, 1, "A"),) if annotated else None
    preprocessor = Preprocessor(tokenizer_of("wordpiece"), Windower(10, 4), SCHEME)
    return preprocessor(Document("d", "a " * num_words, gold))


def test_overlap_can_be_learned_once():
    encoded = encoded_words()
    refs = [WindowRef(encoded, w) for w in range(len(encoded.windows))]
    twice = collate(refs, tokenizer_of("wordpiece"))
    once = collate(refs, tokenizer_of("wordpiece"), count_overlap=False)
    assert int((twice.item_tags != -100).sum()) == sum(batch.num_tokens(0) for batch in refs) > 20
    assert int((once.item_tags != -100).sum()) == 20
    assert torch.equal(once.input_ids, twice.input_ids)


def test_without_gold_there_is_nothing_to_learn():
    encoded = encoded_words(annotated=False)
    assert (collate([WindowRef(encoded, 0)], tokenizer_of("wordpiece")).item_tags == -100).all()


def test_moving_keeps_everything():
    encoded = encoded_words()
    batch = collate([WindowRef(encoded, 0), WindowRef(encoded, 1)], tokenizer_of("wordpiece"))
    batch.num_labelled = 7
    moved = batch.to(torch.device("cpu"))
    assert moved.num_labelled == 7
    assert moved.document_ids == ("d",)
    for name in ("input_ids", "bounds", "item_token", "token_item", "item_tags"):
        assert torch.equal(getattr(moved, name), getattr(batch, name))
        assert getattr(moved, name).dtype == torch.long
