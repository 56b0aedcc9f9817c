"""What a configuration may build: ``_target_`` runs code, so only names of known packages are let through."""

import os
from collections.abc import Iterator
from typing import Any

from hydra.utils import get_object

from longdoc.errors import ConfigError

ALLOWED_PREFIXES = ("longdoc.", "lightning.", "torch.optim.", "torchmetrics.", "transformers.")
ENVIRONMENT_VARIABLE = "LONGDOC_ALLOWED_TARGETS"


def check_targets(config: Any) -> None:
    """Refuse a resolved configuration that names anything but what longdoc may build.

    Args:
        config: Plain containers, interpolations resolved. The environment variable ``LONGDOC_ALLOWED_TARGETS`` adds
            prefixes, each with its final dot, separated by commas; the configuration itself cannot.
    """
    from_environment = tuple(p.strip() for p in os.environ.get(ENVIRONMENT_VARIABLE, "").split(",") if p.strip())
    allowed = (*ALLOWED_PREFIXES, *from_environment)
    for key, target in _targets(config, ""):
        if not (isinstance(target, str) and target.startswith(allowed)):
            raise ConfigError(
                f"{key}._target_={target!r}: expected a name that begins with one of {', '.join(allowed)}; to allow "
                f"another package, set {ENVIRONMENT_VARIABLE} in the environment"
            )
        # "lightning.some.module.os.system" begins well, so what the name leads to must live there too.
        home = f"{getattr(_locate(key, target), '__module__', '')}."
        if not home.startswith(allowed):
            raise ConfigError(
                f"{key}._target_={target!r}: it leads to {home[:-1] or 'something without a module'}, not allowed"
            )


def _locate(key: str, target: str) -> Any:
    try:
        return get_object(target)
    except Exception as error:
        raise ConfigError(f"{key}._target_={target!r}: cannot be found ({' '.join(str(error).split())})") from error


def _targets(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        if "_target_" in node:
            yield key or "(top)", node["_target_"]
        for name, value in node.items():
            yield from _targets(value, f"{key}.{name}" if key else str(name))
    elif isinstance(node, (list, tuple)):
        for i, value in enumerate(node):
            yield from _targets(value, f"{key}[{i}]")
