"""Where the time of a training step goes."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.profilers import Profiler
from torch import nn
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from longdoc.errors import ConfigError
from longdoc.models.hf_layers import encoder_layers
from longdoc.models.hf_probes import attention_function

PARTS = ("attention", "projections", "feed-forward", "data", "optimiser", "rest")
_STEP = "longdoc step"
_ACTIVATIONS = ("aten::gelu", "aten::silu", "aten::relu")
_BACKWARD = "autograd::engine::evaluate_function"


class StepProfiler(Profiler):
    """Measures some steps in the middle of the training, and tells what share of them each part takes.

    A step reaches from the wait for its batch to the callbacks after it; validation is not in it. Backward passes count
    for the part whose forward pass they belong to. ``rest`` is embeddings, norms, head, loss, callbacks and Python.

    Args:
        num_steps: How many steps are measured.
        skip_steps: How many steps at the start are not.
        trace_path: File for a trace of the last measured step, which Perfetto and Chrome show; None for none.
    """

    def __init__(self, num_steps: int = 10, skip_steps: int = 3, trace_path: str | Path | None = None) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.skip_steps = skip_steps
        self.trace_path = trace_path
        self.seconds: Counter[str] = Counter()
        self.num_measured = 0
        self.step_seconds = 0.0
        self._lightning_module: Any = None  # Lightning sets it
        self._num_seen = 0
        self._session: profile | None = None
        self._regions: list[tuple[str, record_function]] = []
        self._marks = ExitStack()

    def start(self, action_name: str) -> None:
        """Begin a step, or a part of the step that is measured."""
        if action_name.endswith(".train_dataloader_next"):
            self._abandon()  # the wait that ends an epoch brings no batch
            self._num_seen += 1
            if self._num_seen > self.skip_steps and self.num_measured < self.num_steps:
                self._begin()
        if self._session is not None:
            self._enter(_part_of_action(action_name))

    def stop(self, action_name: str) -> None:
        """End a part of a step, or the step."""
        if self._session is None:
            return
        self._leave()
        if action_name.startswith("[LightningModule]") and action_name.endswith(".on_train_batch_end"):
            self._end()

    def summary(self) -> str:
        """The table; its parts add up to the step."""
        if self._stage != "fit":
            return ""
        if not self.num_measured:
            return f"No training step was measured: the first {self.skip_steps} are left out, and there were no more"
        step = self.step_seconds / self.num_measured
        lines = [f"Share of a training step, mean of {self.num_measured}", f"{'part':<13}{'ms':>10}{'share':>9}"]
        for name, seconds in (*((part, self.seconds[part] / self.num_measured) for part in PARTS), ("step", step)):
            lines.append(f"{name:<13}{1000 * seconds:>10.2f}{seconds / step:>9.1%}")
        return "\n".join(lines)

    def teardown(self, stage: str | None) -> None:
        """Leave nothing behind in the model."""
        self._abandon()
        super().teardown(stage)

    def _enter(self, part: str) -> None:
        region = record_function(part)
        region.__enter__()
        self._regions.append((part, region))

    def _leave(self) -> None:
        if self._regions:
            self._regions.pop()[1].__exit__(None, None, None)

    def _begin(self) -> None:
        self._mark_modules()
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else it prints two lines a step
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self._session = profile(activities=activities, acc_events=True)
        self._session.start()
        self._enter(_STEP)

    def _end(self) -> None:
        assert self._session is not None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        while self._regions:
            self._leave()
        session, self._session = self._session, None
        session.stop()
        self._abandon()
        events = session.events()
        step = 1e-6 * sum(event.cpu_time_total for event in events if event.name == _STEP)
        shares = Counter({part: 1e-6 * value for part, value in _times(events).items()})
        shares["rest"] = step - sum(shares[part] for part in PARTS[:-1])
        self.seconds.update(shares)
        self.step_seconds += step
        self.num_measured += 1
        if self.trace_path is not None:
            Path(self.trace_path).parent.mkdir(parents=True, exist_ok=True)
            session.export_chrome_trace(str(self.trace_path))

    def _abandon(self) -> None:
        while self._regions:
            self._leave()
        if self._session is not None:
            self._session.stop()
            self._session = None
        self._marks.close()

    def _mark_modules(self) -> None:
        try:
            base, layers = encoder_layers(self._lightning_module)
        except ConfigError:
            return  # data and optimiser can be told from the rest of any model
        for layer in layers:
            for part, module in _marked(layer):
                before = module.register_forward_pre_hook(lambda *_, part=part: self._enter(part))
                after = module.register_forward_hook(lambda *_: self._leave())
                self._marks.callback(before.remove)
                self._marks.callback(after.remove)
        name = str(getattr(base.config, "_attn_implementation", None))
        function = ALL_ATTENTION_FUNCTIONS.get(name)
        if function is not None:

            def marked(*arguments: Any, **keywords: Any) -> Any:
                with record_function("attention"):
                    return function(*arguments, **keywords)

            self._marks.enter_context(attention_function(name, marked))


def _part_of_action(name: str) -> str:
    """The part that an action of Lightning belongs to; what happens inside it may belong to another."""
    hook = name.rpartition(".")[2]
    if hook in ("train_dataloader_next", "batch_to_device", "transfer_batch_to_device"):
        return "data"
    if hook in ("optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping", "lr_scheduler_step"):
        return "optimiser"
    return "rest"


def _marked(layer: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a layer that hold its matrices, by the names that Hugging Face and we give them."""
    for name, child in layer.named_children():
        if not any(isinstance(part, nn.Linear) for part in child.modules()):
            continue
        if re.search("att|qkv", name) or name == "out":
            yield "projections", child
        elif any("att" in inner for inner, _ in child.named_modules()):
            yield from _marked(child)
        else:
            yield "feed-forward", child


def _times(events: list[FunctionEvent]) -> Counter[str]:
    """Microseconds by part: of the device where there is one, else of the CPU."""
    on_device = any(event.self_device_time_total for event in events)
    parts: dict[int, str] = {}
    forward: dict[int, str] = {}
    times: Counter[str] = Counter()
    for event in sorted(events, key=lambda event: event.time_range.start):
        part = "rest" if event.cpu_parent is None else parts[id(event.cpu_parent)]
        if event.name in PARTS:
            part = event.name
        elif event.name.startswith(_BACKWARD):
            part = forward.get(event.sequence_nr, "rest")
        elif event.name in _ACTIVATIONS and part == "rest":
            part = "feed-forward"
        if event.sequence_nr >= 0 and event.scope == 0 and not event.name.startswith(_BACKWARD):
            forward[event.sequence_nr] = part
        parts[id(event)] = part
        waits = not on_device or part == "data"
        times[part] += event.self_cpu_time_total if waits else event.self_device_time_total
    return times
