"""``longdoc inspect``: what a corpus holds, what truncation would lose, and what that suggests, before any training."""

from longdoc.app.inspect.command import add_parser, run

__all__ = ["add_parser", "run"]
