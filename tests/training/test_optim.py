import copy
import logging
import math

import pytest
import torch
from lightning.pytorch.callbacks import LambdaCallback
from torch import nn

from longdoc.errors import ConfigError
from longdoc.training.layers import depth_parts
from longdoc.training.optim import OptimizerConfig, layerwise_groups
from tests.models.tiny import tiny_encoder
from tests.training import little
from tests.training.test_layers import FAMILIES, Tagger, encoder_of

IDS = torch.arange(8, 40).reshape(2, 16)


def model() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))


def test_groups_hold_every_trainable_parameter_once():
    net = model()
    net[0].weight.requires_grad_(False)
    groups = layerwise_groups(net, 1e-3, 1.0, 0.3)
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    held = [p for group in groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in net.parameters() if p.requires_grad}
    assert len(held) == 4
    assert all(p.ndim > 1 for p in groups[0]["params"])
    assert all(p.ndim == 1 for p in groups[1]["params"])


def test_a_norm_of_two_dimensions_has_no_weight_decay():
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.LayerNorm((4, 4)))
    decayed, plain = layerwise_groups(net, 1e-3, 1.0, 0.3)
    assert decayed["params"] == [net[0].weight]
    assert plain["params"] == [net[1].weight, net[1].bias]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_step_moves_each_part_at_its_rate(family):
    net = Tagger(encoder_of(family))
    parts = depth_parts(net)
    before = {id(p): p.detach().clone() for p in net.parameters()}
    optimizer, _ = OptimizerConfig(lr=1e-3, weight_decay=0.0, layer_decay=0.5, warmup_ratio=0.0).build(net, 10)
    net(IDS).square().sum().backward()
    optimizer.step()
    held = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(held) == len(before)
    for depth, (name, parameters) in enumerate(parts):
        rate = 1e-3 * 0.5**depth
        assert {held[id(p)]["lr"] for p in parameters} == {rate}
        # The first step of Adam moves every weight with a gradient by the rate.
        moved = [float((p - before[id(p)]).detach().abs().max()) for p in parameters if p.grad is not None]
        assert max(moved) == pytest.approx(rate, rel=1e-2), name


def test_the_lowest_rate_is_that_of_the_embeddings():
    groups = layerwise_groups(Tagger(tiny_encoder("Bert")), 1.0, 0.5, 0.1)
    assert [(group["name"], group["lr"]) for group in groups if group["weight_decay"]] == [
        ("head", 1.0),
        ("layer 1", 0.5),
        ("layer 0", 0.25),
        ("embeddings", 0.125),
    ]
    assert {group["weight_decay"] for group in groups if "without" in group["name"]} == {0.0}


def test_frozen_parameters_shift_no_rate():
    net = Tagger(tiny_encoder("Bert"))
    net.holder["model"].encoder.layer[0].requires_grad_(False)
    groups = layerwise_groups(net, 1.0, 0.5, 0.1)
    assert [(group["name"], group["lr"]) for group in groups if group["weight_decay"]] == [
        ("head", 1.0),
        ("layer 1", 0.5),
        ("embeddings", 0.125),
    ]
    with pytest.raises(ConfigError, match="Tagger: expected parameters to train, got only frozen ones"):
        layerwise_groups(net.requires_grad_(False), 1.0, 0.5, 0.1)


def test_without_layer_decay_it_is_plain_adamw_bit_for_bit():
    ours = Tagger(tiny_encoder("Bert"))
    theirs = copy.deepcopy(ours)
    matrices = [p for p in theirs.parameters() if p.ndim > 1]
    vectors = [p for p in theirs.parameters() if p.ndim <= 1]
    plain = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=1e-3
    )
    built, schedule = OptimizerConfig(lr=1e-3, weight_decay=0.1, schedule="constant", warmup_ratio=0.0).build(ours, 5)
    for _ in range(5):
        for net, optimizer in ((ours, built), (theirs, plain)):
            optimizer.zero_grad()
            net(IDS).square().sum().backward()
            optimizer.step()
        schedule.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_the_rates_are_shown_where_they_differ(caplog):
    with caplog.at_level(logging.INFO):
        OptimizerConfig(lr=1e-3).build(Tagger(tiny_encoder("Bert")), 10)
        assert "learning rate" not in caplog.text
        OptimizerConfig(lr=1e-3, layer_decay=0.5).build(Tagger(tiny_encoder("Bert")), 10)
    rows = [line.split() for line in caplog.messages[-1].splitlines()]
    assert ["head", "1,224", "0.001", "0.01"] in rows  # aggregator, head and pooler
    assert ["embeddings", "without", "weight", "decay", "48", "0.000125", "0"] in rows


