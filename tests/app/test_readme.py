"""What the README shows is run as it stands there."""

import json
import random
import re
from pathlib import Path

import pytest

from longdoc.callbacks.monitor import Monitor
from tests.app.conftest import judgment
from tests.models.tiny import tiny_encoder

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(mark: str) -> str:
    found = re.search(rf"<!-- {mark} -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert found is not None, mark
    return found[1]


def test_ci_runs_the_readme_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert block("test") == "python -m pip install -e '.[test]' && python -m pytest\n"
    assert "<!-- test -->" in script
    assert "README.md" in script


def test_the_readme_names_settings_that_exist(composed) -> None:
    config = composed("recipe=legal_ner")
    for setting in re.findall(r"`((?:data|model|windows|attention|optim|trainer)(?:\.\w+)+)[`=]", README):
        node = config
        for key in setting.split("."):
            assert key in node, setting
            node = node[key]
    for group, choices in re.findall(r"`(strategy|trainer|logger|aggregation|attention)=([\w\\|]+)`", README):
        for choice in choices.replace("\\", "").split("|"):
            assert (ROOT / "conf" / group / f"{choice}.yaml").is_file(), (group, choice)


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*smaller than the logging interval")
@pytest.mark.filterwarnings(r"ignore:.*isinstance\(treespec, LeafSpec\)")
@pytest.mark.filterwarnings("ignore:.*`tensorboardX` has been removed")
def test_the_lightning_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGDOC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cases").mkdir()
    rng = random.Random(0)
    for split, size in (("train", 4), ("dev", 2), ("test", 3)):
        rows = [json.dumps(judgment(rng, number)) for number in range(size)]
        (tmp_path / "cases" / f"{split}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    exec(compile(block("lightning"), "README.md", "exec"), {})
    assert len((tmp_path / "found.jsonl").read_text().splitlines()) == 3


PROJECT = """
import lightning as L
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForTokenClassification


class Tagger(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = AutoModelForTokenClassification.from_pretrained("encoder").train()

    def training_step(self, batch, batch_idx):
        return self.model(**batch).loss

    def validation_step(self, batch, batch_idx):
        self.log("dev/loss", self.model(**batch).loss)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def rows(number, seed):
    ids = torch.randint(5, 64, (number, 700), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(700) < torch.linspace(300, 700, number)[:, None]
    labels = torch.where(mask, ids % 3, -100)
    return [{"input_ids": i, "attention_mask": m.long(), "labels": t} for i, m, t in zip(ids, mask, labels)]


train_loader, dev_loader = DataLoader(rows(4, 0), batch_size=2), DataLoader(rows(2, 1), batch_size=2)
"""


@pytest.mark.filterwarnings("ignore:.*smaller than the logging interval")
@pytest.mark.filterwarnings("ignore:.*`tensorboardX` has been removed")
def test_the_monitors_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "project.py").write_text(PROJECT, encoding="utf-8")
    tiny_encoder("Bert", "ForTokenClassification").save_pretrained(tmp_path / "encoder")
    assert len(block("monitors").strip().splitlines()) <= 10
    names: dict = {}
    exec(compile(block("monitors"), "README.md", "exec"), names)
    monitors = [callback for callback in names["trainer"].callbacks if isinstance(callback, Monitor)]
    assert [(bool(monitor.latest), monitor.alarms) for monitor in monitors] == [(True, {})] * 3
