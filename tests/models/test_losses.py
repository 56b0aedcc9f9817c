import math

import pytest
import torch
from torch.nn import functional as F

from longdoc.errors import ConfigError
from longdoc.models.losses import LossConfig, class_weights, classification_loss, tagging_loss

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(7, 4, generator=GENERATOR)
CLASSES = torch.tensor([0, 3, -100, 2, 1, 1, 0])
ANSWERS = torch.randint(0, 2, (7, 4), generator=GENERATOR)


@pytest.mark.parametrize(
    ("method", "expected"),
    # 8, 1 and 1 items. 8 a + b + c = 10 with (a, b, c) ~ 1/8, 1, 1; ~ 1/sqrt(8), 1, 1; ~ 1/(1 + 1/2 + ... + 1/128), 1, 1.
    [
        ("inverse", [10 / 24, 80 / 24, 80 / 24]),
        ("inverse_sqrt", [x * 10 / (math.sqrt(8) + 2) for x in (1 / math.sqrt(8), 1, 1)]),
        ("effective", [x * 10 / (8 * 128 / 255 + 2) for x in (128 / 255, 1, 1)]),
    ],
)
def test_golden_class_weights(method, expected):
    assert class_weights([8, 1, 1], method, beta=0.5).tolist() == pytest.approx(expected)


def test_class_weights_have_mean_one_over_the_items():
    counts = torch.tensor([[900, 100], [500, 500], [999, 1]])
    for method in ("inverse", "inverse_sqrt", "effective"):
        weights = class_weights(counts, method)
        torch.testing.assert_close((weights * counts).sum(1), torch.full((3,), 1000.0))
        assert weights[1].tolist() == [1, 1]
        assert weights[2, 1] > weights[0, 1] > 1 > weights[0, 0]
    torch.testing.assert_close(class_weights([5, 300], "effective", beta=0.0), torch.ones(2))
    assert class_weights([5, 0], "inverse").isfinite().all()
    assert class_weights([5, 1], "none") is None


def test_golden_focal_loss():
    logits = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]])
    # p of the gold is 3/4 and 1/4: (1/4)^2 ln(4/3) and (3/4)^2 ln 4.
    expected = (math.log(4 / 3) / 16 + 9 * math.log(4) / 16) / 2
    assert tagging_loss(logits, torch.tensor([0, 1]), loss=LossConfig(focal_gamma=2.0)).item() == pytest.approx(
        expected
    )
    # The same probabilities as one label's yes.
    yes = torch.full((2, 1), math.log(3))
    loss = classification_loss(yes, torch.tensor([[1], [0]]), "multi_label", loss=LossConfig(focal_gamma=2.0))
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 2.0, 1.0, 3.0])])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_without_focus_it_is_the_loss_of_torch(weight, smoothing):
    expected = F.cross_entropy(LOGITS, CLASSES, weight, reduction="sum", label_smoothing=smoothing) / 6
    for gamma in (0.0, 1e-9):
        how = LossConfig(focal_gamma=gamma, label_smoothing=smoothing)
        loss = tagging_loss(LOGITS, CLASSES, None, weight, how)
        torch.testing.assert_close(loss, expected)
        same = classification_loss(LOGITS, CLASSES, "single_label", None, weight, how)
        assert torch.equal(loss, same)


def test_multi_label_without_focus_is_the_loss_of_torch():
    expected = F.binary_cross_entropy_with_logits(LOGITS, ANSWERS.float())
    torch.testing.assert_close(classification_loss(LOGITS, ANSWERS, "multi_label"), expected)
    torch.testing.assert_close(classification_loss(LOGITS, ANSWERS.float(), "multi_label"), expected)
    smooth = F.binary_cross_entropy_with_logits(LOGITS, ANSWERS * 0.8 + 0.1)
    torch.testing.assert_close(
        classification_loss(LOGITS, ANSWERS, "multi_label", loss=LossConfig(label_smoothing=0.2)), smooth
    )
    weight = torch.tensor([[1.0, 3.0], [1.0, 1.0], [0.5, 2.0], [2.0, 0.0]])
    factor = torch.where(ANSWERS == 1, weight[:, 1], weight[:, 0])
    weighted = F.binary_cross_entropy_with_logits(LOGITS, ANSWERS.float(), factor)
    torch.testing.assert_close(classification_loss(LOGITS, ANSWERS, "multi_label", weight=weight), weighted)


