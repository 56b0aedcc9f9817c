from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from longdoc.callbacks import LastCheckpoint
from longdoc.errors import ConfigError
from longdoc.models.batch import Batch, WindowRef, collate
from longdoc.models.losses import LossConfig, tagging_loss
from longdoc.models.scratch import scratch_encoder
from longdoc.text.classes import ClassScheme
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import Preprocessor
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.training.class_metrics import ClassScores
from longdoc.training.data import DocumentDataModule
from longdoc.training.metrics import SpanF1
from longdoc.training.ner import NERModule
from longdoc.training.optim import OptimizerConfig
from tests.text.worlds import LENER_LABELS, TOKENIZERS, read_lener, tokenizer_of
from tests.training import little


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A module that has learned the little corpus."""
    folder = tmp_path_factory.mktemp("fit")
    module, data = little.module(), little.data(folder)
    trainer = little.trainer(folder, epochs=8)
    trainer.fit(module, data)
    return module, data, trainer


def test_a_little_corpus_is_learned_by_heart(fitted):
    module, data, trainer = fitted
    assert trainer.callback_metrics["dev/f1"] >= 0.99
    assert trainer.callback_metrics["dev/loss"] < 0.1
    found = trainer.test(module, data, verbose=False)[0]
    assert found["test/f1"] >= 0.99
    assert found["test/label/PER/f1"] >= 0.99
    assert found["test/num_gold"] == sum(len(d.spans or ()) for d in data.splits["test"])


def test_predictions_are_offsets_into_the_text_in_order(fitted):
    module, data, trainer = fitted
    batches = trainer.predict(module, data)
    results = [result for batch in batches for result in batch]
    assert [result.id for result in results] == [d.id for d in data.splits["test"]]
    for result in results:
        assert [result.text[s.start : s.end] for s in result.predicted] == [
            result.text[s.start : s.end] for s in result.gold
        ]
        assert all(0 < span.score <= 1 for span in result.predicted)


@pytest.mark.parametrize("aggregation", ["owner", "mean"])
def test_smoke_per_aggregation(aggregation, tmp_path):
    module, data = little.module(aggregation), little.data(tmp_path)
    trainer = little.trainer(tmp_path, epochs=2)
    trainer.fit(module, data)
    assert trainer.callback_metrics["dev/f1"] > 0.5
    assert len(module.eval().predict(data.splits["test"][0]).predicted) > 5


def test_results_do_not_depend_on_budgets_or_workers(fitted, tmp_path):
    module, _, _ = fitted
    module.eval()
    scores, probs = [], []
    for forward, batch, workers in ((8192, 16384, 0), (1, 1, 0), (100, 300, 0), (64, 10**6, 1)):
        module.max_tokens_per_forward = forward
        data = little.data(tmp_path, max_tokens_per_eval_batch=batch, num_workers=workers)
        trainer = little.trainer(tmp_path, epochs=0)
        scores.append(trainer.test(module, data, verbose=False)[0])
        probs.append(np.concatenate(module.answers(list(data.encoded("test")))))
    assert scores == [scores[0]] * 4
    for other in probs[1:]:
        np.testing.assert_allclose(other, probs[0], atol=1e-5)
    module.max_tokens_per_forward = 8192


def test_a_document_does_not_depend_on_its_neighbours(fitted):
    module, data, _ = fitted
    module.eval()
    documents = list(data.encoded("test"))
    together = module.answers(documents)
    for document, probs in zip(documents, together, strict=True):
        np.testing.assert_allclose(module.answers([document])[0], probs, atol=1e-5)


def test_the_order_of_batches_does_not_depend_on_workers(tmp_path):
    weights = []
    for workers in (0, 2):
        module = little.module()
        little.trainer(tmp_path, epochs=1).fit(module, little.data(tmp_path, num_workers=workers))
        weights.append(module.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_texts_of_no_words_and_long_texts(fitted):
    module, _, _ = fitted
    module.eval()
    assert module.predict("").predicted == ()
    assert module.predict(" \n\u200b").predicted == ()
    document = little.document(7, num_phrases=2000)
    result = module.predict(document)
    assert not result.truncated
    metric = SpanF1(("ORG", "PER"))
    metric.update([result])
    assert metric.compute()["f1"] >= 0.98
    assert result.num_tokens > len(document.text) / 10


def test_no_logits_are_kept(fitted):
    module, data, _ = fitted
    module.eval()
    held = {id(t) for t in module.parameters()} | {id(t) for t in module.buffers()}
    results = module.validation_step(list(data.encoded("test")), 0)
    module.dev_scores.reset()
    assert held == {id(t) for t in module.parameters()} | {id(t) for t in module.buffers()}
    assert not any(
        isinstance(getattr(result, name), (torch.Tensor, np.ndarray)) for result in results for name in result.__slots__
    )
    states = [module.dev_scores.counts, module.dev_scores.slice_counts]
    assert all(isinstance(state, torch.Tensor) and state.numel() < 100 for state in states)


def test_a_forward_pass_keeps_its_budget(fitted, monkeypatch):
    module, _, _ = fitted
    module.eval()
    padded = []
    inner = module.encoder.forward

    def watch(batch: Batch) -> torch.Tensor:
        padded.append((batch.num_windows, batch.num_windows * int(batch.lengths.max())))
        return inner(batch)

    monkeypatch.setattr(module.encoder, "forward", watch)
    monkeypatch.setattr(module, "max_tokens_per_forward", 256)
    module.predict(little.document(8, num_phrases=500))
    assert len(padded) > 5
    assert all(tokens <= 256 for _, tokens in padded)
    assert any(windows > 1 for windows, _ in padded)


def test_loss_is_plain_cross_entropy():
    module = little.module()
    encoded = [module.preprocessor(d) for d in little.corpus()["train"][:3]]
    batch = collate([WindowRef(e, 0) for e in encoded], module.preprocessor.tokenizer)
    from_logits = F.cross_entropy(module(batch), batch.item_tags)
    torch.testing.assert_close(tagging_loss(module(batch), batch.item_tags, batch.num_labelled), from_logits)


def test_dev_loss_is_the_mean_over_the_words_that_were_read():
    module = little.module().eval()
    first = replace(module.preprocessor, windower=Windower(12, 0, mode="truncate"))(little.document(3))
    num_read = int((first.first_token < first.windows.num_covered).sum())
    assert 0 < num_read < len(first.words)
    probs = module.answers([first])[0]
    module.score([first], "dev")
    expected = -np.log(probs[np.arange(num_read), first.tags[:num_read]]).mean()
    assert module.epoch_scores("dev")["loss"] == pytest.approx(expected, rel=1e-5)


def test_words_that_no_window_reads_have_no_weight(tmp_path):
    prepared = replace(little.preprocessor(), windower=Windower(12, 0, mode="truncate"))
    data = DocumentDataModule(little.corpus(), prepared, cache_dir=tmp_path)
    num_read = sum(int((e.first_token < e.windows.num_covered).sum()) for e in data.encoded("train"))
    assert sum(data.tag_counts()) == num_read < sum(len(e.words) for e in data.encoded("train"))


def test_a_datamodule_with_other_tags_is_refused(tmp_path):
    prepared = little.preprocessor()
    for labels in (("PER", "ORG"), ("ORG", "PER", "LOC")):
        data = DocumentDataModule(
            little.corpus(), replace(prepared, tags=TagScheme(labels)), cache_dir=tmp_path / "cache"
        )
        with pytest.raises(
            ConfigError, match=r"expected that of the module, got other tags: .*'PER', .*in the module .*"
        ):
            little.trainer(tmp_path, epochs=1).fit(little.module(), data)


class NoDouble(TorchFunctionMode):
    """Refuses 64-bit numbers, which Apple's GPUs do not have, unless the tensor was brought to the CPU by name."""

    brought: torch.Tensor | None = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func is torch.Tensor.cpu:
            self.brought = found
        elif isinstance(found, torch.Tensor) and found.dtype == torch.float64:
            assert args[0] is self.brought
        return found


