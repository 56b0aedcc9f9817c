"""``python train.py`` and ``longdoc train``: Hydra, with our recipes and with errors that list the choices."""

import logging
import math
import os
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException, InstantiationException
from hydra.types import RunMode
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from longdoc.app.hints import hints
from longdoc.app.recipes import config_folder, register_recipes
from longdoc.app.resume import resumed_arguments
from longdoc.errors import ConfigError, DataError, MissingExtra

log = logging.getLogger(__name__)

_OURS = (ConfigError, DataError, MissingExtra)
# Choices that need a plug-in of Hydra, and the extra that brings it.
PLUGINS = {
    "hparams_search=optuna": ("hydra-optuna-sweeper", "optuna"),
    "launcher=joblib": ("hydra-joblib-launcher", "joblib"),
    "launcher=slurm": ("hydra-submitit-launcher", "submitit"),
}


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
    for choice, (package, extra) in PLUGINS.items():
        if choice in arguments and not installed(package):
            sys.exit(f"MissingExtra: {MissingExtra(package, extra, choice)}")
    sys.argv = [sys.argv[0], *arguments]
    try:
        hydra.main(version_base="1.3", config_path=str(config_folder("conf")), config_name="config")(_task)()
    except SystemExit as stop:
        if stop.code == 1:
            for hint in hints(arguments):
                print(hint, file=sys.stderr)
        raise


def _task(config: DictConfig) -> float | None:
    """Run a job; in a multirun one that fails leaves ``error.txt``, and no score."""
    if HydraConfig.get().mode != RunMode.MULTIRUN:
        return _run(config)
    try:
        score = _run(config)
        return score if math.isfinite(score) else None
    except Exception as error:
        path = Path(HydraConfig.get().runtime.output_dir, "error.txt")
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        reason = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        log.error("This job has failed: %s (see %s)", reason, path)
        return None


def _run(config: DictConfig) -> float:
    # The name is resolved late, so that --help and completion do not wait for torch.
    try:
        return get_method("longdoc.app.train.run")(config)
    except (*_OURS, InstantiationException) as error:
        ours = error.__cause__ if isinstance(error, InstantiationException) else error
        if not isinstance(ours, _OURS) or os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        raise UserError(f"{type(ours).__name__}: {ours}") from error


def installed(package: str) -> bool:
    """Whether a distribution is there."""
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _chosen_recipes(arguments: Sequence[str]) -> list[str]:
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("recipe=")]
    return [name for value in values for name in re.split(r"[,\s]+", value)]