def test_golden_regression():
    logits = torch.tensor([[1.0], [0.0], [5.0]], requires_grad=True)
    loss = classification_loss(logits, torch.tensor([3.0, -1.0, math.nan]), "regression")
    assert loss.item() == 2.5
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[-2], [1], [0]]


@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("task", ["single_label", "multi_label", "regression"])
def test_parts_of_a_step_add_up_to_the_whole(task, gamma):
    if task == "regression" and gamma:
        return
    partly = ANSWERS.clone()
    partly[2], partly[3, 1] = -100, -100
    numbers = torch.tensor([1.0, 2.0, math.nan, -1.0, 0.0, 3.0, 1.0])
    targets = {"single_label": CLASSES, "multi_label": partly, "regression": numbers}[task]
    weight = {
        "single_label": class_weights([3, 9, 1, 1], "inverse"),
        "multi_label": class_weights([[4, 1]] * 4, "inverse"),
        "regression": None,
    }[task]
    logits = LOGITS[:, :1] if task == "regression" else LOGITS
    how = LossConfig(focal_gamma=gamma)
    whole = classification_loss(logits, targets, task, None, weight, how)
    parts = [slice(0, 1), slice(1, 3), slice(3, 7)]
    shares = [classification_loss(logits[s], targets[s], task, 6, weight, how) for s in parts]
    torch.testing.assert_close(sum(shares), whole)
    assert whole > 0
    nothing = classification_loss(logits[2:3], targets[2:3], task, None, weight, how)
    assert nothing == 0


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_a_sure_model_has_a_finite_gradient(gamma):
    logits = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    for task, targets in (("single_label", [0, 0]), ("multi_label", [[1, 0], [1, 1]])):
        classification_loss(logits, torch.tensor(targets), task, loss=LossConfig(focal_gamma=gamma)).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[1].abs().sum() > 0


def test_half_precision_is_scored_in_float32():
    for task, targets in (("single_label", CLASSES), ("multi_label", ANSWERS)):
        loss = classification_loss(LOGITS.half(), targets, task, loss=LossConfig(focal_gamma=1.0))
        assert loss.dtype == torch.float32
        torch.testing.assert_close(
            loss, classification_loss(LOGITS, targets, task, loss=LossConfig(focal_gamma=1.0)), rtol=1e-3, atol=1e-3
        )


def test_wrong_settings():
    with pytest.raises(ConfigError, match=r"loss\.weight='balanced': expected one of none, inverse"):
        LossConfig("balanced")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"loss\.focal_gamma=-1"):
        LossConfig(focal_gamma=-1)
    with pytest.raises(ConfigError, match=r"loss\.focal_gamma=nan: expected 0 or more"):
        LossConfig(focal_gamma=math.nan)
    with pytest.raises(ConfigError, match=r"loss\.label_smoothing=1\.0"):
        LossConfig(label_smoothing=1.0)
    with pytest.raises(ConfigError, match=r"loss\.beta=1\.0"):
        class_weights([1, 2], "effective", beta=1.0)
    with pytest.raises(ConfigError, match="not a regression"):
        classification_loss(LOGITS[:, :1], torch.zeros(7), "regression", loss=LossConfig(focal_gamma=1.0))
    with pytest.raises(ConfigError, match=r"expected shape \(4, 2\), got \(4,\)"):
        classification_loss(LOGITS, ANSWERS, "multi_label", weight=torch.ones(4))
