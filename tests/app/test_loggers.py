"""Every logger writes without a network, the same numbers under the same names, and its files are read back."""

import csv
import struct
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from longdoc.app.build import close, make
from longdoc.callbacks import OptimizerMonitor, Throughput
from longdoc.errors import MissingExtra
from tests.callbacks.models import NUM_BATCHES, ForeignModule, loader, trainer

NAMES = {"train/loss", "train/lr", "train/grad_norm", "train/tokens_per_second", "dev/f1"}
HAS = {name: find_spec(name) is not None for name in ("tensorboard", "wandb", "mlflow")}


def read_csv(folder: Path) -> dict[str, list[float]]:
    with (folder / "logs" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows if row[name]] for name in rows[0]}


def read_tensorboard(folder: Path) -> dict[str, list[float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "logs"))
    events.Reload()
    return {name: [event.value for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def records(path: Path) -> Iterator[bytes]:
    """The records of a file of W&B, which is a LevelDB log with a head of its own."""
    content, at, record = path.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    while at < len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        record += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def read_wandb(folder: Path) -> dict[str, list[float]]:
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    found: dict[str, list[float]] = {}
    for record in records(path):
        for item in Record.FromString(record).history.item:
            name = item.key or "/".join(item.nested_key)
            if not name.startswith("_"):
                found.setdefault(name, []).append(float(item.value_json))
    return found


def read_mlflow(folder: Path) -> dict[str, list[float]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "longdoc"]
    (run,) = client.search_runs([experiment.experiment_id])
    return {name: [m.value for m in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics}


READ = {"csv": read_csv, "tensorboard": read_tensorboard, "wandb": read_wandb, "mlflow": read_mlflow}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that write
@pytest.mark.parametrize("name", sorted(READ))
def test_writes_offline_and_is_read_back(
    name: str, composed: Callable[..., dict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not HAS.get(name, True):
        pytest.skip(f"needs the extra {name!r}")
    monkeypatch.chdir(tmp_path)
    loggers = [make(node) for node in composed(f"logger={name}", output_dir=tmp_path / "run")["logger"].values()]
    trainer(OptimizerMonitor(), Throughput(), logger=loggers, log_every_n_steps=1).fit(
        ForeignModule(), loader(), loader()
    )
    close(loggers)
    written = READ[name](tmp_path / "run")
    assert set(written) >= NAMES
    assert set(written) - NAMES <= {"epoch", "step", "trainer/global_step"}
    assert written["dev/f1"] == [0.5, 0.5]
    assert written["train/lr"] == pytest.approx([0.1] * 2 * NUM_BATCHES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("name", sorted(HAS))
def test_a_missing_package_names_its_extra(name: str, composed: Callable[..., dict], tmp_path: Path) -> None:
    if HAS[name]:
        pytest.skip(f"{name} is installed")
    (node,) = composed(f"logger={name}", output_dir=tmp_path)["logger"].values()
    with pytest.raises(MissingExtra, match=rf"needs the package '{name}': pip install 'longdoc\[{name}\]'"):
        make(node)


def test_none_writes_nothing(composed: Callable[..., dict]) -> None:
    assert composed("logger=none")["logger"] == {}
