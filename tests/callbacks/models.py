"""A model that knows nothing of longdoc, to hold callbacks to their contract."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Checkpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader

from longdoc.text.documents import Span
from longdoc.text.results import DocumentResult

NUM_BATCHES = 4
TOKENS_PER_BATCH = 2 * 5 - 3  # two rows of five, three of them padding


def batch(number: int) -> dict[str, Tensor]:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    return {"input_ids": torch.full((2, 5), number), "attention_mask": mask}


class ForeignModule(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 3)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:  # noqa: ARG002
        loss = self.embedding(batch["input_ids"]).square().mean()
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:  # noqa: ARG002
        self.log("dev/f1", 0.5, prog_bar=True)

    def test_step(self, batch: dict[str, Tensor], batch_idx: int) -> list[DocumentResult]:  # noqa: ARG002
        found = Span(0, 3, "PERSON", 0.87654)
        return [DocumentResult(f"../{batch_idx}", "Åda é", None, (found,), truncated=batch_idx == 1, num_tokens=11)]

    def predict_step(self, batch: dict[str, Tensor], batch_idx: int) -> list[DocumentResult]:
        return self.test_step(batch, batch_idx)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader() -> DataLoader:
    return DataLoader([batch(i) for i in range(NUM_BATCHES)], batch_size=None)


def trainer(*callbacks: L.Callback, **settings: Any) -> L.Trainer:
    defaults: dict[str, Any] = {
        "max_epochs": 2,
        "logger": False,
        "enable_checkpointing": any(isinstance(callback, Checkpoint) for callback in callbacks),
        "enable_model_summary": False,
    }
    if not any(isinstance(callback, L.pytorch.callbacks.ProgressBar) for callback in callbacks):
        defaults["enable_progress_bar"] = False
    return L.Trainer(accelerator="cpu", callbacks=list(callbacks), num_sanity_val_steps=0, **(defaults | settings))
