"""Students that learn from teachers, whole runs of little ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from longdoc.errors import ConfigError
from longdoc.models.batch import WindowRef, collate
from longdoc.models.distillation import DistillConfig, answer_loss
from longdoc.models.encoder import AttentionConfig, set_attention
from longdoc.models.scratch import scratch_encoder, train_tokenizer
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import Selection
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.training.checkpoint import load
from longdoc.training.data import DocumentBatch, DocumentDataModule
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
    with pytest.raises(ConfigError, match=r"tokenizer of the teacher in the student.*from scratch with the training"):
        DistillationModule(student, taught, DistillConfig(attention=1.0))


def test_teachers_that_cannot_teach_are_refused(taught):
    with pytest.raises(ConfigError, match="labels of the student"):
        DistillationModule(ner(32, 1, labels=("ORG", "LOC")), taught)
    with pytest.raises(ConfigError, match="expected task=ner, got single_label"):
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


def ready(student, teacher, config, data, folder) -> DistillationModule:
    """A module that has its teacher's answers and logs nowhere."""
    module = DistillationModule(student, teacher, replace(config, cache=False))
    little.trainer(folder, epochs=0).fit(module, data)
    module.log = module.log_dict = lambda *_, **__: None
    return module


def gradients(module: DistillationModule, batch) -> dict[str, torch.Tensor]:
    module.zero_grad()
    module.training_step(batch, 0).backward()
    return {name: p.grad.clone() for name, p in module.named_parameters()}


def test_activations_that_are_computed_again_give_the_same_gradients(taught, tmp_path):
    student, data = ner(32, 2), little.data(tmp_path)
    module = ready(student, taught, ALL, data, tmp_path).train()
    encoded = data.encoded("train")[0]
    refs = [WindowRef(encoded, w) for w in (0, len(encoded.windows) - 1)]
    batch = collate(refs, student.preprocessor.tokenizer)
    assert batch.lengths[0] > batch.lengths[1]
    expected = gradients(module, batch)
    model = student.encoder.model
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": False})
    torch.testing.assert_close(gradients(module, batch), expected)


@pytest.mark.parametrize("packed", [False, True])
def test_a_document_in_several_passes_gives_the_same_gradients(packed, tmp_path):
    found = []
    for budget in (8192, 70):
        student, teacher = module_of("single_label", max_tokens_per_forward=budget), module_of("single_label")
        if packed:
            set_attention(student.encoder, AttentionConfig(), 32)
        data = data_of(student, tmp_path)
        module = ready(student, teacher, ALL, data, tmp_path).train()
        batch = DocumentBatch(data.encoded("train")[i] for i in range(3))
        found.append(gradients(module, batch))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_gives_nearly_the_same(kind, taught, tmp_path):
    data = little.data(tmp_path)
    module = ready(ner(32, 2), taught, ALL, data, tmp_path)
    batch = next(iter(data.train_dataloader()))
    with torch.autocast("cpu", kind):
        found = module.training_step(batch, 0)
    assert found.item() == pytest.approx(module.training_step(batch, 0).item(), rel=0.01)


def test_a_student_that_selects_is_aligned_with_a_teacher_that_does_not(taught, tmp_path):
    student = ner(32, 2, vocab_size=120)
    selection = Selection("random", budget_tokens=60, splitter="line")
    student.preprocessor = replace(student.preprocessor, selection=selection)
    data = little.data(tmp_path).encoded_by(student.preprocessor)
    module = ready(student, taught, DistillConfig(hidden=1.0), data, tmp_path)
    chosen = data.encoded("train")[0]
    words = np.flatnonzero(chosen.first_token >= 0)
    assert (np.diff(words) > 1).any()
    batch = collate([WindowRef(chosen, w) for w in range(len(chosen.windows))], student.preprocessor.tokenizer)
    read = module._as_teacher(batch)
    assert torch.equal(read.item_place, batch.item_place)
    whole = taught.preprocessor(chosen.document)
    expected = torch.from_numpy(whole.token_ids[whole.first_token[read.item_place[:, 1]]].astype(np.int64))
    assert torch.equal(read.input_ids[read.item_token], expected)
    assert module.training_step(batch, 0).isfinite()


