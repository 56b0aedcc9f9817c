"""A corpus larger than one would hold in memory: peak memory and the second start.

    python -m tests.bench.store [--megabytes 300]

Writes a JSONL corpus of judgments, then twice, each time in a process of its own, reads and encodes it and trains one step.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from longdoc.app.corpus import generate
from longdoc.text.formats import ReadOptions


def main() -> None:
    """Print memory and seconds of both starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--one-start", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one_start:
        start_and_step(arguments.one_start)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), arguments.megabytes * 1_000_000)
        command = [sys.executable, "-m", "tests.bench.store", "--one-start", folder]
        for which in ("first start", "second start"):
            print(which, subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip(), flush=True)


def write_corpus(folder: Path, num_bytes: int) -> None:
    """Repeat generated judgments under new ids until the training file is large enough."""
    documents = generate("en", "train", 50, 0)
    for split, wanted in (("train", num_bytes), ("dev", 1)):
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            number = 0
            while file.tell() < wanted:
                document = documents[number % len(documents)]
                entities = [{"start": s.start, "end": s.end, "label": s.label} for s in document.spans or ()]
                file.write(json.dumps({"id": str(number), "text": document.text, "entities": entities}) + "\n")
                number += 1


def start_and_step(folder: Path) -> None:
    """Read, encode, train one step; print seconds to the first step and memory beyond the imports."""
    import lightning as L

    import longdoc
    from longdoc.training.store import store_sources

    os.environ["LONGDOC_CACHE"] = str(folder / "cache")
    tokenizer = longdoc.train_tokenizer((d.text for d in generate("en", "train", 50, 0)), vocab_size=2000)
    encoder = longdoc.scratch_encoder(tokenizer, width=64, num_layers=2, num_heads=2)
    before, start = _peak_mb(), time.perf_counter()
    splits = store_sources(longdoc.read_splits(folder, options=ReadOptions(task="ner")), folder / "cache")
    labels = sorted(splits["train"].span_values("label"))
    preprocessor = longdoc.Preprocessor(tokenizer, longdoc.Windower(256, 64), longdoc.TagScheme(tuple(labels)))
    data = longdoc.DocumentDataModule(splits, preprocessor)
    module = longdoc.NERModule(encoder, preprocessor, longdoc.OptimizerConfig(lr=1e-3))
    trainer = L.Trainer(
        max_steps=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(module, datamodule=data)
    seconds = time.perf_counter() - start
    print(
        f"{len(splits['train'])} documents, {seconds:.1f} s, peak memory {before} MB before and {_peak_mb()} MB after"
    )


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
