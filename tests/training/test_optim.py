import math

import pytest
import torch
from torch import nn

from longdoc.errors import ConfigError
from longdoc.training.optim import OptimizerConfig, lr_factor, parameter_groups


def model() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))


def test_groups_hold_every_trainable_parameter_once():
    net = model()
    net[0].weight.requires_grad_(False)
    groups = parameter_groups(net, 0.3)
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    held = [p for group in groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in net.parameters() if p.requires_grad}
    assert len(held) == 4
    assert all(p.ndim > 1 for p in groups[0]["params"])
    assert all(p.ndim == 1 for p in groups[1]["params"])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0, 0.5, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0]),
        ("cosine", [0, 0.5, *[0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(9)]]),
        ("constant", [0, 0.5, *[1] * 9]),
    ],
)
def test_golden_schedule_in_the_optimiser(schedule, expected):
    net = model()
    optimizer, scheduler = OptimizerConfig(lr=0.1, weight_decay=0.3, warmup_ratio=0.2, schedule=schedule).build(net, 10)
    seen = []
    for _ in range(11):
        seen.append([group["lr"] for group in optimizer.param_groups])
        net(torch.tensor([1])).sum().backward()
        optimizer.step()
        scheduler.step()
        assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    assert seen == [pytest.approx([0.1 * factor] * 2, abs=1e-12) for factor in expected]


def test_without_warm_up_and_past_the_end():
    assert lr_factor("linear", 0, 0, 10) == 1.0
    assert lr_factor("linear", 20, 0, 10) == lr_factor("cosine", 20, 0, 10) == 0.0
    assert lr_factor("linear", 5, 10, 10) == 0.5
    assert lr_factor("linear", 10, 10, 10) == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": 0}, "lr=0"), ({"warmup_ratio": 1.5}, "warmup_ratio=1.5"), ({"schedule": "step"}, "schedule='step'")],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError, match=message):
        OptimizerConfig(**settings)
