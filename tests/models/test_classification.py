import copy
from dataclasses import replace
from itertools import accumulate

import pytest
import torch
from torch import nn

from longdoc.errors import ConfigError
from longdoc.models.aggregation import build_aggregator
from longdoc.models.batch import Batch
from longdoc.models.classification import ClassificationHead, class_probs, encode_windows, pool_windows
from longdoc.models.encoder import AttentionConfig, Encoder, set_attention, without_pooler
from longdoc.models.losses import classification_loss
from tests.models.tiny import VOCAB, tiny_encoder

METHODS = ["mean", "max", "attention", "lstm", "transformer", "vote", "label_attention"]
TASKS = ["single_label", "multi_label", "regression"]
DOCUMENTS = [[9, 4], [17], [], [5, 5, 30, 2, 11], [3]]
D, K = 24, 3


def batch_of(documents: list[list[int]], ids: torch.Tensor | None = None) -> Batch:
    lengths = [length for document in documents for length in document]
    if ids is None:
        ids = torch.randint(5, VOCAB, (sum(lengths),), generator=torch.Generator().manual_seed(0))
    of_documents = torch.tensor([0, *accumulate(len(document) for document in documents)])
    return replace(Batch.of_windows(ids, lengths), document_bounds=of_documents)


def encoder_of(packed: bool = True, dropout: float = 0.0) -> Encoder:
    model = tiny_encoder("Bert", hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    encoder = Encoder(without_pooler(model), pad_id=0)
    set_attention(encoder, AttentionConfig(packed="auto" if packed else "never"), None)
    assert encoder.packed == packed
    return encoder.train()


def head_of(method: str, task: str = "single_label") -> ClassificationHead:
    torch.manual_seed(1)
    num_labels = 1 if task == "regression" else K
    aggregator = build_aggregator(method, D, num_labels)
    for part in aggregator.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        elif isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return ClassificationHead(D, num_labels, task, aggregator, dropout=0.0)


class Counting(nn.Module):
    """Keeps the lengths of what an encoder is given."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.inner, self.packed, self.width = encoder, encoder.packed, encoder.width
        self.calls: list[list[int]] = []

    def forward(self, batch: Batch) -> torch.Tensor:
        self.calls.append(batch.lengths.tolist())
        return self.inner(batch)


def test_golden_pooling():
    hidden = torch.tensor([[1.0, 0.0], [3.0, 6.0], [5.0, 5.0]])
    bounds = torch.tensor([0, 2, 3])
    assert pool_windows(hidden, bounds, "first").tolist() == [[1, 0], [5, 5]]
    assert pool_windows(hidden, bounds, "mean").tolist() == [[2, 3], [5, 5]]
    ones = torch.ones(5000, 1, dtype=torch.float16)
    assert pool_windows(ones, torch.tensor([0, 5000]), "mean").tolist() == [[1]]
    with pytest.raises(ConfigError, match="pool='last'"):
        pool_windows(hidden, bounds, "last")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("packed", "budget", "expected"),
    [
        (True, None, [[9, 4, 17, 5, 5, 30, 2, 11, 3]]),
        (True, 20, [[9, 4], [17], [5, 5], [30], [2, 11, 3]]),
        (False, 20, [[9, 4], [17], [5, 5], [30], [2], [11], [3]]),
        (False, 34, [[9, 4], [17, 5], [5], [30], [2, 11, 3]]),
        (True, 1, [[9], [4], [17], [5], [5], [30], [2], [11], [3]]),
    ],
)
def test_groups_stay_within_the_budget(packed, budget, expected):
    counting = Counting(encoder_of(packed))
    with torch.no_grad():
        encode_windows(counting, batch_of(DOCUMENTS), "first", budget)  # type: ignore[arg-type]
    assert counting.calls == expected


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_a_document_has_one_result(method, packed):
    encoder, head = encoder_of(packed).eval(), head_of(method).eval()
    batch = batch_of(DOCUMENTS)
    for pool in ("first", "mean"):
        together, weights = head(encode_windows(encoder, batch, pool), batch.document_bounds)
        assert together.shape == (len(DOCUMENTS), K)
        assert together.isfinite().all()
        for budget in (1, 12, 40, 10**6):
            logits, again = head(encode_windows(encoder, batch, pool, budget), batch.document_bounds)
            torch.testing.assert_close(logits, together, rtol=1e-5, atol=1e-5)
            assert weights is None or torch.allclose(weights, again, rtol=1e-5, atol=1e-5)
        for b, document in enumerate(DOCUMENTS):
            start, stop = batch.document_bounds[b : b + 2].tolist()
            alone = batch_of([document], batch.windows(start, stop).input_ids)
            logits, _ = head(encode_windows(encoder, alone, pool, 12), alone.document_bounds)
            torch.testing.assert_close(logits[0], together[b], rtol=1e-5, atol=1e-5)


def gradients(encoder: Encoder, head: ClassificationHead, batch: Batch, budget: int | None) -> dict[str, torch.Tensor]:
    encoder, head = copy.deepcopy(encoder), copy.deepcopy(head)
    logits, _ = head(encode_windows(encoder, batch, "mean", budget), batch.document_bounds)
    targets = {
        "single_label": torch.tensor([0, 2, 1, 1, 0]),
        "multi_label": torch.tensor([[1, 0, 1]] * 5),
        "regression": torch.tensor([0.5, -1, 0, 2, 1]),
    }[head.task]
    classification_loss(logits, targets, head.task).backward()
    named = [*encoder.named_parameters(), *head.named_parameters()]
    assert all(parameter.grad is not None for _, parameter in named), [name for name, p in named if p.grad is None]
    return {name: parameter.grad for name, parameter in named}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("method", "task"), [("attention", "single_label"), ("vote", "multi_label"), ("lstm", "regression")]
)
def test_bounded_and_unbounded_gradients_are_equal(method, task, packed):
    encoder, head, batch = encoder_of(packed).double(), head_of(method, task).double(), batch_of(DOCUMENTS)
    whole = gradients(encoder, head, batch, None)
    for budget in (1, 20):
        bounded = gradients(encoder, head, batch, budget)
        for name, expected in whole.items():
            torch.testing.assert_close(bounded[name], expected, rtol=1e-5, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}")


CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("packed", [True, False])
def test_recomputation_uses_the_same_dropout_masks(packed, device):
    encoder, batch = encoder_of(packed, dropout=0.3).to(device), batch_of(DOCUMENTS).to(torch.device(device))
    starts = [0, 2, 3, 5, 6] if packed else [0, 2, 3, 5, 6, 7, 8]

    def run(bounded: bool) -> torch.Tensor:
        encoder.zero_grad()
        torch.manual_seed(7)
        if bounded:
            vectors = encode_windows(encoder, batch, "first", 20)
        else:
            vectors = torch.cat(
                [
                    encode_windows(encoder, batch.windows(*group), "first")
                    for group in zip(starts, [*starts[1:], 9], strict=True)
                ]
            )
        torch.rand(3, device=device)
        vectors.pow(2).sum().backward()
        return torch.cat([p.grad.flatten() for p in encoder.parameters()])

    torch.testing.assert_close(run(bounded=True), run(bounded=False), rtol=1e-5, atol=1e-5)


def test_only_training_in_groups_computes_twice():
    counting = Counting(encoder_of())
    batch = batch_of(DOCUMENTS)
    encode_windows(counting, batch, "first", 20).sum().backward()  # type: ignore[arg-type]
    assert len(counting.calls) == 2 * 5
    counting.calls.clear()
    encode_windows(counting, batch, "first", 1000).sum().backward()  # type: ignore[arg-type]
    assert len(counting.calls) == 1


def test_activations_of_groups_are_not_kept():
    encoder, batch = encoder_of(), batch_of([[20] * 30])

    def kept(budget: int | None) -> int:
        sizes: list[int] = []
        parameters = {p.data_ptr() for p in encoder.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: (sizes.append(0 if t.data_ptr() in parameters else t.numel()), t)[1], lambda t: t
        ):
            encode_windows(encoder, batch, "first", budget)
        return sum(sizes)

    assert kept(40) < kept(None) / 20


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_serves_every_task(method, task):
    encoder, head, batch = encoder_of(), head_of(method, task), batch_of(DOCUMENTS)
    gradients(encoder, head, batch, 20)
    logits, weights = head(encode_windows(encoder, batch), batch.document_bounds)
    assert logits.shape == (5, 1 if task == "regression" else K)
    probs = class_probs(logits, task)
    if task == "single_label":
        torch.testing.assert_close(probs.sum(1), torch.ones(5))
    if task == "regression":
        assert torch.equal(probs, logits)
    else:
        assert ((probs >= 0) & (probs <= 1)).all()
    assert weights is None or len(weights) == batch.num_windows


@torch.no_grad()
def test_golden_head():
    head = ClassificationHead(2, 2, "multi_label", build_aggregator("label_attention", 2, 2), dropout=0.0)
    head.linear.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    head.linear.bias.copy_(torch.tensor([0.5, -0.5]))
    # One window is the vector of both labels; without any a label gets its bias.
    logits, weights = head(torch.tensor([[3.0, 4.0]]), torch.tensor([0, 1, 1]))
    assert logits.tolist() == [[3.5, 7.5], [0.5, -0.5]]
    assert weights.tolist() == [[1, 1]]


@torch.no_grad()
def test_windows_vote():
    head = head_of("vote").eval()
    windows = torch.randn(3, D, generator=torch.Generator().manual_seed(0))
    logits, weights = head(windows, torch.tensor([0, 3, 3]))
    each = torch.softmax(head.linear(windows), -1)
    torch.testing.assert_close(class_probs(logits, "single_label")[0], each.mean(0))
    torch.testing.assert_close(class_probs(logits, "single_label")[1], torch.softmax(head.linear.bias, -1))
    torch.testing.assert_close(weights, torch.full((3,), 1 / 3))


def test_documents_without_text_alone():
    encoder, head, batch = encoder_of(), head_of("attention"), batch_of([[], []])
    logits, weights = head(encode_windows(encoder, batch, "mean", 10), batch.document_bounds)
    torch.testing.assert_close(logits, head.linear.bias.expand(2, K))
    assert weights is not None
    assert len(weights) == 0


def test_half_precision_probabilities_are_float32():
    for task in TASKS:
        assert class_probs(torch.zeros(1, 1, dtype=torch.float16), task).dtype == torch.float32


def test_regression_has_one_answer():
    with pytest.raises(ConfigError, match="expected num_labels=1, got 3"):
        ClassificationHead(D, K, "regression", build_aggregator("mean", D))
