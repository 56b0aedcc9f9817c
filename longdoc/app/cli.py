"""The command ``longdoc``: train, predict, evaluate, inspect, compare, export."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from longdoc.errors import ConfigError, DataError, MissingExtra
from longdoc.text.formats import READERS

# Each command's function is looked up when it runs, so that --help does not wait for torch.
_HANDLERS = {
    "predict": "longdoc.app.predict:predict_command",
    "evaluate": "longdoc.app.predict:evaluate_command",
    "inspect": "longdoc.app.inspect.command:run",
    "compare": "longdoc.app.compare:compare_command",
    "export": "longdoc.app.export:export_command",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors of ours come as one line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["train"]:
        import_module("longdoc.app.hydra_app").main(arguments[1:])
        return
    options = build_parser().parse_args(arguments)
    module, _, function = _HANDLERS[options.command].partition(":")
    try:
        status = getattr(import_module(module), function)(options)
    except (ConfigError, DataError, MissingExtra) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(f"{type(error).__name__}: {error}")
    except BrokenPipeError:
        # The reader of our output has seen enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None or os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(f"ConfigError: {error.filename}: cannot be read or written ({error.strerror})")
    sys.exit(status)


def build_parser() -> argparse.ArgumentParser:
    """What all commands but ``train`` take."""
    parser = argparse.ArgumentParser("longdoc", description="Tag and classify long documents, and score the result.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "train", help="train by a recipe: longdoc train recipe=legal_ner (longdoc train --help says more)"
    )

    predict = commands.add_parser("predict", help="find the entities or the class of documents, one JSON line each")
    predict.add_argument("checkpoint", metavar="CHECKPOINT", help="best.ckpt, or the output folder of a run")
    predict.add_argument(
        "inputs", metavar="INPUT", nargs="+", help="text file, folder, JSONL file; - reads standard input"
    )
    predict.add_argument("--output", metavar="FILE", default="-", help="where to write; standard output by default")
    predict.add_argument(
        "--format",
        default="predictions",
        help="predictions (id and spans), or jsonl, conll, doccano, label_studio or brat, which hold the text as well",
    )
    _add_shared(predict)

    evaluate = commands.add_parser("evaluate", help="score a checkpoint on annotated documents")
    evaluate.add_argument("checkpoint", metavar="CHECKPOINT", help="best.ckpt, or the output folder of a run")
    evaluate.add_argument("data", metavar="DATA", help="annotated file or folder")
    _add_split(evaluate)
    evaluate.add_argument("--output", metavar="FILE", help="write the scores there as JSON")
    evaluate.add_argument("--predictions", metavar="FILE", help="write the predictions there, one JSON line a document")
    _add_shared(evaluate)

    inspect = commands.add_parser(
        "inspect",
        help="what a corpus holds, what truncation would lose, and which strategy that suggests",
        description="Read a corpus before any training: lengths, what lies beyond one window, entities against window "
        "and overlap, labels, duplicates, rows that cannot be used, and what that suggests.",
    )
    inspect.add_argument("data", metavar="DATA", help="folder with train, dev and test, or one file")
    inspect.add_argument("--model", metavar="NAME", help="encoder whose tokenizer counts: hub name or folder")
    inspect.add_argument("--html", metavar="PAGE.html", type=Path, help="write a page with histograms, too")
    inspect.add_argument("--window", type=int, metavar="TOKENS", help="default: 512, or what the encoder takes")
    inspect.add_argument("--overlap", type=int, metavar="TOKENS", help="default: 128, or a quarter of a smaller window")
    _add_fields(inspect)

    compare = commands.add_parser("compare", help="finished runs in one table and one figure")
    compare.add_argument("runs", metavar="RUN", nargs="+", help="output folder of a run, or of a multirun")
    compare.add_argument("--output", metavar="DIR", help="write compare.csv, compare.md and compare.png there")

    export = commands.add_parser("export", help="a folder for transformers, or ONNX files, with a model card")
    export.add_argument("checkpoint", metavar="CHECKPOINT", help="best.ckpt, or the output folder of a run")
    export.add_argument("folder", metavar="DIR", help="new folder to write")
    export.add_argument(
        "--onnx", action="store_true", help="ONNX files, which longdoc predict and evaluate take as a checkpoint"
    )
    export.add_argument("--int8", action="store_true", help="the same for a CPU: smaller and faster, a little worse")
    export.add_argument("--data", metavar="DATA", help="annotated file or folder, to score --int8 on, before and after")
    _add_split(export)
    export.add_argument(
        "--max-loss", type=float, default=0.01, help="how far the score may fall with --int8 (default: %(default)s)"
    )
    _add_reading(export)
    return parser


def _add_split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--split", help="which part of DATA (default: test where parts are named, else all of it)")


def _add_fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-format",
        default="auto",
        choices=("auto", *READERS, "datasets"),
        help="format of the input (default: found out)",
    )
    parser.add_argument(
        "--field",
        type=_field,
        metavar="OURS=THEIRS",
        action="append",
        default=[],
        help="where a field has another name, as text=body",
    )


def _field(pair: str) -> tuple[str, str]:
    ours, _, theirs = pair.partition("=")
    if not (ours and theirs):
        raise argparse.ArgumentTypeError(f"expected OURS=THEIRS, such as text=body, got {pair!r}")
    return ours, theirs


def _add_reading(parser: argparse.ArgumentParser) -> None:
    _add_fields(parser)
    parser.add_argument("--on-error", choices=("raise", "skip"), default="raise", help="what to do about bad rows")


def _add_shared(parser: argparse.ArgumentParser) -> None:
    _add_reading(parser)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 ... (default: a GPU where there is one)")
    parser.add_argument(
        "--max-tokens-per-forward", type=int, default=8192, help="lower it to need less memory (default: %(default)s)"
    )
