"""The errors that longdoc raises on purpose, and the checks of settings that raise them."""

from collections.abc import Sequence


class ConfigError(ValueError):
    """A setting that cannot work: names the argument, what was expected, what came and what to do."""


def check_integer(argument: str, value: object, least: int) -> None:
    """Refuse a setting that is no integer from ``least`` on."""
    if type(value) is not int or value < least:
        raise ConfigError(f"{argument}={value!r}: expected an integer from {least}")


def check_share(argument: str, value: object) -> None:
    """Refuse a setting that is no number from 0 to below 1."""
    if type(value) not in (int, float) or not 0 <= value < 1:  # type: ignore[operator]
        raise ConfigError(f"{argument}={value!r}: expected a number from 0 to below 1")


def check_switch(argument: str, value: object) -> None:
    """Refuse a setting that is neither True nor False: the words no and off would count as true."""
    if type(value) is not bool:
        raise ConfigError(f"{argument}={value!r}: expected true or false")


def check_choice(argument: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a setting that is none of the choices."""
    if value not in choices:
        raise ConfigError(f"{argument}={value!r}: expected one of {', '.join(map(str, choices))}")


class DataError(ValueError):
    """Input that cannot be used: names the file, the line and the reason, for all bad rows at once."""


class MissingExtra(ImportError):
    """An optional dependency is not installed; the message holds the exact pip line."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'longdoc[{extra}]'")
