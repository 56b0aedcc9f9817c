"""What the modules of all tasks share: whole documents in, results out, and a checkpoint that stands alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import lightning as L
import numpy as np
from torch import Tensor

from longdoc.errors import ConfigError
from longdoc.models.encoder import Encoder, build_encoder, encoder_state
from longdoc.models.hf_positions import set_positions_
from longdoc.models.hf_probes import evaluation
from longdoc.models.sentence_scorer import SentenceScorer
from longdoc.text.classes import ClassScheme
from longdoc.text.documents import Document
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.training.optim import OptimizerConfig

CHECKPOINT_KEY = "longdoc"

Split = Literal["dev", "test"]

R = TypeVar("R")

_CPU_TOKENS = 2048


class DocumentModule(L.LightningModule, Generic[R]):
    """A module that takes lists of ``EncodedDocument`` and says something of each.

    A task gives it ``answers``, ``loss_of``, ``results``, ``score``, ``epoch_scores``, ``dev_scores`` and
    ``test_scores``.

    Args:
        encoder: Encoder of token vectors.
        preprocessor: The one that encodes the data.
        optimizer: How to train; None for a module that only predicts.
        max_tokens_per_forward: Budget of one forward pass, padding included; bounds its memory.
        kind: What it says: ``ner``, or the task of a ``ClassScheme``.
        labels: Entity types or classes.
        settings: The other arguments of its constructor, in plain containers.
    """

    task: ClassVar[str]
    shown: ClassVar[tuple[str, ...]]
    """Dev scores that the progress bar shows."""

    def __init__(
        self,
        encoder: Encoder,
        preprocessor: Preprocessor,
        optimizer: OptimizerConfig | None,
        max_tokens_per_forward: int,
        kind: str,
        labels: tuple[str, ...],
        settings: dict[str, Any],
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.preprocessor = preprocessor
        self.optimizer = optimizer
        self.max_tokens_per_forward = max_tokens_per_forward
        self.kind = kind
        self.labels = labels
        self._settings = settings

    def logits(self, batch: Any) -> Tensor:
        """Scores before the softmax of all that a training batch asks for. *Shape:* (N, K)."""
        return self(batch)

    def answers(self, documents: Sequence[EncodedDocument]) -> list[np.ndarray]:
        """Probabilities, or the number of a regression, of all it says of each document. *Shape of each:* (N, K)."""
        raise NotImplementedError

    def loss_of(self, logits_NK: Tensor, batch: Any) -> Tensor:
        """What is learned from the gold of a training batch. *Shape:* ()."""
        raise NotImplementedError

    def results(self, documents: Sequence[EncodedDocument]) -> list[R]:
        """What the module says of whole documents."""
        raise NotImplementedError

    def score(self, documents: Sequence[EncodedDocument], split: Split) -> list[R]:
        """Say the same of annotated documents, and count it in the scores of ``dev`` or ``test``."""
        raise NotImplementedError

    def epoch_scores(self, split: Split) -> dict[str, float]:
        """Scores of all that was counted, which begins anew; ``score`` of dev chooses the best checkpoint."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Arguments of the constructor beside encoder and preprocessor, in plain containers."""
        return self._settings

    def _scores(self, split: Split) -> Any:
        return self.dev_scores if split == "dev" else self.test_scores

    @property
    def evaluation_tokens(self) -> int:
        """Budget of a forward pass in evaluation: on a CPU no more than its caches serve well."""
        return (
            min(self.max_tokens_per_forward, _CPU_TOKENS) if self.device.type == "cpu" else self.max_tokens_per_forward
        )

    def resize_windows(self, size_tokens: int) -> None:
        """Read in windows of another size than in training; a learned position table that is too short is repeated."""
        windower = replace(self.preprocessor.windower, size_tokens=size_tokens)
        self.preprocessor = replace(self.preprocessor, windower=windower)
        set_positions_(self.encoder.model, "auto", size_tokens)

    def num_encoder_tokens(self, encoded: EncodedDocument) -> int:
        """Tokens that go through the encoder for a document, overlap and special tokens included."""
        windows = encoded.windows
        return int((windows.end - windows.start).sum()) + self.preprocessor.tokenizer.num_special * len(windows)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:  # noqa: ARG002
        """Loss of a training batch."""
        loss = self.loss_of(self.logits(batch), batch)
        self.log("train/loss", loss, prog_bar=True, batch_size=1)
        return loss

    # Lightning hands any output of an evaluation step to the callbacks.
    def validation_step(self, documents: list[EncodedDocument], batch_idx: int) -> list[R]:  # type: ignore[override]  # noqa: ARG002
        """Score dev documents."""
        return self.score(documents, "dev")

    def test_step(self, documents: list[EncodedDocument], batch_idx: int) -> list[R]:  # type: ignore[override]  # noqa: ARG002
        """Score test documents."""
        return self.score(documents, "test")

    def on_validation_epoch_end(self) -> None:
        """Log the dev scores under ``dev/``."""
        log_dev_scores(self, self)

    def on_test_epoch_end(self) -> None:
        """Log the test scores, those of labels and slices too, under ``test/``."""
        self.log_dict({f"test/{name}": value for name, value in self.epoch_scores("test").items()})

    def predict_step(self, documents: list[EncodedDocument], batch_idx: int) -> list[R]:  # noqa: ARG002
        """Predict documents."""
        return self.results(documents)

    def encode(self, document: Document) -> EncodedDocument:
        """Encode a document to say something of it; gold that training would refuse for its overlap is lost."""
        policy = self.preprocessor.overlapping
        return replace(self.preprocessor, overlapping="outermost" if policy == "error" else policy)(document)

    def predict(self, text: str | Document) -> R:
        """Predict one text of any length, without dropout; offsets are into the given text."""
        document = Document("text", text) if isinstance(text, str) else text
        with evaluation(self):
            return self.results([self.encode(document)])[0]

    def setup(self, stage: str) -> None:  # noqa: ARG002
        """Note which weights are matrices, before FSDP makes vectors of them all."""
        note_dimensions(self)

    def configure_optimizers(self) -> Any:
        """AdamW and its schedule, stepped every optimiser step."""
        return build_optimizer(self, self.optimizer)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep everything that prediction needs, in plain containers."""
        checkpoint[CHECKPOINT_KEY] = {
            "task": self.task,
            "encoder": encoder_state(self.encoder),
            "preprocessor": self.preprocessor.state(),
            "settings": self.settings(),
        }

    @classmethod
    def from_checkpoint(cls, checkpoint: dict[str, Any], encoder: Encoder | None = None) -> "DocumentModule":
        """Build the module of a loaded checkpoint, ready to predict; needs neither hub nor configuration files.

        Args:
            checkpoint: What ``on_save_checkpoint`` kept, and the weights.
            encoder: With weights of its own, in the place of the one in the checkpoint.
        """
        kept = checkpoint[CHECKPOINT_KEY]
        scorer = kept["preprocessor"]["scorer"]
        preprocessor = Preprocessor.from_state(
            kept["preprocessor"], None if scorer is None else SentenceScorer.from_state(scorer)
        )
        settings = dict(kept["settings"])
        if "scheme" in settings:
            settings["scheme"] = ClassScheme(**settings["scheme"])
        module = cls(encoder or build_encoder(kept["encoder"]), preprocessor, **settings)
        weights, prefix = checkpoint["state_dict"], kept.get("prefix", "")
        own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        module.load_state_dict(own)
        module.on_load_checkpoint(checkpoint)
        return module.eval()


def log_dev_scores(module: L.LightningModule, scored: DocumentModule) -> None:
    """Log what ``scored`` has counted in a validation of ``module``, which may hold it."""
    for name, value in scored.epoch_scores("dev").items():
        module.log(f"dev/{name}", value, prog_bar=name in scored.shown)


def note_dimensions(module: L.LightningModule) -> None:
    """Keep the number of dimensions of each parameter with it."""
    for parameter in module.parameters():
        parameter.num_dims = getattr(parameter, "num_dims", parameter.ndim)  # type: ignore[attr-defined]


def build_optimizer(module: L.LightningModule, optimizer: OptimizerConfig | None) -> Any:
    """Build what Lightning asks of ``configure_optimizers``, for all parameters of a module that a Trainer has."""
    if optimizer is None:
        raise ConfigError(f"{type(module).__name__}: expected optimizer=OptimizerConfig(...) to train, got None")
    # Lightning clips no gradients under mixed precision if the optimiser may scale them itself, as a fused one may.
    fused = module.device.type == "cpu" and "mixed" not in str(module.trainer.precision)
    built, schedule = optimizer.build(module, module.trainer.estimated_stepping_batches, fused)
    return {"optimizer": built, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
