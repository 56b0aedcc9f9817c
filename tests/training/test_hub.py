import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value, disable_progress_bars

from longdoc.errors import DataError
from longdoc.text.documents import Document, Span
from longdoc.text.formats import DocumentSource, ReadOptions
from longdoc.text.formats.splits import deal
from longdoc.training.hub import is_saved_dataset, open_parts
from longdoc.training.store import store_sources

TAGS = ["O", "B-PER", "I-PER"]


def hub_splits(name: str, options: ReadOptions, on_error: str = "raise") -> dict[str, DocumentSource]:
    return deal(open_parts(name, "datasets", on_error, options), name, 0)


@pytest.fixture(autouse=True)
def quiet():
    disable_progress_bars()


def save(path, rows, features, validation=None, **more):
    splits = {name: Dataset.from_list(of_one, features=features) for name, of_one in {"train": rows, **more}.items()}
    if validation is not None:
        splits["validation"] = Dataset.from_list(validation, features=features)
    DatasetDict(splits).save_to_disk(path)
    return str(path)


@pytest.mark.parametrize("tag", [ClassLabel(names=TAGS), Value("string")])
def test_tokens_and_tags(tmp_path, tag):
    names = TAGS if isinstance(tag, Value) else [0, 1, 2]
    features = Features({"tokens": List(Value("string")), "ner_tags": List(tag)})
    row = {"tokens": ["Anna", "Berg", "ran", "."], "ner_tags": [names[1], names[2], names[0], names[0]]}
    splits = hub_splits(save(tmp_path / "saved", [row] * 12, features, [row]), ReadOptions(task="ner"))
    assert list(splits) == ["train", "dev"]
    expected = (Span(0, 9, "PER"),)
    assert [(d.text, d.spans) for d in splits["dev"]] == [("Anna Berg ran .", expected)]
    assert store_sources(splits, tmp_path / "cache")["train"][0].spans == expected


def test_text_and_spans_and_text_and_label(tmp_path):
    features = Features(
        {
            "id": Value("string"),
            "body": Value("string"),
            "entities": List({"start": Value("int64"), "end": Value("int64"), "label": Value("string")}),
        }
    )
    rows = [
        {"id": str(i), "body": "Anna ran.", "entities": [{"start": 0, "end": 4, "label": "PER"}]} for i in range(20)
    ]
    name = save(tmp_path / "spans", rows, features)
    assert is_saved_dataset(name)
    splits = hub_splits(name, ReadOptions(fields={"text": "body"}))
    documents = {d.id: d for split in splits.values() for d in split}
    assert documents == {str(i): Document(str(i), "Anna ran.", (Span(0, 4, "PER"),)) for i in range(20)}

    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    name = save(tmp_path / "classes", [{"text": f"t{i}", "label": i % 2} for i in range(20)], features)
    labels = {d.text: d.labels for split in hub_splits(name, ReadOptions()).values() for d in split}
    assert labels == {f"t{i}": (("neg", "pos")[i % 2],) for i in range(20)}


def test_bad_rows_are_reported_by_number(tmp_path):
    features = Features({"tokens": List(Value("string")), "ner_tags": List(Value("string"))})
    rows = [{"tokens": ["Anna"], "ner_tags": ["B-PER"]}, {"tokens": ["Anna", "ran"], "ner_tags": ["O"]}]
    splits = hub_splits(save(tmp_path / "saved", rows, features, rows[:1]), ReadOptions())
    with pytest.raises(DataError, match=r"saved/train:2: 2 tokens but 1 tags"):
        list(splits["train"])


WORDS = List(Value("string"))


