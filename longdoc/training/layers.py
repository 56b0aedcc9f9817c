"""The parts of a model by their distance from the head: head, layers from the top down, embeddings."""

from torch import nn
from transformers import PreTrainedModel

from longdoc.errors import ConfigError


def encoder_layers(model: nn.Module, encoder: str | None = None) -> tuple[nn.Module, nn.ModuleList]:
    """Find the Hugging Face encoder in a model, and its layers.

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
    found: dict[str, PreTrainedModel] = {}
    for name, part in root.named_modules():
        if isinstance(part, PreTrainedModel) and not any(_inside(name, outer) for outer in found):
            found[name] = part
    trained = {name: part for name, part in found.items() if any(p.requires_grad for p in part.parameters())}
    chosen = list((trained or found).values())
    if len(chosen) != 1:
        names = ", ".join(repr(name) for name in found) or "none"
        raise ConfigError(
            f"{type(model).__name__}: expected one Hugging Face encoder, got {names}; name the one that is meant with "
            "encoder=NAME"
        )
    base: nn.Module = chosen[0].base_model
    return base, _layers(base, getattr(chosen[0].config, "num_hidden_layers", None))


def depth_parts(model: nn.Module, encoder: str | None = None) -> list[tuple[str, list[nn.Parameter]]]:
    """Deal out the parameters of a model by depth, each of them once.

    What stands outside the encoder or after its layers is ``head``; what stands before them, and every table, is
    ``embeddings``. A layer that is used several times (ALBERT) is one layer. Frozen parameters are in it too, so they
    move no other.

    Args:
        model: See ``encoder_layers``.
        encoder: See ``encoder_layers``.

    Returns:
        Names and parameters: ``head``, ``layer 11`` to ``layer 0``, ``embeddings``.
    """
    base, layers = encoder_layers(model, encoder)
    depths: dict[int, int] = {}
    for depth, layer in enumerate(reversed(layers), 1):
        for parameter in layer.parameters():
            depths.setdefault(id(parameter), depth)
    tables = {id(p) for part in base.modules() if isinstance(part, nn.Embedding) for p in part.parameters()}
    below = True
    for parameter in base.parameters():
        if id(parameter) in depths:
            below = False
        elif below or id(parameter) in tables:
            depths[id(parameter)] = len(layers) + 1
    names = ["head", *(f"layer {i}" for i in reversed(range(len(layers)))), "embeddings"]
    parts: list[tuple[str, list[nn.Parameter]]] = [(name, []) for name in names]
    for parameter in model.parameters():
        parts[depths.get(id(parameter), 0)][1].append(parameter)
    return parts


def _layers(base: nn.Module, num_layers: int | None) -> nn.ModuleList:
    found: dict[str, nn.ModuleList] = {}
    for name, part in base.named_modules():
        if isinstance(part, nn.ModuleList) and not any(_inside(name, outer) for outer in found):
            found[name] = part
    chosen = list(found.values())
    if len(chosen) != 1:
        chosen = [part for part in chosen if len(part) == num_layers]
    if len(chosen) != 1:
        raise ConfigError(f"{type(base).__name__}: expected one list of layers, got {sorted(found) or 'none'}")
    return chosen[0]


def _inside(name: str, outer: str) -> bool:
    return not outer or name.startswith(f"{outer}.")
