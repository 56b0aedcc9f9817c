"""What is frozen does not move, and a run that unfreezes can be resumed."""

import pickle
from pathlib import Path

import lightning as L
import pytest
import torch

from longdoc.errors import ConfigError
from longdoc.training.freezing import GradualUnfreezing, freeze_
from longdoc.training.layers import depth_parts
from longdoc.training.ner import NERModule
from longdoc.training.optim import OptimizerConfig
from tests.models.tiny import tiny_encoder
from tests.training import little
from tests.training.test_layers import Tagger


def moved_parts(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> list[str]:
    """Names of the parts in which something changed."""
    names = {id(p): name for name, p in module.named_parameters()}
    return [
        part
        for part, parameters in depth_parts(module)
        if any(not torch.equal(p, before[names[id(p)]]) for p in parameters)
    ]


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in module.named_parameters()}


@pytest.mark.parametrize(
    ("settings", "frozen"),
    [
        ({"layers": 1}, ["layer 0"]),
        ({"layers": 2, "embeddings": True}, ["layer 1", "layer 0", "embeddings"]),
        ({"embeddings": True}, ["embeddings"]),
        ({"patterns": ["*.layer.1.*", "*.embeddings.*"]}, ["layer 1", "embeddings"]),
        ({}, []),
    ],
)
def test_freezes_what_was_named(settings: dict, frozen: list[str]) -> None:
    model = Tagger(tiny_encoder("Bert"))
    freeze_(model, **settings)
    parts = depth_parts(model)
    assert [name for name, parameters in parts if not any(p.requires_grad for p in parameters)] == frozen
    assert [name for name, parameters in parts if all(p.requires_grad for p in parameters)] == [
        name for name, _ in parts if name not in frozen
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patterns": ["*.layr.*"]}, r"pattern '\*\.layr\.\*' matches no parameter; there is aggregator.weight, "),
        ({"patterns": "*.bias"}, r"patterns='\*\.bias': expected a list, such as \['\*\.bias'\]"),
        ({"layers": 3}, "layers=3: expected a number from 0 to 2"),
        ({"patterns": ["*"]}, "nothing is left to train"),
    ],
)
def test_refusals(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        freeze_(Tagger(tiny_encoder("Bert")), **settings)


def test_frozen_parts_keep_their_weights_in_training(tmp_path: Path) -> None:
    module, data = little.module(), little.data(tmp_path)
    freeze_(module, embeddings=True)
    before = weights(module)
    little.trainer(tmp_path, 1).fit(module, data)
    assert moved_parts(module, before) == ["head", "layer 0"]


def unfreezing_module() -> NERModule:
    module = little.module()
    module.optimizer = OptimizerConfig(lr=5e-3, weight_decay=0.1, schedule="constant", warmup_ratio=0.0)
    return module


def fit(
    module: NERModule, folder: Path, epochs: int, resume: Path | None = None, **settings: object
) -> tuple[L.Trainer, GradualUnfreezing]:
    trainer, callback = little.trainer(folder, epochs), GradualUnfreezing(**settings)
    trainer.callbacks.append(callback)
    trainer.fit(module, little.data(folder), ckpt_path=resume, weights_only=True if resume else None)
    return trainer, callback


@pytest.mark.parametrize(
    ("epochs", "settings", "expected"),
    [
        (1, {}, ["head"]),
        (2, {}, ["head", "layer 0"]),
        (3, {}, ["head", "layer 0", "embeddings"]),
        (2, {"layers_per_epoch": 2}, ["head", "layer 0", "embeddings"]),
        (1, {"head_epochs": 0}, ["head", "layer 0"]),
    ],
)
def test_parts_join_from_the_top_down(tmp_path: Path, epochs: int, settings: dict, expected: list[str]) -> None:
    module = unfreezing_module()
    before = weights(module)
    _, callback = fit(module, tmp_path, epochs, **settings)
    assert moved_parts(module, before) == expected
    assert all(p.requires_grad for p in module.parameters())
    pickle.loads(pickle.dumps(callback))


def test_a_resumed_run_equals_one_that_was_not_stopped(tmp_path: Path) -> None:
    whole = unfreezing_module()
    fit(whole, tmp_path, 4)
    first = unfreezing_module()
    fit(first, tmp_path, 2)[0].save_checkpoint(tmp_path / "stopped.ckpt")
    resumed = unfreezing_module()
    fit(resumed, tmp_path, 4, tmp_path / "stopped.ckpt")
    assert moved_parts(resumed, weights(first)) == ["head", "layer 0", "embeddings"]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore:.*your dataloader is not resumable")
def test_resumed_within_an_epoch_the_rest_is_still_frozen(tmp_path: Path) -> None:
    class SaveAndWatch(L.Callback):
        def __init__(self) -> None:
            self.learning: list[list[str]] = []

        def on_train_batch_end(self, trainer, pl_module, *_):
            parts = depth_parts(pl_module)
            self.learning.append([name for name, part in parts if all(p.requires_grad for p in part)])
            if trainer.global_step == 2:
                trainer.save_checkpoint(tmp_path / "stopped.ckpt")

    def steps(resume: Path | None) -> list[list[str]]:
        trainer, watch = little.trainer(tmp_path, 1), SaveAndWatch()
        trainer.callbacks += [GradualUnfreezing(), watch]
        trainer.fit(unfreezing_module(), little.data(tmp_path), ckpt_path=resume, weights_only=True if resume else None)
        return watch.learning

    whole = steps(None)
    assert len(whole) > 2
    assert steps(tmp_path / "stopped.ckpt") == whole[2:] == [["head"]] * (len(whole) - 2)


def test_what_was_frozen_before_stays_frozen(tmp_path: Path) -> None:
    module = unfreezing_module()
    freeze_(module, embeddings=True)
    before = weights(module)
    fit(module, tmp_path, 3)
    assert moved_parts(module, before) == ["head", "layer 0"]


def test_waiting_parts_have_no_gradient_where_several_processes_train() -> None:
    class TwoProcesses:
        world_size, current_epoch, max_epochs = 2, 0, None

    model, trainer, callback = Tagger(tiny_encoder("Bert")), TwoProcesses(), GradualUnfreezing()
    callback.on_train_start(trainer, model)  # type: ignore[arg-type]
    model(torch.arange(8, 24)[None]).square().sum().backward()
    assert all(p.requires_grad for p in model.parameters())
    callback.on_before_optimizer_step(trainer, model, None)  # type: ignore[arg-type]
    assert [name for name, part in depth_parts(model) if any(p.grad is not None for p in part)] == ["head"]


def test_numbers_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="got head_epochs=1, layers_per_epoch=0"):
        GradualUnfreezing(layers_per_epoch=0)
