"""The command ``longdoc inspect``: read a corpus, count it, and show what it holds."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from rich.console import Console

from longdoc.app.inspect.console import print_report
from longdoc.app.inspect.page import render_page
from longdoc.app.inspect.report import CorpusReport, TokenCounter
from longdoc.app.inspect.statistics import Duplicates, PartStatistics, measure
from longdoc.errors import ConfigError
from longdoc.text.documents import Document
from longdoc.text.formats import READERS, BadRow, DocumentSource, Repair, read, read_splits
from longdoc.text.formats.base import RawRow, check_rows
from longdoc.text.formats.splits import SPLIT_NAMES
from longdoc.text.preprocess import Preprocessor
from longdoc.text.tokens import WordTokenizer
from longdoc.text.windows import Windower

WINDOW_TOKENS = 512
OVERLAP_TOKENS = 128
TOKENIZER_CHARS = 4_000_000
WHOLE = "all"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add ``inspect`` to the subcommands of a parser; ``run`` takes what it parsed."""
    parser = subparsers.add_parser(
        "inspect",
        help="what a corpus holds, what truncation would lose, and which strategy that suggests",
        description="Read a corpus before any training: lengths, what lies beyond one window, entities against window "
        "and overlap, labels, duplicates, rows that cannot be used, and what that suggests.",
    )
    parser.add_argument("data", metavar="DATA", help="folder with train, dev and test, or one file")
    parser.add_argument("--model", metavar="NAME", help="encoder whose tokenizer counts: hub name or folder")
    parser.add_argument("--html", metavar="PAGE.html", type=Path, help="write a page with histograms, too")
    parser.add_argument("--format", default="auto", choices=("auto", *READERS), help="of the files (default: detected)")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="a field by its name in the files, as text=body",
    )
    parser.add_argument(
        "--window", type=int, metavar="TOKENS", help=f"default: {WINDOW_TOKENS}, or what the encoder takes"
    )
    parser.add_argument("--overlap", type=int, metavar="TOKENS", help=f"default: {OVERLAP_TOKENS}")
    return parser


def run(args: argparse.Namespace) -> int:
    """Inspect a corpus.

    Args:
        args: As the parser of ``add_parser`` gives them.

    Returns:
        0, or 1 if not one document can be used.

    Raises:
        ConfigError: If the model cannot be loaded or the windows cannot work with it.
        DataError: If there is nothing to read.
    """
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise ConfigError(f"--html {args.html}: the folder {args.html.absolute().parent} does not exist")
    fields = _fields(args.field)
    with Console(stderr=True).status("") as status:
        report = inspect_corpus(args.data, args.model, args.format, fields, args.window, args.overlap, status.update)
    print_report(report, Console())
    if args.html is not None:
        args.html.write_text(render_page(report), encoding="utf-8", errors="backslashreplace")
        Console(stderr=True, soft_wrap=True).print(f"page: {args.html}", markup=False, highlight=False)
    return 0 if report.all.num_documents else 1


def _fields(pairs: list[str]) -> dict[str, str | int]:
    fields: dict[str, str | int] = {}
    for pair in pairs:
        ours, found, theirs = pair.partition("=")
        if not found or not theirs:
            raise ConfigError(f"--field {pair!r}: expected OURS=THEIRS, as in --field text=body")
        fields[ours] = theirs
    return fields