def test_what_the_teacher_did_not_read_teaches_nothing(tmp_path):
    teacher, data = ner(48, 2), little.data(tmp_path)
    teacher.preprocessor = replace(teacher.preprocessor, windower=Windower(32, 0, mode="truncate"))
    module = ready(ner(32, 1), teacher, DistillConfig(gold=0.0), data, tmp_path)
    encoded = data.encoded("train")[0]
    refs = [WindowRef(encoded, w) for w in range(len(encoded.windows))]
    first, last = (collate([refs[i]], module.student.preprocessor.tokenizer) for i in (0, -1))
    assert module.training_step(last, 0) == 0
    assert gradients(module, last)["student.head.linear.weight"].abs().sum() == 0
    said = torch.from_numpy(teacher.answers([encoded])[0][: len(first.item_tags)]).log()
    expected = answer_loss(module.student(first), said, 2.0).mean()
    assert module.training_step(first, 0).item() == pytest.approx(expected.item(), rel=1e-2)


def test_windows_without_the_beginning_of_a_word_and_documents_without_words(taught, tmp_path):
    student = ner(32, 2, vocab_size=120, size=24)
    train = [Document("a", "x" * 3000 + " Anna Berg", (Span(3001, 3010, "PER"),)), Document("b", "", ())]
    splits = {"train": train, "dev": [little.document(1)]}
    data = DocumentDataModule(splits, student.preprocessor, max_tokens_per_batch=30, cache_dir=tmp_path / "cache")
    for gold in (0.0, 1.0):
        trainer = little.trainer(tmp_path, epochs=1)
        trainer.fit(DistillationModule(student, taught, DistillConfig(gold, gold, hidden=1.0, cache=False)), data)
        assert all(p.isfinite().all() for p in student.parameters())
    classifier = module_of("single_label")
    module = ready(classifier, module_of("single_label"), ALL, data_of(classifier, tmp_path), tmp_path)
    empty = classifier.preprocessor(Document("d0", "", labels=("theft",)))
    assert module.training_step(DocumentBatch([empty]), 0).isfinite()


def test_students_with_labels_in_other_orders_share_what_is_kept(taught, tmp_path):
    encoded = little.data(tmp_path).encoded("train")[0]
    for labels in (("ORG", "PER"), ("PER", "ORG")):
        student = ner(32, 1, labels=labels)
        data = little.data(tmp_path).encoded_by(student.preprocessor)
        module = DistillationModule(student, taught, DistillConfig(gold=0.0))
        little.trainer(tmp_path, epochs=0).fit(module, data)
        module.log = module.log_dict = lambda *_, **__: None
        batch = collate([WindowRef(encoded, 0)], student.preprocessor.tokenizer)
        said = torch.from_numpy(taught.answers([encoded])[0][: len(batch.item_tags)]).log()
        order = [taught.tags.tags.index(tag) for tag in student.tags.tags]
        expected = answer_loss(student(batch), said[:, order], 2.0).mean()
        assert module.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-2)
    assert len(list((tmp_path / "cache").glob("answers-*.npy"))) == 1


def test_a_module_is_fitted_again_to_other_documents(taught, tmp_path):
    module = DistillationModule(ner(32, 1), taught, DistillConfig(cache=False))
    data = little.data(tmp_path)
    others = {"train": [little.document(i) for i in range(20, 40)], "dev": data.splits["dev"]}
    for now in (data, DocumentDataModule(others, data.preprocessor, cache_dir=tmp_path / "cache")):
        little.trainer(tmp_path, epochs=1).fit(module, now)
        assert len(module._answers) == sum(len(e.words) for e in now.encoded("train"))


