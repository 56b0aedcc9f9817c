import io
import json
import logging
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from rich.console import Console
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from longdoc.app.cli import build_parser
from longdoc.app.inspect.advice import advise, suggested_overlap
from longdoc.app.inspect.command import inspect_corpus, print_report, run
from longdoc.app.inspect.page import histograms, render_page
from longdoc.app.inspect.statistics import clean, histogram, measure, percent, spread
from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document, Span
from longdoc.text.preprocess import Preprocessor
from longdoc.text.tokens import WordTokenizer
from longdoc.text.windows import Windower


@pytest.fixture(scope="module")
def letters() -> WordTokenizer:
    """One token a word, and two special tokens around each window."""
    tokenizer = Tokenizer(models.WordLevel({"[P]": 0, "[U]": 1, "[S]": 2, "[E]": 3, "a": 4}, unk_token="[U]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[S] $A [E]", special_tokens=[("[S]", 2), ("[E]", 3)]
    )
    return WordTokenizer(tokenizer, unk_id=1, pad_id=0)


def write(path: Path, rows: list) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def entity(start: int, end: int, label: str = "X") -> dict:
    return {"start": start, "end": end, "label": label}


def printed(report, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    print_report(report, console)
    return console.file.getvalue()


def words(num: int) -> str:
    return "a " * num


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    train = [
        {"id": "short", "text": words(10), "entities": [entity(0, 3, "NEAR")]},
        {
            "id": "long",
            "text": words(40),
            "entities": [entity(0, 1, "NEAR"), entity(60, 61, "FAR"), entity(40, 63, "FAR")],
        },
        '{"id": "broken", "text": ',
        {"id": "outside", "text": "a", "entities": [entity(0, 9)]},
    ]
    dev = [{"id": "cut", "text": "abc def ", "entities": [entity(1, 3, "NEAR")]}]
    test = [
        {"id": "again", "text": words(10).replace(" ", "  "), "entities": []},
        {"id": "short", "text": words(16), "entities": [entity(0, 1, "ONLY_TEST")]},
    ]
    for name, rows in (("train", train), ("dev", dev), ("test", test)):
        write(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


@pytest.fixture
def report(corpus: Path, letters: WordTokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("longdoc.app.inspect.command.load_tokenizer", lambda _: letters)
    monkeypatch.setattr("longdoc.app.inspect.command.encoder_limit", lambda _: (32, "the position table"))
    return inspect_corpus(str(corpus), "letters", window=18, overlap=4)


def test_golden_numbers(report):
    train, dev, test = (report.parts[name] for name in ("train", "dev", "test"))
    assert (report.window, report.room, report.overlap) == (18, 16, 4)
    assert (train.words, train.tokens, train.tokens_read) == ([10, 40], [10, 40], [10, 16])
    # 40 tokens in windows of 16 that share 4: 0-16, 12-28, 24-40.
    assert (train.num_windows, train.num_window_tokens) == (1 + 3, 10 + 48)
    assert (train.num_cut, test.num_cut) == (1, 0)
    assert train.entities == {"NEAR": 2, "FAR": 2}
    assert train.entities_beyond == {"FAR": 2}
    assert train.entity_tokens == [2, 1, 1, 12]
    # Words 20 to 31 stand whole in neither 12-28 nor 24-40.
    assert train.num_in_no_window == 1
    assert train.overlapping == [("train.jsonl:2", "FAR 60-61 'a' shares words with FAR 40-63")]
    assert dev.unalignable == [("dev.jsonl:1", "NEAR 1-3 'bc' begins inside the word 'abc'")]
    assert test.copies_across == [("test.jsonl:1", "same text as train.jsonl:1")]
    assert test.repeated_ids == [("test.jsonl:2", "id 'short' stands in train too")]
    assert report.whole.num_documents == 5
    assert report.whole.tokens == train.tokens + dev.tokens + test.tokens
    assert report.whole.entities == train.entities + dev.entities + test.entities


def test_bad_rows_are_named_with_file_line_and_reason(report):
    broken, outside = report.parts["train"].bad_rows
    assert (broken.where, outside.where) == ("train.jsonl:3", "train.jsonl:4")
    assert "broken JSON" in broken.reason
    assert "span 0-9 does not fit" in outside.reason
    for text in (printed(report), render_page(report)):
        assert "train.jsonl:3" in text
        assert "broken JSON" in text
        assert "data.on_error=skip" in text
        assert "Entities that cannot be aligned with words: 1" in text


def test_advice(report):
    advice = advise(report)
    text = " ".join(advice.notes)
    assert advice.strategy == "chunk"
    assert "truncation would lose 33 % of the entities" in advice.headline
    assert "No example in train, so never predicted: ONLY_TEST." in text
    assert "windows.size_tokens=32 would hold 80 % of the documents whole" in text
    assert advice.command == (
        f"python train.py data.path={report.path} model.name=letters strategy=chunk windows.size_tokens=18 "
        f"windows.overlap_tokens={suggested_overlap(report)} data.overlapping=outermost data.on_error=skip"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_console_fits(report, width):
    lines = printed(report, width).splitlines()
    tables = [line for line in lines if not line.startswith("  python train.py")]
    assert max(map(len, tables)) <= width
    assert "…" not in "".join(lines)
    assert any(line.split()[:2] == ["train", "2"] for line in lines)
    assert any(line.split() == ["FAR", "2", "0", "0", "100", "%"] for line in lines)


def test_console_fits_whatever_the_numbers(report):
    for part in report.parts.values():
        for values in (part.words, part.tokens, part.entity_tokens):
            values[:] = [123_456_789] * len(values)
        part.num_in_no_window = 999_999
        part.num_windows = 999_999
        part.entities["X" * 100] = 999_999
    lines = printed(report, 80).splitlines()
    assert max(len(line) for line in lines if not line.startswith("  python train.py")) <= 80
    whole = ["train", "1.0M", *["123.5M"] * 3, "4", "4", "1.0M", "0", "1"]
    assert whole in [line.split() for line in lines]


class Page(HTMLParser):
    """Collects the tags, and holds that they close in order."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_page_escapes_what_comes_from_the_data(tmp_path):
    hostile = "<script>alert('x')</script>\"&<img src=x onerror=y>"
    rows = [
        {
            "id": hostile,
            "text": "one two three",
            "entities": [entity(0, 3, hostile), entity(1, 2, "\u202eevil"), entity(0, 7, "\x1b[31m")],
        },
        {"id": hostile, "text": "x", "entities": [entity(0, 1, hostile)]},
        {"id": "he", "text": "שלום עולם", "entities": [entity(0, 4, "תווית")]},
    ]
    report = inspect_corpus(str(write(tmp_path / "<b>.jsonl", rows)))
    source = render_page(report)
    page = Page()
    page.feed(source)
    page.close()
    assert page.stack == []
    assert not page.tags & {"script", "img", "b>", "a", "link", "iframe"}
    assert "<script" not in source
    assert hostile in page.text
    assert "תווית" in page.text
    assert "\u202e" not in source
    assert "\x1b" not in source + printed(report)
    assert "http" not in source.replace("http-equiv", "")


def test_page_of_the_golden_corpus_is_well_formed(report):
    page = Page()
    page.feed(render_page(report))
    assert page.stack == []
    assert "ONLY_TEST" in page.text
    lengths = histograms(report)[0]
    assert [row for row in lengths.rows if row[1]] == [("2", 1), ("9 to 11", 2), ("12 to 16", 1), ("33 to 45", 1)]
    assert lengths.bars[-1] == (0.5, True)


def test_unannotated_text(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("Nothing is marked here.\n" * 30, encoding="utf-8")
    report = inspect_corpus(str(path), window=32)
    assert list(report.parts) == ["all"]
    assert report.whole.num_annotated == 0
    assert advise(report).strategy == "chunk"
    assert "Documents without annotation, which training and scores need: 1." in advise(report).notes
    assert advise(report).command is None
    assert "Entities in tokens" not in printed(report)
    assert "Lengths of entities" not in render_page(report)


def test_single_file_is_one_part_and_is_counted_once(tmp_path):
    rows = [{"id": str(i), "text": f"word {i} .", "label": "odd" if i % 2 else "even"} for i in range(6)]
    report = inspect_corpus(str(write(tmp_path / "one.jsonl", rows)))
    assert report.parts["all"].classes == {"odd": 3, "even": 3}
    assert "training sets a tenth apart" in report.notes[-1]
    assert "Nothing is needed" in advise(report).headline
    assert "no --model given" in report.notes[0]
    assert "Documents by label" in printed(report)


def test_folder_without_dev_gets_one_as_in_training(tmp_path, caplog):
    write(tmp_path / "train.jsonl", [{"id": str(i), "text": "a b", "label": "x"} for i in range(40)])
    with caplog.at_level(logging.WARNING):
        report = inspect_corpus(str(tmp_path))
    assert list(report.parts) == ["train", "dev"]
    assert report.whole.num_documents == 40
    assert len(report.whole.copies_across) + len(report.whole.copies_within) == 39
    assert "a tenth of train" in caplog.text
    assert "no test split" in caplog.text


def test_empty_part(tmp_path):
    for name, rows in (("train", [{"id": "1", "text": "a b", "label": "x"}]), ("dev", []), ("test", [])):
        write(tmp_path / f"{name}.jsonl", rows)
    report = inspect_corpus(str(tmp_path))
    assert "The test part holds no usable document." in advise(report).notes
    assert "dev" in printed(report)
    assert "Lengths of documents" in render_page(report)


def test_nothing_usable_is_reported_and_fails(tmp_path, capsys):
    path = write(tmp_path / "bad.jsonl", ["{", "[1]"])
    assert parsed_run(str(path), "--html", str(tmp_path / "page.html")) == 1
    assert "No document can be used." in capsys.readouterr().out
    assert "bad.jsonl:2" in (tmp_path / "page.html").read_text(encoding="utf-8")


def parsed_run(*arguments: str) -> int:
    return run(build_parser().parse_args(["inspect", *arguments]))


def test_command_line(corpus, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert parsed_run(str(corpus), "--html", str(page), "--window", "18", "--overlap", "4") == 0
    captured = capsys.readouterr()
    assert "no --model given" in captured.out
    assert str(page) in captured.err
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_command_reads_what_was_inspected(tmp_path):
    folder = tmp_path / "a=b, (c)"
    folder.mkdir()
    write(folder / "x.csv", ["body,kind", "some text,a", "more text,b"])
    report = inspect_corpus(str(folder / "x.csv"), format="csv", fields={"text": "body", "labels": "kind"})
    words = shlex.split(advise(report).command)
    assert words[:3] == ["python", "train.py", "task=single_label"]
    config = OmegaConf.create({})
    parsed = OverridesParser.create().parse_overrides(words[2:])
    for override in parsed:
        OmegaConf.update(config, override.key_or_group, override.value())
    assert config.data == {"path": str(folder / "x.csv"), "format": "csv", "fields": {"text": "body", "labels": "kind"}}


def test_a_saved_dataset_is_inspected_as_it_is_trained_on(tmp_path):
    rows = {"text": ["a b", "c d"], "labels": [["x", "y"], []]}
    DatasetDict(train=Dataset.from_dict(rows), dev=Dataset.from_dict(rows)).save_to_disk(tmp_path / "saved")
    report = inspect_corpus(str(tmp_path / "saved"))
    assert [part.num_documents for part in report.parts.values()] == [2, 2]
    assert "task=multi_label" in advise(report).command


def test_field_names_are_mapped(tmp_path, capsys):
    write(tmp_path / "x.csv", ["body,kind", "some text,a", "more text,b"])
    assert parsed_run(str(tmp_path / "x.csv"), "--field", "text=body", "--field", "labels=kind") == 0
    assert "Documents by label" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--window", "20", "--overlap", "18"], ConfigError, "largest legal overlap is 17"),
        (["--html", "no/such/folder/p.html"], ConfigError, "does not exist"),
        (["--model", "no/such/model"], ConfigError, "cannot be loaded"),
    ],
)
def test_refusals(corpus, arguments, error, message):
    with pytest.raises(error, match=message):
        parsed_run(str(corpus), *arguments)


def test_missing_path_is_refused():
    with pytest.raises(DataError, match="no such file"):
        inspect_corpus("no/such/corpus")


def test_whole_in_a_window_matches_a_search_of_all_windows(letters):
    preprocessor = Preprocessor(letters, Windower(14, 5))
    windows = preprocessor(Document("d", words(60))).windows
    for start in range(0, 60, 3):
        for end in range(start + 1, 61, 4):
            found = measure(Document("d", words(60), (Span(2 * start, 2 * end - 1, "X"),)), preprocessor, "d:1")
            held = any(s <= start and end <= e for s, e in zip(windows.start, windows.end, strict=True))
            assert (found.entity_tokens, found.num_in_no_window) == ([end - start], int(not held))


@pytest.mark.parametrize("values", [[0], [1], [510], [511], [10**7], [1, 10**7], list(range(3000))])
@pytest.mark.parametrize("border", [1, 128, 510])
def test_histogram_counts_each_value_in_its_bin(values, border):
    bins = histogram(values, border)
    assert [number for _, _, number in bins] == [sum(low <= v <= high for v in values) for low, high, _ in bins]
    assert sum(number for _, _, number in bins) == len(values)
    assert all(high <= border or low > border for low, high, _ in bins)


def test_spread_takes_values_that_occur():
    assert spread([]) == ("-", "-", "-")
    assert spread([5]) == (5, 5, 5)
    assert spread(range(1, 11)) == (5, 9, 10)


def test_percent_never_hides_something():
    assert [percent(n, 10_000) for n in (0, 1, 100, 9_999, 10_000)] == ["0 %", "<0.1 %", "1.0 %", ">99 %", "100 %"]


def test_clean_keeps_scripts_and_joiners():
    assert clean("שלום \u200d ก") == "שלום \u200d ก"
    assert clean("a\nb\u202e\ud800") == "a\\nb\\u202e\\ud800"
