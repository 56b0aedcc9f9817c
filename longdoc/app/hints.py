"""What Hydra leaves out of its errors: which groups and keys there are."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from longdoc.app.recipes import config_folder


def hints(arguments: Sequence[str]) -> Iterator[str]:
    """Yield a line for each override whose group or key does not exist, with the names that do.

    Args:
        arguments: The command line. What cannot be parsed gives no hint; Hydra has said why.
    """
    words = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    try:
        overrides = OverridesParser.create().parse_overrides(words)
        groups = _groups()
        chosen = [o for o in overrides if o.key_or_group in groups and not o.is_sweep_override()]
        config = _compose([o.input_line for o in chosen if o.input_line is not None])
    except Exception:
        return
    for override in overrides:
        if not override.is_add() and override.key_or_group not in groups:
            yield from _hint(override, config, groups)


def _groups() -> list[str]:
    return sorted(["recipe", *(entry.name for entry in config_folder("conf").iterdir() if entry.is_dir())])


def _compose(overrides: list[str]) -> Any:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_folder("conf")), version_base="1.3"):
        return OmegaConf.to_container(compose("config", overrides, return_hydra_config=True), resolve=False)


def _hint(override: Override, config: Any, groups: Sequence[str]) -> Iterator[str]:
    node, path = config, ""
    for name in override.key_or_group.split("."):
        if not isinstance(node, dict):
            return
        if name not in node:
            keys = [str(key) for key in node if key != "_target_"]
            names = keys if path else sorted({*keys, *groups} - {"hydra"})
            close = get_close_matches(name, names, n=1)
            meant = f" Did you mean {path}{close[0]}?" if close else ""
            yield f"{path.rstrip('.') or 'The configuration'} has no {name!r}.{meant} There is: {', '.join(names)}."
            return
        node, path = node[name], f"{path}{name}."
