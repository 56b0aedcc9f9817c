"""``longdoc inspect``: what a corpus holds, what truncation would lose, and what that suggests, before any training."""

import argparse
from pathlib import Path

from longdoc.text.formats import READERS


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``inspect`` to the subcommands of a parser; :func:`longdoc.app.inspect.command.run` takes what it parsed."""
    parser = subparsers.add_parser(
        "inspect",
        help="what a corpus holds, what truncation would lose, and which strategy that suggests",
        description="Read a corpus before any training: lengths, what lies beyond one window, entities against window "
        "and overlap, labels, duplicates, rows that cannot be used, and what that suggests.",
    )
    add = parser.add_argument
    add("data", metavar="DATA", help="folder with train, dev and test, or one file")
    add("--model", metavar="NAME", help="encoder whose tokenizer counts: hub name or folder")
    add("--html", metavar="PAGE.html", type=Path, help="write a page with histograms, too")
    add(
        "--input-format",
        dest="format",
        default="auto",
        choices=("auto", *READERS),
        help="of the files (default: detected)",
    )
    add("--field", action="append", default=[], metavar="OURS=THEIRS", help="a field by its name, as text=body")
    add("--window", type=int, metavar="TOKENS", help="default: 512, or what the encoder takes")
    add("--overlap", type=int, metavar="TOKENS", help="default: 128, or a quarter of a smaller window")
