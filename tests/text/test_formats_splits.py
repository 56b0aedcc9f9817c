"""A corpus comes apart into train, dev and test: by name, or by a hash of the ids."""

import json
import logging
import os
import pickle
from itertools import chain

import pytest

from longdoc.errors import DataError
from longdoc.text.formats import ReadOptions, read_splits
from longdoc.text.formats.splits import hash_share, read_parts


def put(path, ids, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i in ids))
    elif path.suffix == ".csv":
        path.write_text("id,text\n" + "".join(f"{i},{text}\n" for i in ids))
    else:
        path.write_text("".join(f"-DOCSTART- O\n\n{i} O\n\n" for i in ids))
    return path


def ids(sources) -> dict[str, list[str]]:
    return {name: [document.id for document in source] for name, source in sources.items()}


@pytest.mark.parametrize("dev", ["dev", "valid", "validation", "val", "DEV"])
def test_files_are_found_by_name_whatever_their_format(tmp_path, dev):
    put(tmp_path / "train.jsonl", ["a"])
    put(tmp_path / f"{dev}.csv", ["b"])
    put(tmp_path / "test.txt", ["c"])
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "train").touch()
    sources = read_splits(tmp_path)
    assert list(sources) == ["train", "dev", "test"]
    assert ids(sources) == {"train": ["a"], "dev": ["b"], "test": ["test:1"]}


def test_a_part_may_be_a_word_in_the_name_of_a_file(tmp_path, caplog):
    for name in ("legal_train", "legal-dev", "cases.TEST.v2", "contested"):
        put(tmp_path / f"{name}.jsonl", [name])
    with caplog.at_level(logging.WARNING):
        assert ids(read_splits(tmp_path)) == {
            "train": ["legal_train"],
            "dev": ["legal-dev"],
            "test": ["cases.TEST.v2"],
        }
    (record,) = caplog.records
    assert record.getMessage() == f"{tmp_path}: beside the named parts nothing is read; there is contested.jsonl"
    put(tmp_path / "other_train.jsonl", ["a"])
    with pytest.raises(DataError, match=r"for train; there is legal_train.jsonl, other_train.jsonl; put several into"):
        read_splits(tmp_path)
    put(tmp_path / "train.jsonl", ["exact"])
    put(tmp_path / "more" / "a.jsonl", ["a"])
    caplog.clear()
    assert ids(read_splits(tmp_path))["train"] == ["exact"]
    assert "there is contested.jsonl, legal_train.jsonl, more, other_train.jsonl" in caplog.text


@pytest.mark.parametrize("names", [("test_1.txt", "test_2.txt", "train_1.txt"), ("train_test.jsonl", "contest.jsonl")])
def test_other_names_are_no_parts_and_the_corpus_is_dealt_out(tmp_path, caplog, names):
    for i, name in enumerate(names):
        put(tmp_path / name, [f"{i}a", f"{i}b"])
    with caplog.at_level(logging.WARNING):
        parts = ids(read_splits(tmp_path))
    assert list(parts) == ["train", "dev", "test"]
    (record,) = caplog.records
    assert record.getMessage().endswith("documents are dealt to them by a hash of the ids")


def test_folders_are_splits_too(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}1.txt").write_text("Ann")
        (tmp_path / name / f"{name}1.ann").write_text("T1\tA 0 3\tAnn\n")
    assert ids(read_splits(tmp_path)) == {"train": ["train1"], "dev": ["dev1"]}
    assert next(iter(read_splits(tmp_path)["dev"])).spans[0].key == (0, 3, "A")


def test_a_single_file_is_split_so_that_added_documents_move_no_other(tmp_path):
    names = [f"d{i}" for i in range(1000)]
    before = ids(read_splits(put(tmp_path / "a.jsonl", names)))
    assert sorted(chain(*before.values())) == sorted(names)
    assert 60 < len(before["dev"]) < 140
    assert 60 < len(before["test"]) < 140
    assert before == ids(read_splits(tmp_path))
    after = ids(read_splits(put(tmp_path / "a.jsonl", [*[f"new{i}" for i in range(500)], *reversed(names)])))
    for part, members in before.items():
        assert set(members) <= set(after[part])
    other = ids(read_splits(tmp_path / "a.jsonl", seed=1))
    assert other["dev"] != after["dev"]


def test_the_hash_is_fixed():
    assert hash_share("d0", 0) == 0.5992880086001694