def factors(schedule: str, num_warmup: int, num_steps: int = 10) -> list[float]:
    config = OptimizerConfig(schedule=schedule, warmup_steps=num_warmup)
    factor = config.build(model(), num_steps)[1].lr_lambdas[0]
    return [factor(step) for step in range(num_steps + 1)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0, 0.5, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0]),
        ("cosine", [0, 0.5, *[0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(9)]]),
        ("constant", [0, 0.5, *[1] * 9]),
        ("inverse_sqrt", [0, 0.5, *[math.sqrt(2 / step) for step in range(2, 11)]]),
    ],
)
@pytest.mark.parametrize("warmup", [{"warmup_ratio": 0.2}, {"warmup_steps": 2, "warmup_ratio": 0.9}])
def test_golden_schedule_in_the_optimiser(schedule, expected, warmup):
    net = model()
    optimizer, scheduler = OptimizerConfig(lr=0.1, weight_decay=0.3, schedule=schedule, **warmup).build(net, 10)
    seen = []
    for _ in range(11):
        seen.append([group["lr"] for group in optimizer.param_groups])
        net(torch.tensor([1])).sum().backward()
        optimizer.step()
        scheduler.step()
        assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    assert seen == [pytest.approx([0.1 * factor] * 2, abs=1e-12) for factor in expected]
    assert factors(schedule, 2) == pytest.approx(expected, abs=1e-12)


def test_inverse_sqrt_is_the_published_formula_up_to_a_factor():
    width, warmup = 512, 4000
    published = [width**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in range(1, 20_000, 371)]
    ours = factors("inverse_sqrt", warmup, 20_000)[1:20_000:371]
    peak = width**-0.5 * warmup**-0.5
    assert ours == pytest.approx([rate / peak for rate in published])


def test_without_warm_up_and_with_nothing_else():
    assert factors("linear", 0)[0] == factors("cosine", 0)[0] == factors("inverse_sqrt", 0)[0] == 1.0
    assert factors("inverse_sqrt", 0)[3] == 0.5
    assert factors("linear", 10)[5] == 0.5
    assert factors("linear", 10)[10] == 0.0


def test_a_warm_up_longer_than_the_run_is_said(caplog):
    OptimizerConfig(warmup_steps=11).build(model(), 10)
    assert caplog.messages == ["optim.warmup_steps=11: the run ends after 10 steps, in the warm-up"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "optim.schedule=linear, optim.warmup_ratio=0.1: they need the number of steps"),
        ({"warmup_steps": 0, "schedule": "cosine"}, "optim.schedule=cosine, optim.warmup_ratio=0.0: they need"),
        ({"schedule": "constant"}, "trainer.max_epochs=-1 sets no end"),
        ({"schedule": "constant", "warmup_steps": 2}, None),
        ({"schedule": "inverse_sqrt", "warmup_ratio": 0.0}, None),
    ],
)
def test_a_run_without_an_end_has_a_schedule_without_one(settings, told, tmp_path):
    run, module = little.trainer(tmp_path, -1), little.module()
    run.callbacks.append(LambdaCallback(on_train_batch_end=lambda run, *_: setattr(run, "should_stop", True)))
    module.optimizer = OptimizerConfig(**settings)
    if told is None:
        run.fit(module, datamodule=little.data(tmp_path))
        assert run.global_step == 1
    else:
        with pytest.raises(ConfigError, match=told):
            run.fit(module, datamodule=little.data(tmp_path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0}, "lr=0"),
        ({"weight_decay": -1}, "weight_decay=-1: expected a number from 0"),
        ({"warmup_ratio": 1.5}, "warmup_ratio=1.5"),
        ({"warmup_steps": -1}, "warmup_steps=-1"),
        ({"layer_decay": 0.0}, "layer_decay=0.0: expected a number above 0, at most 1"),
        ({"layer_decay": 1.1}, "layer_decay=1.1"),
        ({"schedule": "step"}, "schedule='step': expected one of linear, cosine, inverse_sqrt, constant"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError, match=message):
        OptimizerConfig(**settings)
