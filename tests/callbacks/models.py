"""A model that knows nothing of longdoc, to hold callbacks to their contract."""

from typing import Any

import lightning as L
import tokenizers
import torch
import transformers
from lightning.pytorch.callbacks import Checkpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader

from longdoc.text.documents import Span
from longdoc.text.results import DocumentResult

NUM_BATCHES = 4
VOCAB = 64
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


class EncoderModule(ForeignModule):
    """Tags tokens with a small encoder of transformers, as other people's projects do."""

    def __init__(self, num_layers: int = 2, width: int = 24, **config: Any) -> None:
        torch.manual_seed(0)
        super().__init__()
        self.tagger = transformers.BertForTokenClassification(
            transformers.BertConfig(
                **{
                    "vocab_size": VOCAB,
                    "hidden_size": width,
                    "num_hidden_layers": num_layers,
                    "num_attention_heads": 3,
                    "intermediate_size": 2 * width,
                    "max_position_embeddings": 4096,
                    "num_labels": 3,
                    "hidden_dropout_prob": 0.0,
                    "attention_probs_dropout_prob": 0.0,
                    **config,
                }
            )
        )

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:  # noqa: ARG002
        return self.tagger(**batch).loss + 0 * self.embedding.weight.sum()

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> list[DocumentResult]:  # type: ignore[override]  # noqa: ARG002
        self.tagger(**batch)
        number = int(batch["input_ids"].sum())
        gold = (Span(0, 3, "PERSON"), Span(4, 5, "PLACE"))
        found = (Span(0, 3, "PERSON", 0.8), Span(4, 5, "COURT", 0.6))[: 1 + number % 2]
        return [DocumentResult(f"d{number}", "Åda é", gold, found, truncated=number % 3 == 0, num_tokens=number % 50)]

    def test_step(self, batch: dict[str, Tensor], batch_idx: int) -> list[DocumentResult]:
        return self.validation_step(batch, batch_idx)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Of transformers, with 59 pieces behind the special ones; every third goes on with a word."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *(f"##{i}" if i % 3 == 0 else f"w{i}" for i in range(len(specials), VOCAB))]
    model = tokenizers.models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{piece[1:-1].lower()}_token": piece for piece in specials}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def texts(
    num_batches: int,
    rows: int = 2,
    size: int = 40,
    first: int = 5,
    last: int = VOCAB,
    seed: int = 0,
    num_labels: int = 3,
) -> DataLoader:
    """Batches of padded rows of random tokens; the label of a token follows from its id."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(num_batches):
        ids = torch.randint(first, last, (rows, size), generator=generator)
        mask = torch.arange(size)[None] < torch.randint(size // 2, size + 1, (rows, 1), generator=generator)
        batches.append(
            {
                "input_ids": ids * mask,
                "attention_mask": mask.long(),
                "labels": torch.where(mask, (ids * 7 % 5).clamp(max=num_labels - 1), -100),
            }
        )
    return DataLoader(batches, batch_size=None)


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
