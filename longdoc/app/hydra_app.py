"""``python train.py`` and ``longdoc train``: Hydra, with our recipes and with errors that list the choices."""

import os
import re
import sys
from collections.abc import Sequence

import hydra
from hydra.errors import CompactHydraException, InstantiationException
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from longdoc.app.hints import hints
from longdoc.app.recipes import config_folder, register_recipes
from longdoc.app.resume import resumed_arguments
from longdoc.errors import ConfigError, DataError, MissingExtra

_OURS = (ConfigError, DataError, MissingExtra)


class UserError(CompactHydraException):
    """One of our errors on its way through Hydra, which prints it without a traceback."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run Hydra on the command line, or on the given arguments."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    OmegaConf.register_new_resolver("longdoc_recipe", lambda name: name or "defaults", replace=True)
    try:
        arguments = resumed_arguments(arguments)
    except ConfigError as error:
        sys.exit(f"ConfigError: {error}")
    broken = register_recipes()
    for name in _chosen_recipes(arguments):
        if name in broken:
            sys.exit(broken[name])
    sys.argv = [sys.argv[0], *arguments]
    try:
        hydra.main(version_base="1.3", config_path=str(config_folder("conf")), config_name="config")(_task)()
    except SystemExit as stop:
        if stop.code == 1:
            for hint in hints(arguments):
                print(hint, file=sys.stderr)
        raise


def _task(config: DictConfig) -> float:
    # The name is resolved late, so that --help and completion do not wait for torch.
    try:
        return get_method("longdoc.app.train.run")(config)
    except (*_OURS, InstantiationException) as error:
        ours = error.__cause__ if isinstance(error, InstantiationException) else error
        if not isinstance(ours, _OURS) or os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        raise UserError(f"{type(ours).__name__}: {ours}") from error


def _chosen_recipes(arguments: Sequence[str]) -> list[str]:
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("recipe=")]
    return [name for value in values for name in re.split(r"[,\s]+", value)]
