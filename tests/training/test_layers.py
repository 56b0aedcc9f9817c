"""Which part of a model a parameter belongs to, for encoders of every family."""

import re

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from longdoc.errors import ConfigError
from longdoc.models.scratch import ScratchConfig, ScratchModel
from longdoc.training.layers import depth_parts, encoder_layers
from tests.models.tiny import PACKABLE, tiny_encoder

FAMILIES = (*PACKABLE, "Scratch", "MobileBert", "DebertaV2", "MPNet")


def encoder_of(family: str) -> PreTrainedModel:
    if family == "Scratch":
        torch.manual_seed(0)
        return ScratchModel(
            ScratchConfig(
                vocab_size=64, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32
            )
        )
    return tiny_encoder(family)


class Tagger(nn.Module):
    """An encoder deep inside, with an aggregator and a head around it."""

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.aggregator = nn.Linear(24, 24)
        self.holder = nn.ModuleDict({"model": encoder})
        self.head = nn.Linear(24, 3)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.holder["model"](input_ids=input_ids).last_hidden_state
        return self.head(self.aggregator(hidden))


def expected_part(name: str) -> str:
    """By the names that parameters of the tested families have."""
    layer = re.search(r"(?:\blayers?|albert_layer_groups)\.(\d+)\.", name)
    if layer is not None:
        return f"layer {layer[1]}"
    outside = ("aggregator.", "head.")
    after = ("pooler", "final_norm", "model.norm.")
    return "head" if name.startswith(outside) or any(word in name for word in after) else "embeddings"


@pytest.mark.parametrize("family", FAMILIES)
def test_each_parameter_has_its_part(family: str) -> None:
    model = Tagger(encoder_of(family))
    num_layers = 1 if family == "Albert" else 2
    parts = depth_parts(model)
    assert [name for name, _ in parts] == [
        "head",
        *(f"layer {i}" for i in reversed(range(num_layers))),
        "embeddings",
    ]
    found = {id(p): name for name, parameters in parts for p in parameters}
    named = dict(model.named_parameters())
    assert sum(len(parameters) for _, parameters in parts) == len(named)
    assert {name: found[id(p)] for name, p in named.items()} == {name: expected_part(name) for name in named}


def test_an_encoder_with_a_head_of_hugging_face() -> None:
    model = tiny_encoder("Roberta", "ForTokenClassification")
    parts = dict(depth_parts(model))
    assert {id(p) for p in parts["head"]} == {id(p) for p in model.classifier.parameters()}


def test_a_table_that_the_head_shares_stays_with_the_embeddings() -> None:
    model = tiny_encoder("Bert", "ForMaskedLM")
    parts = dict(depth_parts(model))
    assert any(p is model.get_output_embeddings().weight for p in parts["embeddings"])


def pair() -> nn.ModuleDict:
    return nn.ModuleDict({"student": tiny_encoder("Bert"), "teacher": tiny_encoder("Roberta")})


def test_two_encoders_are_refused_unless_one_is_named_or_frozen() -> None:
    both = pair()
    with pytest.raises(ConfigError, match="expected one Hugging Face encoder, got 'student', 'teacher'; name the one"):
        encoder_layers(both)
    assert encoder_layers(both, "teacher")[0] is both["teacher"]
    both["teacher"].requires_grad_(False)
    assert encoder_layers(both)[0] is both["student"]
    student = {id(p) for p in both["student"].encoder.parameters()}
    layers = [p for name, parameters in depth_parts(both) if name.startswith("layer") for p in parameters]
    assert {id(p) for p in layers} == student


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="Linear: expected one Hugging Face encoder, got none"):
        encoder_layers(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="encoder='studnt': ModuleDict has no such submodule"):
        encoder_layers(pair(), "studnt")
    odd = tiny_encoder("Bert")
    odd.encoder.layer = nn.Sequential(*odd.encoder.layer)
    with pytest.raises(ConfigError, match="BertModel: expected one list of layers, got none"):
        encoder_layers(odd)
