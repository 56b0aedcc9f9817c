"""The contract that all callbacks keep, found by introspection, on a model that knows nothing of longdoc."""

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Checkpoint

from longdoc import callbacks
from longdoc.callbacks.monitor import Monitor, ProbeMonitor
from tests.callbacks.models import EncoderModule, texts, trainer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:Using `DistributedSampler`"),
]
CALLBACKS = sorted(name for name in callbacks.__all__ if isinstance(getattr(callbacks, name), type))
NUM_BATCHES = 4
ARGUMENTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "AttentionMaps": lambda folder: {"folder": str(folder / "maps"), "num_documents": 1},
    "ErrorExamples": lambda folder: {"path": str(folder / "errors.html")},
    "LastCheckpoint": lambda folder: {"dirpath": str(folder / "last")},
    "PredictionWriter": lambda folder: {"path": str(folder / "new" / "predictions.jsonl")},
}


def make(name: str, folder: Path) -> Any:
    arguments = ARGUMENTS[name](folder) if name in ARGUMENTS else {}
    if issubclass(getattr(callbacks, name), ProbeMonitor):
        arguments["every_n_steps"] = 3
    return instantiate({"_target_": f"longdoc.callbacks.{name}", **arguments})


def everything(folder: Path) -> dict[str, Any]:
    return {name: make(name, folder) for name in CALLBACKS}


def data() -> tuple[Any, Any]:
    return texts(NUM_BATCHES), texts(NUM_BATCHES, seed=1)


def outcome(callback: Any) -> dict[str, Any]:
    """What a run leaves in a callback, times left out."""
    kept = {"state": callback.state_dict(), "latest": dict(getattr(callback, "latest", {}))}
    for name in ("results", "train_tokens", "train_slots", "test_tokens"):
        kept[name] = getattr(callback, name, None)
    kept["summary"] = callback.summary() if isinstance(callback, callbacks.Coverage) else None
    return kept


def weights_of(module: L.LightningModule) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach()


@pytest.mark.parametrize("name", CALLBACKS)
def test_it_is_built_from_a_target_fits_twice_and_pickles(name: str, tmp_path: Path) -> None:
    callback = make(name, tmp_path)
    assert isinstance(callback, L.Callback)
    parameters = inspect.signature(type(callback)).parameters.values()
    assert all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    seen = []
    for _ in range(2):
        module = EncoderModule()
        trainer(callback, max_epochs=1).fit(module, *data())
        seen.append(outcome(callback))
        trainer(callback).test(module, data()[1], verbose=False)
        trainer(callback).predict(module, data()[1], return_predictions=False)
        hooks = (module.tagger.bert._forward_pre_hooks, module.tagger.bert._forward_hooks)
        assert not any(hooks), "something was left behind in the model"
    again = pickle.loads(pickle.dumps(callback))
    assert type(again) is type(callback)
    trainer(again, max_epochs=1).fit(EncoderModule(), *data())
    if isinstance(callback, Monitor):
        assert seen[0] == seen[1] == outcome(again)


def test_together_they_change_no_weight_and_resume_equal(tmp_path: Path) -> None:
    weights, states = [], []
    for folder, uses, stops in (("plain", False, False), ("whole", True, False), ("resumed", True, True)):
        used = everything(tmp_path / folder) if uses else {}
        module = EncoderModule()
        path = tmp_path / folder / "stop.ckpt"
        if stops:
            run = trainer(*used.values(), max_epochs=1)
            run.fit(module, *data())
            run.save_checkpoint(path)
            assert torch.load(path, weights_only=True)["callbacks"]
            module, used = EncoderModule(), everything(tmp_path / folder)
        run = trainer(*used.values(), max_epochs=2)
        run.fit(module, *data(), ckpt_path=path if stops else None, weights_only=True)
        weights.append(weights_of(module))
        states.append({name: outcome(callback) for name, callback in used.items() if isinstance(callback, Monitor)})
    assert torch.equal(*weights[:2])
    assert torch.equal(*weights[1:])
    assert states[1] == states[2]
    assert len(states[1]) == 6


class Keep(L.Callback):
    """Writes down what the first process has at the end."""

    def __init__(self, path: Path, used: dict[str, Any]) -> None:
        self.path, self.used = path, used

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:  # noqa: ARG002
        if trainer.is_global_zero:
            torch.save({name: outcome(callback) for name, callback in self.used.items()}, self.path)

    on_fit_end = on_test_end


def run_in(num_processes: int, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What callbacks hold after a fit and after a test; processes share the batches, or one adds up their gradients."""
    used = everything(folder)
    held = []
    for stage in ("fit", "test"):
        path = folder / f"{stage}.pt"
        run = L.Trainer(
            accelerator="cpu",
            devices=num_processes,
            strategy="ddp_fork" if num_processes > 1 else "auto",
            accumulate_grad_batches=2 // num_processes,
            callbacks=[*used.values(), Keep(path, used)],
            num_sanity_val_steps=1,
            max_epochs=4,
            logger=False,
            enable_model_summary=False,
            enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in used.values()),
        )
        if stage == "fit":
            run.fit(EncoderModule(), texts(2), data()[1])  # two: they make a step in any order
        else:
            run.test(EncoderModule(), data()[1], verbose=False)
        held.append(torch.load(path, weights_only=False))
    return held[0], held[1]


def assert_close(value: Any, expected: Any, where: str) -> None:
    """Equal, but for the last digits of numbers."""
    if isinstance(expected, dict):
        assert value.keys() == expected.keys(), where
        for key, inner in expected.items():
            assert_close(value[key], inner, f"{where} {key}")
    elif isinstance(expected, (list, tuple)) and len(value) == len(expected):
        for one, other in zip(value, expected, strict=True):
            assert_close(one, other, where)
    else:
        assert value == (pytest.approx(expected, abs=1e-6) if isinstance(expected, float) else expected), where


def test_two_processes_equal_one(tmp_path: Path) -> None:
    one, two = (run_in(number, tmp_path / str(number)) for number in (1, 2))
    for name in CALLBACKS:
        assert_close(two[0][name], one[0][name], name)
        for key in ("results", "test_tokens", "summary"):  # the processes of the fit have ended with the rest
            assert_close(two[1][name][key], one[1][name][key], f"{name} {key}")
    for file in ("errors.html", "new/predictions.jsonl"):
        assert (tmp_path / "1" / file).read_text() == (tmp_path / "2" / file).read_text()
    assert len(one[1]["ResultCollector"]["results"]) == NUM_BATCHES
