"""Tiny Hugging Face encoders with random weights."""

import torch
import transformers
from transformers import PreTrainedModel

VOCAB = 64
LIMIT = 600
_COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 32,
}
_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_BERT = {**_COMMON, **_DROPOUT, "max_position_embeddings": LIMIT, "pad_token_id": 0}
_ROBERTA = {**_BERT, "max_position_embeddings": LIMIT + 2, "pad_token_id": 1, "type_vocab_size": 1}
_SETTINGS = {
    "Bert": _BERT,
    "Roberta": _ROBERTA,
    "XLMRoberta": _ROBERTA,
    "Electra": {**_BERT, "embedding_size": 16},
    "DistilBert": {
        "vocab_size": VOCAB,
        "dim": 24,
        "n_layers": 2,
        "n_heads": 3,
        "hidden_dim": 32,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "max_position_embeddings": LIMIT,
    },
    "Albert": {**_BERT, "embedding_size": 16},
    "Camembert": _ROBERTA,
    "ModernBert": {
        **_COMMON,
        "local_attention": 16,
        "global_attn_every_n_layers": 2,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
    "NomicBert": {**_BERT},
    "EuroBert": {**_COMMON, "num_key_value_heads": 3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "MobileBert": {**_BERT, "embedding_size": 24, "intra_bottleneck_size": 24, "true_hidden_size": 24},
    "Esm": {
        **_ROBERTA,
        "mask_token_id": 3,
        "token_dropout": True,
        "position_embedding_type": "rotary",
        "hidden_size": 48,
    },
    "DebertaV2": {**_BERT, "relative_attention": True},
    "MPNet": _ROBERTA,
    "Longformer": {**_ROBERTA, "attention_window": 16},
    "Nystromformer": {**_BERT, "num_landmarks": 4, "segment_means_seq_len": LIMIT},
}
PACKABLE = (
    "Bert",
    "Roberta",
    "XLMRoberta",
    "Electra",
    "DistilBert",
    "Albert",
    "Camembert",
    "ModernBert",
    "NomicBert",
    "EuroBert",
)


def tiny_encoder(family: str, head: str = "Model", **overrides: object) -> PreTrainedModel:
    """Build a small encoder of a family, alone or with a head."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**_SETTINGS[family], **overrides})
    if head != "Model":
        config.num_labels = 3
    model = getattr(transformers, f"{family}{head}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 if parameter.dim() > 1 else 1.0)
    return model.eval()