def inspect_corpus(
    path: str,
    model: str | None = None,
    format: str = "auto",
    fields: Mapping[str, str | int] | None = None,
    window: int | None = None,
    overlap: int | None = None,
    tell: Callable[[str], object] = str,
) -> CorpusReport:
    """Read a corpus and count it, one document in memory at a time.

    Args:
        path: Folder or file.
        model: Hub name or folder of an encoder; None counts with a tokenizer trained on the corpus.
        format: Of the files.
        fields: Our field name -> the file's name.
        window: Tokens in a window, special ones included; None takes 512, or less where the encoder takes less.
        overlap: Tokens that windows share; None takes 128, or a quarter of a window under 512.
        tell: Called with what is being done.
    """
    sources, notes = open_parts(path, format, fields)
    tell("tokenizer ...")
    tokenizer, counter = _token_counter(model, sources)
    size = min(WINDOW_TOKENS, counter.limit or WINDOW_TOKENS) if window is None else window
    windower = Windower(size, min(OVERLAP_TOKENS, size // 4) if overlap is None else overlap)
    windower.check(tokenizer.num_special, counter.limit, counter.limit_source)
    preprocessor = Preprocessor(tokenizer, windower)
    parts, duplicates = {}, Duplicates()
    for name, source in sources.items():
        part = parts[name] = PartStatistics()
        for item, where in located(source, Path(path)):
            if isinstance(item, Document):
                part.add(item, measure(item, preprocessor), where)
                duplicates.add(name, item, where)
                tell(f"{name}: {part.num_documents:,} documents")
            else:
                (part.repairs if isinstance(item, Repair) else part.bad_rows).add(where, item.reason)
    formats = tuple(dict.fromkeys(kind for source in sources.values() for _, kind in source.files))
    return CorpusReport(path, formats, counter, preprocessor, parts, duplicates, notes)


def open_parts(
    path: str, format: str = "auto", fields: Mapping[str, str | int] | None = None
) -> tuple[dict[str, DocumentSource], tuple[str, ...]]:
    """Open the parts of a corpus as they stand on disk, and say what training would do where some are missing.

    Args:
        path: Folder or file.
        format: Of the files.
        fields: Our field name -> the file's name.
    """
    folder = Path(path)
    spellings = {spelling for names in SPLIT_NAMES.values() for spelling in names}
    if not folder.is_dir() or not any({e.name.lower(), e.stem.lower()} & spellings for e in folder.iterdir()):
        note = (
            "No parts named train, dev and test: training sets a tenth of the documents apart for each of dev and test."
        )
        return {WHOLE: read(path, format, fields, on_error="skip")}, (note,)
    sources = read_splits(path, format, fields, on_error="skip")
    notes = []
    if "dev" in sources and sources["dev"].keeps is not None:
        notes.append("There is no dev part: a tenth of train is set apart for it, as in training.")
    if "train" not in sources:
        notes.append("There is no train part.")
    if "test" not in sources:
        notes.append("There is no test part: nothing would measure the result.")
    return sources, tuple(notes)


def located(source: DocumentSource, root: Path) -> Iterator[tuple[Document | BadRow, str]]:
    """Go through a source once and say in which file and line each document, bad row or repair stands.

    Args:
        source: Opened files.
        root: Folder or file that was asked for; paths are given from there.
    """
    seen: set[str] = set()
    latest: list[RawRow] = []

    def watched(rows: Iterator[RawRow]) -> Iterator[RawRow]:
        for row in rows:
            latest[:] = [row]
            yield row

    for path, kind in source.files:
        for item in check_rows(watched(READERS[kind](path, source.options)), path, source.options, seen):
            if source.keeps is not None and not source.keeps(str(item.id)):
                continue
            if isinstance(item, BadRow):
                yield item, f"{_from(root, Path(item.file))}:{item.line}"
            else:
                yield item, f"{_from(root, latest[0].file or path)}:{latest[0].line}"


def _from(root: Path, file: Path) -> str:
    return str(file.relative_to(root)) if root.is_dir() and file.is_relative_to(root) else file.name


def _token_counter(model: str | None, sources: Mapping[str, DocumentSource]) -> tuple[WordTokenizer, TokenCounter]:
    """Load the tokenizer and the limit of an encoder, or train the tokenizer that training from scratch would use."""
    # These load torch, which ``longdoc --help`` need not wait for.
    from longdoc.app.inspect.encoders import encoder_limit, load_tokenizer, train_tokenizer

    if model is not None:
        tokenizer = load_tokenizer(model)
        limit, limit_source = encoder_limit(model)
        return tokenizer, TokenCounter(model, f"tokens of {model}", limit, limit_source)
    chosen = (sources["train"],) if "train" in sources else sources.values()
    items = chain.from_iterable(source.items() for source in chosen)
    sample = Sample((item for item in items if isinstance(item, Document)), TOKENIZER_CHARS)
    tokenizer = train_tokenizer(sample)
    which = "the training texts" if "train" in sources else "these texts"
    cut = f"the first {TOKENIZER_CHARS // 1_000_000} million characters of " if sample.is_cut else ""
    return tokenizer, TokenCounter(
        None,
        f"no --model given: tokens of a tokenizer trained on {cut}{which} ({tokenizer.vocab_size:,} pieces), "
        "as model=scratch would use; another tokenizer may well count some 20 % more or fewer",
    )


class Sample:
    """The texts of documents up to a number of characters.

    Args:
        documents: Gone through once, no further than needed.
        num_chars: Where to stop.
    """

    def __init__(self, documents: Iterator[Document], num_chars: int) -> None:
        self.documents = documents
        self.num_chars = num_chars
        self.is_cut = False

    def __iter__(self) -> Iterator[str]:
        left = self.num_chars
        for document in self.documents:
            self.is_cut = len(document.text) > left
            yield document.text[:left]
            left -= len(document.text)
            if self.is_cut:
                return
