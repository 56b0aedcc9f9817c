import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longdoc.models.batch import WindowRef, collate, collate_documents
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
    lengths = [int(d.windows.end[w] - d.windows.start[w]) for d in documents for w in range(len(d.windows))][::-1]
    if not refs:
        return
    batch = collate(refs, tokenizer)
    assert batch.num_windows == len(refs)
    assert batch.lengths.tolist() == [length + tokenizer.num_special for length in lengths]
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
    assert int((twice.item_tags != -100).sum()) == int((encoded.windows.end - encoded.windows.start).sum()) > 20
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
    for name in ("input_ids", "bounds", "document_bounds", "item_token", "token_item", "item_tags"):
        assert torch.equal(getattr(moved, name), getattr(batch, name))
        assert getattr(moved, name).dtype == torch.long


TENSORS = ("input_ids", "bounds", "document_bounds", "item_token", "token_item", "item_tags")


def corpus(*texts: str):
    preprocessor = Preprocessor(tokenizer_of("wordpiece"), Windower(10, 4), SCHEME)
    return [preprocessor(Document(f"d{i}", text, ())) for i, text in enumerate(texts)]


def test_windows_of_a_document_belong_together():
    one, other = corpus("a " * 20, "b " * 9)
    refs = [WindowRef(one, 1), WindowRef(one, 2), WindowRef(other, 0), WindowRef(one, 0)]
    batch = collate(refs, tokenizer_of("wordpiece"))
    assert batch.document_bounds.tolist() == [0, 2, 3, 4]
    assert batch.document_ids == ("d0", "d1")


def test_whole_documents_keep_their_places():
    documents = corpus("", "a " * 20, " ", "b")
    batch = collate_documents(documents, tokenizer_of("wordpiece"))
    sizes = [len(encoded.windows) for encoded in documents]
    assert sizes[0] == sizes[2] == 0
    assert batch.document_bounds.diff().tolist() == sizes
    assert batch.document_bounds.dtype == torch.long
    assert batch.document_ids == ("d0", "d1", "d2", "d3")
    refs = [WindowRef(documents[1], w) for w in range(sizes[1])] + [WindowRef(documents[3], 0)]
    same = collate(refs, tokenizer_of("wordpiece"))
    assert all(torch.equal(getattr(batch, n), getattr(same, n)) for n in TENSORS if n != "document_bounds")
    nothing = collate_documents(documents[:1], tokenizer_of("wordpiece"))
    assert nothing.num_windows == len(nothing.input_ids) == 0
    assert nothing.document_bounds.tolist() == [0, 0]


@settings(max_examples=40)
@given(data=st.data(), pieces=st.lists(texts(max_pieces=12), min_size=1, max_size=3))
def test_windows_cut_out_are_those_collated_alone(data, pieces):
    documents = corpus(*pieces)
    refs = [WindowRef(encoded, w) for encoded in documents for w in range(len(encoded.windows))]
    start = data.draw(st.integers(0, len(refs)))
    stop = data.draw(st.integers(start, len(refs)))
    cut = collate_documents(documents, tokenizer_of("wordpiece")).windows(start, stop)
    alone = collate(refs[start:stop], tokenizer_of("wordpiece"))
    for name in TENSORS:
        if name != "document_bounds":
            assert torch.equal(getattr(cut, name), getattr(alone, name)), name
    owner = np.repeat(np.arange(len(documents)), [len(encoded.windows) for encoded in documents])[start:stop]
    assert cut.document_bounds.diff().tolist() == np.bincount(owner, minlength=len(documents)).tolist()
    assert cut.document_bounds[0] == 0