def test_overlapping_gold_is_the_affair_of_the_student(taught, tmp_path):
    student, document = ner(32, 1), little.document(3)
    student.preprocessor = replace(student.preprocessor, overlapping="longest_first")
    inner = replace(document.spans[0], end=document.spans[0].end - 2)
    splits = {"train": [replace(document, spans=(*document.spans, inner))], "dev": [little.document(4)]}
    data = DocumentDataModule(splits, student.preprocessor, cache_dir=tmp_path / "cache")
    module = DistillationModule(student, taught, DistillConfig(cache=False))
    little.trainer(tmp_path, epochs=1).fit(module, data)
    assert module.teacher.preprocessor.overlapping == "longest_first"


def test_numbers_of_a_teacher_are_taken_in_units_of_the_data(tmp_path):
    student, teacher = module_of("regression"), module_of("regression")
    teacher.scheme = replace(teacher.scheme, target_mean=5.0, target_std=3.0)
    data = data_of(student, tmp_path)
    module = ready(student, teacher, DistillConfig(gold=0.0), data, tmp_path)
    batch = DocumentBatch([data.encoded("train")[0]])
    told, own = teacher.answers(batch)[0].item() * 3.0 + 5.0, student.logits(batch).item()
    expected = (own - (told - student.scheme.target_mean) / student.scheme.target_std) ** 2
    assert module.training_step(batch, 0).item() == pytest.approx(expected, rel=1e-2)


def test_accumulated_batches_give_the_terms_of_all_their_tokens(taught, tmp_path):
    data = little.data(tmp_path)
    module = ready(ner(32, 2), taught, replace(ALL, gold=0.0, answers=0.0), data, tmp_path)
    encoded, tokenizer = data.encoded("train")[0], data.preprocessor.tokenizer
    refs = [WindowRef(encoded, w) for w in range(len(encoded.windows))]
    parts = [collate(refs[:1], tokenizer), collate(refs[1:], tokenizer)]
    whole = collate(refs, tokenizer)
    for part in parts:
        part.num_step_tokens, part.num_shares = len(whole.input_ids), 2
    mean = sum(module.training_step(part, 0) for part in parts) / 2
    torch.testing.assert_close(mean, module.training_step(whole, 0))
    batch = next(iter(data.train_dataloader()))
    assert batch.num_step_tokens == len(batch.input_ids)


def test_what_cannot_be_compared_is_refused_before_the_teacher_answers(taught, tmp_path):
    def start(student, teacher, config=ALL) -> None:
        module = DistillationModule(student, teacher, replace(config, cache=True))
        try:
            little.trainer(tmp_path, epochs=1).fit(module, little.data(tmp_path).encoded_by(student.preprocessor))
        finally:
            assert module._answers is None

    narrow = ner(48, 2)
    set_attention(narrow.encoder, AttentionConfig(left=4, right=4), 32)
    with pytest.raises(ConfigError, match="see the same tokens"):
        start(ner(32, 2), narrow)
    with pytest.raises(ConfigError, match="average_heads=true"):
        start(ner(32, 2, heads=4), taught)
    with pytest.raises(ConfigError, match="relation_heads=5"):
        start(ner(32, 2), taught, replace(ALL, relation_heads=5))
    short = ner(48, 2)
    short.encoder.model.config.max_position_embeddings = 20
    with pytest.raises(ConfigError, match="longest window has 32 tokens, and max_position_embeddings allows 20"):
        start(ner(32, 2), short)
    with pytest.raises(ConfigError, match=r"windows\.size_tokens lower"):
        start(ner(32, 2, vocab_size=120), short, DistillConfig(hidden=1.0))
    with pytest.raises(ConfigError, match="with optimizer"):
        DistillationModule(NERModule(narrow.encoder, narrow.preprocessor), taught)
