"""The parts of a model by their distance from the head: head, layers from the top down, embeddings."""

from torch import nn

from longdoc.models.hf_layers import encoder_layers


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
