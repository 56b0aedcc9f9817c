"""Several processes: the scores of one, the weights of one with twice the batch, one end for all."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed
from torch.distributed.fsdp import FullyShardedDataParallel

from longdoc.callbacks import PredictionWriter, ResultCollector, StepGuard
from longdoc.callbacks.last import last_checkpoints
from longdoc.models.batch import Batch
from longdoc.models.distillation import DistillConfig
from longdoc.training.distillation import DistillationModule
from longdoc.training.metrics import SpanF1
from longdoc.training.ner import NERModule
from longdoc.training.optim import layerwise_groups
from tests.reliability import launch, parts
from tests.reliability.launch import Processes
from tests.reliability.parts import largest_difference
from tests.training import little


def evaluate(folder: Path, cache: Path, num_ranks: int, sizes: tuple[int, ...]) -> None:
    """Test an untrained module on so many documents, and write down what each process knows at the end."""
    for num_documents in sizes:
        module, collector = parts.module(), ResultCollector()
        writer = PredictionWriter(folder / f"{num_documents}.jsonl")
        trainer = parts.trainer(folder, [collector, writer], **launch.settings_of(num_ranks))
        data = parts.data(cache, num_dev=num_documents)
        (dev,) = trainer.validate(module, data, verbose=False)
        (scores,) = trainer.test(module, data, verbose=False)
        metric = SpanF1(module.tags.labels)
        metric.update(collector.results)
        told = {"ids": [r.id for r in collector.results], "counts": metric.counts.tolist(), "test": scores, "dev": dev}
        (folder / f"{num_documents}-{trainer.global_rank}.json").write_text(json.dumps(told))


def compare_evaluations(tmp_path: Path, sizes: tuple[int, ...], all_ranks: tuple[int, ...]) -> None:
    for num_ranks in all_ranks:
        (tmp_path / str(num_ranks)).mkdir()
        run = Processes(evaluate, num_ranks, tmp_path / str(num_ranks), tmp_path / "cache", num_ranks, sizes)
        assert run.codes() == [0] * num_ranks
    for size in sizes:
        one = json.loads((tmp_path / "1" / f"{size}-0.json").read_text())
        assert one["ids"] == [f"d{100 + i}" for i in range(size)]
        for num_ranks in all_ranks:
            for rank in range(num_ranks):
                told = json.loads((tmp_path / str(num_ranks) / f"{size}-{rank}.json").read_text())
                assert told["ids"] == one["ids"]
                assert told["counts"] == one["counts"]
                for stage in ("test", "dev"):
                    assert told[stage] == pytest.approx(one[stage], abs=1e-6)
            predictions = (tmp_path / str(num_ranks) / f"{size}.jsonl").read_text()
            assert predictions == (tmp_path / "1" / f"{size}.jsonl").read_text()
    print(f"{len(sizes)} numbers of documents on {all_ranks} processes: counts equal, each document once")


def test_scores_do_not_depend_on_processes(tmp_path: Path) -> None:
    compare_evaluations(tmp_path, (1, 3), (1, 2))


@pytest.mark.long
def test_scores_do_not_depend_on_processes_at_all(tmp_path: Path) -> None:
    compare_evaluations(tmp_path, (1, 2, 3, 7, 9, 10), (1, 2, 3))


def fit_plain(folder: Path, cache: Path, num_ranks: int, accumulate: int) -> None:
    """Train without dropout."""
    module, data = parts.module(dropout=0.0), parts.data(cache)
    runner = parts.trainer(folder, [], accumulate, max_epochs=1, **launch.settings_of(num_ranks))
    runner.fit(module, data)
    torch.save(module.state_dict(), folder / f"weights-{runner.global_rank}.pt")


def test_two_processes_train_as_one_with_twice_the_batch(tmp_path: Path) -> None:
    """Batches of unequal numbers of words: their losses must share one denominator."""
    for name, num_ranks, accumulate in (("one", 1, 4), ("two", 2, 2), ("other", 2, 1)):
        (tmp_path / name).mkdir()
        run = Processes(fit_plain, num_ranks, tmp_path / name, tmp_path / "cache", num_ranks, accumulate)
        assert run.codes() == [0] * num_ranks
    difference = largest_difference(launch.weights(tmp_path / "one"), launch.weights(tmp_path / "two"))
    print(f"two processes against one with twice the batch: {difference:.1e}")
    assert difference <= 1e-6
    assert largest_difference(launch.weights(tmp_path / "two"), launch.weights(tmp_path / "two", 1)) == 0.0
    assert largest_difference(launch.weights(tmp_path / "one"), launch.weights(tmp_path / "other")) > 1e-4


def fit_student(folder: Path, cache: Path, num_ranks: int, accumulate: int) -> None:
    """Train with all terms of distillation."""
    config = DistillConfig(hidden=1.0, attention=1.0, relations=1.0)
    student, data = DistillationModule(parts.module(dropout=0.0), little.module(), config), parts.data(cache)
    runner = parts.trainer(folder, [], accumulate, max_epochs=1, **launch.settings_of(num_ranks))
    runner.fit(student, data)
    torch.save(student.state_dict(), folder / f"weights-{runner.global_rank}.pt")


def test_two_processes_teach_as_one_with_twice_the_batch(tmp_path: Path) -> None:
    for name, num_ranks, accumulate in (("one", 1, 4), ("two", 2, 2)):
        (tmp_path / name).mkdir()
        run = Processes(fit_student, num_ranks, tmp_path / name, tmp_path / name, num_ranks, accumulate)
        assert run.codes() == [0] * num_ranks
    assert len(list((tmp_path / "two" / "cache").glob("answers-*"))) == 1
    assert largest_difference(launch.weights(tmp_path / "one"), launch.weights(tmp_path / "two")) <= 1e-6
    assert largest_difference(launch.weights(tmp_path / "two"), launch.weights(tmp_path / "two", 1)) == 0.0


def test_loss_is_the_mean_over_all_labelled_words(tmp_path: Path) -> None:
    """The gradient of three accumulated batches is that of all their words at once."""
    batches = list(parts.data(tmp_path, accumulate=3).train_dataloader())[:3]
    number = sum(int((batch.item_tags >= 0).sum()) for batch in batches)
    module = parts.module(dropout=0.0)
    total = sum(
        torch.nn.functional.cross_entropy(module(b), b.item_tags, ignore_index=-100, reduction="sum") for b in batches
    )
    (total / number).backward()
    expected = module.head.linear.weight.grad.clone()

    class Keep(StepGuard):
        gradient: Tensor | None = None

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            self.gradient = pl_module.head.linear.weight.grad.clone() if self.gradient is None else self.gradient
            super().on_before_optimizer_step(trainer, pl_module, optimizer)

    keep, module = Keep(), parts.module(dropout=0.0)
    runner = parts.trainer(tmp_path / "run", [keep], 3, max_epochs=1)
    runner.fit(module, parts.data(tmp_path, accumulate=3))
    torch.testing.assert_close(keep.gradient, expected, atol=1e-6, rtol=1e-5)


def test_two_processes_stop_together_and_go_on_to_the_same_end(tmp_path: Path) -> None:
    """The signal goes to the second process alone."""
    cache = tmp_path / "cache"
    for name in ("unbroken", "stopped"):
        (tmp_path / name).mkdir()
    assert Processes(launch.fit, 2, tmp_path / "unbroken", cache, 2).codes() == [0, 0]
    stop = {"watch": {"stop_after": 3, "rank": 1}}
    run = Processes(fit_watched, 2, tmp_path / "stopped", cache, stop)
    assert run.codes() == [143, 143]
    assert [path.name for path in last_checkpoints(tmp_path / "stopped")] == ["last-3.ckpt"]
    assert Processes(fit_watched, 2, tmp_path / "stopped", cache, {"resume": True}).codes() == [0, 0]
    assert (tmp_path / "stopped" / "order.txt").read_text() == (tmp_path / "unbroken" / "order.txt").read_text()
    for rank in range(2):
        ends = [launch.weights(tmp_path / name, rank) for name in ("unbroken", "stopped")]
        assert largest_difference(*ends) == 0.0


def fit_watched(folder: Path, cache: Path, settings: dict[str, Any]) -> None:
    """``launch.fit`` on two processes."""
    launch.fit(folder, cache, 2, **settings)


def sharded_groups(folder: Path) -> None:
    """Group the parameters before and after they are dealt out to the processes; write down how many each group has."""
    rank = int(os.environ["LOCAL_RANK"])
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    module = parts.module()
    module.setup("fit")
    sizes = [[sum(p.numel() for p in group["params"]) for group in layerwise_groups(module, 1.0, 1.0, 0.1)]]
    FullyShardedDataParallel(module, use_orig_params=True, device_id=torch.device("cpu"))
    dealt = [[sum(p.numel() for p in group["params"])] for group in layerwise_groups(module, 1.0, 1.0, 0.1)]
    total = torch.tensor(dealt).flatten()
    distributed.all_reduce(total)
    sizes.append(total.tolist())
    (folder / f"groups-{rank}.json").write_text(json.dumps(sizes))


def test_weight_decay_meets_the_same_weights_where_they_are_sharded(tmp_path: Path) -> None:
    assert Processes(sharded_groups, 2, tmp_path).codes() == [0, 0]
    before, after = json.loads((tmp_path / "groups-0.json").read_text())
    assert len(before) == 2
    assert before == after


class Poisoned(NERModule):
    """Its loss is not a number for one document, on whatever process that is."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        return loss * torch.nan if "d7" in batch.document_ids else loss


def fit_poisoned(folder: Path, cache: Path, num_ranks: int) -> None:
    """Train with a document that poisons the loss; write down what was skipped."""
    module, guard = parts.module(), StepGuard(max_skipped_in_a_row=100)
    module.__class__ = Poisoned
    runner = parts.trainer(folder, [guard], max_epochs=1, **launch.settings_of(num_ranks))
    runner.fit(module, parts.data(cache))
    finite = all(bool(p.isfinite().all()) for p in module.parameters())
    (folder / f"skipped-{runner.global_rank}").write_text(f"{guard.num_skipped} {finite}")
    torch.save(module.state_dict(), folder / f"weights-{os.environ.get('LOCAL_RANK', 0)}.pt")


def test_a_step_that_is_not_finite_on_one_process_is_skipped_on_all(tmp_path: Path) -> None:
    assert Processes(fit_poisoned, 2, tmp_path, tmp_path / "cache", 2).codes() == [0, 0]
    first, second = ((tmp_path / f"skipped-{rank}").read_text() for rank in range(2))
    assert first == second
    number, finite = first.split()
    assert 0 < int(number) < 6
    assert finite == "True"
    assert largest_difference(launch.weights(tmp_path), launch.weights(tmp_path, 1)) == 0.0
