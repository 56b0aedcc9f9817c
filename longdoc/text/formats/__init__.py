"""Readers and writers of annotated documents.

:func:`read` opens a file or folder of any known format, :func:`read_splits` a corpus with its train, dev and test
parts, :func:`write` puts documents into the format of an annotation tool.
"""

from longdoc.text.formats.base import BadRow, ReadOptions, Repair
from longdoc.text.formats.reading import READERS, DocumentSource, ReadReport, detect_format, read
from longdoc.text.formats.splits import read_splits
from longdoc.text.formats.writers import write

__all__ = [
    "READERS",
    "BadRow",
    "DocumentSource",
    "ReadOptions",
    "ReadReport",
    "Repair",
    "detect_format",
    "read",
    "read_splits",
    "write",
]
