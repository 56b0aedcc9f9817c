"""Encoders as ONNX files: written from torch, made int8, and run by onnxruntime.

Shapes: B windows, L tokens of the longest, H heads, J heads of the keys, E width of a head, D width, N windows of a
document, or words.
"""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_outputs import BaseModelOutput

from longdoc.attention import alibi_slopes
from longdoc.attention.pattern import in_window
from longdoc.errors import ConfigError, MissingExtra
from longdoc.models.aggregation import Vote, vote
from longdoc.models.classification import ClassificationHead
from longdoc.models.encoder import Encoder
from longdoc.models.hf_attention import AttentionConfig, mask_forward, settings_of
from longdoc.models.tagging import TaggingHead

ENCODER, HEAD = "encoder.onnx", "head.onnx"
_NAME = "longdoc_dense"
_HIDDEN = -1e30
# A file of protobuf ends at 2 GB; the weights of a larger model stand beside it.
_MOST_BYTES = 1_800_000_000


class OnnxModel(nn.Module):
    """Runs ``encoder.onnx`` in the place of an encoder's Hugging Face model, on the CPU.

    Args:
        path: The file.
        num_threads: Of one forward pass; None for all cores.
    """

    def __init__(self, path: Path, num_threads: int | None = None) -> None:
        super().__init__()
        self.session = open_session(path, num_threads)
        self.config = SimpleNamespace(hidden_size=int(self.session.get_outputs()[0].shape[-1]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutput:
        """Encode padded windows. *Shape:* (B, L), to (B, L, D)."""
        feed = {"input_ids": input_ids.cpu().numpy(), "attention_mask": attention_mask.cpu().numpy()}
        hidden = torch.from_numpy(self.session.run(None, feed)[0])
        return BaseModelOutput(last_hidden_state=hidden.to(input_ids.device))


def onnx_encoder(path: Path, pad_id: int) -> Encoder:
    """Give the encoder that ``write_encoder`` wrote."""
    model: Any = OnnxModel(path)
    return Encoder(model, pad_id)


def open_session(path: Path, num_threads: int | None = None) -> Any:
    """Open an ONNX file in onnxruntime; None stands for the threads of all cores."""
    runtime = onnx_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = num_threads or 0
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"{path}: expected a file that longdoc export wrote ({error})") from error


def onnx_package(name: str) -> Any:
    """Import a package of the extra ``onnx``."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or name, "onnx", "ONNX") from error


def write_encoder(encoder: Encoder, path: Path) -> None:
    """Write an encoder that takes ``input_ids`` and ``attention_mask``, (B, L) int64, and gives (B, L, D).

    Attention that longdoc put under it is computed over all pairs of a window, so memory grows with its square.

    Raises:
        ConfigError: The encoder cannot be traced, with the reason.
    """
    model = traceable(encoder.model)
    table: Any = model.get_input_embeddings()
    ids = torch.full((2, 9), table.num_embeddings // 2)
    _write(_LastHidden(model), (ids, torch.ones_like(ids)), path, "last_hidden_state", ("windows", "tokens"))


def traceable(model: PreTrainedModel) -> PreTrainedModel:
    """Copy an encoder into one that computes the same without looking at the values of a batch."""
    copied = copy.deepcopy(model).float().eval()
    settings = settings_of(copied.config)
    if settings is not None and settings.global_token_ids:
        raise ConfigError("ONNX: global_token_ids cannot be written; use global_tokens, which are positions")
    copied._forward_pre_hooks.clear()  # where longdoc makes its pattern of a batch
    if copied._can_set_attn_implementation():
        copied.set_attn_implementation(_NAME)
    return copied


def write_head(head: TaggingHead | ClassificationHead, path: Path) -> None:
    """Write a head: vectors of words to their logits, (N, D) to (N, K); or those of a document's windows to (K,)."""
    head = copy.deepcopy(head).float().eval()
    flat = head.linear if isinstance(head, TaggingHead) else _OneDocument(head)
    axis = "words" if isinstance(head, TaggingHead) else "windows"
    _write(flat, (torch.zeros(5, head.linear.in_features),), path, "logits", (axis,))


def make_int8(path: Path, result: Path) -> None:
    """Quantise the weights of an ONNX file; activations are quantised as they come.

    Weights keep 7 of 8 bits, or processors without VNNI would overflow where others do not: a file scores the same
    everywhere.
    """
    quantization = onnx_package("onnxruntime.quantization")
    with _silent():
        quantization.quantize_dynamic(
            path,
            result,
            op_types_to_quantize=["MatMul", "Gather"],
            per_channel=True,
            reduce_range=True,
            weight_type=quantization.QuantType.QInt8,
        )


def dense_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute the attention of one layer with operations that any length of a window goes through.

    It takes what `attention_forward` takes, with a mask of (B, L) whose padding stands at the end.
    """
    if position_bias is not None:
        raise ConfigError(f"{type(module).__name__}: a learned position bias is not supported in ONNX")
    config: Any = module.config
    settings = settings_of(config) or AttentionConfig()
    if key.shape[1] != query.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scale = 0.0 if settings.control == "uniform" else scale
    # Padding is hidden in the matrix product, by one more number of each key: a mask over all pairs costs a tenth.
    hidden_BJL1 = torch.where(attention_mask.bool(), 0.0, _HIDDEN)[:, None, :, None].expand(-1, key.shape[1], -1, -1)
    query = torch.cat((query * scale, torch.ones_like(query[..., :1])), -1)
    scores_BHLL = query @ torch.cat((key, hidden_BJL1), -1).mT
    scores_BHLL = _patterned(scores_BHLL, settings, sliding_window)
    return (scores_BHLL.softmax(-1) @ value).transpose(1, 2).contiguous(), None


def _patterned(scores_BHLL: Tensor, settings: AttentionConfig, sliding_window: int | None) -> Tensor:
    """Add the distance bias, and hide what stands outside the window of a token; see ``Pattern``."""
    left, right = settings.left, settings.right
    if sliding_window is not None:
        left, right = (sliding_window - 1 if n is None else min(n, sliding_window - 1) for n in (left, right))
    at = torch.arange(scores_BHLL.shape[-1])
    offset_LL = at[None, :] - at[:, None]
    is_global = torch.zeros_like(at, dtype=torch.bool)
    for position in settings.global_tokens:
        is_global = is_global | (at == position)
    global_LL = is_global[:, None] | is_global[None, :]
    if settings.alibi and settings.control is None:
        slopes = alibi_slopes(scores_BHLL.shape[1])[:, None, None]
        scores_BHLL = scores_BHLL - slopes * offset_LL.abs().masked_fill(global_LL, 0)
    if left is None and right is None:
        return scores_BHLL
    return torch.where(in_window(offset_LL, left, right) | global_LL, scores_BHLL, _HIDDEN)


class _LastHidden(nn.Module):
    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class _OneDocument(nn.Module):
    def __init__(self, head: ClassificationHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, vectors_ND: Tensor) -> Tensor:
        if isinstance(self.head.aggregator, Vote):
            return vote(self.head._score(vectors_ND), self.head.task)
        return self.head._score(self.head.aggregator.aggregate(vectors_ND)[0][None])[0]


def _write(model: nn.Module, example: tuple[Tensor, ...], path: Path, output: str, axes: tuple[str, ...]) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        onnx_package(package)
    names = ["input_ids", "attention_mask"] if len(example) == 2 else ["vectors"]
    dims = {i: torch.export.Dim(name) for i, name in enumerate(axes)}
    num_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    try:
        with _silent():
            torch.onnx.export(
                model,
                example,
                path,
                input_names=names,
                output_names=[output],
                dynamic_shapes=tuple(dims for _ in example),
                dynamo=True,
                external_data=num_bytes > _MOST_BYTES,
                verbose=False,
            )
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ConfigError(f"{path.name} cannot be written, torch cannot trace the model: {reason}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """Hold back what exporters say of themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


AttentionInterface.register(_NAME, dense_attention)
AttentionMaskInterface.register(_NAME, mask_forward)
