"""Heat maps of attention."""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from longdoc.attention.pattern import Pattern
from longdoc.attention.probes import attention_rows
from longdoc.callbacks.monitor import ProbeMonitor
from longdoc.callbacks.vocabulary import Vocabulary, find_vocabulary
from longdoc.errors import ConfigError, MissingExtra, check_integer
from longdoc.models.hf_positions import num_positions

_WHOLE_TOKENS = 400
"""Longest window that is drawn as a square; of longer ones, the band around the diagonal is."""
_BAND_TOKENS = 256
_NUM_COLUMNS = 400
_NUM_TICKS = 100
_SHOWN_CHARS = 12


def attention_map(q: Tensor, k: Tensor, pattern: Pattern, segment: int, scale: float | None = None) -> np.ndarray:
    """Give the weights of a segment, mean over heads: rows are queries, columns keys. *Shape:* (L, L)."""
    start, length = pattern.bounds[segment], pattern.lengths[segment]
    whole = np.zeros((length, length), dtype=np.float32)
    for row in attention_rows(q, k, pattern, range(start, start + length), scale):
        whole[row.token - start, row.keys.numpy() - start] = row.weights.mean(0).cpu().numpy()
    return whole


def attention_band(
    q: Tensor, k: Tensor, pattern: Pattern, segment: int, scale: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Give the weights near the diagonal of a long segment, mean over heads, for some of its queries.

    Returns:
        Positions of the queries in the segment, (C,), and what they give to the keys from 256 before to 256 after them,
        (513, C); the rest of each column lies beyond.
    """
    start, length = pattern.bounds[segment], pattern.lengths[segment]
    queries = np.unique(np.linspace(0, length - 1, _NUM_COLUMNS).astype(int))
    band = np.zeros((2 * _BAND_TOKENS + 1, len(queries)), dtype=np.float32)
    for column, query in enumerate(queries.tolist()):
        (row,) = attention_rows(q, k, pattern, [start + query], scale)
        offset = row.keys.numpy() - start - query
        near = np.abs(offset) <= _BAND_TOKENS
        band[offset[near] + _BAND_TOKENS, column] = row.weights.mean(0).cpu().numpy()[near]
    return queries, band


def draw_map(weights: np.ndarray, tokens: Sequence[str], title: str, queries: np.ndarray | None = None) -> Any:
    """Draw what ``attention_map`` gives, or with ``queries`` what ``attention_band`` does, on a logarithmic scale.

    The figure has the tokens of the whole segment on its axes; what is 0 was not to be read, and stays white.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    across = weights.shape[1]
    width = max(5.0, 0.13 * min(across, _NUM_TICKS) + 2)
    figure = Figure(figsize=(width, width if queries is None else 6.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    norm = LogNorm(vmin=max(float(weights.max()) * 1e-4, 1e-12), vmax=max(float(weights.max()), 1e-11), clip=True)
    extent = None if queries is None else (-0.5, across - 0.5, _BAND_TOKENS + 0.5, -_BAND_TOKENS - 0.5)
    seen = np.ma.masked_equal(weights, 0)
    image = axes.imshow(seen, norm=norm, cmap="viridis", aspect="auto", interpolation="nearest", extent=extent)
    ticks = np.unique(np.linspace(0, across - 1, min(across, _NUM_TICKS)).astype(int))
    if queries is None:
        shown = [tokens[i][:_SHOWN_CHARS] for i in ticks]
        labels = [*axes.set_xticks(ticks, shown, rotation=90, fontsize=6), *axes.set_yticks(ticks, shown, fontsize=6)]
        axes.set(xlabel="token that is read", ylabel="token that reads")
    else:
        shown = [f"{tokens[i][:_SHOWN_CHARS]}  {i:,}" for i in queries[ticks]]
        labels = axes.set_xticks(ticks, shown, rotation=90, fontsize=6)
        axes.set(xlabel="token that reads, and its position", ylabel="distance of the token that is read")
    for tick in labels:
        for label in (tick.label1, tick.label2):
            label.set_parse_math(False)  # "$" is text
    axes.set_title(title, fontsize=10, parse_math=False)
    figure.colorbar(image, ax=axes, label="weight, mean of the heads")
    return figure


class AttentionMaps(ProbeMonitor):
    """Draws what tokens read, as PNG files and into the image panel of a TensorBoard logger.

    Windows of up to 400 tokens become a square, longer ones the band of 256 tokens around the diagonal.

    Args:
        folder: Where ``step_N_window_W_layer_L.png`` is written.
        texts: What to draw, each as one window; needs a tokenizer. None for the first windows that the encoder reads.
        layers: Which layers; -1 is the last.
        num_windows: How many are drawn at most.
        every_n_steps: See ``ProbeMonitor``.
        tokenizer: See ``find_vocabulary``. Without one, the axes show ids.
        encoder: See ``ProbeMonitor``.
    """

    def __init__(
        self,
        folder: str | Path,
        texts: Sequence[str] | None = None,
        layers: Sequence[int] = (-1,),
        num_windows: int = 2,
        every_n_steps: int = 1000,
        tokenizer: str | None = None,
        encoder: str | None = None,
    ) -> None:
        super().__init__(every_n_steps, encoder=encoder)
        check_integer("num_windows", num_windows, 1)
        self.folder = Path(folder)
        self.texts = texts
        self.layers = tuple(layers)
        self.num_windows = num_windows
        self.tokenizer = tokenizer
        self._vocabulary: Vocabulary | None = None
        self._drawn: set[int] = set()

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if find_spec("matplotlib") is None:
            raise MissingExtra("matplotlib", "figures", "AttentionMaps")
        self._vocabulary = find_vocabulary(trainer, pl_module, self.tokenizer)
        if self.texts is not None:
            if self._vocabulary is None:
                raise ConfigError(
                    "AttentionMaps(texts=...): expected a tokenizer in the module, got none; tokenizer=NAME"
                )
            self.probe = [self._vocabulary.encode(text) for text in self.texts]
        super().on_fit_start(trainer, pl_module)
        assert self._model is not None
        num_layers = int(self._model.config.num_hidden_layers)
        if any(not -num_layers <= layer < num_layers for layer in self.layers):
            raise ConfigError(f"AttentionMaps(layers={self.layers}): the encoder has {num_layers} layers")
        self._drawn = {layer % num_layers for layer in self.layers}
        served, longest = num_positions(self._model), max(map(len, self.probe), default=0)
        if served is not None and longest > served:
            raise ConfigError(
                f"AttentionMaps(texts=...): expected at most {served} tokens each, which is what the position table of "
                f"the encoder serves, got {longest}; give shorter texts"
            )

    def _take(self, ids: Tensor, pattern: Pattern) -> None:
        for segment in ids.split(pattern.lengths):
            if segment.tolist() not in self.probe:  # what is drawn is read, too
                self.probe.append(segment.tolist())
            if len(self.probe) == self.num_windows:
                self._hooks.pop().remove()
                break

    def see(self, layer: int, q: Tensor, k: Tensor, pattern: Pattern, scale: float | None) -> None:
        if layer not in self._drawn:
            return
        for window, length in enumerate(pattern.lengths[: self.num_windows]):
            if length <= _WHOLE_TOKENS:
                self.seen[window, layer] = attention_map(q, k, pattern, window, scale), None
            else:
                queries, band = attention_band(q, k, pattern, window, scale)
                self.seen[window, layer] = band, queries

    def report(self, trainer: L.Trainer) -> None:
        from matplotlib.image import imsave

        self.folder.mkdir(parents=True, exist_ok=True)
        for (window, layer), (weights, queries) in self.seen.items():
            ids = self.probe[window]
            tokens = [str(i) for i in ids] if self._vocabulary is None else self._vocabulary.shown(ids)
            title = f"Layer {layer}, window {window}, step {trainer.global_step}"
            if queries is not None:
                title += f": {weights.sum(0).mean():.0%} of the attention stays within {_BAND_TOKENS} tokens"
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # drawn as a box
                figure = draw_map(weights, tokens, title, queries)
                figure.canvas.draw()
            pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
            imsave(self.folder / f"step_{trainer.global_step}_window_{window}_layer_{layer}.png", pixels)
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    tag = f"attention/window_{window}_layer_{layer}"
                    logger.experiment.add_image(tag, pixels, trainer.global_step, dataformats="HWC")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().teardown(trainer, pl_module, stage)
        self._vocabulary, self.seen = None, {}
