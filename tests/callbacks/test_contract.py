"""The contract that all callbacks keep, found by introspection, on a model that knows nothing of longdoc."""

import inspect
import pickle
import re
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
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
LOGGED = {"OptimizerMonitor": 50}  # by default, a Trainer logs every 50 steps
NUM_BATCHES = 4
ARGUMENTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "AttentionMaps": lambda folder: {"folder": str(folder / "maps"), "num_windows": 1},
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
    for _ in range(3):
        module = EncoderModule()
        trainer(callback, max_epochs=1).fit(module, *data())
        trainer(callback).test(module, data()[1], verbose=False)
        trainer(callback).predict(module, data()[1], return_predictions=False)
        seen.append(outcome(callback))
        hooks = (module.tagger.bert._forward_pre_hooks, module.tagger.bert._forward_hooks)
        assert not any(hooks), "something was left behind in the model"
        callback = pickle.loads(pickle.dumps(callback))
    assert seen[0] == seen[1] == seen[2]


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
        states.append({name: outcome(c) if isinstance(c, Monitor) else c.state_dict() for name, c in used.items()})
    assert torch.equal(*weights[:2])
    assert torch.equal(*weights[1:])
    assert states[1] == states[2]
    assert sum(map(bool, states[1].values())) == 7  # StepGuard and the monitors


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


class Stopwatch:
    """Takes the time of a callback in each step: that of its hooks, and of what it does while the model runs."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.train: list[float] = []
        self.test: list[float] = []
        self._hooks = self._last = 0.0
        for name in dir(L.Callback):
            if re.fullmatch(r"on_(train_batch|test_batch|before|after)_\w+", name):
                setattr(callback, name, self.timed(getattr(callback, name), name))

    def own(self) -> float:
        return getattr(self.callback, "own_seconds", 0.0)

    def timed(self, hook: Any, name: str) -> Any:
        def run(*args: Any, **kwargs: Any) -> None:
            start, own = time.perf_counter(), self.own()
            hook(*args, **kwargs)
            self._hooks += time.perf_counter() - start - (self.own() - own)
            if name.endswith("batch_end"):
                total = self._hooks + self.own()
                (self.train if "train" in name else self.test).append(total - self._last)
                self._last = total

        return run


class StepClock(L.Callback):
    """The time of each step, from one to the next."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())

    on_test_batch_end = on_train_batch_end

    def median(self) -> float:
        return statistics.median(b - a for a, b in pairwise(self.ends))


@pytest.mark.long
def test_own_time_is_under_three_hundredths_of_a_step(tmp_path: Path) -> None:
    module = EncoderModule(
        num_layers=6,
        width=384,
        num_attention_heads=12,
        intermediate_size=1536,
        vocab_size=30_000,
        hidden_dropout_prob=0.1,
    )
    steps = {"rows": 4, "size": 340}  # 1,024 tokens, about
    clocks = {"train": StepClock(), "test": StepClock()}
    trainer(clocks["train"], max_epochs=1).fit(module, texts(4, **steps), texts(1, **steps))
    trainer(clocks["test"]).test(module, texts(4, **steps), verbose=False)
    used, intervals = everything(tmp_path), {}
    for name, callback in used.items():
        parameters = inspect.signature(type(callback)).parameters
        every = next((key for key in parameters if key.startswith("every_n_")), None)
        intervals[name] = LOGGED.get(name, 1) if every is None else parameters[every].default
        if every is not None:
            setattr(callback, every, 2)
    for number in (1, 5):  # the first time, libraries load
        watches = {name: Stopwatch(callback) for name, callback in used.items()}
        run = trainer(*used.values(), max_epochs=1, log_every_n_steps=1)
        run.fit(module, texts(number, **steps), texts(1, **steps))
        run.test(module, texts(number, **steps), verbose=False)
    for name, watch in watches.items():
        rare = min(watch.train) + max(watch.train) / intervals[name]
        train = rare if intervals[name] > 1 else statistics.median(watch.train)
        shares = train / clocks["train"].median(), statistics.median(watch.test) / clocks["test"].median()
        told = f"{max(watch.train) * 1e3:.1f} ms every {intervals[name]} steps, {shares[0]:.2%} of a step"
        print(f"{name}: {told}, {shares[1]:.2%} of a test step")
        assert max(shares) < 0.03, name