@pytest.mark.parametrize(
    ("tag", "tokens", "tags", "reason"),
    [
        (Value("int64"), ["Anna"], [3], "ner_tags: expected names such as B-PER, or a ClassLabel, got 3"),
        (Value("int64"), ["Anna", "ran"], [0, -100], "ner_tags: expected names such as B-PER, or a ClassLabel, got 0"),
        (ClassLabel(names=TAGS), ["Anna"], [-1], "ner_tags: expected names such as B-PER, or a ClassLabel, got None"),
        (ClassLabel(names=TAGS), ["Anna"], [None], "ner_tags: expected names such as B-PER, or a ClassLabel, got None"),
        (Value("string"), ["Anna"], [""], "ner_tags: expected names such as B-PER, or a ClassLabel, got ''"),
        (Value("string"), [None], ["O"], "tokens: expected strings, got None"),
        (Value("string"), None, ["O"], "tokens: expected strings, got None"),
        (ClassLabel(names=TAGS), ["Anna"], None, "ner_tags: expected names such as B-PER, or a ClassLabel, got None"),
    ],
)
def test_bad_tokens_and_tags_are_reported_with_their_column(tmp_path, tag, tokens, tags, reason):
    good = {"tokens": ["Anna"], "ner_tags": ["B-PER" if tag.dtype == "string" else 1]}
    rows = [good, {"tokens": tokens, "ner_tags": tags}]
    name = save(tmp_path / "saved", rows, Features({"tokens": WORDS, "ner_tags": List(tag)}), rows[1:])
    source = hub_splits(name, ReadOptions(), on_error="skip")["train"]
    assert [document.text for document in source] == (["Anna"] if tag != Value("int64") else [])
    (row,) = source.report.bad_rows[-1:]
    assert (row.line, row.reason) == (2, reason)


def test_ids_of_token_tables_have_the_name_that_is_given(tmp_path):
    features = Features({"key": Value("string"), "tokens": WORDS, "ner_tags": WORDS})
    rows = [{"key": "k", "tokens": ["Anna"], "ner_tags": ["O"]}]
    splits = hub_splits(save(tmp_path / "saved", rows, features, rows), ReadOptions({"id": "key"}))
    assert [document.id for document in splits["train"]] == ["k"]


def test_class_labels_of_minus_one_are_no_gold_and_those_of_spans_have_names(tmp_path):
    label = ClassLabel(names=["neg", "pos"])
    entity = {"start": Value("int64"), "end": Value("int64"), "label": ClassLabel(names=["ORG", "PER"])}
    rows = [
        {"text": "Anna", "label": 1, "entities": [{"start": 0, "end": 4, "label": 1}]},
        {"text": "Anna", "label": -1, "entities": None},
    ]
    features = Features({"text": Value("string"), "label": label, "entities": List(entity)})
    splits = hub_splits(save(tmp_path / "saved", rows, features, rows), ReadOptions())
    found = [(document.labels, document.spans) for document in splits["train"]]
    assert found == [(("pos",), (Span(0, 4, "PER"),)), (None, None)]


def test_splits_of_other_names_are_told(tmp_path, caplog):
    rows, features = [{"text": "Anna"}], Features({"text": Value("string")})
    splits = hub_splits(save(tmp_path / "saved", rows, features, rows, unsupervised=rows, test=rows), ReadOptions())
    assert list(splits) == ["train", "dev", "test"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/saved: splits that are not read: unsupervised"
    ]


def test_what_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(DataError, match="expected a folder written by datasets' save_to_disk or a corpus on the hub"):
        hub_splits("nobody/nothing", ReadOptions())
    assert not is_saved_dataset(tmp_path)


def test_parts_are_opened_as_they_are(tmp_path):
    rows = [{"text": f"text {i}", "labels": ["x"]} for i in range(20)]
    Dataset.from_list(rows).save_to_disk(tmp_path / "one")
    DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(tmp_path / "test")
    one = open_parts(str(tmp_path / "one"), "auto", "raise", ReadOptions())
    assert {name: len(list(part)) for name, part in one.items()} == {"all": 20}
    assert list(deal(one, "one", 0)) == ["train", "dev", "test"]
    assert list(open_parts(str(tmp_path / "test"), "auto", "raise", ReadOptions())) == ["test"]
