"""Checkpoint files that survive a crash, a full disk and a damaged sector."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from torch import Tensor

from longdoc.errors import ConfigError


class SafeCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints whole or not at all, with a SHA-256 beside each, and refuses damaged ones.

    A checkpoint is written to a temporary file in its own folder, flushed to the disk and renamed. Whatever goes wrong
    on the way, the file that stood there before stays as it was.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint; see ``write_checkpoint``."""
        if storage_options is not None:
            raise ConfigError("SafeCheckpointIO writes to folders and takes no storage_options")
        if "://" in str(path):
            raise ConfigError(f"checkpoint {str(path)!r}: expected a folder of this machine, such as an output_dir")
        write_checkpoint(checkpoint, Path(path))

    def load_checkpoint(
        self,
        path: str | os.PathLike,
        map_location: Any = "cpu",
        weights_only: bool | None = None,  # noqa: ARG002  # a checkpoint needs no code, so none is run
    ) -> dict[str, Any]:
        """Read a checkpoint; see ``read_checkpoint``."""
        return read_checkpoint(Path(path), map_location)

    def remove_checkpoint(self, path: str | os.PathLike) -> None:
        """Remove a checkpoint and its SHA-256."""
        Path(path).unlink(missing_ok=True)
        digest_path(Path(path)).unlink(missing_ok=True)


def digest_path(path: Path) -> Path:
    """Where the SHA-256 of a checkpoint stands, in the format of the command ``sha256sum``."""
    return path.with_name(f"{path.name}.sha256")


def write_checkpoint(content: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint and its SHA-256.

    Raises:
        ConfigError: A weight is not finite, or the file cannot be written; one that stood there stays.
    """
    bad = next(_not_finite(content), None)
    if bad is not None:
        raise ConfigError(
            f"checkpoint {str(path)!r} is not written: {bad!r} holds numbers that are not finite, so the training has "
            "failed; the checkpoints written before are kept; lower optim.lr"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _replacing(path) as file:
            writer: Any = _Hashing(file)
            try:
                torch.save(content, writer)
            except RuntimeError as error:  # torch hides what the disk said
                raise writer.error or error from None
            # A crash from here on leaves a whole file without a digest, never one with a wrong digest.
            digest_path(path).unlink(missing_ok=True)
        with _replacing(digest_path(path)) as file:
            file.write(_digest_line(writer.digest, path))
    except OSError as error:
        raise ConfigError(
            f"checkpoint {str(path)!r} cannot be written, those written before are kept: {error.strerror or error}"
        ) from error


def read_checkpoint(path: Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Read a checkpoint, after comparing it with the SHA-256 beside it if there is one; no code in it is run.

    Raises:
        ConfigError: The file is damaged, or no checkpoint.
    """
    try:
        if digest_path(path).is_file():
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256")
            if digest_path(path).read_bytes() != _digest_line(found, path):
                raise ConfigError(
                    f"checkpoint {str(path)!r} is damaged: it is not the file whose SHA-256 stands in "
                    f"{digest_path(path).name}; take another one, or copy both again"
                )
        return torch.load(path, map_location=map_location, weights_only=True)
    except ConfigError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(
            f"checkpoint {str(path)!r} cannot be read, expected a file that training wrote: {reason}"
        ) from error


def _digest_line(digest: Any, path: Path) -> bytes:
    return f"{digest.hexdigest()}  {path.name}\n".encode()


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` once it is on the disk, and is removed if that fails."""
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        if os.name == "posix":
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


class _Hashing:
    """Writes to a file and hashes what it writes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            self.file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        self.file.flush()


def _not_finite(content: Mapping[str, Any]) -> Iterator[str]:
    """Names of the weights, and of the moments that the optimiser keeps of them, that are NaN or infinite."""
    named = list(content.get("state_dict", {}).items())
    for optimizer in content.get("optimizer_states", ()):
        named += [item for of_one in optimizer.get("state", {}).values() for item in of_one.items()]
    for name, value in named:
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
            yield name
