"""Encoders that can be traced, and their ONNX files."""

import sys
from pathlib import Path

import pytest
import torch

from longdoc.errors import MissingExtra
from longdoc.models.aggregation import build_aggregator
from longdoc.models.batch import Batch
from longdoc.models.classification import ClassificationHead
from longdoc.models.encoder import AttentionConfig, Encoder, set_attention
from longdoc.models.onnx import (
    ENCODER,
    HEAD,
    make_int8,
    onnx_encoder,
    open_session,
    traceable,
    write_encoder,
    write_head,
)
from longdoc.models.tagging import TaggingHead
from tests.models.tiny import tiny_encoder


def windows(*lengths: int) -> Batch:
    ids = torch.randint(16, 60, (sum(lengths),), generator=torch.Generator().manual_seed(0))
    return Batch.of_windows(ids, lengths)


def encoder_of(family: str, attention: AttentionConfig | None = None) -> Encoder:
    encoder = Encoder(tiny_encoder(family), 0).eval()
    set_attention(encoder, attention or AttentionConfig(), 600)
    return encoder


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "ModernBert", "EuroBert"])
@pytest.mark.parametrize(
    "attention",
    [
        AttentionConfig(),
        AttentionConfig(left=5, right=3),
        AttentionConfig(left=5, global_tokens=(0, 7), alibi=True),
        AttentionConfig(alibi=True),
        AttentionConfig(control="uniform", left=4),
        AttentionConfig(left=0, right=0),
    ],
    ids=str,
)
@torch.inference_mode()
def test_what_can_be_traced_computes_the_same(family: str, attention: AttentionConfig) -> None:
    encoder, batch = encoder_of(family, attention), windows(40, 23, 1)
    assert encoder.packed
    expected = encoder(batch)
    torch.testing.assert_close(Encoder(traceable(encoder.model), 0)(batch), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder(batch), expected, atol=0, rtol=0)  # what was copied stays as it was


@torch.inference_mode()
def test_files_give_what_torch_gives_at_any_shape(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    encoder = encoder_of("Bert", AttentionConfig(left=6, right=6, global_tokens=(0,)))
    write_encoder(encoder, tmp_path / ENCODER)
    read = onnx_encoder(tmp_path / ENCODER, 0)
    assert (read.width, read.packed) == (encoder.width, False)
    for batch in (windows(1), windows(50, 7, 19), windows(300)):
        torch.testing.assert_close(read(batch), encoder(batch), atol=1e-5, rtol=0)
    make_int8(tmp_path / ENCODER, tmp_path / "int8.onnx")
    assert (tmp_path / "int8.onnx").stat().st_size < 0.8 * (tmp_path / ENCODER).stat().st_size
    batch = windows(50, 7)
    near, exact = onnx_encoder(tmp_path / "int8.onnx", 0)(batch), encoder(batch)
    assert 0 < float((near - exact).norm() / exact.norm()) < 0.1


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=pytest.mark.slow) for name in ("Roberta", "ModernBert", "EuroBert", "DebertaV2")]
    + [pytest.param(name, marks=pytest.mark.long) for name in ("Electra", "DistilBert", "Albert", "NomicBert", "Esm")],
)
@torch.inference_mode()
def test_families_in_onnx(family: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    encoder, batch = encoder_of(family), windows(70, 40)
    write_encoder(encoder, tmp_path / ENCODER)
    torch.testing.assert_close(
        onnx_encoder(tmp_path / ENCODER, encoder.pad_id)(batch), encoder(batch), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(
    ("method", "task"), [("mean", "single_label"), ("vote", "single_label"), ("vote", "multi_label"), ("attention", "single_label")]
    + [pytest.param(name, "single_label", marks=pytest.mark.slow) for name in ("max", "lstm", "transformer", "label_attention")],
)  # fmt: skip
@torch.inference_mode()
def test_heads_in_onnx(method, task, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    torch.manual_seed(0)
    head = ClassificationHead(24, 3, task, build_aggregator(method, 24, 3)).eval()
    write_head(head, tmp_path / HEAD)
    session = open_session(tmp_path / HEAD)
    for number in (1, 2, 9):
        vectors = torch.randn(number, 24)
        found = torch.from_numpy(session.run(None, {"vectors": vectors.numpy()})[0])
        torch.testing.assert_close(found, head(vectors, torch.tensor([0, number]))[0][0], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_the_head_of_a_tagger_in_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    head, vectors = TaggingHead(24, 5).eval(), torch.randn(3, 24)
    write_head(head, tmp_path / HEAD)
    found = open_session(tmp_path / HEAD).run(None, {"vectors": vectors.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(found), head.linear(vectors), atol=1e-5, rtol=0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"'onnxruntime': pip install 'longdoc\[onnx\]'"):
        open_session(tmp_path / ENCODER)
