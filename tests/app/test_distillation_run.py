"""Distillation by configuration: teachers, students that are cut out of them, and what is told at the end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

import longdoc
from longdoc.app.build import build, complete
from longdoc.app.distillation import agreement, load_teacher
from longdoc.app.train import train
from longdoc.errors import ConfigError
from longdoc.text.documents import Span
from longdoc.text.results import ClassificationResult, DocumentResult
from longdoc.text.windows import Windower
from tests.app.conftest import SMALL

CUT = ("distill.student_layers=1", "distill.hidden=0.1")


def test_a_student_is_cut_taught_and_compared(
    small_run: Path, corpus: Path, composed: Callable[..., dict], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    wanted = composed(
        f"data.path={corpus}",
        f"data.cache_dir={tmp_path}",
        *SMALL,
        *CUT,
        f"teacher={small_run}",
        output_dir=tmp_path / "out",
    )
    metrics = train(wanted)
    told = capsys.readouterr().out
    assert "Student layer <- teacher layer: 0 <- 0" in told
    assert "student and teacher agree" in told
    kept = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert kept == json.loads(json.dumps(metrics))
    found = kept["distillation"]
    assert found["student"]["score"] == kept["test"]["score"]
    assert found["teacher"]["score"] == json.loads((small_run / "metrics.json").read_text())["test"]["score"]
    assert found["student"]["num_parameters"] == found["teacher"]["num_parameters"]
    assert found["agreement"] > 0.8
    assert found["teacher"]["tokens_per_second"] > 0
    student, text = longdoc.load(tmp_path / "out"), "Ada met the court in Oslo. Ben met the court in Rome."
    assert [text[s.start : s.end] for s in student.predict(text).predicted] == ["Ada", "Oslo", "Ben", "Rome"]


def test_a_student_begins_with_the_weights_of_the_teacher(
    small_run: Path, corpus: Path, composed: Callable[..., dict], tmp_path: Path
) -> None:
    config = composed(f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, *CUT, f"teacher={small_run}")
    parts = build(complete(config))
    teacher = longdoc.load(small_run)
    for name, value in parts.module.state_dict().items():
        torch.testing.assert_close(value, teacher.state_dict()[name])
    assert all(p.requires_grad for p in parts.module.parameters())
    assert parts.module.encoder.training


def test_settings_without_a_teacher_are_refused(corpus: Path, composed: Callable[..., dict]) -> None:
    with pytest.raises(ConfigError, match="teacher=null"):
        build(complete(composed(f"data.path={corpus}", *SMALL, "distill.hidden=1")))
    with pytest.raises(ConfigError, match="teacher='nothing'"):
        build(complete(composed(f"data.path={corpus}", *SMALL, "teacher=nothing")))


def test_a_tagger_of_hugging_face_teaches(tmp_path: Path, small_run: Path) -> None:
    names = ["B-PLACE", "I-PERSON", "O", "I-PLACE", "B-PERSON"]
    config = transformers.BertConfig(
        vocab_size=90,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
    )
    model = transformers.BertForTokenClassification(config).eval()
    model.save_pretrained(tmp_path)
    backend = longdoc.load(small_run).preprocessor.tokenizer.backend
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>"
    ).save_pretrained(tmp_path)
    teacher = load_teacher(str(tmp_path), Windower(32, 8)).eval()
    assert teacher.tags.scheme == "IOB2"
    text = "Ada met"
    encoded = teacher.preprocessor(longdoc.Document("d", text, ()))
    tokenizer = teacher.preprocessor.tokenizer
    ids = [*tokenizer.prefix_ids, *encoded.token_ids.tolist(), *tokenizer.suffix_ids]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).logits[0].softmax(-1)
    first = encoded.first_token + len(tokenizer.prefix_ids)
    order = [names.index(tag) for tag in teacher.tags.tags]
    torch.testing.assert_close(torch.from_numpy(teacher.answers([encoded])[0]), expected[first][:, order])


def test_golden_agreement() -> None:
    def tagged(*spans: tuple[int, int, str]) -> DocumentResult:
        return DocumentResult("d", "a text", None, tuple(Span(*span) for span in spans), (), False, 2)

    assert agreement([tagged((0, 1, "A"), (2, 6, "B"))], [tagged((0, 1, "A"), (2, 6, "C"))]) == 0.5
    assert agreement([tagged()], [tagged()]) == 1.0

    def classified(name: str, label: str) -> ClassificationResult:
        return ClassificationResult(name, "a text", None, (label,), {}, (), False, 2)

    ours = [classified("a", "x"), classified("b", "x")]
    assert agreement(ours, [classified("b", "y"), classified("a", "x")]) == 0.5
