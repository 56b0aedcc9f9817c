"""Where the configuration lies, and how every file in a ``recipes`` folder becomes a choice of ``recipe=``.

Hydra searches one folder for its groups. Recipes stand beside it, and a project may have more of its own in
``./recipes``, so each file is registered in Hydra's store instead.
"""

from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from longdoc.errors import ConfigError

_PACKAGE = Path(__file__).parents[1]


def config_folder(name: str) -> Path:
    """Find ``conf`` or ``recipes``: inside the installed package, or at the root of a checkout."""
    for place in (_PACKAGE / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise ConfigError(
        f"{name}: expected this folder at {_PACKAGE / name} or {_PACKAGE.parent / name}; install longdoc again"
    )


def recipe_files() -> dict[str, Path]:
    """All recipes by name; those in ``./recipes`` win over those that come with longdoc."""
    folders = (config_folder("recipes"), Path.cwd() / "recipes")
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.rglob("*.yaml"))
    }


def register_recipes() -> dict[str, str]:
    """Make each recipe file a choice of the group ``recipe``.

    Returns:
        Reason by name for the files that cannot be read. They are no choice, and harm no other.
    """
    store = ConfigStore.instance()
    broken: dict[str, str] = {}
    for name, path in recipe_files().items():
        try:
            # The loader of Hydra's own files, so that 2e-4 is a number here as it is there.
            node = OmegaConf.load(path)
            if not OmegaConf.is_dict(node):
                raise TypeError("expected a mapping of keys to values")
        except Exception as error:
            broken[name] = f"recipe {name!r}: {path} cannot be read: {' '.join(str(error).split())}"
            continue
        group, _, leaf = f"recipe/{name}".rpartition("/")
        store.store(group=group, name=leaf, node=node, package="_global_", provider=str(path))
    return broken
