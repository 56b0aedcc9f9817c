"""Students that learn from teachers, whole runs of little ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from longdoc.errors import ConfigError
from longdoc.models.batch import WindowRef, collate
from longdoc.models.distillation import DistillConfig
from longdoc.models.encoder import AttentionConfig, set_attention
from longdoc.models.scratch import scratch_encoder, train_tokenizer
from longdoc.text.preprocess import Preprocessor
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.training.checkpoint import load
from longdoc.training.distillation import DistillationModule
from longdoc.training.ner import NERModule
from longdoc.training.optim import OptimizerConfig
from tests.training import little
from tests.training.test_classification import corpus as class_corpus
from tests.training.test_classification import data_of, module_of


def ner(width: int, layers: int, heads: int = 2, vocab_size: int = 200, labels=("ORG", "PER"), size=32) -> NERModule:
    torch.manual_seed(width)
    tokenizer = train_tokenizer([d.text for d in little.corpus()["train"]], vocab_size=vocab_size)
    prepared = Preprocessor(tokenizer, Windower(size, 8), TagScheme(labels))
    encoder = scratch_encoder(tokenizer, width=width, num_layers=layers, num_heads=heads, dropout=0.0)
    return NERModule(encoder, prepared, OptimizerConfig(lr=5e-3), dropout=0.0)


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A teacher that knows the little corpus."""
    folder = tmp_path_factory.mktemp("teacher")
    teacher = ner(48, 2)
    trainer = little.trainer(folder, epochs=6)
    trainer.fit(teacher, little.data(folder))
    assert trainer.callback_metrics["dev/f1"] > 0.95
    return teacher


ALL = DistillConfig(hidden=0.5, attention=0.5, relations=0.5, relation_heads=4, cache=False)


def test_a_student_learns_from_answers_alone(taught, tmp_path):
    module = DistillationModule(ner(32, 1), taught, DistillConfig(gold=0.0))
    trainer = little.trainer(tmp_path, epochs=8)
    trainer.fit(module, little.data(tmp_path))
    assert trainer.callback_metrics["dev/f1"] > 0.9
    assert "train/gold" not in trainer.callback_metrics


def test_all_terms_fall_and_reach_what_they_train(taught, tmp_path):
    module = DistillationModule(ner(32, 2), taught, ALL)
    assert module.mapping_line() == "Student layer <- teacher layer: 0 <- 0, 1 <- 1"
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    trainer = little.trainer(tmp_path, epochs=1)
    trainer.fit(module, little.data(tmp_path))
    first = {name: float(v) for name, v in trainer.callback_metrics.items() if name.startswith("train/")}
    trainer = little.trainer(tmp_path, epochs=8)
    trainer.fit(module, little.data(tmp_path))
    last = {name: float(trainer.callback_metrics[name]) for name in first}
    assert set(first) == {
        "train/loss",
        "train/gold",
        "train/answers",
        "train/hidden",
        "train/attention",
        "train/relations",
    }
    assert all(last[name] < first[name] for name in first), (first, last)
    still = [name for name, p in module.named_parameters() if torch.equal(p, before[name])]
    assert still == []
    assert not any(name.startswith("teacher") for name in before)
    assert all(not p.requires_grad for p in taught.parameters())


def test_a_checkpoint_is_one_of_the_student_and_holds_the_projections(taught, tmp_path):
    module = DistillationModule(ner(32, 2), taught, ALL)
    trainer = little.trainer(tmp_path, epochs=1)
    data = little.data(tmp_path)
    trainer.fit(module, data)
    path = tmp_path / "best.ckpt"
    trainer.save_checkpoint(path)
    held = torch.load(path, weights_only=True)
    assert {name for name in held["state_dict"] if name.startswith("projections")} == {
        f"projections.{i}.{kind}" for i in range(3) for kind in ("weight", "bias")
    }
    assert len(held["optimizer_states"][0]["state"]) == len(list(module.parameters()))
    student = load(path)
    assert isinstance(student, NERModule)
    document = data.splits["test"][0]
    assert student.predict(document).predicted == module.student.eval().predict(document).predicted
    with pytest.raises(ConfigError, match="teacher has changed"):
        little.trainer(tmp_path, epochs=2).fit(DistillationModule(ner(32, 2), ner(48, 2), ALL), data, ckpt_path=path)


@pytest.mark.parametrize("way", ["padded", "neighbours"])
def test_padding_and_neighbours_change_no_term(way, taught, tmp_path):
    losses = []
    data = little.data(tmp_path)
    encoded = [data.encoded("train")[i] for i in range(2)]
    refs = [WindowRef(e, w) for e in encoded for w in range(3)]
    for packed in (False, True) if way == "padded" else (False, False):
        student, teacher = ner(32, 2), ner(48, 2)
        teacher.load_state_dict(taught.state_dict())
        if packed:
            for side in (student, teacher):
                set_attention(side.encoder, AttentionConfig(), 32)
                assert side.encoder.packed
        module = DistillationModule(student, teacher, ALL)
        module.log = module.log_dict = lambda *_, **__: None
        little.trainer(tmp_path, epochs=0).fit(module, data)
        order = refs if way == "padded" or not losses else refs[3:] + refs[:3]
        losses.append(module.training_step(collate(order, student.preprocessor.tokenizer), 0))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)


