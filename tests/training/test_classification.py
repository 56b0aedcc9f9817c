import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch.nn import functional as F

from longdoc.callbacks import Throughput
from longdoc.errors import ConfigError, DataError
from longdoc.models.encoder import AttentionConfig, set_attention
from longdoc.models.losses import LossConfig
from longdoc.models.scratch import scratch_encoder, train_tokenizer
from longdoc.models.sentence_scorer import build_sentence_scorer
from longdoc.text.classes import ClassScheme
from longdoc.text.documents import Document
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import Selection
from longdoc.text.windows import Windower
from longdoc.training import classification
from longdoc.training.checkpoint import load
from longdoc.training.class_metrics import class_scores
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.data import DocumentBatch, DocumentDataModule
from longdoc.training.optim import OptimizerConfig
from tests.training import little

TASKS = ["single_label", "multi_label", "regression"]
MARKS = ("appeal", "claim", "theft")


def document(seed: int, task: str) -> Document:
    """A text that says somewhere, by a word of its own, what its class is."""
    rng = random.Random(seed)
    marks = rng.sample(MARKS, rng.randint(0, 3)) if task == "multi_label" else [MARKS[seed % 3]]
    words = (list(little.FILLER[:5]) * 20)[: rng.randint(20, 90)]
    for mark in marks:
        words.insert(rng.randrange(len(words) + 1), f"{mark} {mark} {mark}")
    text = " ".join(words)
    if task == "regression":
        return Document(f"d{seed}", text, target=100.0 * MARKS.index(marks[0]))
    return Document(f"d{seed}", text, labels=tuple(marks))


def corpus(task: str) -> dict[str, list[Document]]:
    ranges = {"train": range(30), "dev": range(100, 109), "test": range(200, 209)}
    return {split: [document(i, task) for i in numbers] for split, numbers in ranges.items()}


def module_of(task: str, selection: Selection | None = None, **settings) -> DocumentClassificationModule:
    """A module with random weights, the same at every call."""
    torch.manual_seed(0)
    training = corpus(task)["train"]
    tokenizer = train_tokenizer([d.text for d in training], vocab_size=120)
    scheme = ClassScheme.of(training, task)
    kind = "regression" if task == "regression" else "classification"
    scorer = build_sentence_scorer(training, kind, scheme.labels, splitter="line") if selection else None
    prepared = Preprocessor(tokenizer, Windower(32, 8), selection=selection, scorer=scorer)
    encoder = scratch_encoder(tokenizer, width=32, num_layers=1, num_heads=2, dropout=0.0)
    optimizer = OptimizerConfig(lr=1e-2)
    return DocumentClassificationModule(
        encoder, prepared, scheme, optimizer, **{"aggregation": "max", "pool": "mean", "dropout": 0.0, **settings}
    )


def data_of(module: DocumentClassificationModule, folder, **settings) -> DocumentDataModule:
    splits = corpus(module.scheme.task)
    budgets = {"max_tokens_per_batch": 300, **settings}
    return DocumentDataModule(splits, module.preprocessor, cache_dir=folder / "cache", **budgets)


@pytest.fixture(scope="module", params=TASKS)
def fitted(request, tmp_path_factory):
    """A module that has learned its corpus, with data and Trainer."""
    folder = tmp_path_factory.mktemp(request.param)
    module = module_of(request.param)
    data, trainer = data_of(module, folder), little.trainer(folder, epochs=12)
    trainer.fit(module, data)
    return module.eval(), data, trainer


def test_a_little_corpus_is_learned_by_heart(fitted):
    module, data, trainer = fitted
    assert trainer.callback_metrics["dev/score"] >= 0.95
    assert trainer.callback_metrics["dev/loss"] < 0.1
    scores = trainer.test(module, data, verbose=False)[0]
    assert scores["test/score"] >= 0.95
    assert scores["test/num_documents"] == 9


def test_predictions_are_in_the_terms_of_the_data(fitted):
    module, data, trainer = fitted
    results = [result for batch in trainer.predict(module, data) for result in batch]
    assert [result.id for result in results] == [d.id for d in data.splits["test"]]
    for result, gold in zip(results, data.splits["test"], strict=True):
        if module.scheme.task == "regression":
            assert result.gold == gold.target
            assert result.predicted == pytest.approx(gold.target, abs=40)
            assert result.probs == {}
        else:
            assert set(result.predicted) == set(gold.labels or ())
            assert list(result.predicted) == sorted(result.predicted, key=lambda x: -result.probs[x])
            assert list(result.probs) == list(module.labels)


def told(module: DocumentClassificationModule, encoded) -> list:
    """Everything a result says, in numbers and words apart."""
    results = module.results(encoded)
    numbers: list[float] = []
    for result in results:
        numbers += result.probs.values() if result.probs else [result.predicted / 100]
        numbers += [e.weight / module.scheme.target_std for e in result.evidence]
    return [numbers, [(r.id, r.num_tokens, [(e.start, e.end) for e in r.evidence]) for r in results]]


