import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from longdoc.errors import DataError
from longdoc.models.sentence_scorer import build_sentence_scorer
from longdoc.text.documents import Document, Span
from longdoc.text.formats import ReadOptions, read, read_splits
from longdoc.text.selection import Selection
from longdoc.text.windows import Windower
from longdoc.training import store
from longdoc.training.store import content_key, store_documents, store_encoded, store_sources
from tests.training import little

HARD = (
    Document("plain", "Anna Berg\r\n", (Span(0, 9, "PER", slice="far"),)),
    Document("emoji", "👨‍👩‍👧 naïve \u200b मराठी", ()),
    Document("unannotated", "text"),
    Document("empty", "", ()),
    Document("classes", "text", labels=("a", "b")),
    Document("number", "text", target=0.5),
)


def same(left, right) -> bool:
    """Whether two encoded documents hold the same values and types."""
    for field in dataclasses.fields(left):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            if one.dtype != other.dtype or not np.array_equal(one, other):
                return False
        elif field.name == "windows":
            if not all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one)):
                return False
        elif one != other:
            return False
    return True


def test_documents_come_back_as_they_were(tmp_path):
    table = store_documents(HARD, tmp_path, "key")
    assert tuple(table) == HARD
    assert table[-1] == HARD[-1]
    assert table[1:3] == list(HARD[1:3])
    assert tuple(table.head(2)) == HARD[:2]
    assert list(table.column("id")) == [document.id for document in HARD]


def test_values_of_spans_are_found_without_the_texts(tmp_path):
    documents = [*HARD, Document("more", "Oslo Rome", (Span(0, 4, "LOC"), Span(5, 9, "LOC", slice="near")))]
    table = store_documents(documents, tmp_path, "key")
    assert table.span_values("label") == {"PER", "LOC"}
    assert table.span_values("slice") == {"far", "near"}
    assert table.head(1).span_values("label") == {"PER"}


def test_encoded_documents_come_back_as_they_were(tmp_path):
    preprocessor = little.preprocessor()
    broken = Document("lost", "Anna Berg", (Span(0, 3, "PER"), Span(0, 9, "XYZ")))
    documents = [*HARD, broken, *little.corpus()["train"]]
    encoded = store_encoded(store_documents(documents, tmp_path, "key"), preprocessor, tmp_path)
    assert all(same(found, preprocessor(document)) for found, document in zip(encoded, documents, strict=True))
    assert [item.reason for item in encoded[len(HARD)].lost] == ["unalignable", "unknown_label"]
    lengths = [(d.windows.end - d.windows.start).tolist() for d in encoded]
    assert [of_one.tolist() for of_one in encoded.window_lengths()] == lengths


def test_several_processes_encode_the_same(tmp_path):
    documents = store_documents(little.corpus()["train"], tmp_path, "key")
    alone = list(store_encoded(documents, little.preprocessor(), tmp_path / "one"))
    shared = list(store_encoded(documents, little.preprocessor(), tmp_path / "two", num_proc=2))
    assert all(same(*pair) for pair in zip(alone, shared, strict=True))


@pytest.mark.parametrize("method", ["random", "cnn"])
def test_selected_sentences_come_back_as_they_were(tmp_path, method):
    documents = [*HARD, *little.corpus()["train"]]
    scorer = build_sentence_scorer(little.corpus()["train"], "ner", splitter="line") if method == "cnn" else None
    selection = Selection(method, budget_ratio=0.4, splitter="line")
    preprocessor = dataclasses.replace(little.preprocessor(), selection=selection, scorer=scorer)
    encoded = store_encoded(store_documents(documents, tmp_path, "key"), preprocessor, tmp_path)
    assert all(same(found, preprocessor(document)) for found, document in zip(encoded, documents, strict=True))
    assert {item.reason for document in encoded for item in document.lost} == {"not_selected"}
    assert encoded[-1].num_document_tokens > len(encoded[-1].token_ids)


def test_several_processes_select_the_same(tmp_path):
    documents = store_documents(little.corpus()["train"], tmp_path, "key")
    scorer = build_sentence_scorer(documents, "ner", splitter="line")
    selection = Selection("cnn", budget_ratio=0.4, splitter="line")
    preprocessor = dataclasses.replace(little.preprocessor(), selection=selection, scorer=scorer)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.ones(1_000_000).add_(1)  # a forked process has the locks of these threads, but not the threads
        shared = list(store_encoded(documents, preprocessor, tmp_path / "two", num_proc=2))
    finally:
        torch.set_num_threads(num_threads)
    alone = list(store_encoded(documents, preprocessor, tmp_path / "one"))
    assert all(same(*pair) for pair in zip(alone, shared, strict=True))


def test_what_changes_the_result_changes_the_table(tmp_path, monkeypatch):
    documents, preprocessor = store_documents(HARD, tmp_path, "key"), little.preprocessor()
    store_encoded(documents, preprocessor, tmp_path)
    scorers = [build_sentence_scorer(little.corpus()["dev"], "ner", seed=seed) for seed in (0, 1)]

    def tables() -> int:
        return len(list(tmp_path.glob("encoded-*")))

    store_encoded(documents, preprocessor, tmp_path)
    assert tables() == 1
    for changed in (
        dataclasses.replace(preprocessor, windower=Windower(32, 9)),
        dataclasses.replace(preprocessor, tokenizer=little.train_tokenizer(["other words"], vocab_size=40)),
        dataclasses.replace(preprocessor, tags=dataclasses.replace(preprocessor.tags, scheme="IOB2")),
        dataclasses.replace(preprocessor, overlapping="outermost"),
        dataclasses.replace(preprocessor, selection=Selection("random", 9)),
        dataclasses.replace(preprocessor, selection=Selection("random", 9, seed=1)),
        dataclasses.replace(preprocessor, selection=Selection("cnn", 9), scorer=scorers[0]),
        dataclasses.replace(preprocessor, selection=Selection("cnn", 9), scorer=scorers[1]),
    ):
        before = tables()
        store_encoded(documents, changed, tmp_path)
        assert tables() == before + 1
    monkeypatch.setattr(store, "code_version", lambda: "later")
    store_encoded(documents, preprocessor, tmp_path)
    assert tables() == 10


