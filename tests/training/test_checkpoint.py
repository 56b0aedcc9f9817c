import json
import os
import re
import subprocess
import sys

import pytest
import torch

import longdoc
from longdoc.errors import ConfigError
from longdoc.models.encoder import Encoder, without_pooler
from longdoc.training.checkpoint import load
from longdoc.training.ner import NERModule
from longdoc.training.optim import OptimizerConfig
from tests.models.tiny import tiny_encoder
from tests.training import little

PREDICT = """
import json, socket, sys
def refuse(*_): raise OSError("no network in this test")
socket.socket.connect = refuse
import longdoc
module = longdoc.load(sys.argv[1])
result = module.predict(json.loads(sys.stdin.read()))
print(json.dumps([[s.start, s.end, s.label, s.score] for s in result.predicted]))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with ``best.ckpt``, and the module that was saved."""
    folder = tmp_path_factory.mktemp("run")
    module = little.module("owner")
    trainer = little.trainer(folder, epochs=3)
    trainer.fit(module, little.data(folder))
    trainer.save_checkpoint(folder / "best.ckpt")
    return folder, module.eval()


def test_the_file_needs_no_code(run):
    content = torch.load(run[0] / "best.ckpt", weights_only=True)
    assert json.loads(json.dumps(content["longdoc"]))["task"] == "ner"


def test_predictions_are_equal_after_loading(run):
    folder, module = run
    document = little.corpus()["test"][0]
    expected = module.predict(document)
    for source in (folder, folder / "best.ckpt", str(folder)):
        loaded = load(source)
        assert not loaded.training
        assert loaded.aggregation == "owner"
        assert loaded.predict(document) == expected
    assert longdoc.load is load
    assert len(expected.predicted) > 0


def test_a_process_without_hub_and_configuration_predicts_the_same(run, tmp_path):
    folder, module = run
    text = little.corpus()["test"][1].text
    environment = {**os.environ, "HF_HOME": str(tmp_path / "empty"), "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, str(folder / "best.ckpt")],
        input=json.dumps(text), capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]
    expected = [(s.start, s.end, s.label, pytest.approx(s.score, abs=1e-6)) for s in module.predict(text).predicted]
    assert found == expected


@pytest.mark.parametrize("family", ["Bert", "ModernBert", "Roberta"])
def test_hugging_face_encoders_come_back_too(family, tmp_path):
    prepared = little.preprocessor()
    model = without_pooler(tiny_encoder(family, vocab_size=prepared.tokenizer.vocab_size))
    module = NERModule(Encoder(model.train(), prepared.tokenizer.pad_id), prepared, OptimizerConfig())
    trainer = little.trainer(tmp_path, epochs=1)
    trainer.fit(module, little.data(tmp_path))
    trainer.save_checkpoint(tmp_path / "best.ckpt")
    document = little.corpus()["test"][0]
    assert load(tmp_path).predict(document) == module.eval().predict(document)


def test_refusals(tmp_path):
    with pytest.raises(ConfigError, match=r"expected a \.ckpt file, a run folder with best\.ckpt in it, or"):
        load(tmp_path)
    (tmp_path / "best.ckpt").write_bytes(b"no checkpoint")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    torch.save({"state_dict": {}}, tmp_path / "best.ckpt")
    with pytest.raises(ConfigError, match="not written by a longdoc module"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (torch.zeros(2), "was not written by a longdoc module"),
        (5, "was not written by a longdoc module"),
        ({"longdoc": None}, "was not written by a longdoc module"),
        ({"longdoc": {"task": "other"}}, "damaged or of another version of longdoc: KeyError: 'other'"),
        ({"longdoc": {"task": "ner"}}, "damaged or of another version of longdoc: KeyError: 'preprocessor'"),
    ],
)
def test_a_foreign_checkpoint_is_refused_in_one_line(tmp_path, content, reason):
    torch.save(content, tmp_path / "best.ckpt")
    with pytest.raises(ConfigError, match=re.escape(reason)):
        load(tmp_path)