@pytest.mark.parametrize("aggregation", ["mean", "attention", "lstm", "transformer", "vote", "label_attention"])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_a_document_has_one_result(task, packed, aggregation):
    module = module_of(task, aggregation=aggregation).eval()
    set_attention(module.encoder, AttentionConfig(left=5, right=5, packed="auto" if packed else "never"), 32)
    assert module.encoder.packed == packed
    documents = [*corpus(task)["test"][:3], Document("blank", " \n"), *corpus(task)["test"][3:5]]
    encoded = [module.preprocessor(d) for d in documents]
    numbers, words = told(module, encoded)
    for budget in (1, 100, 10**6):
        module.max_tokens_per_forward = budget
        again, same = told(module, encoded)
        assert same == words
        np.testing.assert_allclose(again, numbers, atol=2e-5)
    alone = [told(module, [one]) for one in encoded]
    np.testing.assert_allclose([number for of_one, _ in alone for number in of_one], numbers, atol=2e-5)
    assert [word for _, of_one in alone for word in of_one] == words


def test_scores_do_not_depend_on_budgets_or_workers(fitted, tmp_path):
    module, _, _ = fitted
    found = []
    for forward, batch, workers in ((8192, 16384, 0), (1, 1, 0), (64, 300, 1)):
        module.max_tokens_per_forward = forward
        data = data_of(module, tmp_path, max_tokens_per_eval_batch=batch, num_workers=workers)
        found.append(little.trainer(tmp_path, epochs=0).test(module, data, verbose=False)[0])
    module.max_tokens_per_forward = 8192
    assert found == [pytest.approx(found[0], abs=1e-4)] * 3


@pytest.mark.parametrize(
    ("task", "aggregation"),
    [("single_label", "lstm"), ("multi_label", "label_attention"), ("regression", "transformer")],
)
def test_a_checkpoint_holds_thresholds_scheme_and_selection(task, aggregation, tmp_path):
    selection = Selection("cnn", budget_tokens=60, splitter="line", seed=3)
    module = module_of(task, selection, aggregation=aggregation)
    data, trainer = data_of(module, tmp_path), little.trainer(tmp_path, epochs=2)
    trainer.fit(module, data)
    if task == "multi_label":
        assert module.thresholds.tolist() != [0.5] * 3
    trainer.save_checkpoint(tmp_path / "best.ckpt")
    loaded = load(tmp_path)
    assert isinstance(loaded, DocumentClassificationModule)
    assert not loaded.training
    assert (loaded.scheme, loaded.pool) == (module.scheme, "mean")
    assert loaded.preprocessor.selection == selection
    assert loaded.thresholds.tolist() == module.thresholds.tolist()
    for one in (*data.splits["test"], Document("lines", "the case\nwas heard\n" * 40 + "appeal")):
        assert loaded.predict(one) == module.predict(one)


def test_thresholds_tuned_on_averaged_weights_are_saved_with_them(tmp_path):
    module = module_of("multi_label")
    data, trainer = data_of(module, tmp_path), little.trainer(tmp_path, epochs=3)
    best = ModelCheckpoint(tmp_path / "run", "best", monitor="dev/score", mode="max")
    trainer.callbacks += [EMAWeightAveraging(decay=0.5), best]
    trainer.fit(module, data)
    loaded = load(tmp_path / "run")
    assert loaded.thresholds.tolist() != [0.5] * 3
    loaded.score(list(data.encoded("dev")), "dev")
    dev = loaded.dev_scores.compute()
    assert class_scores(loaded.scheme, *dev, loaded.thresholds)["score"] == pytest.approx(float(best.best_model_score))
    restored = module_of("multi_label")
    trainer.test(restored, data_of(restored, tmp_path), ckpt_path=best.best_model_path, verbose=False)
    assert restored.thresholds.tolist() == loaded.thresholds.tolist()


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """Modules that have learned one class, by how they aggregate."""
    modules = {}
    for aggregation in ("mean", "attention", "label_attention"):
        folder = tmp_path_factory.mktemp(aggregation)
        module = modules[aggregation] = module_of("single_label", aggregation=aggregation)
        little.trainer(folder, epochs=30).fit(module, data_of(module, folder))
    return modules


LONG = "the case was heard and " * 20
MARKED = f"{LONG}theft theft theft {LONG}the  case"


