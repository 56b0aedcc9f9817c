import pytest
import torch

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.models.encoder import build_encoder, encoder_state, input_limit
from longdoc.models.scratch import ScratchModel, scratch_encoder, train_tokenizer
from longdoc.text.words import split_words
from tests.text.worlds import tokenizer_of

LENGTHS = [6, 11, 1, 11]


def small(**settings: object):
    torch.manual_seed(0)
    return scratch_encoder(tokenizer_of("scratch"), width=24, num_layers=2, num_heads=3, **settings).eval()


def flat_batch() -> Batch:
    ids = torch.randint(4, 200, (sum(LENGTHS),), generator=torch.Generator().manual_seed(0))
    return Batch.of_windows(ids, LENGTHS)


def test_a_flat_batch_equals_row_by_row():
    encoder, batch = small(), flat_batch()
    rows = [encoder.model(input_ids=row[None]).last_hidden_state[0] for row in batch.input_ids.split(LENGTHS)]
    torch.testing.assert_close(encoder(batch), torch.cat(rows), atol=1e-5, rtol=1e-4)


def test_every_parameter_gets_a_gradient():
    encoder = small().train()
    encoder(flat_batch()).pow(2).sum().backward()
    assert [name for name, p in encoder.named_parameters() if p.grad is None] == []


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable. is deprecated")
def test_gradient_checkpointing_changes_no_gradient():
    gradients = []
    for checkpointing in (False, True):
        encoder = small(dropout=0.0).train()
        if checkpointing:
            encoder.model.gradient_checkpointing_enable()
            assert all(layer.gradient_checkpointing for layer in encoder.model.layers)
        encoder(flat_batch()).pow(2).sum().backward()
        gradients.append([p.grad for p in encoder.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed)


@pytest.mark.parametrize("positions", ["rope", "none", "sinusoidal"])
def test_only_distances_and_order_matter_to_rotary_positions(positions):
    encoder = small(positions=positions)
    ids = torch.randint(4, 200, (1, 7), generator=torch.Generator().manual_seed(1))
    here = encoder.model(input_ids=ids).last_hidden_state
    there = encoder.model(input_ids=ids, position_ids=torch.arange(100, 107)[None]).last_hidden_state
    turned = encoder.model(input_ids=ids.flip(1)).last_hidden_state.flip(1)
    same_there = torch.allclose(here, there, atol=1e-5)
    assert same_there == (positions != "sinusoidal")
    assert torch.allclose(here, turned, atol=1e-5) == (positions == "none")


def test_state_builds_the_same_encoder():
    encoder = small()
    copy = build_encoder(encoder_state(encoder)).eval()
    copy.load_state_dict(encoder.state_dict())
    assert isinstance(copy.model, ScratchModel)
    assert torch.equal(copy(flat_batch()), encoder(flat_batch()))


def test_save_and_load_as_a_hugging_face_model(tmp_path):
    encoder = small()
    encoder.model.save_pretrained(tmp_path)
    copy = ScratchModel.from_pretrained(tmp_path).eval()
    ids = flat_batch().input_ids[None]
    assert torch.equal(copy(ids).last_hidden_state, encoder.model(ids).last_hidden_state)


def test_there_is_no_longest_input():
    assert input_limit(small().model) == (None, "no limit")


def test_widths_that_do_not_divide_are_refused():
    with pytest.raises(ConfigError, match=r"width=20.* multiple of num_heads=3"):
        scratch_encoder(tokenizer_of("scratch"), width=20, num_layers=1, num_heads=3)


def test_the_tokenizer_keeps_lines_and_reads_digits_alone():
    tokenizer = train_tokenizer(["one two 2018\nthree, four"] * 3, vocab_size=100)
    text = "two 2018\nthree,"
    tokens = tokenizer(text, split_words(text))
    pieces = [tokenizer.backend.id_to_token(i) for i in tokens.ids.tolist()]
    assert pieces[-7:] == ["▁2", "▁0", "▁1", "▁8", "▁\n", "▁three", "▁,"]
    assert tokens.word.tolist()[-7:] == [1, 1, 1, 1, -1, 2, 3]
    assert tokenizer.vocab_size <= 100


def test_a_word_has_the_same_tokens_wherever_it_stands():
    tokenizer = train_tokenizer(["the court closed the case"] * 5, vocab_size=60)
    text = "closed\nclosed (closed) €closed"
    tokens = tokenizer(text, split_words(text))
    found = [tokens.ids[tokens.word == word].tolist() for word in (0, 1, 3, 6)]
    assert found == found[:1] * 4


def test_the_same_texts_train_the_same_tokenizer():
    texts = ["the court held", "the case is closed"] * 5
    assert train_tokenizer(texts, 60).state() == train_tokenizer(iter(texts), 60).state()