def test_no_double_is_made_on_a_device(tmp_path):
    trainer = little.trainer(tmp_path, epochs=1)
    trainer.callbacks.append(LastCheckpoint(tmp_path / "last"))
    with NoDouble():
        trainer.fit(little.module(), little.data(tmp_path))
        scores = ClassScores(ClassScheme("multi_label", ("a",), (1,), 1))
        scores.update(np.zeros((1, 1)), [np.zeros(2)])
        scores.compute()


class Oracle(nn.Module):
    """An encoder whose vectors say the tag of every word: it has read the gold, token by token."""

    def __init__(self, tag_of_token: dict[int, int], num_tags: int) -> None:
        super().__init__()
        self.tag_of_token = tag_of_token
        self.width = num_tags

    def forward(self, batch: Batch) -> torch.Tensor:
        tags = torch.tensor([self.tag_of_token.get(token, 0) for token in batch.input_ids.tolist()])
        return F.one_hot(tags, self.width).float() * 20


def oracle_module(preprocessor: Preprocessor, tag_of_token: dict[int, int], aggregation: str) -> NERModule:
    assert preprocessor.tags is not None
    num_tags = len(preprocessor.tags)
    module = NERModule(
        Oracle(tag_of_token, num_tags), preprocessor, aggregation=aggregation, max_tokens_per_forward=300
    )
    module.head.linear = nn.Linear(num_tags, num_tags)
    with torch.no_grad():
        module.head.linear.weight.copy_(torch.eye(num_tags))
        module.head.linear.bias.zero_()
    return module.eval()


