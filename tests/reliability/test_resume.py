"""A run that is stopped and resumed ends as one that never was; the same seed gives the same weights."""

from pathlib import Path

import pytest
import torch

from tests.reliability.parts import NUM_STEPS, fit, largest_difference

Ends = dict[int, tuple[Path, dict]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Ends:
    """Folder and final weights of a run that was never stopped, for each accumulation."""
    ends = {}
    for accumulate in (1, 3):
        folder = tmp_path_factory.mktemp(f"unbroken-{accumulate}")
        ends[accumulate] = folder, fit(folder, cache, accumulate).state_dict()
    return ends


def stop_and_resume(
    folder: Path, cache: Path, unbroken: Ends, step: int, accumulate: int, workers: int, where: str, **settings: int
) -> float:
    """Difference of the final weights; the order of documents and the best checkpoint are compared as well."""
    kept, weights = unbroken[accumulate]
    folder.mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as stop:
        fit(folder, cache, accumulate, workers, watch={"stop_after": step, "where": where}, **settings)
    assert stop.value.code == 128 + 15
    end = fit(folder, cache, accumulate, workers, resume=True, **settings)
    assert (folder / "order.txt").read_text() == (kept / "order.txt").read_text()
    best, expected = (torch.load(path / "best.ckpt", weights_only=True) for path in (folder, kept))
    assert best["global_step"] == expected["global_step"]
    assert largest_difference(best["state_dict"], expected["state_dict"]) == 0.0
    return largest_difference(end.state_dict(), weights)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize(("where", "step"), [("train", 5), ("train", 12), ("validate", 12), ("train", 24)])
def test_stopped_and_resumed_equals_unbroken(
    tmp_path: Path, cache: Path, unbroken: Ends, where: str, step: int, accumulate: int
) -> None:
    assert stop_and_resume(tmp_path, cache, unbroken, step, accumulate, 0, where) == 0.0


def test_with_workers_that_build_ahead(tmp_path: Path, cache: Path, unbroken: Ends) -> None:
    assert stop_and_resume(tmp_path, cache, unbroken, 5, 1, 2, "train") == 0.0


@pytest.mark.filterwarnings("ignore:.*could not find the monitored key")  # the last epoch is not validated
def test_where_steps_are_counted_instead_of_epochs(tmp_path: Path, cache: Path) -> None:
    limits = {"max_epochs": -1, "max_steps": 20}
    (tmp_path / "unbroken").mkdir()
    weights = fit(tmp_path / "unbroken", cache, **limits).state_dict()
    ends = {1: (tmp_path / "unbroken", weights)}
    for step, where in ((5, "train"), (12, "train"), (12, "validate"), (17, "train")):
        assert stop_and_resume(tmp_path / f"{where}-{step}", cache, ends, step, 1, 0, where, **limits) == 0.0


def test_where_validation_is_rarer_or_more_frequent(tmp_path: Path, cache: Path) -> None:
    for name, limits in (("rarer", {"check_val_every_n_epoch": 2}), ("more", {"val_check_interval": 4})):
        folder = tmp_path / name
        folder.mkdir()
        ends = {1: (folder, fit(folder, cache, **limits).state_dict())}
        for step, where in ((4, "train"), (12, "train"), (16, "train"), (24, "validate")):
            assert stop_and_resume(tmp_path / f"{name}-{where}-{step}", cache, ends, step, 1, 0, where, **limits) == 0.0


def test_the_seed_decides_and_workers_do_not(tmp_path: Path, cache: Path) -> None:
    ends = []
    for name, seed, workers in (("a", 0, 0), ("b", 0, 2), ("c", 1, 0)):
        (tmp_path / name).mkdir()
        ends.append(fit(tmp_path / name, cache, num_workers=workers, seed=seed, max_epochs=1).state_dict())
    assert largest_difference(ends[0], ends[1]) == 0.0
    assert largest_difference(ends[0], ends[2]) > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_stop_at_every_step(tmp_path: Path, cache: Path, unbroken: Ends, accumulate: int, workers: int) -> None:
    differences = [
        stop_and_resume(tmp_path / str(step), cache, unbroken, step, accumulate, workers, "train")
        for step in range(1, NUM_STEPS + 1)
    ]
    print(f"accumulation {accumulate}, workers {workers}: stopped at {len(differences)} steps, {max(differences)=}")
    assert differences == [0.0] * NUM_STEPS
