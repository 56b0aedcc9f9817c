import math
from itertools import pairwise

import pytest
import torch

from longdoc.attention.positions import sinusoidal
from longdoc.errors import ConfigError
from longdoc.models.aggregation import build_aggregator, vote

METHODS = ["mean", "max", "attention", "lstm", "transformer", "vote", "label_attention"]
WEIGHTED = ["mean", "vote", "attention", "label_attention"]
D, K = 8, 3


def aggregator_of(method: str):
    torch.manual_seed(0)
    return build_aggregator(method, D, K).eval()


def ragged(lengths: list[int]):
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    return torch.randn(int(bounds[-1]), D, generator=torch.Generator().manual_seed(1)), bounds


@pytest.mark.parametrize("method", METHODS)
def test_a_document_alone_equals_one_beside_longer_ones(method):
    aggregator = aggregator_of(method)
    windows, bounds = ragged([2, 9, 1, 40])
    together, weights = aggregator(windows, bounds)
    assert together.shape == ((4, K, D) if method == "label_attention" else (4, D))
    assert (weights is not None) == (method in WEIGHTED)
    for b, (start, stop) in enumerate(pairwise(bounds)):
        alone, own = aggregator(windows[start:stop], torch.tensor([0, stop - start]))
        torch.testing.assert_close(together[b], alone[0], rtol=1e-6, atol=1e-6)
        if weights is not None:
            torch.testing.assert_close(weights[start:stop], own, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(own.sum(0), torch.ones_like(own.sum(0)))


@pytest.mark.parametrize("method", METHODS)
def test_a_document_without_windows_reads_one_zero_vector(method):
    aggregator = aggregator_of(method)
    windows, bounds = ragged([2, 0, 3, 0])
    vectors, weights = aggregator(windows, bounds)
    kept, kept_weights = aggregator(windows, torch.tensor([0, 2, 5]))
    zero, _ = aggregator(torch.zeros(1, D), torch.tensor([0, 1]))
    torch.testing.assert_close(vectors, torch.stack([kept[0], zero[0], kept[1], zero[0]]))
    assert vectors.isfinite().all()
    if weights is not None:
        assert torch.equal(weights, kept_weights)
    nothing, _ = aggregator(windows[:0], torch.tensor([0, 0]))
    torch.testing.assert_close(nothing, zero)


@pytest.mark.parametrize("lengths", [[1, 1], [3, 7], [0, 1]])
@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_gets_a_gradient(method, lengths):
    aggregator = aggregator_of(method).train()
    windows, bounds = ragged(lengths)
    vectors, _ = aggregator(windows.requires_grad_(), bounds)
    (vectors * torch.randn(vectors.shape)).sum().backward()
    for name, parameter in aggregator.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if lengths == [3, 7]:
            # The bias of the keys moves all scores of a query alike, which a softmax does not see.
            moved = parameter.grad.split(D)[::2] if name.endswith("in_proj_bias") else [parameter.grad]
            assert all(part.abs().max() > 1e-6 for part in moved), name
    assert windows.grad is not None
    assert (windows.grad.abs().sum(1) > 0).all() or method == "max"


def test_golden_mean_and_max():
    windows = torch.tensor([[1.0, 4.0], [3.0, 0.0], [-5.0, 5.0]])
    bounds = torch.tensor([0, 2, 3])
    mean, weights = build_aggregator("mean", 2)(windows, bounds)
    assert mean.tolist() == [[2, 2], [-5, 5]]
    assert weights is not None
    assert weights.tolist() == [0.5, 0.5, 1]
    largest, none = build_aggregator("max", 2)(windows, bounds)
    assert largest.tolist() == [[3, 4], [-5, 5]]
    assert none is None


@torch.no_grad()
def test_golden_attention():
    aggregator = build_aggregator("attention", 2)
    aggregator.hidden.weight.copy_(torch.eye(2))
    aggregator.hidden.bias.zero_()
    aggregator.query.weight.copy_(torch.tensor([[math.log(3), 0.0]]))
    # tanh brings the first feature to 1 and 0, so one window weighs three times as much as the other.
    vectors, weights = aggregator(torch.tensor([[100.0, 8.0], [0.0, 4.0]]), torch.tensor([0, 2]))
    torch.testing.assert_close(weights, torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(vectors, torch.tensor([[75.0, 7.0]]))


@torch.no_grad()
def test_labels_attend_by_themselves():
    several = build_aggregator("label_attention", D, K)
    windows, bounds = ragged([4, 6])
    vectors, weights = several(windows, bounds)
    for k in range(K):
        one = build_aggregator("attention", D)
        one.hidden = several.hidden
        one.query.weight.copy_(several.query.weight[k : k + 1])
        vector, weight = one(windows, bounds)
        torch.testing.assert_close(vectors[:, k], vector)
        torch.testing.assert_close(weights[:, k], weight)


@pytest.mark.parametrize("method", ["lstm", "transformer"])
def test_the_order_of_the_windows_counts(method):
    aggregator = aggregator_of(method)
    windows, bounds = ragged([30])
    there, back = aggregator(windows, bounds)[0], aggregator(windows.flip(0), bounds)[0]
    assert (there - back).abs().max() > 1e-3


def test_the_transformer_reads_any_number_of_windows():
    aggregator = aggregator_of("transformer")
    windows, bounds = ragged([1500])
    vectors, _ = aggregator(windows, bounds)
    placed = windows + sinusoidal(1500, D)
    torch.testing.assert_close(vectors[0], aggregator.layer(placed[None])[0].mean(0))


def test_a_vote_is_the_mean_of_probabilities():
    logits = torch.tensor([[0.0, math.log(3)], [math.log(4), 0.0]])
    # 1/4 and 4/5 in favour of the first class; 1/2, 4/5 of the first label and 3/4, 1/2 of the second.
    torch.testing.assert_close(vote(logits, "single_label").exp(), torch.tensor([0.525, 0.475]))
    torch.testing.assert_close(vote(logits, "multi_label").sigmoid(), torch.tensor([0.65, 0.625]))
    assert vote(logits[:, :1], "regression").item() == pytest.approx(math.log(2))
    sure = torch.tensor([[-900.0, 900.0], [-900.0, 900.0]], requires_grad=True)
    for task in ("single_label", "multi_label"):
        answer = vote(sure, task)
        assert answer.argmax() == 1
        answer.sum().backward()
    assert sure.grad is not None
    assert sure.grad.isfinite().all()


@pytest.mark.parametrize(("width", "num_heads"), [(192, 4), (186, 3), (6, 3), (10, 2), (7, 1)])
def test_the_transformer_has_heads_that_divide_the_width(width, num_heads):
    assert build_aggregator("transformer", width).layer.self_attn.num_heads == num_heads


def test_wrong_settings():
    with pytest.raises(ConfigError, match="'sum': expected one of mean, max"):
        build_aggregator("sum", D)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected an even width, got 7"):
        build_aggregator("lstm", 7)
    with pytest.raises(ConfigError, match="expected num_labels, got None"):
        build_aggregator("label_attention", D)