def test_answers_are_kept_and_found_again(taught, tmp_path):
    data = little.data(tmp_path)
    config = DistillConfig()
    sides = []
    for cache in (True, True, False):
        module = DistillationModule(ner(32, 1), taught, replace(config, cache=cache))
        little.trainer(tmp_path, epochs=1).fit(module, data)
        sides.append(module)
    files = list((tmp_path / "cache").glob("answers-*.npy"))
    assert len(files) == 1
    assert isinstance(sides[1]._answers, np.memmap)
    assert np.array_equal(sides[0]._answers, sides[1]._answers)
    assert np.array_equal(sides[0]._answers, sides[2]._answers)
    for one, other in zip(sides[0].parameters(), sides[1].parameters(), strict=True):
        assert torch.equal(one, other)
    changed = ner(48, 2)
    little.trainer(tmp_path, epochs=1).fit(DistillationModule(ner(32, 1), changed, config), data)
    assert len(list((tmp_path / "cache").glob("answers-*.npy"))) == 2


def test_answers_of_the_whole_document_reach_its_words(taught, tmp_path):
    data = little.data(tmp_path)
    module = DistillationModule(ner(32, 1), taught, DistillConfig(cache=False))
    little.trainer(tmp_path, epochs=1).fit(module, data)
    encoded = data.encoded("train")[3]
    row = module._row[encoded.document.id]
    held = torch.from_numpy(module._answers[module._first[row] : module._first[row + 1]].astype(np.float32))
    np.testing.assert_allclose(held.softmax(-1), taught.answers([encoded])[0], atol=2e-3)


def test_other_tokenizers_and_windows_are_aligned_by_words(taught, tmp_path):
    student = ner(32, 2, vocab_size=120, size=24)
    module = DistillationModule(student, taught, DistillConfig(hidden=1.0, cache=False))
    assert not module.same_tokens
    data = little.data(tmp_path).encoded_by(student.preprocessor)
    trainer = little.trainer(tmp_path, epochs=1)
    trainer.fit(module, data)
    first = float(trainer.callback_metrics["train/hidden"])
    trainer = little.trainer(tmp_path, epochs=6)
    trainer.fit(module, data)
    assert trainer.callback_metrics["train/hidden"] < first
    assert trainer.callback_metrics["dev/f1"] > 0.9
    batch = next(iter(data.train_dataloader()))
    read = module._as_teacher(batch)
    assert len(read.item_token) == len(batch.item_token)
    assert read.document_ids == batch.document_ids
    assert torch.equal(read.item_place, batch.item_place)
    with pytest.raises(ConfigError, match="tokenizer"):
        DistillationModule(student, taught, DistillConfig(attention=1.0))


def test_teachers_that_cannot_teach_are_refused(taught):
    with pytest.raises(ConfigError, match="labels of the student"):
        DistillationModule(ner(32, 1, labels=("ORG", "LOC")), taught)
    with pytest.raises(ConfigError, match="expected a NERModule"):
        DistillationModule(ner(32, 1), module_of("single_label"))
    with pytest.raises(ConfigError, match="expected task=single_label"):
        DistillationModule(module_of("single_label"), module_of("multi_label"))
    with pytest.raises(ConfigError, match="relation_layer=2"):
        DistillationModule(ner(32, 1), taught, DistillConfig(relations=1.0, relation_layer=2))


def test_labels_in_another_order_are_put_in_place(taught, tmp_path):
    module = DistillationModule(ner(32, 1, labels=("PER", "ORG")), taught, DistillConfig(gold=0.0, cache=False))
    trainer = little.trainer(tmp_path, epochs=8)
    trainer.fit(module, little.data(tmp_path).encoded_by(module.student.preprocessor))
    assert trainer.callback_metrics["dev/f1"] > 0.9


@pytest.mark.parametrize("task", ["single_label", "multi_label", "regression"])
def test_classifiers_learn_from_answers_and_vectors(task, tmp_path):
    teacher = module_of(task)
    trainer = little.trainer(tmp_path, epochs=8)
    trainer.fit(teacher, data_of(teacher, tmp_path))
    teacher_score = float(trainer.callback_metrics["dev/score"])
    student = module_of(task)
    config = DistillConfig(gold=0.0, hidden=0.1, attention=0.1, cache=False)
    module = DistillationModule(student, teacher, config)
    trainer = little.trainer(tmp_path, epochs=8)
    data = data_of(student, tmp_path)
    trainer.fit(module, data)
    assert len(class_corpus(task)["train"]) == len(data.encoded("train"))
    assert trainer.callback_metrics["dev/score"] >= teacher_score - 0.25
    assert module._answers is not None
    assert module._answers.shape == (30, len(student.labels))