@pytest.mark.parametrize("aggregation", ["mean", "attention", "label_attention"])
def test_evidence_points_to_the_window_that_decides(explained, aggregation):
    result = explained[aggregation].predict(MARKED)
    assert result.predicted == ("theft",)
    evidence, at = result.evidence, MARKED.index("theft")
    assert len(evidence) > 6
    best = max(evidence, key=lambda e: e.weight)
    assert best.start <= at < at + 17 <= best.end
    assert best.weight > 3 * sorted(e.weight for e in evidence)[len(evidence) // 2]
    # Windows overlap, cover the text, and begin and end with a word.
    assert (evidence[0].start, evidence[-1].end) == (0, len(MARKED))
    assert all(left.start < right.start < left.end < right.end for left, right in pairwise(evidence))
    for part in evidence:
        surface = MARKED[part.start : part.end]
        assert surface == surface.strip()
        assert MARKED[part.start - 1 : part.start] in ("", " ")
    if aggregation in ("attention", "label_attention"):
        assert sum(e.weight for e in evidence) == pytest.approx(1, abs=1e-4)


def test_golden_evidence(explained):
    """How much less likely the class is by the mean of the other windows."""
    module = explained["mean"].eval()
    encoded = module.preprocessor(Document("d", MARKED))
    probs, vectors, _ = module._evaluate([encoded])
    weights = [e.weight for e in module.results([encoded])[0].evidence]
    top, num_windows = int(probs[0].argmax()), len(vectors)
    with torch.no_grad():
        for w in range(num_windows):
            without = module.head.linear((vectors.sum(0) - vectors[w]) / (num_windows - 1)).softmax(-1)
            assert weights[w] == pytest.approx(probs[0, top] - without[top].item(), abs=2e-5)


SENTENCES = "The case was heard. It was a long delay.  A theft theft theft. The case was closed."


def test_sentences_of_one_window_are_evidence(explained):
    module = explained["mean"].eval()
    encoded = replace(module.preprocessor, windower=Windower(64, 8))(Document("d", SENTENCES))
    assert len(encoded.windows) == 1
    result = module.results([encoded])[0]
    surfaces = [SENTENCES[e.start : e.end] for e in result.evidence]
    assert surfaces == [s.strip() for s in SENTENCES.replace(".", ".|").split("|") if s]
    # By hand: the mean of the window without the tokens of the third sentence.
    with torch.no_grad():
        hidden = module.encoder(module._collate([encoded]))
        inside = SENTENCES.index("A theft"), SENTENCES.index(" The case was closed")
        words = [w for w, (start, _) in enumerate(encoded.words) if inside[0] <= start < inside[1]]
        left = ~np.isin(encoded.token_word, words)
        rest = hidden[torch.from_numpy(np.concatenate([[True], left, [True]]))].mean(0)
        without = module.head.linear(rest).softmax(-1)
    top = max(result.probs, key=result.probs.get)
    fall = result.probs[top] - without[module.labels.index(top)].item()
    assert result.evidence[2].weight == pytest.approx(fall, abs=2e-5)


def test_selected_sentences_are_evidence(explained):
    module = explained["mean"].eval()
    selection = Selection("lead", budget_tokens=20)
    encoded = replace(module.preprocessor, selection=selection)(Document("d", SENTENCES))
    assert encoded.kept is not None
    found = module.results([encoded])[0].evidence
    assert [(e.start, e.end) for e in found] == [tuple(span) for span in encoded.kept.tolist()]
    assert module.results([module.preprocessor(Document("d", "One sentence only."))])[0].evidence == ()


def test_long_documents_leave_out_several_windows_at_a_time(explained, monkeypatch):
    monkeypatch.setattr(classification, "_MAX_PARTS", 4)
    result = explained["mean"].predict(MARKED)
    assert len(result.evidence) == 4
    assert (result.evidence[0].start, result.evidence[-1].end) == (0, len(MARKED))
    best = max(result.evidence, key=lambda e: e.weight)
    assert best.start <= MARKED.index("theft") < best.end
    assert len(explained["attention"].predict(MARKED).evidence) > 6


def test_texts_of_no_words_and_no_documents(fitted):
    module, _, _ = fitted
    for text in ("", " \n\u200b"):
        result = module.predict(text)
        assert np.isfinite(list(result.probs.values()) or [result.predicted]).all()
        assert (result.evidence, result.num_tokens) == ((), 0)
    assert module.results([]) == module.validation_step([], 0) == []
    module.dev_scores.reset()


def step_of(module: DocumentClassificationModule, documents, monkeypatch) -> torch.Tensor:
    monkeypatch.setattr(module, "log", lambda *_, **__: None)
    return module.training_step(documents, 0)


def encoded_of(module: DocumentClassificationModule, count: int = 6) -> list:
    return [module.preprocessor(d) for d in corpus(module.scheme.task)["train"][:count]]


def test_rare_classes_weigh_more(monkeypatch):
    losses = {}
    for method in ("none", "inverse"):
        module = module_of("single_label", loss=LossConfig(method))
        module.scheme = ClassScheme("single_label", MARKS, (20, 5, 5), 30)
        module.class_weight = module._class_weight()
        encoded = encoded_of(module)
        logits, _ = module(module._collate(encoded))
        gold = torch.tensor([MARKS.index(e.document.labels[0]) for e in encoded])
        weight = {"none": None, "inverse": torch.tensor([0.5, 2.0, 2.0])}[method]
        losses[method] = step_of(module, encoded, monkeypatch)
        torch.testing.assert_close(losses[method], F.cross_entropy(logits, gold, weight, reduction="sum") / 6)
    assert not torch.isclose(losses["none"], losses["inverse"])


def test_each_label_is_weighed_against_its_absence(monkeypatch):
    module = module_of("multi_label", loss=LossConfig("inverse"))
    counts = torch.tensor(module.scheme.counts)
    torch.testing.assert_close(module.class_weight, torch.stack((30 / (30 - counts), 30 / counts), 1) / 2)
    plain = step_of(module_of("multi_label"), encoded_of(module), monkeypatch)
    assert not torch.isclose(step_of(module, encoded_of(module), monkeypatch), plain)


@pytest.mark.parametrize("task", TASKS)
def test_a_document_without_gold_teaches_nothing(task, monkeypatch):
    module = module_of(task)
    encoded, bare = encoded_of(module), module.preprocessor(Document("bare", "the case was heard"))
    expected = step_of(module, encoded, monkeypatch)
    torch.testing.assert_close(step_of(module, [*encoded, bare], monkeypatch), expected)
    alone = step_of(module, [bare], monkeypatch)
    alone.backward()
    assert alone == 0
    assert all(p.grad is None or not p.grad.any() for p in module.parameters())


def test_a_class_that_training_does_not_know_teaches_nothing_and_one_label_is_one(monkeypatch):
    module = module_of("single_label")
    encoded, other = encoded_of(module), module.preprocessor(Document("other", "the case", labels=("murder",)))
    expected = step_of(module, encoded, monkeypatch)
    torch.testing.assert_close(step_of(module, [*encoded, other], monkeypatch), expected)
    for labels in ((), ("appeal", "claim")):
        wrong = [module.preprocessor(Document("wrong", "the case", labels=labels))]
        for use in (lambda: step_of(module, wrong, monkeypatch), lambda: module.validation_step(wrong, 0)):  # noqa: B023
            with pytest.raises(DataError, match=f"document 'wrong': expected one label, got {len(labels)}"):
                use()


@pytest.mark.parametrize("task", TASKS)
def test_batches_of_one_step_share_their_number_of_documents(task, monkeypatch):
    module = module_of(task)
    encoded = encoded_of(module)
    whole = step_of(module, encoded, monkeypatch)
    losses = []
    for part in (encoded[:1], encoded[1:]):
        batch = DocumentBatch(part)
        batch.num_labelled, batch.num_shares = 6, 2
        losses.append(step_of(module, batch, monkeypatch))
    # A Trainer takes the mean of the batches that it accumulates.
    torch.testing.assert_close(sum(losses) / 2, whole)


def test_training_batches_are_whole_documents(tmp_path):
    module = module_of("single_label")
    batches = list(data_of(module, tmp_path).train_dataloader())
    assert sorted(e.document.id for batch in batches for e in batch) == sorted(f"d{i}" for i in range(30))
    assert all(isinstance(batch, DocumentBatch) and batch.num_labelled == len(batch) for batch in batches)


@pytest.mark.parametrize("task", ["single_label", "regression"])
def test_gold_of_the_other_task_is_not_counted(task, tmp_path):
    module = module_of(task)
    data, trainer = data_of(module, tmp_path), little.trainer(tmp_path, epochs=1)
    other = (
        Document("other", "the case", labels=("a", "b")) if task == "regression" else Document("other", "a", target=1)
    )
    data.splits["train"].append(other)
    trainer.fit(module, data)
    batches = list(data.train_dataloader())
    assert (sum(map(len, batches)), sum(batch.num_labelled for batch in batches)) == (31, 30)


def test_refusals():
    with pytest.raises(ConfigError, match=r"task=regression: expected loss=cross_entropy .*weight='inverse'"):
        module_of("regression", loss=LossConfig("inverse"))
    with pytest.raises(ConfigError, match="aggregation='owner': expected one of mean, max"):
        module_of("single_label", aggregation="owner")


def test_training_counts_the_tokens_that_its_encoder_reads(tmp_path):
    module, throughput = module_of("single_label"), Throughput()
    trainer, data = little.trainer(tmp_path, epochs=1), data_of(module, tmp_path)
    trainer.callbacks.append(throughput)
    trainer.fit(module, data)
    read = [module.num_encoder_tokens(module.preprocessor(document)) for document in data.splits["train"]]
    assert throughput.train_tokens == sum(read)
    assert throughput.train_slots > sum(read)  # its windows are padded
