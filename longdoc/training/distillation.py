"""Training a student that learns from a teacher beside the gold."""

import hashlib
import json
import logging
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn

from longdoc.errors import ConfigError
from longdoc.models.batch import Batch, WindowRef, collate, collate_documents
from longdoc.models.classification import encode_windows
from longdoc.models.distillation import (
    DistillConfig,
    Inside,
    answer_loss,
    attention_loss,
    hidden_loss,
    look_inside,
    map_layers,
    relation_loss,
    separate_layers,
)
from longdoc.models.encoder import encoder_state, input_limit
from longdoc.models.hf_probes import evaluation
from longdoc.text.classes import ClassScheme
from longdoc.text.preprocess import EncodedDocument
from longdoc.text.windows import Windows
from longdoc.training.classification import DocumentClassificationModule
from longdoc.training.data import DocumentDataModule
from longdoc.training.module import CHECKPOINT_KEY, DocumentModule, build_optimizer, log_dev_scores, note_dimensions
from longdoc.training.ner import NERModule
from longdoc.training.sampler import fill_batches
from longdoc.training.store import cache_file, code_version, content_digest

log = logging.getLogger(__name__)

_FLOOR = 1e-12


class DistillationModule(L.LightningModule):
    """Trains a student; a checkpoint of it is one of the student, which ``longdoc.load`` reads.

    Needs a ``DocumentDataModule``. The teacher answers for whole documents, stitched, once before training: so its
    windows, its attention and its tokenizer are its own. For ``hidden``, ``attention`` and ``relations`` it reads the
    student's windows beside it; where tokenizers differ, ``hidden`` compares the first tokens of words, and the other
    two are refused. The teacher is no part of the module: it is neither trained nor saved.

    Args:
        student: A module with an optimiser; ``longdoc.load`` gives one without.
        teacher: A module of the same task that knows the same labels.
        config: What is learned from it.
    """

    def __init__(self, student: DocumentModule, teacher: DocumentModule, config: DistillConfig | None = None) -> None:
        super().__init__()
        if student.optimizer is None:
            raise ConfigError("DistillationModule: expected a student with optimizer=OptimizerConfig(...), got None")
        self.student = student
        self.kind = student.kind
        self.config = config or DistillConfig()
        self._outside = [teacher.eval().requires_grad_(False)]
        # What becomes of gold is for the student to say, on the teacher's side as well.
        teacher.preprocessor = replace(teacher.preprocessor, overlapping=student.preprocessor.overlapping)
        self._column = _columns(student, teacher)
        self.same_tokens = _tokenizer_digest(student) == _tokenizer_digest(teacher)
        self.layers: list[int] = []
        self.projections = nn.ModuleList()
        if self.config.looks_inside:
            self._prepare_inside()
        self._answers: np.ndarray | None = None
        self._answers_key = ""
        self._first: np.ndarray = np.zeros(1, dtype=np.int64)
        self._row: dict[str, int] = {}

    def _prepare_inside(self) -> None:
        config, student, teacher = self.config, self.student.encoder, self.teacher.encoder
        if (config.attention or config.relations) and not self.same_tokens:
            raise ConfigError(
                "distill.attention and distill.relations need the tokenizer of the teacher in the student; use "
                "distill.hidden and distill.answers, a student cut out of the teacher (distill.student_layers), or one "
                "from scratch with the training documents and the vocab_size of the teacher"
            )
        num_student, num_teacher = (len(separate_layers(encoder)[1]) for encoder in (student, teacher))
        self.layers = map_layers(config.mapping, num_student, num_teacher)
        if config.relation_layer is not None and not 0 <= config.relation_layer < num_teacher:
            raise ConfigError(
                f"distill.relation_layer={config.relation_layer}: expected a layer of the teacher from 0 to "
                f"{num_teacher - 1}"
            )
        if config.hidden and student.width != teacher.width:
            self.projections.extend(nn.Linear(student.width, teacher.width) for _ in range(num_student + 1))

    @property
    def teacher(self) -> DocumentModule:
        """The teacher."""
        return self._outside[0]

    def mapping_line(self) -> str:
        """Say which layer learns from which; empty where only answers are learned."""
        if not self.layers:
            return ""
        return "Student layer <- teacher layer: " + ", ".join(f"{i} <- {j}" for i, j in enumerate(self.layers))

    def forward(self, batch: Any) -> Any:
        """What the student says."""
        return self.student(batch)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:  # noqa: ARG002
        """Weighted sum of the terms of a training batch."""
        config = self.config
        terms: dict[str, Tensor] = {}
        looks = bool(config.attention or config.relations)
        with ExitStack() as stack:
            ours = stack.enter_context(look_inside(self.student.encoder, looks)) if config.looks_inside else None
            logits = self.student.logits(batch)
        if config.gold:
            terms["gold"] = self.student.loss_of(logits, batch)
        if config.answers:
            terms["answers"] = self._answer_term(logits, batch)
        if ours is not None:
            terms |= self._inside_terms(ours, batch)
        weighted = [getattr(config, name) * term for name, term in terms.items()]
        loss = torch.stack([0 * logits.float().sum(), *weighted]).sum()  # the head has a gradient, whatever is learned
        self.log_dict({f"train/{name}": term for name, term in terms.items()}, batch_size=1)
        self.log("train/loss", loss, prog_bar=True, batch_size=1)
        return loss

    def _answer_term(self, logits_NK: Tensor, batch: Any) -> Tensor:
        """Mean over what is labelled in the optimiser step, as of the gold; what the teacher did not read adds 0."""
        if isinstance(batch, Batch):
            assert batch.item_place is not None
            place = batch.item_place.cpu().numpy()
            first = np.array([self._first[self._row[name]] for name in batch.document_ids])
            rows = first[place[:, 0]] + place[:, 1]
            counted = (batch.item_tags != -100).float()
        else:
            scheme = self._scheme(self.student)
            rows = np.array([self._row[encoded.document.id] for encoded in batch])
            gold = [scheme.encode(scheme.gold(encoded.document)) is not None for encoded in batch]
            counted = torch.tensor(gold, dtype=torch.float32, device=logits_NK.device)
        assert self._answers is not None
        answers = self._answers[rows][:, self._column].astype(np.float32)
        if self._task == "regression":
            scheme, theirs = self._scheme(self.student), self._scheme(self.teacher)
            answers = (answers * theirs.target_std + theirs.target_mean - scheme.target_mean) / scheme.target_std
        teacher_NK = torch.from_numpy(answers).to(logits_NK.device)
        counted = counted * ~teacher_NK[:, 0].isnan()
        each = answer_loss(logits_NK, teacher_NK.nan_to_num(), self.config.temperature, self._task)
        divisor = counted.sum().clamp(min=1) if batch.num_labelled is None else max(batch.num_labelled, 1)
        return (each * counted).sum() / divisor * batch.num_shares

    def _inside_terms(self, ours: Inside, batch: Any) -> dict[str, Tensor]:
        """Means over the tokens of the optimiser step."""
        config, teacher = self.config, self.teacher
        windows = batch if isinstance(batch, Batch) else collate_documents(batch, self.student.preprocessor.tokenizer)
        if windows.num_windows == 0:
            return {}
        windows = windows.to(self.device)
        read = windows if self.same_tokens else self._as_teacher(windows).to(self.device)
        limit = None if isinstance(batch, Batch) else self.student.max_tokens_per_forward
        with torch.no_grad(), look_inside(teacher.encoder, bool(config.attention or config.relations)) as theirs:
            encode_windows(teacher.encoder, read, "first", limit, padded=not self.student.encoder.packed)
        terms = {}
        if config.hidden and read.num_windows:
            pairs = []
            for state, target in enumerate([0, *(layer + 1 for layer in self.layers)]):
                one, other = ours.hidden(state), theirs.hidden(target)
                if not self.same_tokens:
                    one, other = one[windows.item_token], other[read.item_token]
                pairs.append((self.projections[state](one) if self.projections else one, other))
            distances = [hidden_loss(one, other, config.hidden_distance) for one, other in pairs]
            terms["hidden"] = torch.stack(distances).mean()
        if config.attention:
            compare = partial(attention_loss, distance=config.attention_distance, average_heads=config.average_heads)
            maps = [compare(ours.passes[i], theirs.passes[j]) for i, j in enumerate(self.layers)]
            terms["attention"] = torch.stack(maps).mean()
        if config.relations:
            of_teacher = theirs.passes[-1 if config.relation_layer is None else config.relation_layer]
            terms["relations"] = relation_loss(ours.passes[-1], of_teacher, config.relation_heads)
        of_step = batch.num_step_tokens
        share = 1.0 if of_step is None else len(windows.input_ids) / of_step * batch.num_shares
        return {name: share * term for name, term in terms.items()}

    def _as_teacher(self, windows: Batch) -> Batch:
        """The same words of the same windows, in the tokens of the teacher."""
        assert windows.item_place is not None
        teacher = self.teacher
        limit, source = input_limit(teacher.encoder.model)
        refs = []
        edges = torch.searchsorted(windows.item_token, windows.bounds).tolist()
        encoded: dict[int, EncodedDocument] = {}
        for first, last in pairwise(edges):
            if first == last:
                continue
            place = windows.item_place[first:last].cpu().numpy()
            number, words = int(place[0, 0]), place[:, 1]
            if number not in encoded:
                encoded[number] = self._of_teacher[self._row[windows.document_ids[number]]]
            whole = encoded[number]
            start = int(whole.first_token[words[0]])
            behind = np.flatnonzero(whole.token_word > words[-1])
            end = int(behind[0]) if len(behind) else len(whole.token_ids)
            # A blank goes with the word before it; a student that selects has no word of what it left out.
            taken = start + np.flatnonzero(np.isin(np.maximum.accumulate(whole.token_word[start:end]), words))
            first_token = np.full_like(whole.first_token, -1)
            first_token[words] = np.searchsorted(taken, whole.first_token[words])
            length = len(taken) + teacher.preprocessor.tokenizer.num_special
            if limit is not None and length > limit:
                raise ConfigError(
                    f"distill.hidden: a window of the student has {length} tokens of the teacher, and {source} allows "
                    f"{limit}; set windows.size_tokens lower"
                )
            one, other = np.array([0]), np.array([len(taken)])
            cut = replace(
                whole,
                token_ids=whole.token_ids[taken],
                token_word=whole.token_word[taken],
                first_token=first_token,
                windows=Windows(one, other, one, other, len(taken)),
            )
            refs.append(WindowRef(cut, 0))
        return collate(refs, teacher.preprocessor.tokenizer)

    def prepare_data(self) -> None:
        """Refuse at once what training would refuse later; let one process write the teacher's answers for all."""
        if self.trainer.state.fn != "fit":
            return
        self._read_data()
        if self.config.looks_inside:
            self._try_windows()
        if self.config.answers and self.config.cache:
            self._load_answers()

    def _read_data(self) -> None:
        self._row = {name: i for i, name in enumerate(self._data.encoded("train").documents.column("id"))}
        if self.config.hidden and not self.same_tokens:
            whole = replace(self.teacher.preprocessor, selection=None, scorer=None)
            self._of_teacher = self._data.encoded_by(whole).encoded("train")

    def _try_windows(self) -> None:
        """Go through the terms with the longest window, or through all windows where the teacher has its own tokens."""
        encoded, tokenizer = self._data.encoded("train"), self.student.preprocessor.tokenizer
        limit, source = input_limit(self.teacher.encoder.model)
        if not self.same_tokens:
            for document in encoded if limit is not None else ():
                self._as_teacher(collate([WindowRef(document, w) for w in range(len(document.windows))], tokenizer))
            return
        lengths = [of_one.max(initial=0) for of_one in encoded.window_lengths()]
        if not any(lengths):
            return
        document = encoded[int(np.argmax(lengths))]
        windows = document.windows
        batch = collate([WindowRef(document, int(np.argmax(windows.end - windows.start)))], tokenizer).to(self.device)
        if limit is not None and len(batch.input_ids) > limit:
            raise ConfigError(
                f"teacher: the longest window has {len(batch.input_ids)} tokens, and {source} allows {limit}; set "
                f"windows.size_tokens={limit} or less"
            )
        self.teacher.to(self.device)
        with evaluation(self):
            with look_inside(self.student.encoder, bool(self.config.attention or self.config.relations)) as ours:
                self.student.encoder(batch)
            self._inside_terms(ours, batch)

    def setup(self, stage: str) -> None:
        """Have the teacher ready, and its answers."""
        note_dimensions(self)
        if stage != "fit":
            return
        self._read_data()
        if self.config.answers:
            self._load_answers()

    def on_fit_start(self) -> None:
        """Bring the teacher to the device of the student."""
        self.teacher.to(self.device)

    @property
    def _data(self) -> DocumentDataModule:
        data = getattr(self.trainer, "datamodule", None)
        if not isinstance(data, DocumentDataModule):
            raise ConfigError(f"DistillationModule: expected a DocumentDataModule in trainer.fit, got {data!r}")
        return data

    @property
    def _task(self) -> Any:
        return "single_label" if self.student.kind == "ner" else self.student.kind

    @staticmethod
    def _scheme(side: DocumentModule) -> ClassScheme:
        assert isinstance(side, DocumentClassificationModule)
        return side.scheme

    def _load_answers(self) -> None:
        data = self._data.encoded_by(self.teacher.preprocessor)
        encoded = data.encoded("train")
        key = content_digest([self.teacher_key, encoded.key, code_version("models", "attention", "training")])
        if key == self._answers_key:
            return
        self._answers_key, path = key, data.cache_dir / f"answers-{key}.npy"
        counts = [len(e.words) if isinstance(self.teacher, NERModule) else 1 for e in encoded]
        self._first = np.cumsum([0, *counts])
        if self.config.cache and path.is_file():
            self._answers = np.load(path, mmap_mode="r")
            return
        log.info("the teacher answers for %s training documents, once", len(encoded))
        self.teacher.to(self.trainer.strategy.root_device)
        lengths = np.array([self.teacher.num_encoder_tokens(e) for e in encoded])
        answers = np.zeros((self._first[-1], len(self._column)), dtype=np.float16)
        for rows in fill_batches(range(len(encoded)), lengths, data.max_tokens_per_eval_batch):
            documents = [encoded[i] for i in rows]
            for row, document, probs in zip(rows, documents, self.teacher.answers(documents), strict=True):
                said = self._as_logits(probs)
                if isinstance(self.teacher, NERModule):
                    said[~document.seen_words] = np.nan
                answers[self._first[row] : self._first[row + 1]] = said
        self._answers = answers
        if self.config.cache:
            with cache_file(path) as beside, beside.open("wb") as file:
                np.save(file, answers)

    def _as_logits(self, probs: np.ndarray) -> np.ndarray:
        if self._task == "regression":
            return probs
        inside = np.clip(probs.astype(np.float64), _FLOOR, 1 - _FLOOR)
        return np.log(inside) - (np.log1p(-inside) if self._task == "multi_label" else 0)

    @cached_property
    def teacher_key(self) -> str:
        """Name the teacher, by all that it says."""
        teacher = self.teacher
        digest = hashlib.sha256()
        described = [encoder_state(teacher.encoder), teacher.settings()]
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
        digest.update(_tokenizer_digest(teacher).encode())
        for name, value in sorted(teacher.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()

    def validation_step(self, documents: list[EncodedDocument], batch_idx: int) -> Any:
        """Score dev documents."""
        return self.student.validation_step(documents, batch_idx)

    def on_validation_epoch_end(self) -> None:
        """Log the dev scores of the student."""
        log_dev_scores(self, self.student)

    def configure_optimizers(self) -> Any:
        """The student's optimiser, for the projections as well."""
        return build_optimizer(self, self.student.optimizer)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the student so that it can be loaded alone, and which teacher it had."""
        self.student.on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY] |= {"prefix": "student.", "teacher": self.teacher_key}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take what the student kept, and refuse to go on with another teacher."""
        self.student.on_load_checkpoint(checkpoint)
        if checkpoint[CHECKPOINT_KEY].get("teacher") != self.teacher_key:
            raise ConfigError("the run cannot go on, its teacher has changed since it was started; start a new one")


def _tokenizer_digest(module: DocumentModule) -> str:
    return content_digest(module.preprocessor.tokenizer.state())


def _columns(student: DocumentModule, teacher: DocumentModule) -> list[int]:
    """Columns of the teacher's answers in the order of the student's."""
    if student.kind != teacher.kind:
        raise ConfigError(f"teacher: expected task={student.kind}, got {teacher.kind}")
    ours, theirs = student.labels, teacher.labels
    if isinstance(student, NERModule) and isinstance(teacher, NERModule):
        ours, theirs = student.tags.tags, teacher.tags.tags
    if sorted(ours) != sorted(theirs):
        raise ConfigError(
            f"teacher: expected the labels of the student, got others: {sorted(set(ours) ^ set(theirs))}; "
            "model.tag_scheme must be the same as well"
        )
    return [theirs.index(label) for label in ours]
