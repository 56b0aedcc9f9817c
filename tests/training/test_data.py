from dataclasses import replace

import pytest
import torch

from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document, Span
from longdoc.training.data import DocumentDataModule
from tests.training import little


def test_every_window_once_an_epoch_within_the_budget(tmp_path):
    data = little.data(tmp_path)
    batches = list(data.train_dataloader())
    encoded = list(data.encoded("train"))
    assert sum(batch.num_windows for batch in batches) == sum(len(e.windows) for e in encoded)
    assert all(len(batch.input_ids) <= 128 for batch in batches)
    special = 2 * sum(len(e.windows) for e in encoded)
    covered = sum(int((e.windows.end - e.windows.start).sum()) for e in encoded)
    assert sum(len(batch.input_ids) for batch in batches) == covered + special
    assert len(data.train_dataloader()) == len(batches)


def test_overlap_can_be_learned_once(tmp_path):
    def num_labelled(count_overlap: bool) -> int:
        batches = little.data(tmp_path, count_overlap=count_overlap).train_dataloader()
        return sum(int((batch.item_tags >= 0).sum()) for batch in batches)

    num_words = sum(len(e.words) for e in little.data(tmp_path).encoded("train"))
    assert num_labelled(False) == num_words < num_labelled(True)


def test_windows_do_not_depend_on_gold(tmp_path):
    splits = little.corpus()
    bare = {name: [Document(d.id, d.text) for d in documents] for name, documents in splits.items()}
    with_gold = list(little.data(tmp_path).train_dataloader())
    without = list(DocumentDataModule(bare, little.preprocessor(), 128, cache_dir=tmp_path / "bare").train_dataloader())
    assert all(torch.equal(a.input_ids, b.input_ids) for a, b in zip(with_gold, without, strict=True))
    assert all((batch.item_tags == -100).all() for batch in without)


def test_evaluation_reads_whole_documents_in_order(tmp_path):
    for budget in (1, 300, 10**6):
        batches = list(little.data(tmp_path, max_tokens_per_eval_batch=budget).val_dataloader())
        assert [e.document.id for batch in batches for e in batch] == ["d100", "d101", "d102"]


def test_the_last_step_counts_the_batches_that_are_trained(tmp_path):
    data = little.data(tmp_path)
    data.trainer = little.trainer(tmp_path, epochs=1, accumulate=2)
    for limit in (3, 0.25):
        data.trainer.limit_train_batches = limit
        batches = list(data.train_dataloader())
        trained = batches[: limit if limit == 3 else int(len(batches) * limit)]
        labelled = [int((batch.item_tags >= 0).sum()) for batch in trained]
        assert len(trained) % 2 == 1
        assert trained[0].num_labelled == trained[1].num_labelled == labelled[0] + labelled[1]
        assert (trained[-1].num_labelled, trained[-1].num_step_tokens) == (labelled[-1], len(trained[-1].input_ids))


def test_the_seed_chooses_the_order(tmp_path):
    def first(seed: int) -> list[int]:
        return next(iter(little.data(tmp_path, seed=seed).train_dataloader())).input_ids.tolist()

    assert first(0) == first(0)
    assert first(0) != first(1)


def test_missing_splits_are_empty(tmp_path):
    data = DocumentDataModule({"train": little.corpus()["train"]}, little.preprocessor(), cache_dir=tmp_path)
    assert list(data.val_dataloader()) == []
    assert list(data.test_dataloader()) == []


def test_a_window_longer_than_the_budget_is_a_batch_of_its_own(tmp_path):
    data = DocumentDataModule(little.corpus(), little.preprocessor(), max_tokens_per_batch=1, cache_dir=tmp_path)
    batches = list(data.train_dataloader())
    assert {batch.num_windows for batch in batches} == {1}
    assert len(batches) == sum(len(document.windows) for document in data.encoded("train"))


def test_refusals(tmp_path):
    splits, prepared = little.corpus(), little.preprocessor()
    with pytest.raises(ConfigError, match=r"expected train, dev and test, got \['validation'\]"):
        DocumentDataModule({"validation": []}, prepared, cache_dir=tmp_path)
    with pytest.raises(DataError, match="split train: 1 repeated document ids, the first is 'd0'"):
        DocumentDataModule({"train": [splits["train"][0], splits["train"][0]]}, prepared, cache_dir=tmp_path)
    for documents in ([], [Document("d", " \n", ())]):
        with pytest.raises(DataError, match="split train: expected at least one document with text"):
            DocumentDataModule({"train": documents}, prepared, cache_dir=tmp_path).train_dataloader()


def test_another_preprocessor_treats_overlap_as_the_first_does(tmp_path):
    nested = Document("d", "Anna Berg", (Span(0, 9, "PER"), Span(0, 4, "PER")))
    kind = replace(little.preprocessor(), overlapping="outermost")
    data = DocumentDataModule({"train": [nested]}, kind, cache_dir=tmp_path)
    (encoded,) = data.encoded_by(little.preprocessor()).encoded("train")
    assert [item.reason for item in encoded.lost] == ["overlapping"]
