"""What ``trainer.precision=auto`` becomes, and that it is said."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longdoc.app.build import complete
from longdoc.app.precision import choose_precision
from longdoc.app.train import train
from longdoc.errors import ConfigError
from tests.app.conftest import SMALL


@pytest.mark.parametrize(
    ("features", "precision", "reason"),
    [
        ({"amx_bf16": True, "avx512_bf16": True}, "bf16-mixed", "the CPU has amx_bf16"),
        ({"amx_bf16": False, "avx512_bf16": True}, "bf16-mixed", "the CPU has avx512_bf16"),
        ({"avx512_f": True, "avx512_bf16": False}, "32-true", "the CPU is not known to have AMX or AVX512-BF16"),
        ({}, "32-true", "the CPU is not known to have AMX or AVX512-BF16"),
    ],
)
def test_on_a_cpu(monkeypatch: pytest.MonkeyPatch, features: dict, precision: str, reason: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert choose_precision("cpu") == (precision, reason)


@pytest.mark.parametrize(
    ("capability", "precision"),
    [((9, 0), "bf16-mixed"), ((8, 0), "bf16-mixed"), ((7, 5), "16-mixed"), ((7, 0), "16-mixed"), ((6, 1), "32-true")],
)
def test_on_a_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Card")
    for accelerator in ("auto", "gpu"):
        chosen, reason = choose_precision(accelerator)
        assert chosen == precision
        assert reason.startswith(f"Card has compute capability {capability[0]}.{capability[1]}, which is fast at ")
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    assert choose_precision("cpu")[0] == "32-true"


def test_elsewhere_nothing_is_lowered() -> None:
    assert choose_precision("tpu")[0] == "32-true"


def test_the_choice_is_logged_and_a_set_one_is_kept(
    composed: Callable[..., dict], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    with caplog.at_level(logging.INFO):
        assert complete(composed("trainer=cpu", "trainer.precision=auto"))["trainer"]["precision"] == "bf16-mixed"
    assert caplog.messages == ["precision bf16-mixed: the CPU has amx_bf16"]
    assert complete(composed("trainer=cpu"))["trainer"]["precision"] == "32-true"


def test_mixed_precision_trains_with_clipped_gradients(
    corpus: Path, composed: Callable[..., dict], tmp_path: Path
) -> None:
    wanted = ("trainer.precision=bf16-mixed", "trainer.gradient_clip_val=1.0", "trainer.max_epochs=1")
    config = composed(f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, *wanted, output_dir=tmp_path / "out")
    assert train(config)["train"]["num_skipped_steps"] == 0


def test_weights_of_half_precision_are_refused(composed: Callable[..., dict]) -> None:
    with pytest.raises(ConfigError, match=r"precision=bf16-true: .* bf16-mixed"):
        complete(composed("trainer.precision=bf16-true"))
