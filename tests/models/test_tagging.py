import pytest
import torch

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch
from longdoc.models.losses import tagging_loss
from longdoc.models.tagging import TaggingHead, pool_words, tag_probs

# [CLS] w0 w0 w1 [SEP] [CLS] w1(cont.) w2 w2 w2 [SEP]; the second window begins inside a word that it does not label.
BATCH = Batch(
    input_ids=torch.zeros(11, dtype=torch.long),
    bounds=torch.tensor([0, 5, 11]),
    document_bounds=torch.tensor([0, 2]),
    item_token=torch.tensor([1, 3, 7]),
    token_item=torch.tensor([-1, 0, 0, 1, -1, -1, -1, 2, 2, 2, -1]),
    item_tags=torch.tensor([0, 2, 1]),
)
HIDDEN = torch.tensor([[float(i), -float(i)] for i in range(11)])


@pytest.mark.parametrize(
    ("subword", "expected"),
    [
        ("first", [[1, -1], [3, -3], [7, -7]]),
        ("mean", [[1.5, -1.5], [3, -3], [8, -8]]),
        ("max", [[2, -1], [3, -3], [9, -7]]),
    ],
)
def test_golden_pooling(subword, expected):
    hidden = HIDDEN.clone().requires_grad_()
    pooled = pool_words(hidden, BATCH, subword)
    assert pooled.tolist() == expected
    pooled.sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.sum(dim=0).tolist() == pytest.approx([3, 3])
    assert (hidden.grad[BATCH.token_item < 0] == 0).all()


def test_wrong_name():
    with pytest.raises(ConfigError, match="subword='last'"):
        pool_words(HIDDEN, BATCH, "last")  # type: ignore[arg-type]


@pytest.mark.parametrize("subword", ["first", "mean", "max"])
def test_no_words(subword):
    empty = torch.zeros(0, dtype=torch.long)
    batch = Batch(
        torch.zeros(2, dtype=torch.long), torch.tensor([0, 2]), torch.tensor([0, 1]), empty, torch.full((2,), -1), empty
    )
    logits = TaggingHead(2, 5, subword)(HIDDEN[:2], batch)
    assert logits.shape == (0, 5)
    loss = tagging_loss(logits, batch.item_tags)
    assert loss == 0
    loss.backward()


def test_half_precision_is_scored_in_float32():
    assert tag_probs(torch.tensor([[20.0, -20.0, 0.0]], dtype=torch.float16)).dtype == torch.float32
    assert tag_probs(torch.tensor([[20.0, -20.0, 0.0]], dtype=torch.float16)).sum() == pytest.approx(1)
