"""``resume=RUN_DIR`` and ``resume=auto`` on the command line: what the run was started with, and its folder."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from longdoc.errors import ConfigError

_PLAIN = re.compile(r"(?!(?:null|true|false|inf|nan)$)(?:\.{0,2}/)?[a-z_][\w./-]*", re.IGNORECASE | re.ASCII)
_OVERRIDES = Path(".hydra", "overrides.yaml")


def resumed_arguments(arguments: Sequence[str]) -> list[str]:
    """The command line of a run that goes on: its own overrides, then the given ones, and its folder.

    Args:
        arguments: The command line. Without ``resume=`` it stays as it is.

    Raises:
        ConfigError: There is no such run.
    """
    given = [argument for argument in arguments if not argument.startswith("resume=")]
    wanted = [argument.partition("=")[2].strip("'\"") for argument in arguments if argument.startswith("resume=")]
    if not wanted or wanted[-1] in ("", "null"):
        return list(arguments)
    if {"-m", "--multirun"} & set(given):
        raise ConfigError("resume: one run goes on at a time; leave out -m, and name the folder of one job")
    run = _newest_unfinished(given) if wanted[-1] == "auto" else Path(wanted[-1])
    if run is None:
        print("resume=auto: no run that was ended can go on, so a new one begins", file=sys.stderr)
        return given
    if not (run / _OVERRIDES).is_file():
        raise ConfigError(
            f"resume={run}: expected the folder of a run, with {_OVERRIDES} in it, or resume=auto for the newest one "
            "of the recipe that was ended"
        )
    keys = {_key(argument) for argument in given}
    kept = yaml.safe_load((run / _OVERRIDES).read_text(encoding="utf-8"))
    kept = [argument for argument in kept if _key(argument) not in keys | {"resume"}]
    # What was kept of the start stays, also of a job of a search, which would begin a search again.
    folder = [f"resume={quoted(run)}", f"hydra.run.dir={quoted(run)}", "hydra.output_subdir=null", "hydra.mode=RUN"]
    return [*kept, *given, *folder]


def note_overrides(run: Path, arguments: Sequence[str]) -> None:
    """Keep what a run goes on with, for the next time that it does."""
    kept = [argument for argument in arguments if _key(argument) != "resume"]
    (run / _OVERRIDES).write_text(yaml.safe_dump(kept, allow_unicode=True), encoding="utf-8")


def quoted(value: object) -> str:
    """A value as Hydra reads it on the command line, whatever characters are in it."""
    if _PLAIN.fullmatch(str(value)):
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _newest_unfinished(arguments: Sequence[str]) -> Path | None:
    recipe = next((a.partition("=")[2] for a in arguments if a.startswith("recipe=")), "defaults")
    checkpoints = sorted(Path("outputs", recipe).rglob("last-*.ckpt"), key=lambda path: path.stat().st_mtime)
    unfinished = [path.parent for path in checkpoints if not (path.parent / "metrics.json").exists()]
    return unfinished[-1] if unfinished else None


def _key(argument: str) -> str:
    return argument.lstrip("+~").partition("=")[0].partition("@")[0]
