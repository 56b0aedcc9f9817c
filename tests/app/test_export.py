"""``longdoc export``: what leaves the house gives the same answers."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

import longdoc
from longdoc.app.cli import main
from longdoc.models.encoder import AttentionConfig, Encoder, set_attention, without_pooler
from longdoc.models.scratch import train_tokenizer
from longdoc.text.classes import ClassScheme
from longdoc.text.documents import Document
from longdoc.text.formats import read
from longdoc.text.preprocess import Preprocessor
from longdoc.text.selection import Selection
from longdoc.text.tags import TagScheme
from longdoc.text.windows import Windower
from longdoc.training.checkpoint_io import write_checkpoint
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.module import DocumentModule
from longdoc.training.ner import NERModule
from tests.app.test_predict import command
from tests.models.tiny import tiny_encoder

TEXT = "Ada met Ben in Rome. The court of Paris heard the claim"


def refused(*arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return str(stop.value.code)


def parts(family: str, attention: AttentionConfig | None = None, size_tokens: int = 48) -> tuple[Encoder, Preprocessor]:
    tokenizer = train_tokenizer([TEXT] * 9, 100)
    model = without_pooler(tiny_encoder(family, vocab_size=tokenizer.vocab_size))
    encoder = Encoder(model, tokenizer.pad_id)
    set_attention(encoder, attention or AttentionConfig(), size_tokens)
    return encoder, Preprocessor(tokenizer, Windower(size_tokens, 8), TagScheme(("PERSON", "PLACE")))


def tagger(family: str = "Bert", attention: AttentionConfig | None = None, **settings) -> NERModule:
    module = NERModule(*parts(family, attention), **settings).eval()
    torch.nn.init.normal_(module.head.linear.weight)
    return module


def classifier(family: str = "Bert", task: str = "single_label", **settings) -> DocumentClassificationModule:
    labels = ("target",) if task == "regression" else ("appeal", "claim", "other")
    scheme = ClassScheme(task, labels, (5,) * len(labels), 15, target_mean=40.0, target_std=7.0)  # type: ignore[arg-type]
    module = DocumentClassificationModule(*parts(family), scheme, **settings).eval()
    torch.nn.init.normal_(module.head.linear.weight)
    return module


def saved(module: DocumentModule, folder: Path) -> Path:
    content: dict = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(content)
    write_checkpoint(content, folder / "best.ckpt")
    return folder / "best.ckpt"


@pytest.mark.filterwarnings("ignore:.*mask_token_id")
@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "Electra", "ModernBert"])
def test_a_tagger_in_plain_transformers(family: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    module = tagger(family)
    command("export", saved(module, tmp_path), tmp_path / "out")
    assert f"{family}ForTokenClassification gives the scores of longdoc" in capsys.readouterr().out
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out").eval()
    inputs = AutoTokenizer.from_pretrained(tmp_path / "out")(TEXT, return_tensors="pt")
    encoded = module.preprocessor(Document("a", TEXT))
    special = module.preprocessor.tokenizer
    assert inputs["input_ids"][0].tolist() == [*special.prefix_ids, *encoded.token_ids.tolist(), *special.suffix_ids]
    with torch.no_grad():
        probs = model(**inputs).logits[0].softmax(-1).numpy()
    expected = module.answers([encoded])[0]
    np.testing.assert_allclose(probs[encoded.first_token + len(special.prefix_ids)], expected, atol=1e-5)
    assert [model.config.id2label[i] for i in range(len(module.tags))] == list(module.tags.tags)


@pytest.mark.filterwarnings("ignore:.*mask_token_id")
@pytest.mark.parametrize(
    ("family", "task", "aggregation"),
    [
        ("Bert", "single_label", "mean"),
        ("Roberta", "multi_label", "max"),
        ("DistilBert", "regression", "mean"),
        ("Electra", "single_label", "vote"),
        ("ModernBert", "multi_label", "label_attention"),
    ],
)
def test_a_classifier_in_plain_transformers(family: str, task: str, aggregation, tmp_path: Path) -> None:
    module = classifier(family, task, aggregation=aggregation)
    command("export", saved(module, tmp_path), tmp_path / "out")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    inputs = AutoTokenizer.from_pretrained(tmp_path / "out")(TEXT, return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs).logits[0]
    result = module.predict(TEXT)
    if task == "regression":
        assert float(logits) == pytest.approx(result.predicted, abs=1e-3)
        return
    probs = logits.softmax(-1) if task == "single_label" else logits.sigmoid()
    assert dict(zip(module.labels, probs.tolist(), strict=True)) == pytest.approx(result.probs, abs=1e-5)
    assert model.config.problem_type == f"{task}_classification"
    assert ("thresholds:" in (tmp_path / "out" / "README.md").read_text()) == (task == "multi_label")


def test_what_transformers_cannot_compute_is_refused(tmp_path: Path) -> None:
    cases = {
        "attention.left=5": tagger(attention=AttentionConfig(left=5, right=5)),
        "attention.alibi": tagger(attention=AttentionConfig(alibi=True)),
        "model.subword=max": tagger(subword="max"),
        "aggregation=lstm": classifier(aggregation="lstm"),
        "the mean of the tokens of a window": classifier(pool="mean"),
    }
    for message, module in cases.items():
        answer = refused("export", saved(module, tmp_path), tmp_path / "out")
        assert message in answer
        assert "use --onnx" in answer
    assert [path.name for path in tmp_path.iterdir()] == ["best.ckpt", "best.ckpt.sha256"] or not (
        tmp_path / "out"
    ).exists()


def test_a_tagger_that_averages_tokens_says_so(tmp_path: Path) -> None:
    module = tagger(subword="mean")
    command("export", saved(module, tmp_path), tmp_path / "out")
    assert "the mean of the logits of its tokens" in (tmp_path / "out" / "README.md").read_text()


def test_the_card_tells_scores_data_and_what_is_lost(tmp_path: Path) -> None:
    module = tagger()
    module.preprocessor = Preprocessor(
        module.preprocessor.tokenizer, module.preprocessor.windower, module.tags, selection=Selection("lead", 30)
    )
    checkpoint = saved(module, tmp_path / "run")
    row = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "num_gold": 8}
    test = {"task": "ner", "num_documents": 4, "labels": {"PERSON": row}, **row}
    (tmp_path / "run" / "metrics.json").write_text(json.dumps({"test": test, "train": {"num_documents": 7}}))
    config = {"data": {"path": str(tmp_path / "cases")}, "model": {"name": "some/encoder"}, "seed": 3}
    (tmp_path / "run" / "config.yaml").write_text(json.dumps(config))
    for source, name in ((checkpoint, "a"), (tmp_path / "run", "b")):
        command("export", source, tmp_path / name)
        card = (tmp_path / name / "README.md").read_text()
        assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: token-classification\n")
        assert "| PERSON | 0.5000 | 0.2500 | 0.3333 | 8 |" in card
        assert "On 4 test documents: F1 of whole entities 0.3333." in card
        assert "Trained from `some/encoder`, on 7 training documents of `cases`, seed 3." in card
        assert "size_tokens: 48\n  overlap_tokens: 8" in card
        assert all(lost in card for lost in ("Stitching", "Decoding", "no token mixes two", "selection of sentences"))
        assert str(tmp_path) not in card
    config |= {"teacher": str(tmp_path / "big" / "run-1"), "distill": {"student_layers": 2}, "model": {"name": None}}
    (tmp_path / "run" / "config.yaml").write_text(json.dumps(config))
    command("export", checkpoint, tmp_path / "student")
    card = (tmp_path / "student" / "README.md").read_text()
    assert "Trained with 2 layers cut out of `run-1`, on 7 training documents of `cases`, seed 3." in card
    command("export", checkpoint.rename(tmp_path / "run" / "last-7.ckpt"), tmp_path / "c")
    assert "No `metrics.json`" in (tmp_path / "c" / "README.md").read_text()


def test_onnx_serves_whole_documents(
    small_run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    assert "ScratchModel: transformers has no AutoModelForTokenClassification of it; use --onnx" in refused(
        "export", small_run, tmp_path / "out"
    )
    command("export", small_run, tmp_path / "out", "--onnx")
    assert "give the logits of torch; largest difference" in capsys.readouterr().out
    assert {"encoder.onnx", "head.onnx", "config.json", "tokenizer.json", "README.md"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    command("evaluate", tmp_path / "out", corpus, "--output", tmp_path / "scores.json")
    kept = json.loads((small_run / "metrics.json").read_text())["test"]
    assert json.loads((tmp_path / "scores.json").read_text())["f1"] == kept["f1"]
    ours, theirs = longdoc.load(small_run), longdoc.load(tmp_path / "out")
    for document in [*read(corpus / "test.jsonl"), Document("empty", "")]:
        a, b = ours.predict(document), theirs.predict(document)
        assert [span.key for span in a.predicted] == [span.key for span in b.predicted]
        assert [s.score for s in a.predicted] == pytest.approx([s.score for s in b.predicted], abs=1e-4)
    assert "was exported already" in refused("export", tmp_path / "out", tmp_path / "again", "--onnx")
    assert "expected a new or an empty folder" in refused("export", small_run, tmp_path / "out", "--onnx")


def test_int8_is_scored_loaded_again_and_refused_beyond_a_loss(
    small_run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    (tmp_path / "out").mkdir()
    command("export", small_run, tmp_path / "out", "--int8", "--data", corpus, "--max-loss", "0.5")
    printed = capsys.readouterr().out
    assert "times as fast" in printed
    command("evaluate", tmp_path / "out", corpus, "--output", tmp_path / "scores.json")
    after = json.loads((tmp_path / "scores.json").read_text())["f1"]
    assert f"{after:.4f} after, on 4 documents" in printed
    assert f"{after:.4f} after, on 4 documents" in (tmp_path / "out" / "README.md").read_text()
    answer = refused("export", small_run, tmp_path / "no", "--int8", "--data", corpus, "--max-loss", "-1")
    assert "the score falls from" in answer
    assert "nothing was written" in answer
    assert {path.name for path in tmp_path.iterdir()} == {"out", "scores.json"}


def test_a_classifier_in_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs longdoc[onnx]")
    module = classifier(task="multi_label", aggregation="lstm", pool="mean")
    module.thresholds = np.array([0.2, 0.5, 0.9])
    command("export", saved(module, tmp_path), tmp_path / "out", "--onnx")
    exported = longdoc.load(tmp_path / "out")
    for text in (TEXT, f"{TEXT}. " * 9, ""):
        a, b = module.predict(text), exported.predict(text)
        assert (a.predicted, [(e.start, e.end) for e in a.evidence]) == (
            b.predicted,
            [(e.start, e.end) for e in b.evidence],
        )
        assert a.probs == pytest.approx(b.probs, abs=1e-4)


def test_settings_that_cannot_work(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--int8 and --data go together" in refused("export", small_run, tmp_path / "o", "--int8")
    assert "got --data alone" in refused("export", small_run, tmp_path / "o", "--data", "x")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "pip install 'longdoc[onnx]'" in refused("export", small_run, tmp_path / "o", "--onnx")
    assert list(tmp_path.iterdir()) == []
