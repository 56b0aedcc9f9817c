"""Steps that are skipped, and advice about memory."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from longdoc.callbacks import StepGuard
from longdoc.callbacks.guard import batch_document_ids, memory_advice
from longdoc.errors import ConfigError
from longdoc.text.preprocess import EncodedDocument
from tests.callbacks.models import ForeignModule, batch, loader, trainer
from tests.training import little

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers")


class Batch(dict):
    def __init__(self, number: int) -> None:
        super().__init__(batch(number))
        self.document_ids = (f"d{number}",)

    def to(self, device: Any) -> "Batch":  # noqa: ARG002
        return self


class Poisoned(ForeignModule):
    """Its loss or its gradient is not finite in some batches, or memory runs out in one."""

    def __init__(self, loss: tuple[int, ...] = (), gradient: tuple[int, ...] = (), memory: int | None = None) -> None:
        super().__init__()
        torch.nn.init.ones_(self.embedding.weight)
        self.loss, self.gradient, self.memory = loss, gradient, memory
        self.updates: list[bool] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        number = int(batch["input_ids"][0, 0])
        if number == self.memory:
            torch.empty(2**60)
        if number in self.gradient:
            self.embedding.weight.register_hook(lambda grad: grad * torch.inf)
        return super().training_step(batch, batch_idx) * (torch.nan if number in self.loss else 1.0)

    def on_train_batch_end(self, *_: Any) -> None:
        self.updates.append(bool((self.embedding.weight != getattr(self, "before", 1.0)).any()))
        self.before = self.embedding.weight.detach().clone()


def fit(module: ForeignModule, guard: StepGuard, num_batches: int = 6, **settings: Any) -> None:
    data = DataLoader([Batch(i) for i in range(num_batches)], batch_size=None)
    trainer(guard, max_epochs=1, **settings).fit(module, data, loader())


def test_a_step_whose_loss_is_not_finite_is_skipped_and_named(caplog: pytest.LogCaptureFixture) -> None:
    module, guard = Poisoned(loss=(2,)), StepGuard()
    fit(module, guard)
    assert module.updates == [True, True, False, True, True, True]
    assert guard.num_skipped == 1
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "step 3 is skipped, its loss is not finite; documents: 'd2' (1 skipped so far)"
    ]


def test_with_accumulation_the_whole_step_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    module, guard = Poisoned(loss=(2,)), StepGuard()
    fit(module, guard, accumulate_grad_batches=2)
    assert module.updates == [False, True, False, False, False, True]
    assert "documents: 'd2' (1" in caplog.text


def test_a_gradient_that_is_not_finite_names_all_documents_of_the_step(caplog: pytest.LogCaptureFixture) -> None:
    module, guard = Poisoned(gradient=(3,)), StepGuard()
    fit(module, guard, num_batches=4, accumulate_grad_batches=2)
    assert module.updates == [False, True, False, False]
    assert "step 2 is skipped, its gradient is not finite; documents: 'd2', 'd3'" in caplog.text


def test_five_in_a_row_end_the_run() -> None:
    module = Poisoned(loss=(0, 1, 2, 3, 5, 6, 7, 8, 9))
    with pytest.raises(ConfigError, match=r"5 optimiser steps in a row were skipped, .* loss .* documents: 'd9'\. Low"):
        fit(module, StepGuard(), num_batches=10)
    assert module.updates == [False] * 4 + [True] + [False] * 4
    assert bool(module.embedding.weight.isfinite().all())


@pytest.mark.parametrize("stage", ["training", "evaluation"])
def test_out_of_memory_names_documents_and_settings(stage: str) -> None:
    guard, module = StepGuard(), Poisoned(memory=3)
    module.test_step = module.training_step  # type: ignore[assignment, method-assign]
    data = DataLoader([Batch(i) for i in range(5)], batch_size=None)
    start = trainer(guard, max_epochs=1).test if stage == "evaluation" else None
    with pytest.raises(RuntimeError, match="allocate") as caught:
        fit(module, guard) if start is None else start(module, data)
    advice = memory_advice(caught.value)
    assert advice is not None
    assert f"Out of memory in {stage}, with documents 'd3'" in advice
    settings = {
        "training": (
            "data.max_tokens_per_batch or model.max_tokens_per_forward",
            "windows.size_tokens",
            "model.gradient_checkpointing",
        ),
        "evaluation": ("model.max_tokens_per_forward", "windows.size_tokens"),
    }
    assert all(name in advice for name in settings[stage])


def test_other_errors_get_no_advice() -> None:
    class Fails(ForeignModule):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:  # noqa: ARG002
            raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ") as caught:
        fit(Fails(), StepGuard())
    assert memory_advice(caught.value) is None


def test_ids_of_a_list_of_documents(tmp_path: Path) -> None:  # noqa: ARG001
    encoded: list[EncodedDocument] = [little.preprocessor()(little.document(i)) for i in (3, 4)]
    assert batch_document_ids(encoded) == ("d3", "d4")
    assert batch_document_ids(torch.zeros(2)) == ()


def test_an_error_without_words_gets_advice(tmp_path: Path) -> None:
    error = MemoryError()
    StepGuard().on_exception(little.trainer(tmp_path, 1), little.module(), error)
    assert memory_advice(error).endswith("(MemoryError)")
