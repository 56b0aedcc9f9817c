"""What a student learns from a teacher: its answers, its vectors, and how it attends.

Shapes: N items (words or documents), K tags or labels, T tokens, D width, H heads, E width of a head, R queries and
C keys of a block.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from longdoc.attention.pattern import Pattern, in_window
from longdoc.errors import ConfigError, check_choice, check_integer, check_switch
from longdoc.models.encoder import Encoder, freeze_unread_
from longdoc.models.hf_layers import encoder_layers
from longdoc.models.hf_probes import encoder_input, watch_projections
from longdoc.text.classes import ClassTask

Mapping = Literal["uniform", "first", "last"] | Sequence[int]
_BLOCK_TOKENS = 256
_NEVER = -1e30  # the score of what is not seen; infinity has no gradient under a logarithm of sums


@dataclass(frozen=True)
class DistillConfig:
    """Weights of the terms of the loss, and what they compare. A term of weight 0 costs nothing.

    Args:
        gold: Of the loss on the gold.
        answers: Of the divergence of the student's answers from the teacher's.
        temperature: Both sides' logits are divided by it; the term is multiplied by its square.
        hidden: Of the difference of the vectors of tokens, layer by layer.
        hidden_distance: ``mse``, or ``cosine`` for one minus the cosine.
        attention: Of the difference of attention weights, layer by layer.
        attention_distance: ``kl``, or ``mse``.
        average_heads: Whether the weights of a layer are averaged over its heads first; needed where their numbers
            differ.
        relations: Of the divergence of relations among queries, among keys and among values.
        relation_heads: Parts that the vectors of a layer are cut into for it; None for the teacher's heads.
        relation_layer: Layer of the teacher that the student's last one follows in it, from 0; None for the last.
        mapping: Which layer of the teacher each of the student follows: ``uniform``, ``first``, ``last``, or a list of
            layers from 0.
        student_layers: Layers of a student that is cut out of the teacher by ``mapping``, which must then be a name;
            None takes the student that ``model`` describes.
        cache: Whether the teacher's answers are kept on disk for later runs.

    **Sources:** answers: Hinton et al. (2015), section 2; hidden and attention: Jiao et al. (2020), equations 7 to 9;
    relations: Wang et al. (2021), equations 4 to 6.
    """

    gold: float = 1.0
    answers: float = 1.0
    temperature: float = 2.0
    hidden: float = 0.0
    hidden_distance: Literal["mse", "cosine"] = "mse"
    attention: float = 0.0
    attention_distance: Literal["kl", "mse"] = "kl"
    average_heads: bool = False
    relations: float = 0.0
    relation_heads: int | None = None
    relation_layer: int | None = None
    mapping: Mapping = "uniform"
    student_layers: int | None = None
    cache: bool = True

    def __post_init__(self) -> None:
        weights = ("gold", "answers", "hidden", "attention", "relations")
        for name in weights:
            if not getattr(self, name) >= 0:
                raise ConfigError(f"distill.{name}={getattr(self, name)}: expected a weight from 0")
        if not any(getattr(self, name) for name in weights):
            raise ConfigError(f"distill: expected a weight above 0 for one of {', '.join(weights)}")
        if not self.temperature > 0:
            raise ConfigError(f"distill.temperature={self.temperature}: expected above 0")
        check_choice("distill.hidden_distance", self.hidden_distance, ("mse", "cosine"))
        check_choice("distill.attention_distance", self.attention_distance, ("kl", "mse"))
        if not isinstance(self.mapping, (list, tuple)):
            check_choice("distill.mapping", self.mapping, get_args(get_args(Mapping)[0]))
        check_switch("distill.average_heads", self.average_heads)
        check_switch("distill.cache", self.cache)
        for name in ("relation_heads", "student_layers"):
            if getattr(self, name) is not None:
                check_integer(f"distill.{name}", getattr(self, name), 1)
        if self.student_layers is not None and not isinstance(self.mapping, str):
            raise ConfigError(
                f"distill.student_layers={self.student_layers} takes the layers that distill.mapping names; expected "
                f"uniform, first or last, got {list(self.mapping)}"
            )

    @property
    def looks_inside(self) -> bool:
        """Whether the teacher runs beside the student, which answers alone do not need."""
        return bool(self.hidden or self.attention or self.relations)


def map_layers(mapping: Mapping, num_student: int, num_teacher: int) -> list[int]:
    """Choose the layer of the teacher that each layer of the student follows, both counted from 0.

    The vectors that a layer begins with have their own rule: those of the embeddings follow those of the embeddings,
    and those behind a student's layer the ones behind its teacher's.

    Args:
        mapping: ``uniform`` (of 12 and 6 layers 1, 3, ... 11), ``first``, ``last``, or the layers themselves.
        num_student: Layers of the student.
        num_teacher: Layers of the teacher.
    """
    if isinstance(mapping, str):
        check_choice("distill.mapping", mapping, get_args(get_args(Mapping)[0]))
        if num_student > num_teacher:
            raise ConfigError(
                f"distill.mapping={mapping}: the student has {num_student} layers and the teacher {num_teacher}; name "
                "a layer for each as a list"
            )
        if mapping == "uniform":
            return [(i + 1) * num_teacher // num_student - 1 for i in range(num_student)]
        return [i + (num_teacher - num_student if mapping == "last" else 0) for i in range(num_student)]
    chosen = list(mapping)
    if len(chosen) != num_student or any(type(i) is not int or not 0 <= i < num_teacher for i in chosen):
        raise ConfigError(
            f"distill.mapping={chosen}: expected {num_student} layers of the teacher, one for each of the student, "
            f"from 0 to {num_teacher - 1}"
        )
    return chosen


def take_layers_(encoder: Encoder, layers: Sequence[int]) -> None:
    """Leave only some layers in an encoder, in the order given.

    Raises:
        ConfigError: The configuration of the encoder cannot say what is left.
    """
    base, found = separate_layers(encoder)
    chosen = nn.ModuleList(found[i] for i in layers)
    parent, name = next((p, n) for p in base.modules() for n, child in p.named_children() if child is found)
    setattr(parent, name, chosen)
    for number, layer in enumerate(chosen):
        for part in layer.modules():
            if hasattr(part, "layer_idx"):
                part.layer_idx = number  # type: ignore[assignment]
    config: Any = encoder.model.config
    config.num_hidden_layers = len(chosen)
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = [config.layer_types[i] for i in layers]
    with torch.device("meta"):
        expected = type(encoder.model)(config).state_dict()
    if not set(encoder.model.state_dict()) <= set(expected):
        raise ConfigError(
            f"distill.student_layers: the first layer of {config.model_type} is not like the others, and a model that "
            f"begins with layer {layers[0]} cannot be built again; set distill.mapping=first"
        )
    freeze_unread_(encoder)


def separate_layers(encoder: Encoder) -> tuple[nn.Module, nn.ModuleList]:
    """Find the encoder and its layers; refuse one whose layers are used several times."""
    base, layers = encoder_layers(encoder)
    config: Any = encoder.model.config
    if len(layers) != config.num_hidden_layers:
        raise ConfigError(
            f"distill: {config.model_type} uses {len(layers)} layers {config.num_hidden_layers} times; expected as "
            "many layers as uses; only distill.answers can be had of it"
        )
    return base, layers


def answer_loss(
    student_NK: Tensor,
    teacher_NK: Tensor,
    temperature: float,
    task: ClassTask = "single_label",
) -> Tensor:
    """Divergence of answers, item by item, times the square of the temperature. *Shape:* (N,).

    Args:
        student_NK: Logits. *Shape:* (N, K).
        teacher_NK: Logits, up to a constant in ``single_label``. *Shape:* (N, K).
        temperature: Divides both.
        task: Words have ``single_label``; ``multi_label`` is the mean over labels, ``regression`` the squared error.
    """
    student_NK, teacher_NK = student_NK.float(), teacher_NK.float()
    if task == "regression":
        return ((student_NK - teacher_NK) ** 2).squeeze(-1)
    if task == "multi_label":
        sides = [torch.stack((F.logsigmoid(x), F.logsigmoid(-x)), -1) for x in (student_NK, teacher_NK)]
        student, teacher = (torch.log_softmax(side / temperature, -1) for side in sides)
        return _divergence(teacher, student).mean(-1) * temperature**2
    student, teacher = (torch.log_softmax(x / temperature, -1) for x in (student_NK, teacher_NK))
    return _divergence(teacher, student) * temperature**2


def hidden_loss(student_TD: Tensor, teacher_TD: Tensor, distance: Literal["mse", "cosine"]) -> Tensor:
    """Mean difference of the vectors of tokens. *Shapes:* both (T, D), to ()."""
    student_TD, teacher_TD = student_TD.float(), teacher_TD.float()
    if distance == "mse":
        return F.mse_loss(student_TD, teacher_TD)
    return (1 - F.cosine_similarity(student_TD, teacher_TD, dim=-1)).mean()


@dataclass
class LayerPass:
    """What a layer read in one forward pass.

    Args:
        pattern: Who might see whom.
        scale: Factor of the scores.
        q: Queries. *Shape:* (H, T, E).
        k: Keys. *Shape:* (H, T, E).
        v: Values. *Shape:* (H, T, E).
    """

    pattern: Pattern
    scale: float | None
    q: Tensor
    k: Tensor
    v: Tensor


@dataclass
class Inside:
    """What was seen of an encoder: vectors by state (0 = embeddings), and passes by layer."""

    states: list[list[Tensor]]
    passes: list[list[LayerPass]] = field(default_factory=list)

    def hidden(self, state: int) -> Tensor:
        """Vectors of all tokens. *Shape:* (T, D)."""
        return torch.cat(self.states[state])


@contextmanager
def look_inside(encoder: Encoder, attention: bool) -> Iterator[Inside]:
    """See the vectors behind each layer, and with ``attention`` its queries, keys and values; to be read after it."""
    base: Any
    base, layers = separate_layers(encoder)
    seen = Inside([[] for _ in range(len(layers) + 1)], [[] for _ in layers])
    patterns: list[Pattern] = []

    def begin(_: nn.Module, args: Any, kwargs: Any) -> None:
        patterns.append(encoder_input(base, args, kwargs)[1])

    def before(_: nn.Module, args: Any, kwargs: Any) -> None:
        seen.states[0].append(args[0] if args else kwargs["hidden_states"])

    def behind(state: int, output: Any) -> None:
        seen.states[state].append(output if isinstance(output, Tensor) else output[0])

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor, of: Pattern, scale: float | None) -> None:
        seen.passes[layer].append(LayerPass(of, scale, q, k, v))

    hooks = [base.register_forward_pre_hook(begin, with_kwargs=True)]
    hooks.append(layers[0].register_forward_pre_hook(before, with_kwargs=True))
    for state, layer in enumerate(layers, 1):
        hooks.append(layer.register_forward_hook(lambda _, __, output, state=state: behind(state, output)))
    try:
        if attention:
            with watch_projections(base, attend):
                yield seen
        else:
            yield seen
    finally:
        for hook in hooks:
            hook.remove()
    # Not in the hooks: activations that are computed again in the backward pass must be the same ones, and no more.
    seen.states = [[_flat(x, p) for x, p in zip(state, patterns, strict=True)] for state in seen.states]
    for layer_pass in (layer_pass for of_layer in seen.passes for layer_pass in of_layer):
        for name in ("q", "k", "v"):
            x_BTHE = getattr(layer_pass, name).transpose(1, 2)
            setattr(layer_pass, name, _flat(x_BTHE, layer_pass.pattern).transpose(0, 1))


def _flat(x_BL: Tensor, pattern: Pattern) -> Tensor:
    """The real tokens of padded rows, one after the other. *Shape:* (B, L, ...) to (T, ...)."""
    x = x_BL.flatten(0, 1)
    return x if pattern.slots is None else x[pattern.slots.to(x.device)]


def attention_loss(
    student: Sequence[LayerPass],
    teacher: Sequence[LayerPass],
    distance: Literal["kl", "mse"],
    average_heads: bool,
) -> Tensor:
    """Mean difference of attention weights over heads and queries, block by block. *Shape:* ().

    Args:
        student: Passes of a layer of the student.
        teacher: The same of the teacher's, over the same tokens.
        distance: ``kl`` of the student's weights from the teacher's, or ``mse`` over the keys that a query sees.
        average_heads: Whether both sides are averaged over heads first.

    Raises:
        ConfigError: The two sides do not see the same.
    """
    total, rows = student[0].q.new_zeros((), dtype=torch.float32), 0
    for ours, theirs in _pairs(student, teacher):
        if not average_heads and len(ours.q) != len(theirs.q):
            raise ConfigError(
                f"distill.attention: {len(ours.q)} heads of the student against {len(theirs.q)} of the teacher; set "
                "distill.average_heads=true"
            )
        total = total + _map_loss(ours, theirs, distance, average_heads)
        rows += ours.pattern.num_tokens * (1 if average_heads else len(ours.q))
    return total / max(rows, 1)


def relation_loss(student: Sequence[LayerPass], teacher: Sequence[LayerPass], num_heads: int | None) -> Tensor:
    """Divergence of the relations among queries, keys and values, mean over the three, parts and tokens. *Shape:* ().

    Args:
        student: Passes of a layer of the student.
        teacher: The same of the teacher's, over the same tokens.
        num_heads: Parts that the vectors of a token, all heads together, are cut into; None for the teacher's heads.

    Raises:
        ConfigError: The two sides do not see the same, or the vectors cannot be cut so.
    """
    total, rows = student[0].q.new_zeros((), dtype=torch.float32), 0
    for ours, theirs in _pairs(student, teacher):
        parts = num_heads or len(theirs.q)
        plain = replace(ours.pattern, slopes=None)
        for name in ("q", "k", "v"):
            one, other = (_recut(getattr(side, name), parts) for side in (ours, theirs))
            sides = [LayerPass(plain, None, x, x, x) for x in (one, other)]
            total = total + _map_loss(sides[0], sides[1], "kl", False)
        rows += 3 * ours.pattern.num_tokens * parts
    return total / max(rows, 1)


def _recut(x_HTE: Tensor, parts: int) -> Tensor:
    H, T, E = x_HTE.shape
    if H * E % parts:
        raise ConfigError(f"distill.relation_heads={parts}: expected a divisor of the width {H * E} on both sides")
    return x_HTE.transpose(0, 1).reshape(T, parts, -1).transpose(0, 1)


def _pairs(student: Sequence[LayerPass], teacher: Sequence[LayerPass]) -> Iterator[tuple[LayerPass, LayerPass]]:
    for ours, theirs in zip(student, teacher, strict=True):
        _check_patterns(ours.pattern, theirs.pattern)
        yield ours, theirs


def _check_patterns(student: Pattern, teacher: Pattern) -> None:
    sides: list[tuple] = [(p.left, p.right, p.global_positions, p.control, p.lengths) for p in (student, teacher)]
    longest = max(student.lengths, default=1)
    if student.covers(longest) and teacher.covers(longest):
        sides = [side[3:] for side in sides]  # then global tokens change nothing, either
    if sides[0] != sides[1] or student.control is not None:
        raise ConfigError(
            f"distill.attention and distill.relations: expected that student and teacher see the same tokens, got "
            f"left={student.left}, right={student.right}, control={student.control} against left={teacher.left}, "
            f"right={teacher.right}, control={teacher.control}, or other global tokens; set attention as the teacher "
            "has it, or use distill.hidden and distill.answers"
        )


def _map_loss(student: LayerPass, teacher: LayerPass, distance: str, average_heads: bool) -> Tensor:
    """Sum over heads and queries."""
    total = student.q.new_zeros((), dtype=torch.float32)
    for rows, keys, seen in _blocks(student.pattern):
        block = (rows.to(student.q.device), keys.to(student.q.device), seen.to(student.q.device))
        # Weights are made again in the backward pass, or those of all blocks would be in memory at once.
        total = total + checkpoint(_block_loss, student, teacher, *block, distance, average_heads, use_reentrant=False)
    return total


def _block_loss(
    student: LayerPass, teacher: LayerPass, rows: Tensor, keys: Tensor, seen: Tensor, distance: str, average: bool
) -> Tensor:
    with torch.autocast(student.q.device.type, enabled=False):
        ours, theirs = (_log_weights(side, rows, keys, seen) for side in (student, teacher))
    if average:
        ours, theirs = (x.logsumexp(0, keepdim=True) - math.log(len(x)) for x in (ours, theirs))
    if distance == "mse":
        return (((ours.exp() - theirs.exp()) ** 2).sum(-1) / seen.sum(-1)).sum()
    return _divergence(theirs, ours).sum()


def _log_weights(side: LayerPass, rows: Tensor, keys: Tensor, seen: Tensor) -> Tensor:
    """Logarithms of the attention weights of a block. *Shape:* (H, R, C)."""
    k = side.k if len(side.k) == len(side.q) else side.k.repeat_interleave(len(side.q) // len(side.k), 0)
    scale = side.q.shape[-1] ** -0.5 if side.scale is None else side.scale
    scores = side.q[:, rows].float() @ k[:, keys].float().mT * scale
    slopes = side.pattern.slopes
    if slopes is not None:
        marked = side.pattern.is_global.to(rows.device)
        distance = (rows[:, None] - keys[None, :]).abs().to(scores)
        distance = distance.masked_fill(marked[rows][:, None] | marked[keys][None, :], 0)
        scores = scores - slopes.to(scores)[:, None, None] * distance
    return scores.masked_fill(~seen, _NEVER).log_softmax(-1)


def _blocks(pattern: Pattern) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Queries, keys and who sees whom, block by block. *Shapes:* (R,), (C,), (R, C)."""
    for start, length, marked in zip(pattern.bounds, pattern.lengths, pattern.global_positions, strict=False):
        left, right = (length if side is None else side for side in (pattern.left, pattern.right))
        everywhere = torch.tensor(marked, dtype=torch.long)
        usual = torch.ones(length, dtype=torch.bool)
        usual[everywhere] = False
        for at in range(0, length, _BLOCK_TOKENS):
            rows = torch.arange(at, min(length, at + _BLOCK_TOKENS))
            near = torch.arange(max(0, at - left), min(length, int(rows[-1]) + 1 + right))
            keys = torch.cat((near, everywhere)).unique()
            rows = rows[usual[rows]]
            offset = keys[None, :] - rows[:, None]
            if len(rows):
                yield rows + start, keys + start, in_window(offset, left, right) | ~usual[keys]
        if len(everywhere):
            keys = torch.arange(length)
            yield everywhere + start, keys + start, torch.ones(len(everywhere), length, dtype=torch.bool)


def _divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Kullback-Leibler divergence over the last dimension, of logarithms."""
    return (teacher.exp() * (teacher - student)).sum(-1)
