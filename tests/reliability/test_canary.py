"""What is planted in data, files and settings runs nowhere and leaks nowhere."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longdoc.app.cli import main
from longdoc.app.train import train
from longdoc.errors import ConfigError
from longdoc.models.encoder import load_encoder
from longdoc.training.checkpoint import load
from longdoc.training.checkpoint_io import write_checkpoint
from tests.app.conftest import SMALL

SECRETS = {name: f"planted-{name.lower()}" for name in ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY")}
IDS = ("../../x", "<script>alert(1)</script>", "/etc/passwd", "a\nb", "${oc.env:HF_TOKEN}")


@pytest.fixture
def planted(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The corpus with other ids, in a process with secrets."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "deep" / "er" / "data"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        rows = [json.loads(line) for line in (corpus / f"{split}.jsonl").read_text().splitlines()]
        for row, name in zip(rows, IDS, strict=False):
            row["id"] = name
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_ids_are_data_and_secrets_stay(
    planted: Path, composed: Callable[..., dict], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    output, cache = planted.parent / "run", planted.parent / "cache"
    few = (f"data.path={planted}", f"data.cache_dir={cache}", *SMALL, "trainer.max_epochs=1")
    train(composed(*few, "callbacks.last.every_n_train_steps=2", output_dir=output))
    with pytest.raises(SystemExit):
        main(["inspect", str(planted), "--html", str(output / "page.html")])
    printed = "".join(capsys.readouterr())
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(planted.parent) for path in written)
    names = {json.loads(line)["id"] for line in (output / "predictions.jsonl").read_text().splitlines()}
    assert names >= set(IDS[:4])
    assert len(written) > 10
    for value in SECRETS.values():
        assert value not in printed
        assert not [path for path in written if value.encode() in path.read_bytes()]
    page = (output / "page.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert(1)</script>" not in page


class Malicious:
    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.flag}",)


def test_a_checkpoint_with_code_in_it_is_refused(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    torch.save({"longdoc": {"task": "ner"}, "state_dict": Malicious(flag)}, tmp_path / "best.ckpt")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "plain.ckpt").write_bytes(pickle.dumps(Malicious(flag)))
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "plain.ckpt")
    write_checkpoint({"state_dict": {}, "more": Malicious(flag)}, tmp_path / "signed.ckpt")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "signed.ckpt")
    assert not flag.exists()


@pytest.mark.parametrize("target", ["shutil.copy", "os.system", "lightning.pytorch.utilities.os.system", "torch.load"])
def test_targets_of_other_packages_are_refused(target: str, composed: Callable[..., dict], tmp_path: Path) -> None:
    config = composed(output_dir=tmp_path / "run")
    config["callbacks"]["planted"] = {"_target_": target, "src": "/etc/passwd", "dst": str(tmp_path / "copy")}
    with pytest.raises(ConfigError, match=r"callbacks\.planted\._target_"):
        train(config)
    assert not list(tmp_path.iterdir())


def test_code_beside_weights_does_not_run_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "planted", "auto_map": {"AutoConfig": "planted.C", "AutoModel": "planted.M"}})
    )
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises((ConfigError, ValueError, OSError)):
        load_encoder(str(tmp_path))
    assert not (tmp_path / "ran").exists()
