"""What a run was made with: versions, hardware, state of the code, and the command."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

_PACKAGES = (
    "longdoc", "torch", "lightning", "transformers", "tokenizers", "datasets", "torchmetrics", "hydra-core", "numpy",
    "scikit-learn", "sentencex", "flash-attn",
)  # fmt: skip
_SECRET_NAME = re.compile(
    r"^((?:[^=]*[._-])?(?:token|secret|password|passwd|key|apikey|credentials?|auth))=.*$", re.IGNORECASE | re.DOTALL
)
_SECRET_VALUE = re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_|AKIA|xox[abp]-)[\w-]{8,}|(?<=://)[^/\s@]+(?=@)")


def environment(seed: int) -> dict[str, Any]:
    """Describe this process; nothing of its environment variables is in it."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": without_secrets(sys.orig_argv),
        "seed": seed,
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "cuda": torch.version.cuda,
        "system": platform.platform(),
        "cpu": {"name": _cpu_name(), "cores": os.cpu_count(), "threads_used": torch.get_num_threads()},
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "git": {"commit": _git("rev-parse", "HEAD"), "changed": bool(_git("status", "--porcelain"))},
    }


def without_secrets(words: Sequence[str]) -> list[str]:
    """Replace what looks like a secret, by the name it is given to or by its own look."""
    return [_SECRET_VALUE.sub("***", _SECRET_NAME.sub(r"\1=***", word)) for word in words]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """What git says of the current folder; None where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