@pytest.mark.parametrize("aggregation", ["owner", "mean"])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_names_at_word_550_come_back_through_the_whole_module(kind, aggregation):
    text = " ".join("Schrödinger" if i in (3, 550, 599) else "court" for i in range(600))
    preprocessor = Preprocessor(tokenizer_of(kind), Windower(96, 24), TagScheme(("PER",)))
    places = [i for i in range(len(text)) if text.startswith("Schrödinger", i)]
    encoded = preprocessor(Document("d", text, tuple(Span(i, i + 11, "PER") for i in places)))
    tag_of_token = {
        int(encoded.token_ids[t]): int(tag) for t, tag in zip(encoded.first_token, encoded.tags, strict=True)
    }
    result = oracle_module(preprocessor, tag_of_token, aggregation).predict(text)
    assert [(span.start, span.end, span.label) for span in result.predicted] == [(i, i + 11, "PER") for i in places]
    assert len(places) == 3


def test_real_gold_scores_one_through_the_whole_module(shared):
    """The tag of a word is written into its token id, so windows, batches, pooling and stitching must all agree."""
    document = min(read_lener(shared("data/lener_br"), "test"), key=lambda d: len(d.text))
    preprocessor = Preprocessor(tokenizer_of("wordpiece"), Windower(64, 16), TagScheme(LENER_LABELS))
    encoded = preprocessor(document)
    assert encoded.tags is not None
    ids = np.full_like(encoded.token_ids, 1000)
    ids[encoded.first_token] = encoded.tags
    marked = type(encoded)(
        document,
        encoded.words,
        ids,
        encoded.token_word,
        encoded.first_token,
        encoded.windows,
        encoded.tags,
        encoded.lost,
    )
    module = oracle_module(preprocessor, {tag: tag for tag in range(1 + 4 * len(LENER_LABELS))}, "mean")
    metric = SpanF1(LENER_LABELS)
    metric.update(module.results([marked]))
    assert metric.compute()["f1"] == 1.0
    assert metric.compute()["num_gold"] == len(document.spans or ())


def test_a_module_in_training_predicts_without_dropout():
    module = little.module()
    module.head.dropout.p = 0.5
    module.encoder.model.layers[0].eval()
    modes = [part.training for part in module.modules()]
    document = little.document(9)
    first = module.predict(document)
    assert first == module.predict(document) == module.predict(document)
    assert [part.training for part in module.modules()] == modes
    assert first == module.eval().predict(document)


def test_refusals(tmp_path):
    prepared = little.preprocessor()
    with pytest.raises(ConfigError, match="tags=None"):
        NERModule(little.module().encoder, Preprocessor(prepared.tokenizer, prepared.windower))
    with pytest.raises(ConfigError, match="aggregation='max'"):
        little.module("max")  # type: ignore[arg-type]
    module = NERModule(little.module().encoder, prepared)
    with pytest.raises(ConfigError, match="optimizer=OptimizerConfig"):
        little.trainer(tmp_path, epochs=1).fit(module, little.data(tmp_path))


def test_rare_tags_weigh_more(tmp_path, monkeypatch):
    data, plain = little.data(tmp_path), little.module()
    counts = data.tag_counts()
    assert sum(counts) == sum(len(e.words) for e in data.encoded("train"))
    assert counts[0] == max(counts)
    torch.manual_seed(0)
    encoder = scratch_encoder(plain.preprocessor.tokenizer, width=32, num_layers=1, num_heads=2, dropout=0.0)
    weighted = NERModule(
        encoder,
        plain.preprocessor,
        OptimizerConfig(lr=5e-3),
        dropout=0.0,
        loss=LossConfig("inverse"),
        tag_counts=counts,
    )
    batch = next(iter(data.train_dataloader()))
    monkeypatch.setattr(weighted, "log", lambda *_, **__: None)
    expected = F.cross_entropy(weighted(batch), batch.item_tags, weighted.tag_weight, reduction="sum")
    torch.testing.assert_close(weighted.training_step(batch, 0), expected / batch.num_labelled)
    assert weighted.tag_weight is not None
    assert weighted.tag_weight.argmin() == 0
    monkeypatch.undo()
    little.trainer(tmp_path, epochs=2).fit(weighted, data)
    with pytest.raises(ConfigError, match=r"loss\.weight='inverse' needs tag_counts"):
        NERModule(encoder, plain.preprocessor, loss=LossConfig("inverse"))
