"""Killed processes, full disks and damaged files."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from longdoc.callbacks.last import LastCheckpoint, last_checkpoints
from longdoc.errors import ConfigError
from longdoc.training.checkpoint import load
from longdoc.training.checkpoint_io import SafeCheckpointIO, digest_path, read_checkpoint, write_checkpoint
from tests.reliability import launch
from tests.reliability.launch import Processes
from tests.reliability.parts import NUM_STEPS, fit, largest_difference


def fit_until_killed(folder: Path, cache: Path) -> None:
    """Save after every step, so that most of the time is spent in saving."""
    launch.fit(folder, cache, 1, resume=True, every_n_train_steps=1)


def newest_step(folder: Path) -> int:
    return max((int(path.stem.removeprefix("last-")) for path in folder.glob("last-*.ckpt")), default=0)


def kill_until(tmp_path: Path, num_kills: int, environment: dict[str, str] | None = None) -> None:
    """Kill a run again and again, at moments that move on, then let it end; it must end as one that was not killed."""
    rng, cache = random.Random(0), tmp_path / "cache"
    for name in ("unbroken", "killed"):
        (tmp_path / name).mkdir()
    assert Processes(fit_until_killed, 1, tmp_path / "unbroken", cache, environment=environment).codes() == [0]
    killed, in_a_save, num_read = tmp_path / "killed", 0, 0
    for i in range(num_kills):
        run = Processes(fit_until_killed, 1, killed, cache, environment=environment)
        until = NUM_STEPS * (i + 1) // (num_kills + 1)
        while run.ranks[0].is_alive() and newest_step(killed) < until:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.05)
        os.kill(run.group, signal.SIGKILL)
        run.codes()
        in_a_save += bool(list(killed.glob(".*.part")))
        for path in last_checkpoints(killed):
            read_checkpoint(path)
            num_read += 1
    assert Processes(fit_until_killed, 1, killed, cache, environment=environment).codes() == [0]
    difference = largest_difference(launch.weights(tmp_path / "unbroken"), launch.weights(killed))
    best, expected = (torch.load(tmp_path / name / "best.ckpt", weights_only=True) for name in ("killed", "unbroken"))
    assert largest_difference(best["state_dict"], expected["state_dict"]) == 0.0
    print(f"{num_kills} kills, {in_a_save} inside a save, {num_read} files read and none damaged, {difference=}")
    assert difference == 0.0


def test_killed_runs_end_as_others(tmp_path: Path) -> None:
    kill_until(tmp_path, 2)


@pytest.mark.long
def test_killed_runs_end_as_others_always(tmp_path: Path) -> None:
    kill_until(tmp_path, 20)


@pytest.mark.long
def test_killed_runs_end_as_others_where_temporary_files_lie_elsewhere(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a file system of its own")
    kill_until(tmp_path, 20, {"TMPDIR": str(elsewhere)})


def fit_with_little_room(folder: Path, cache: Path) -> None:
    """Train where no file may grow beyond what half a checkpoint takes."""
    size = last_checkpoints(folder)[0].stat().st_size
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY))
    try:
        fit(folder, cache, resume=True, every_n_train_steps=1)
    except ConfigError as error:
        (folder / "error.txt").write_text(str(error))


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        fit(tmp_path, tmp_path / "cache", watch={"stop_after": 3})
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.ckpt*")}
    assert Processes(fit_with_little_room, 1, tmp_path, tmp_path / "cache").codes() == [0]
    assert "last-4.ckpt' cannot be written, those written before are kept: File too large" in (
        (tmp_path / "error.txt").read_text()
    )
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.ckpt*")} == before
    assert not list(tmp_path.glob(".*"))
    assert len(fit(tmp_path, tmp_path / "cache", resume=True).state_dict()) > 0


@pytest.mark.long
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        content = {"state_dict": {"weight": torch.rand(100_000)}}
        write_checkpoint(content, disk / "a.ckpt")
        (disk / "rest").write_bytes(bytes(shutil.disk_usage(disk).free - 100_000))
        with pytest.raises(ConfigError, match=r"a\.ckpt' cannot be written, .* kept: No space left on device"):
            write_checkpoint({"state_dict": {"weight": torch.rand(100_000)}}, disk / "a.ckpt")
        assert torch.equal(read_checkpoint(disk / "a.ckpt")["state_dict"]["weight"], content["state_dict"]["weight"])
        assert sorted(path.name for path in disk.iterdir()) == ["a.ckpt", "a.ckpt.sha256", "rest"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    fit(tmp_path, tmp_path / "cache", max_epochs=1)
    path = tmp_path / "best.ckpt"
    whole, rng, noticed = path.read_bytes(), random.Random(0), {"flips": 0, "cuts": 0}
    damages = [("flips", i) for i in range(200)] + [("cuts", i) for i in range(20)]
    for kind, _ in damages:
        at = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged if kind == "flips" else whole[:at])
        with pytest.raises(ConfigError, match=r"best\.ckpt' is damaged: it is not the file whose SHA-256 stands in"):
            load(tmp_path)
        noticed[kind] += 1
    print(f"noticed: {noticed}")
    path.write_bytes(whole)
    assert load(tmp_path).labels == ("ORG", "PER")


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/a\.ckpt' cannot be written, .*"):
        write_checkpoint({}, tmp_path / "file" / "a.ckpt")
    with pytest.raises(ConfigError, match=r"'s3://bucket/a\.ckpt': expected a folder of this machine"):
        SafeCheckpointIO().save_checkpoint({}, "s3://bucket/a.ckpt")
    with pytest.raises(ConfigError, match=r"dirpath='s3://bucket'\): expected a folder of this machine"):
        LastCheckpoint("s3://bucket")


def test_weights_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    write_checkpoint({"state_dict": {"weight": torch.ones(3)}}, path)
    before = path.read_bytes(), digest_path(path).read_bytes()
    moments = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.tensor([torch.inf])}}}
    for content, name in (
        ({"state_dict": {"weight": torch.tensor([1.0, torch.nan])}}, "weight"),
        ({"state_dict": {"weight": torch.ones(3)}, "optimizer_states": [moments]}, "exp_avg"),
    ):
        with pytest.raises(ConfigError, match=f"is not written: '{name}' holds numbers that are not finite"):
            write_checkpoint(content, path)
        assert (path.read_bytes(), digest_path(path).read_bytes()) == before