def test_a_changed_gold_span_changes_the_key():
    moved = dataclasses.replace(HARD[0], spans=(Span(0, 4, "PER"),))
    assert content_key(HARD) == content_key(list(HARD))
    assert content_key([moved, *HARD[1:]]) != content_key(HARD)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, documents in little.corpus().items():
        rows = [
            {
                "id": d.id,
                "text": d.text,
                "entities": [{"start": s.start, "end": s.end, "label": s.label} for s in d.spans],
            }
            for d in documents
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return tmp_path


def test_files_are_read_once_and_again_when_they_change(folder, monkeypatch):
    cache = folder / "cache"
    first = store_sources(read_splits(folder), cache)
    assert {name: list(table) for name, table in first.items()} == little.corpus()
    monkeypatch.setattr(store, "_write", lambda *_: pytest.fail("read again"))
    assert list(store_sources(read_splits(folder), cache)["train"]) == little.corpus()["train"]
    monkeypatch.undo()
    (folder / "dev.jsonl").write_text('{"id": "new", "text": "Anna Berg", "entities": []}\n')
    assert [document.id for document in store_sources(read_splits(folder), cache)["dev"]] == ["new"]
    options = ReadOptions(fields={"id": "text"})
    assert store_sources({"dev": read(folder / "dev.jsonl", options=options)}, cache)["dev"][0].id == "Anna Berg"


def test_bad_rows_are_named_at_every_start(folder, caplog):
    with (folder / "train.jsonl").open("a") as file:
        file.write('{"id": "x"}\n')
    number = len(little.corpus()["train"]) + 1
    with pytest.raises(DataError, match=rf"train\.jsonl:{number}: no text"):
        store_sources(read_splits(folder), folder / "cache")
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            store_sources(read_splits(folder, on_error="skip"), folder / "cache")
        assert (
            f"1 rows cannot be used and were skipped; the first: {folder}/train.jsonl:{number}: no text" in caplog.text
        )


def test_a_broken_write_leaves_no_table(tmp_path):
    def documents():
        yield HARD[0]
        raise DataError("the disk is on fire")

    with pytest.raises(DataError, match="on fire"):
        store_documents(documents(), tmp_path, "key")
    assert list(tmp_path.iterdir()) == []
    assert list(store_documents(HARD, tmp_path, "key")) == list(HARD)


@pytest.mark.parametrize("num_bytes", [0, 1000])
def test_a_damaged_table_is_written_anew(tmp_path, num_bytes):
    preprocessor = little.preprocessor()
    for _ in range(2):
        documents = store_documents(HARD, tmp_path, "key")
        assert list(documents) == list(HARD)
        encoded = store_encoded(documents, preprocessor, tmp_path)
        assert all(same(found, preprocessor(document)) for found, document in zip(encoded, HARD, strict=True))
        for path in tmp_path.iterdir():
            path.unlink()  # not what is mapped into memory
            path.write_bytes(b"x" * num_bytes)
    assert len(list(tmp_path.iterdir())) == 3


def test_no_documents(tmp_path):
    encoded = store_encoded(store_documents([], tmp_path, "key"), little.preprocessor(), tmp_path, num_proc=2)
    assert (len(encoded), encoded.window_lengths(), encoded.num_labelled(True)) == (0, [], [])


def test_code_and_libraries_name_what_they_made(monkeypatch):
    versions = {store.code_version(), store.code_version("models")}
    monkeypatch.setattr(store, "version", lambda name: {"tokenizers": "9"}.get(name, "1"))
    versions.add(store.code_version())
    monkeypatch.setattr(store, "version", lambda name: {"sentencex": "9"}.get(name, "1"))
    assert len(versions | {store.code_version()}) == 4


def test_prediction_caches_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGDOC_CACHE", str(tmp_path))
    assert little.module().predict("Anna Berg").text == "Anna Berg"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.txt", "x.ann"])
def test_annotations_of_a_single_pair_are_read_again_when_they_change(tmp_path, name):
    (tmp_path / "x.txt").write_text("Anna Berg")
    found = []
    for line in ("T1\tPER 0 9\tAnna Berg\n", "T1\tPER 0 4\tAnna\n", None):
        if line is None:
            name = "x.txt"
            (tmp_path / "x.ann").unlink()
        else:
            (tmp_path / "x.ann").write_text(line)
        source = read(tmp_path / name, "brat")
        (document,) = store_sources({"train": source}, tmp_path / "cache")["train"]
        found.append(document.spans)
    assert found == [(Span(0, 9, "PER"),), (Span(0, 4, "PER"),), None]


def test_ids_from_folder_names_are_read_again_when_a_folder_is_renamed(tmp_path):
    folder = tmp_path / "data" / "2019"
    folder.mkdir(parents=True)
    (folder / "x.txt").write_text("Anna Berg")
    (folder / "x.ann").write_text("T1\tPER 0 9\tAnna Berg\n")
    for name in ("2019", "2020"):
        folder = folder.rename(folder.with_name(name))
        source = read(tmp_path / "data")
        assert [d.id for d in store_sources({"train": source}, tmp_path / "cache")["train"]] == [d.id for d in source]
