"""Finding the Hugging Face encoder that any module holds."""

from typing import TypeVar

from torch import nn
from transformers import PreTrainedModel

from longdoc.errors import ConfigError

M = TypeVar("M", bound=nn.Module)


def find_encoder(model: nn.Module, encoder: str | None = None) -> PreTrainedModel:
    """Find the Hugging Face encoder in a model, with its own head where it has one.

    Args:
        model: Any module that holds one, or is one.
        encoder: Dotted name of a submodule to look in, where there are several. None looks in all of ``model``; an
            encoder that is wholly frozen, such as a teacher, is then passed over if there is another.

    Raises:
        ConfigError: There is none, or more than one.
    """
    try:
        root = model if encoder is None else model.get_submodule(encoder)
    except AttributeError as error:
        raise ConfigError(f"encoder={encoder!r}: {type(model).__name__} has no such submodule") from error
    found = _outermost(root, PreTrainedModel)
    trained = {name: part for name, part in found.items() if any(p.requires_grad for p in part.parameters())}
    chosen = list((trained or found).values())
    if len(chosen) != 1:
        names = ", ".join(repr(name) for name in found) or "none"
        raise ConfigError(
            f"{type(model).__name__}: expected one Hugging Face encoder, got {names}; name the one that is meant with "
            "encoder=NAME"
        )
    return chosen[0]


def encoder_layers(model: nn.Module, encoder: str | None = None) -> tuple[nn.Module, nn.ModuleList]:
    """Find the Hugging Face encoder in a model, without its head, and its layers; see ``find_encoder``."""
    found = find_encoder(model, encoder)
    base: nn.Module = found.base_model
    return base, _layers(base, getattr(found.config, "num_hidden_layers", None))


def _layers(base: nn.Module, num_layers: int | None) -> nn.ModuleList:
    found = _outermost(base, nn.ModuleList)
    chosen = list(found.values())
    if len(chosen) != 1:
        chosen = [part for part in chosen if len(part) == num_layers]
    if len(chosen) != 1:
        raise ConfigError(f"{type(base).__name__}: expected one list of layers, got {sorted(found) or 'none'}")
    return chosen[0]


def _outermost(root: nn.Module, kind: type[M]) -> dict[str, M]:
    """Modules of a kind by name, but for those inside another."""
    found: dict[str, M] = {}
    for name, part in root.named_modules():
        if isinstance(part, kind) and not any(not outer or name.startswith(f"{outer}.") for outer in found):
            found[name] = part
    return found
