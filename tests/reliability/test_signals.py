"""SIGTERM and SIGINT: what was trained is saved, the exit code tells, and no process is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightning as L
import pytest

from longdoc.app.processes import orderly_end
from longdoc.callbacks import LastCheckpoint
from longdoc.callbacks.last import last_checkpoints
from longdoc.callbacks.signals import StopSignals
from longdoc.text.documents import Document
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from tests.app.conftest import SMALL
from tests.reliability import launch, parts
from tests.reliability.launch import Processes

ROOT = Path(__file__).parents[2]
TERM, INT = int(signal.SIGTERM), int(signal.SIGINT)


def fit_watched(folder: Path, cache: Path, num_ranks: int, where: str, rank: int | None, number: int) -> None:
    """Train with workers that build batches; in the first epoch a signal comes."""
    watch = {"stop_after": 3, "where": where, "rank": rank, "signal": number}
    launch.fit(folder, cache, num_ranks, num_workers=2, watch=watch)


def stopped_in_training(folder: Path, num_ranks: int, where: str, rank: int | None, number: int) -> float:
    """Seconds from the signal until all processes have ended as they should."""
    folder.mkdir(exist_ok=True)
    run = Processes(fit_watched, num_ranks, folder, folder / "cache", num_ranks, where, rank, number)
    assert run.codes() == [128 + number] * num_ranks
    step = 3 if where == "train" else 12 // num_ranks
    assert [path.name for path in last_checkpoints(folder)] == [f"last-{step}.ckpt"]
    return time.time() - (folder / "order.signal").stat().st_mtime


@pytest.mark.parametrize(("num_ranks", "where", "rank", "number"), [(1, "validate", 0, INT), (2, "validate", 1, TERM)])
def test_signals_in_training(tmp_path: Path, num_ranks: int, where: str, rank: int | None, number: int) -> None:
    stopped_in_training(tmp_path, num_ranks, where, rank, number)


@pytest.mark.long
def test_all_signals_in_training(tmp_path: Path) -> None:
    seconds = {}
    for num_ranks, where, rank in (
        (n, where, rank) for n in (1, 2) for where in ("train", "validate") for rank in (None, *range(n))
    ):
        for number in (TERM, INT):
            case = (num_ranks, where, "group" if rank is None else rank, number)
            folder = tmp_path / "-".join(map(str, case))
            seconds[case] = stopped_in_training(folder, num_ranks, where, rank, number)
    print(f"{len(seconds)} cases, ended within {max(seconds.values()):.1f} s")
    assert max(seconds.values()) < 10


class StopInPrediction(L.Callback):
    """Asks the process to end while a document is read."""

    def on_predict_batch_start(self, *_: object) -> None:
        os.kill(os.getpid(), TERM)


def test_a_signal_in_a_prediction(tmp_path: Path) -> None:
    runner = parts.trainer(tmp_path, [StopInPrediction(), LastCheckpoint(tmp_path)])
    with pytest.raises(SystemExit) as end:
        runner.predict(parts.module(), datamodule=parts.data(tmp_path), return_predictions=False)
    assert end.value.code == 143


def encode_slowly(folder: Path, num_proc: int) -> None:
    """Encode documents as a run does before it trains, slowly enough to be interrupted."""
    encode = Preprocessor.__call__

    def slow(self: Preprocessor, document: Document) -> EncodedDocument:
        (folder / "started").touch()
        time.sleep(0.3)
        return encode(self, document)

    Preprocessor.__call__ = slow  # type: ignore[method-assign]
    with orderly_end():
        parts.data(folder / "cache", num_proc=num_proc).prepare_data()


def stopped_in_preprocessing(folder: Path, num_proc: int, to_group: bool, number: int) -> float:
    """Seconds from the signal until all processes have ended, and nothing half done is left."""
    folder.mkdir(exist_ok=True)
    run = Processes(encode_slowly, 1, folder, num_proc)
    while not (folder / "started").exists():
        assert run.ranks[0].is_alive()
        time.sleep(0.01)
    sent = time.monotonic()
    os.killpg(run.group, number) if to_group else os.kill(run.group, number)
    assert run.codes() == [128 + number]
    assert not [path for path in (folder / "cache").iterdir() if path.name.startswith((".", "encoded"))]
    return time.monotonic() - sent


def test_a_signal_in_preprocessing(tmp_path: Path) -> None:
    stopped_in_preprocessing(tmp_path, 1, False, INT)


@pytest.mark.long
def test_all_signals_in_preprocessing(tmp_path: Path) -> None:
    seconds = [
        stopped_in_preprocessing(tmp_path / f"{num_proc}-{to_group}-{number}", num_proc, to_group, number)
        for num_proc in (1, 2)
        for to_group in (False, True)
        for number in (TERM, INT)
    ]
    print(f"{len(seconds)} cases, ended within {max(seconds):.1f} s")
    assert max(seconds) < 10


def test_a_second_interrupt_does_not_wait() -> None:
    stop = StopSignals()
    before = signal.getsignal(INT)
    stop.listen()
    try:
        os.kill(os.getpid(), INT)
        assert stop.number == INT
        with pytest.raises(SystemExit) as end:
            os.kill(os.getpid(), INT)
        assert end.value.code == 130
    finally:
        stop.release()
    assert signal.getsignal(INT) is before
    assert stop.number == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [TERM, INT])
def test_command_line_with_two_processes(tmp_path: Path, corpus: Path, number: int) -> None:
    """A signal to the first process; the run goes on with resume=auto, in the same folder."""
    command = [sys.executable, str(ROOT / "train.py")]
    start = ["trainer=ddp_cpu", f"data.path={corpus}", *SMALL, "callbacks.last.every_n_train_steps=2"]
    environment = {**os.environ, "LONGDOC_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    run = subprocess.Popen([*command, *start], cwd=tmp_path, env=environment, start_new_session=True)
    while not list(tmp_path.glob("outputs/defaults/*/last-*.ckpt")):
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(number)
    assert run.wait(timeout=60) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)
    (folder,) = tmp_path.glob("outputs/*/*")
    assert not (folder / "metrics.json").exists()
    done = subprocess.run([*command, "resume=auto"], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
    assert [*tmp_path.glob("outputs/*/*")] == [folder]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test"]["num_documents"] == 4
    assert metrics["dev"]["best_score"] > 0.9
