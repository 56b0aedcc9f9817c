"""Pictures of attention."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from longdoc.attention import Pattern
from longdoc.attention.reference import reference_weights
from longdoc.callbacks import AttentionMaps
from longdoc.callbacks.maps import attention_band, attention_map, draw_map
from longdoc.errors import ConfigError
from longdoc.models.hf_attention import AttentionConfig, apply_attention
from tests.callbacks.models import EncoderModule, texts, tokenizer, trainer

pytest.importorskip("matplotlib")


def random_input(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    q, k = torch.randn(2, 1, 3, length, 8, generator=torch.Generator().manual_seed(0))
    return q, k


def test_maps_equal_the_dense_weights() -> None:
    pattern = Pattern.packed([30, 40], 6, 3, torch.arange(70) == 30)
    q, k = random_input(70)
    dense = reference_weights(q, k, pattern, 8**-0.5).mean(0).numpy()
    for segment, place in enumerate((slice(0, 30), slice(30, 70))):
        np.testing.assert_allclose(attention_map(q, k, pattern, segment), dense[place, place], atol=1e-6)


def test_bands_equal_the_dense_weights() -> None:
    pattern = Pattern.packed([900], None, 300)
    q, k = random_input(900)
    dense = reference_weights(q, k, pattern, 8**-0.5).mean(0).numpy()
    queries, band = attention_band(q, k, pattern, 0)
    assert (queries[0], queries[-1], len(queries), band.shape) == (0, 899, 400, (513, 400))
    for column, query in enumerate(queries):
        keys = np.arange(max(0, query - 256), min(900, query + 257))
        np.testing.assert_allclose(band[keys - query + 256, column], dense[query, keys], atol=1e-6)
    assert band[:256, 0].sum() == 0


def test_tokens_stand_on_the_axes_as_they_are() -> None:
    tokens = ["$x^{$", "<b>", "中文", "שלום", "a" * 50]
    figure = draw_map(np.eye(5, dtype=np.float32), tokens, "Layer $0, document 0")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [*tokens[:4], "a" * 12]
    assert not any(label.get_parse_math() for label in [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title])
    band = draw_map(np.ones((513, 3), dtype=np.float32), [f"t{i}" for i in range(9000)], "x", np.array([0, 4500, 8999]))
    assert [label.get_text() for label in band.axes[0].get_xticklabels()] == ["t0  0", "t4500  4,500", "t8999  8,999"]


class WithTokenizer(EncoderModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = tokenizer()


def test_chosen_texts_are_drawn_into_files_and_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    module = WithTokenizer()
    apply_attention(module.tagger, AttentionConfig(4, 4), max_tokens=4000)
    chosen = ["w5 w7 w710 w8", "w5 w7 " * 300]
    maps = AttentionMaps(tmp_path / "maps", chosen, layers=(0, -1), every_n_steps=2, tokenizer="words")
    logger = TensorBoardLogger(tmp_path / "logs", name="", version="")
    trainer(maps, max_epochs=1, logger=logger, log_every_n_steps=1).fit(module, texts(4), texts(1))
    names = {f"step_{s}_window_{d}_layer_{layer}.png" for s in (1, 2, 4) for d in (0, 1) for layer in (0, 1)}
    assert {path.name for path in (tmp_path / "maps").iterdir()} == names
    assert all((tmp_path / "maps" / name).read_bytes().startswith(b"\x89PNG") for name in names)
    assert maps.probe == [tokenizer()(text)["input_ids"] for text in chosen]
    events = EventAccumulator(str(tmp_path / "logs"), {"images": 0}).Reload()
    assert set(events.Tags()["images"]) == {f"attention/window_{d}_layer_{i}" for d in (0, 1) for i in (0, 1)}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"layers": (2,)}, r"AttentionMaps\(layers=\(2,\)\): the encoder has 2 layers"),
        ({"texts": ["w5"]}, "expected a tokenizer in the module, got none"),
        ({"num_windows": 0}, "num_windows=0"),
    ],
)
def test_refusals(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        trainer(AttentionMaps(tmp_path, **settings)).fit(EncoderModule(), texts(1), texts(1))


def test_texts_that_do_not_fit_the_position_table_are_refused_before_the_first_step(tmp_path: Path) -> None:
    maps = AttentionMaps(tmp_path, ["w5 " * 5000], tokenizer="words")
    with pytest.raises(ConfigError, match=r"at most 4096 tokens each, .* got 5002; give shorter texts"):
        trainer(maps).fit(WithTokenizer(), texts(1), texts(1))


def test_as_many_windows_are_drawn_as_were_asked_for(tmp_path: Path) -> None:
    maps = AttentionMaps(tmp_path, num_windows=5)
    trainer(maps, max_epochs=1).fit(EncoderModule(), texts(4, size=600), texts(4, size=600, seed=1))
    assert len(maps.probe) == 5
    assert not maps._hooks
