"""Train, dev and test parts of a corpus: by name where they stand in files, else by a hash of the document id."""

import logging
import re
from collections import deque
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path

from longdoc.errors import DataError
from longdoc.text.documents import Document
from longdoc.text.formats.base import ReadOptions, inside
from longdoc.text.formats.brat import beside
from longdoc.text.formats.reading import SUFFIXES, DocumentSource, listed, read

SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "development"),
    "test": ("test", "testing"),
}
DEV_SHARE = 0.1
TEST_SHARE = 0.1
_SURVEYED_DOCUMENTS = 1000
log = logging.getLogger(__name__)


def hash_share(identifier: str, seed: int) -> float:
    """Where an id falls between 0 and 1; the same on every machine, whatever other ids there are."""
    digest = blake2b(f"{seed}\0{identifier}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class HashPart:
    """Keeps the ids whose hash falls into a range.

    Args:
        seed: Another seed gives another split.
        low: First share kept.
        high: Share from which on none is kept.
    """

    seed: int
    low: float
    high: float

    def __call__(self, identifier: str) -> bool:
        """Say whether a document of this id belongs here."""
        return self.low <= hash_share(identifier, self.seed) < self.high


def read_splits(
    path: str | Path,
    format: str = "auto",
    on_error: str = "raise",
    options: ReadOptions | None = None,
    seed: int = 0,
) -> dict[str, DocumentSource]:
    """Open a corpus as ``{"train": ..., "dev": ..., "test": ...}``.

    A folder may hold files or folders named train, dev (or valid, validation, val) and test, or files with one of
    these words in their name. Where dev is missing, a tenth of train is set apart; without test there is none.
    Anything else that :func:`read` takes is split into 80, 10 and 10 per cent. Each document goes by a hash of the seed
    and its own id, so that documents added later move no other (rows without an id are known by their number: give ids
    where rows may be inserted). Only where so few documents leave a part empty, the next seeds are tried.

    Args:
        path: Folder or file.
        format: As in :func:`read`.
        on_error: As in :func:`read`.
        options: As in :func:`read`.
        seed: Of the hash.

    Raises:
        DataError: If there is nothing to read, two files claim one split, or there are fewer documents than parts.
    """
    return deal(read_parts(path, format, on_error, options), str(path), seed)


def read_parts(
    path: str | Path, format: str = "auto", on_error: str = "raise", options: ReadOptions | None = None
) -> dict[str, DocumentSource]:
    """Open the parts that a folder names, or ``{"all": ...}`` where none is named; all is as in ``read_splits``."""
    path = Path(path)
    named = named_parts(path, format) if path.is_dir() else {}
    if named:
        read_files = {*named.values(), *(beside(entry, ".ann") for entry in named.values())}
        data = [e for e in inside(path, path.iterdir()) if e.is_dir() or e.suffix.lower() in SUFFIXES]
        if unread := [entry for entry in data if entry not in read_files]:
            log.warning("%s: beside the named parts nothing is read%s", path, listed(unread))
        return {name: read(entry, format, on_error, options) for name, entry in named.items()}
    try:
        return {"all": read(path, format, on_error, options)}
    except DataError as error:
        if not path.is_dir():
            raise
        wanted = ", ".join(chain(*SPLIT_NAMES.values()))
        raise DataError(f"{error}; looked for files named {wanted}, or one set of documents to split") from None


def deal(found: dict[str, DocumentSource], where: str, seed: int) -> dict[str, DocumentSource]:
    """Set a dev split apart from train where there is none, or deal ``all`` to three; the log says so.

    Args:
        found: The parts there are.
        where: What they were found in, for the log.
        seed: Of the hash.
    """
    if "all" in found:
        log.warning("%s: no parts named train, dev and test; documents are dealt to them by a hash of the ids", where)
        return _split(found["all"], ("train", "dev", "test"), seed)
    if "train" in found and "dev" not in found:
        log.warning("%s: no dev split; a tenth of train is set apart by a hash of the ids", where)
        found |= _split(found["train"], ("train", "dev"), seed)
    if "test" not in found:
        log.warning("%s: no test split", where)
    return {name: found[name] for name in SPLIT_NAMES if name in found}


def named_parts(folder: Path, format: str = "auto") -> dict[str, Path]:
    """Find the files or folders named train, dev or test in a folder.

    Where none is named exactly so, a file counts in whose name that is a word, as in ``legal_train.jsonl``; but
    no text, which may be a document. Without a train part, only a table or folder of exactly that name counts.
    """
    entries = inside(folder, folder.iterdir())
    entries = [e for e in entries if e.is_dir() or format != "auto" or e.suffix.lower() in SUFFIXES]
    named: dict[str, Path] = {}
    for name, spellings in SPLIT_NAMES.items():
        claims = [entry for entry in entries if (entry.name if entry.is_dir() else entry.stem).lower() in spellings]
        claims = claims or [entry for entry in entries if _parts_in_name(entry) == [name]]
        partners = [beside(entry, ".ann") for entry in claims if entry.suffix.lower() == ".txt"]
        claims = [entry for entry in claims if entry not in partners]
        if len(claims) > 1:
            raise DataError(
                f"{folder}: expected one file or folder for {name}{listed(claims)}; put several into a folder {name}"
            )
        if claims:
            named[name] = claims[0]
    exact = (e.is_dir() or (not _may_be_document(e) and e.stem.lower() in SPLIT_NAMES[n]) for n, e in named.items())
    return named if "train" in named or any(exact) else {}


def _may_be_document(entry: Path) -> bool:
    return entry.suffix.lower() in (".txt", ".ann")


def _parts_in_name(entry: Path) -> list[str]:
    """The parts that a file of data has in its name as a word."""
    if entry.is_dir() or entry.suffix.lower() not in SUFFIXES or _may_be_document(entry):
        return []
    words = set(re.findall(r"[^\W_]+", entry.stem.lower()))
    return [name for name, spellings in SPLIT_NAMES.items() if words.intersection(spellings)]


def _split(source: DocumentSource, parts: tuple[str, ...], seed: int) -> dict[str, DocumentSource]:
    """Deal the documents of one source to parts.

    The next seed that leaves no part empty, and none larger than train, is taken where so few documents would.
    """
    documents = (item for _, item in source.items() if isinstance(item, Document))
    identifiers = [document.id for document in islice(documents, _SURVEYED_DOCUMENTS)]
    if len(identifiers) < len(parts):
        deque(source, maxlen=0)  # raises with the bad rows, where they are why
        raise DataError(
            f"{source.name}: {len(identifiers)} documents cannot be split into {', '.join(parts)}; give files of these "
            "names, or mark the documents (-DOCSTART- lines in CoNLL)"
        )
    test = TEST_SHARE if "test" in parts else 0.0
    bounds = {"train": (test + DEV_SHARE, 1.0), "dev": (test, test + DEV_SHARE), "test": (0.0, test)}
    while True:
        keeps = {part: HashPart(seed, *bounds[part]) for part in parts}
        sizes = {part: sum(map(keep, identifiers)) for part, keep in keeps.items()}
        if min(sizes.values()) > 0 and sizes["train"] == max(sizes.values()):
            return {part: replace(source, keeps=keep) for part, keep in keeps.items()}
        seed += 1