@pytest.mark.parametrize("num_documents", [3, 4, 5, 8, 13])
@pytest.mark.parametrize("seed", range(5))
def test_few_documents_leave_no_part_empty(tmp_path, num_documents, seed):
    parts = ids(read_splits(put(tmp_path / "a.conll", [f"w{i}" for i in range(num_documents)]), seed=seed))
    assert sorted(chain(*parts.values())) == sorted(f"a:{i + 1}" for i in range(num_documents))
    assert all(parts.values())
    assert len(parts["train"]) == max(map(len, parts.values()))


def test_too_few_documents_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"2 documents cannot be split into train, dev, test.*-DOCSTART-"):
        read_splits(put(tmp_path / "a.conll", ["a", "b"]))
    with pytest.raises(DataError, match=r"(?s)9 rows cannot be used.*a.jsonl:1: no text"):
        read_splits(put(tmp_path / "a.jsonl", range(9)), options=ReadOptions({"text": "body"}))


def test_a_missing_dev_is_set_apart_and_a_missing_test_is_said(tmp_path, caplog):
    put(tmp_path / "train.jsonl", range(200))
    with caplog.at_level(logging.WARNING):
        parts = ids(read_splits(tmp_path))
    assert list(parts) == ["train", "dev"]
    assert len(parts["train"]) + len(parts["dev"]) == 200
    assert 8 < len(parts["dev"]) < 35
    assert "no dev split; a tenth of train is set apart" in caplog.text
    assert "no test split" in caplog.text
    put(tmp_path / "test.jsonl", ["t"])
    assert ids(read_splits(tmp_path)) == {**parts, "test": ["t"]}


def test_only_a_test_file_is_only_a_test_split(tmp_path):
    put(tmp_path / "test.jsonl", ["t"])
    assert ids(read_splits(tmp_path)) == {"test": ["t"]}


def test_what_is_missing_or_ambiguous_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read_splits(tmp_path / "no")
    with pytest.raises(DataError, match=r"the folder is empty; looked for files named train, training, dev, valid"):
        read_splits(tmp_path)
    put(tmp_path / "train.jsonl", ["a"])
    put(tmp_path / "train.csv", ["a"])
    with pytest.raises(DataError, match=r"expected one file or folder for train; there is train.csv, train.jsonl"):
        read_splits(tmp_path)


def test_a_word_or_a_document_of_that_name_alone_makes_no_part(tmp_path):
    for name in ("admissions", "blood_test", "discharge"):
        put(tmp_path / "tables" / f"{name}.jsonl", [f"{name}{i}" for i in range(20)])
    assert list(read_parts(tmp_path / "tables")) == ["all"]
    assert len(list(read_parts(tmp_path / "tables")["all"])) == 60
    (tmp_path / "brat").mkdir()
    for name in ("a", "b", "test"):
        (tmp_path / "brat" / f"{name}.txt").write_text("Anna")
        (tmp_path / "brat" / f"{name}.ann").write_text("")
    assert sorted(document.id for document in read_parts(tmp_path / "brat")["all"]) == ["a", "b", "test"]


def test_bad_rows_of_a_split_file_are_all_raised_or_skipped_once_each(tmp_path):
    path = put(tmp_path / "a.jsonl", range(100))
    with path.open("a") as file:
        file.write("{\n" * 100)
    for source in read_splits(path).values():
        with pytest.raises(DataError, match="100 rows cannot be used"):
            list(source)
    sources = read_splits(path, on_error="skip")
    assert sum(len(list(source)) for source in sources.values()) == 100
    lines = [row.line for source in sources.values() for row in source.report.bad_rows]
    assert sorted(lines) == list(range(101, 201))


def test_sources_can_be_sent_to_workers(tmp_path):
    sources = read_splits(put(tmp_path / "a.jsonl", range(50)))
    assert ids(pickle.loads(pickle.dumps(sources))) == ids(sources)


def test_a_split_file_that_leads_out_of_the_folder_is_refused(tmp_path):
    put(tmp_path / "out" / "a.jsonl", ["a"])
    (tmp_path / "in").mkdir()
    os.symlink(tmp_path / "out" / "a.jsonl", tmp_path / "in" / "train.jsonl")
    with pytest.raises(DataError, match="leads out of its folder"):
        read_splits(tmp_path / "in")


def test_real_data(shared):
    parts = {name: list(source) for name, source in read_splits(shared("data/lener_br")).items()}
    assert {name: len(documents) for name, documents in parts.items()} == {"train": 50, "dev": 9, "test": 10}
    assert sum(len(document.spans) for documents in parts.values() for document in documents) == 12191
