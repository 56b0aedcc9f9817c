"""Peak memory of one training step of a classifier, for documents of 5,000 to 200,000 tokens.

    python -m tests.bench.memory --model ENCODER [--stream]

Each length runs in a process of its own, after a step on a short document. Windows of 512 tokens are encoded within
``max_tokens_per_forward``; with ``--stream`` the document is one stream under sliding-window attention, and each layer
is computed again in the backward pass.
"""

import argparse
import resource
import subprocess
import sys
import time

import torch

from longdoc.app.processes import return_freed_memory
from longdoc.models.encoder import AttentionConfig, load_encoder, set_attention
from longdoc.text.classes import ClassScheme
from longdoc.text.documents import Document
from longdoc.text.preprocess import Preprocessor
from longdoc.text.windows import Windower
from longdoc.training.classification import DocumentClassificationModule

LENGTHS = (5_000, 50_000, 200_000)


def main() -> None:
    """Print seconds and peak memory of a step for each length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="encoder, by name or folder")
    parser.add_argument("--stream", action="store_true", help="one stream instead of windows")
    parser.add_argument("--max-tokens-per-forward", type=int, default=4096)
    parser.add_argument("--one-length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_length is not None:
        step(options)
        return
    for length in LENGTHS:
        subprocess.run(
            [sys.executable, "-m", "tests.bench.memory", *sys.argv[1:], f"--one-length={length}"], check=True
        )


def step(options: argparse.Namespace) -> None:
    """One step on one document in this process."""
    return_freed_memory()
    encoder, tokenizer = load_encoder(options.model, attention_dropout=0.0)
    windower = Windower(None, 0) if options.stream else Windower(512, 64)
    if options.stream:
        attention = AttentionConfig(left=256, right=256, global_tokens=[0])
        encoder.model.gradient_checkpointing_enable({"use_reentrant": False})
        set_attention(encoder, attention, options.one_length + 1000)
    else:
        set_attention(encoder, AttentionConfig(), 512)
    module = DocumentClassificationModule(
        encoder,
        Preprocessor(tokenizer, windower),
        ClassScheme("single_label", ("no", "yes"), (1, 1), 2),
        max_tokens_per_forward=options.max_tokens_per_forward,
    )
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    optimizer = torch.optim.AdamW(module.parameters())
    for num_words in (500, options.one_length):
        document = module.preprocessor(Document("d", "the court " * (num_words // 2), labels=("yes",)))
        start = time.perf_counter()
        module.training_step([document], 0).backward()
        optimizer.step()
        optimizer.zero_grad()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(document.token_ids):>8,} tokens  {time.perf_counter() - start:6.1f} s  {peak_mb:8,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
