"""What the modules of all tasks share: whole documents in, results out, and a checkpoint that stands alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import lightning as L

from longdoc.errors import ConfigError
from longdoc.models.encoder import Encoder, build_encoder, encoder_state
from longdoc.models.hf_positions import set_positions_
from longdoc.models.hf_probes import evaluation
from longdoc.models.sentence_scorer import SentenceScorer
from longdoc.text.documents import Document
from longdoc.text.preprocess import EncodedDocument, Preprocessor
from longdoc.training.optim import OptimizerConfig

CHECKPOINT_KEY = "longdoc"

Split = Literal["dev", "test"]

R = TypeVar("R")


class DocumentModule(L.LightningModule, Generic[R]):
    """A module that takes lists of ``EncodedDocument`` and says something of each.

    A task gives it ``results``, ``score``, the scores of its epochs, and what its constructor needs to be built again.

    Args:
        encoder: Encoder of token vectors.
        preprocessor: The one that encodes the data.
        optimizer: How to train; None for a module that only predicts.
        max_tokens_per_forward: Budget of one forward pass, padding included; bounds its memory.
    """

    task: ClassVar[str]

    def __init__(
        self,
        encoder: Encoder,
        preprocessor: Preprocessor,
        optimizer: OptimizerConfig | None,
        max_tokens_per_forward: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.preprocessor = preprocessor
        self.optimizer = optimizer
        self.max_tokens_per_forward = max_tokens_per_forward

    def results(self, documents: Sequence[EncodedDocument]) -> list[R]:
        """What the module says of whole documents."""
        raise NotImplementedError

    def score(self, documents: Sequence[EncodedDocument], split: Split) -> list[R]:
        """Say the same of annotated documents, and count it in the scores of ``dev`` or ``test``."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        """Entity types or classes."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Arguments of the constructor beside encoder and preprocessor, in plain containers."""
        raise NotImplementedError

    @classmethod
    def build(cls, encoder: Encoder, preprocessor: Preprocessor, settings: dict[str, Any]) -> "DocumentModule":
        """Build the module that ``settings`` came from."""
        return cls(encoder, preprocessor, **settings)

    def resize_windows(self, size_tokens: int) -> None:
        """Read in windows of another size than in training; a learned position table that is too short is repeated."""
        windower = replace(self.preprocessor.windower, size_tokens=size_tokens)
        self.preprocessor = replace(self.preprocessor, windower=windower)
        set_positions_(self.encoder.model, "auto", size_tokens)

    def num_encoder_tokens(self, encoded: EncodedDocument) -> int:
        """Tokens that go through the encoder for a document, overlap and special tokens included."""
        windows = encoded.windows
        return int((windows.end - windows.start).sum()) + self.preprocessor.tokenizer.num_special * len(windows)

    # Lightning hands any output of an evaluation step to the callbacks.
    def validation_step(self, documents: list[EncodedDocument], batch_idx: int) -> list[R]:  # type: ignore[override]  # noqa: ARG002
        """Score dev documents."""
        return self.score(documents, "dev")

    def test_step(self, documents: list[EncodedDocument], batch_idx: int) -> list[R]:  # type: ignore[override]  # noqa: ARG002
        """Score test documents."""
        return self.score(documents, "test")

    def predict_step(self, documents: list[EncodedDocument], batch_idx: int) -> list[R]:  # noqa: ARG002
        """Predict documents."""
        return self.results(documents)

    def predict(self, text: str | Document) -> R:
        """Predict one text of any length, without dropout; offsets are into the given text."""
        document = Document("text", text) if isinstance(text, str) else text
        with evaluation(self):
            return self.results([self.preprocessor(document)])[0]

    def setup(self, stage: str) -> None:  # noqa: ARG002
        """Note which weights are matrices, before FSDP makes vectors of them all."""
        for parameter in self.parameters():
            parameter.num_dims = getattr(parameter, "num_dims", parameter.ndim)  # type: ignore[attr-defined]

    def configure_optimizers(self) -> Any:
        """AdamW and its schedule, stepped every optimiser step."""
        if self.optimizer is None:
            raise ConfigError(f"{type(self).__name__}: expected optimizer=OptimizerConfig(...) to train, got None")
        optimizer, schedule = self.optimizer.build(self, int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep everything that prediction needs, in plain containers."""
        checkpoint[CHECKPOINT_KEY] = {
            "task": self.task,
            "encoder": encoder_state(self.encoder),
            "preprocessor": self.preprocessor.state(),
            "settings": self.settings(),
        }

    @classmethod
    def from_checkpoint(cls, checkpoint: dict[str, Any]) -> "DocumentModule":
        """Build the module of a loaded checkpoint, ready to predict; needs neither hub nor configuration files."""
        kept = checkpoint[CHECKPOINT_KEY]
        scorer = kept["preprocessor"]["scorer"]
        preprocessor = Preprocessor.from_state(
            kept["preprocessor"], None if scorer is None else SentenceScorer.from_state(scorer)
        )
        module = cls.build(build_encoder(kept["encoder"]), preprocessor, kept["settings"])
        module.load_state_dict(checkpoint["state_dict"])
        return module.eval()
