"""The errors that longdoc raises on purpose."""


class ConfigError(ValueError):
    """A setting that cannot work: names the argument, what was expected, what came and what to do."""


class DataError(ValueError):
    """Input that cannot be used: names the file, the line and the reason, for all bad rows at once."""


class MissingExtra(ImportError):
    """An optional dependency is not installed; the message holds the exact pip line."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'longdoc[{extra}]'")
