"""Distillation by configuration: teachers, students that are cut out of them, and what is told at the end."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

import longdoc
from longdoc.app.build import build, complete
from longdoc.app.distillation import agreement, cut_encoder, load_teacher
from longdoc.app.model import ModelSettings
from longdoc.app.train import train
from longdoc.errors import ConfigError
from longdoc.models.distillation import DistillConfig
from longdoc.models.encoder import AttentionConfig, Encoder, set_attention, without_pooler
from longdoc.models.hf_attention import settings_of
from longdoc.models.hf_positions import learned_positions
from longdoc.text.documents import Span
from longdoc.text.results import ClassificationResult, DocumentResult
from longdoc.text.windows import Windower
from longdoc.training.distillation import DistillationModule
from longdoc.training.ner import NERModule
from tests.app.conftest import SMALL
from tests.models.tiny import tiny_encoder
from tests.training import little

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
    own = longdoc.load(tmp_path / "out")
    first = json.loads((corpus / "test.jsonl").read_text().splitlines()[0])
    said = map(json.loads, (tmp_path / "out" / "predictions.jsonl").read_text().splitlines())
    (written,) = (row["spans"] for row in said if row["id"] == first["id"])
    scores = [span.score for span in own.predict(first["text"]).predicted]
    assert [span["score"] for span in written] == pytest.approx(scores, abs=1e-4)
    logged = (tmp_path / "out" / "logs" / "metrics.csv").read_text().splitlines()
    assert logged[0].split(",").count("test/f1") == 1
    assert sum(bool(row["test/f1"]) for row in csv.DictReader(logged)) == 1
    student, text = own, "Ada met the court in Oslo. Ben met the court in Rome."
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
    assert parts.module.encoder.packed
    config = composed(
        *(f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, *CUT, f"teacher={small_run}"),
        *("attention.packed=never", "model.max_tokens_per_forward=64"),
    )
    parts = build(complete(config))
    assert not parts.module.encoder.packed
    assert isinstance(parts.fitted, DistillationModule)
    assert parts.fitted.teacher.max_tokens_per_forward == 64


def test_settings_that_cannot_be_are_refused(small_run: Path, corpus: Path, composed: Callable[..., dict]) -> None:
    with pytest.raises(ConfigError, match="teacher=null"):
        build(complete(composed(f"data.path={corpus}", *SMALL, "distill.hidden=1")))
    with pytest.raises(ConfigError, match="teacher='nothing'"):
        build(complete(composed(f"data.path={corpus}", *SMALL, "teacher=nothing")))
    with pytest.raises(ConfigError, match=r"model.name='else'.* set one of the two to null"):
        build(complete(composed(f"data.path={corpus}", *SMALL, *CUT, f"teacher={small_run}", "model.name=else")))


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
    with pytest.raises(ConfigError, match=r"position table .* takes at most 512 tokens"):
        load_teacher(str(tmp_path), Windower(513, 8))
    order = [names.index(tag) for tag in teacher.tags.tags]
    torch.testing.assert_close(torch.from_numpy(teacher.answers([encoded])[0]), expected[first][:, order])
    config.vocab_size = 10
    transformers.BertForTokenClassification(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"its tokenizer has \d+ entries, it 10"):
        load_teacher(str(tmp_path), Windower(32, 8))


def test_taggers_with_more_than_one_layer_behind_the_encoder_are_refused(tmp_path: Path) -> None:
    size = {"vocab_size": 90, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "pad_token_id": 1}
    special = {"bos_token_id": 2, "eos_token_id": 2, "cls_token_id": 2, "sep_token_id": 2}
    config = transformers.ModernBertConfig(num_hidden_layers=1, **size, **special)
    transformers.ModernBertForTokenClassification(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="ModernBertForTokenClassification with classifier, head"):
        load_teacher(str(tmp_path), Windower(32, 8))


def test_a_cut_student_has_its_own_dropout_and_positions_that_stay_zero() -> None:
    prepared = little.preprocessor()
    model = without_pooler(tiny_encoder("Bert", vocab_size=prepared.tokenizer.vocab_size))
    encoder = Encoder(model, prepared.tokenizer.pad_id)
    set_attention(encoder, AttentionConfig(positions="alibi"), 32)
    teacher = NERModule(encoder, prepared).requires_grad_(False)
    taken = cut_encoder(teacher, DistillConfig(student_layers=1), 0.3)
    student, _ = ModelSettings().encoder([], AttentionConfig(), prepared.windower, taken)
    table = learned_positions(student.model)
    assert table is not None
    assert not table.weight.any()
    assert [p for p in student.parameters() if not p.requires_grad] == [table.weight]
    assert settings_of(student.model.config).positions == "alibi"
    assert student.model.encoder.layer[0].attention.self.dropout.p == 0.3
    assert model.config.attention_probs_dropout_prob != 0.3


def test_golden_agreement() -> None:
    def tagged(*spans: tuple[int, int, str]) -> DocumentResult:
        return DocumentResult("d", "a text", None, tuple(Span(*span) for span in spans), (), False, 2)

    assert agreement([tagged((0, 1, "A"), (2, 6, "B"))], [tagged((0, 1, "A"), (2, 6, "C"))]) == 0.5
    assert agreement([tagged()], [tagged()]) == 1.0

    def classified(name: str, label: str) -> ClassificationResult:
        return ClassificationResult(name, "a text", None, (label,), {}, (), False, 2)

    ours = [classified("a", "x"), classified("b", "x")]
    assert agreement(ours, [classified("b", "y"), classified("a", "x")]) == 0.5

    def told(*numbers: float) -> list[ClassificationResult]:
        return [
            ClassificationResult(str(i), "a text", None, number, {}, (), False, 2) for i, number in enumerate(numbers)
        ]

    assert agreement(told(1e6, 1e6 + 1, 1e6 + 2), told(3.0, 5.0, 4.0)) == pytest.approx(0.5)
    assert agreement(told(1.0, 1.0), told(1.0, 2.0)) == 0.0
