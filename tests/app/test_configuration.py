"""Every YAML composes and builds, and shows the constructor's own arguments and defaults."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import get_object

from longdoc.app.build import build, complete, make
from longdoc.app.hydra_app import PLUGINS, installed
from longdoc.app.recipes import config_folder, recipe_files
from longdoc.app.targets import check_targets
from longdoc.errors import ConfigError, MissingExtra
from longdoc.models.scratch import scratch_encoder, train_tokenizer
from tests.app.conftest import SMALL

CONF = config_folder("conf")
CHOICES = sorted(
    path.relative_to(CONF).with_suffix("").as_posix() for path in CONF.rglob("*.yaml") if path.parent != CONF
)
NEEDS_A_DEVICE = {"trainer/gpu", "trainer/ddp", "trainer/fsdp"}
# Groups whose files set keys of others.
WITHOUT_KEY = {"strategy", "hparams_search", "launcher"}
# Choices that are put on top of the default one.
ADDED = {
    f"callbacks/{name}" for name in ("attention", "drift", "early_stopping", "ema", "errors", "maps", "unfreezing")
}
# Presets differ from the constructor's defaults on purpose; a learning rate of null follows the encoder.
PRESETS = {
    "data/legal_zh",
    "windows/truncate",
    "windows/stream",
    "attention/sliding",
    "attention/identity",
    "attention/uniform",
    "loss/focal",
    "distill/layers",
    "distill/relations",
    *(f"selection/{method}" for method in ("lead", "head_tail", "random", "tfidf", "textrank", "cnn")),
}
DECIDED_ELSEWHERE = {("OptimizerConfig", "lr"), ("PredictionWriter", "path")}


def override(choice: str) -> str:
    group, name = choice.split("/")
    plugin = PLUGINS.get(f"{group}={name}")
    if plugin is not None and not installed(plugin[0]):
        pytest.skip(f"needs {plugin[0]}")
    return f"{group}=[default,{name}]" if choice in ADDED else f"{group}={name}"


def nodes(value: Any) -> Iterator[dict]:
    if isinstance(value, dict):
        if "_target_" in value:
            yield value
        for inner in value.values():
            yield from nodes(inner)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_composes_and_builds(choice: str, composed: Callable[..., dict], tmp_path: Path) -> None:
    config = complete(composed(override(choice), output_dir=tmp_path))
    check_targets(config)
    parts = [
        config[part] for part in ("data", "model", "windows", "selection", "attention", "loss", "distill", "optim")
    ]
    parts += [*config["callbacks"].values(), *config["logger"].values()]
    for part in parts:
        try:
            make(part)
        except MissingExtra as error:
            pytest.skip(str(error))
    if choice not in NEEDS_A_DEVICE:
        make({**config["trainer"], "logger": False, "enable_checkpointing": False})


@pytest.mark.parametrize("choice", [c for c in CHOICES if c not in PRESETS])
def test_yaml_shows_the_arguments_and_defaults_of_our_constructors(choice: str, composed: Callable[..., dict]) -> None:
    group = choice.split("/")[0]
    for node in nodes(composed(override(choice))[group] if group not in WITHOUT_KEY else {}):
        if not node["_target_"].startswith("longdoc."):
            continue
        built = get_object(node["_target_"])
        parameters = inspect.signature(built).parameters
        assert set(parameters) == set(node) - {"_target_"}, node["_target_"]
        for argument, parameter in parameters.items():
            value = node[argument]
            if (built.__name__, argument) in DECIDED_ELSEWHERE or parameter.default is inspect.Parameter.empty:
                continue
            if argument == "scratch":
                both = inspect.signature(scratch_encoder).parameters | inspect.signature(train_tokenizer).parameters
                assert value == {name: both[name].default for name in value}
            elif isinstance(value, dict):
                assert all(inner is None for inner in value.values()) or "_target_" in value
            else:
                default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
                assert value == default, (built.__name__, argument)


@pytest.mark.parametrize("recipe", sorted(recipe_files()))
def test_every_recipe_composes_and_builds(
    recipe: str, corpus: Path, class_corpus: Path, small_run: Path, composed: Callable[..., dict], tmp_path: Path
) -> None:
    path = corpus if composed(f"recipe={recipe}", "data.path=x")["task"] == "ner" else class_corpus
    more = (f"teacher={small_run}", "distill.student_layers=1") if "distill" in recipe else ()
    wanted = (f"recipe={recipe}", f"data.path={path}", f"data.cache_dir={tmp_path}", *SMALL, *more)
    config = complete(composed(*wanted, output_dir=tmp_path))
    check_targets(config)
    parts = build(config)
    if config["task"] == "ner":
        assert parts.module.labels == ("PERSON", "PLACE")
        assert parts.module.test_scores.slices == ("rest", "far")
    else:
        assert parts.module.labels == ("appeal", "claim")
    assert parts.module.preprocessor is parts.datamodule.preprocessor


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("callbacks=ema", r"callbacks\.best: has no _target_"),
        ("callbacks=errors", r"expected callbacks\.best, which keeps the model to test"),
        ("test_size_tokens=0", "size_tokens=0"),
        ("test_size_tokens=8", "overlap_tokens=8"),
        ("model.trust_remote_code=no", "model.trust_remote_code='no': expected true or false"),
        ("model.freeze_embeddings=off", "model.freeze_embeddings='off'"),
        ("attention.alibi=no", "attention.alibi='no'"),
        ("data.count_overlap=no", "data.count_overlap='no'"),
        ("distill.cache=no", "distill.cache='no'"),
        ("model.scratch.scale_scores=no", "model.scratch.scale_scores='no'"),
        ("optim.warmup_steps=0.1", "optim.warmup_steps=0.1: expected an integer from 0"),
    ],
)
def test_what_would_fail_at_the_end_is_refused_at_the_start(
    wanted: str, told: str, corpus: Path, composed: Callable[..., dict], tmp_path: Path
) -> None:
    config = composed(f"data.path={corpus}", f"data.cache_dir={tmp_path}", *SMALL, wanted, output_dir=tmp_path)
    with pytest.raises(ConfigError, match=told):
        build(complete(config))


@pytest.mark.parametrize("recipe", ["lener_br", "hyperpartisan", "contract_clauses"])
def test_a_recipe_on_data_of_the_user_asks_for_it(recipe: str, composed: Callable[..., dict]) -> None:
    with pytest.raises(ConfigError, match=r"data\.path: expected a file or folder, got null"):
        make(composed(f"recipe={recipe}")["data"]).splits("ner")


def test_the_recipe_of_a_student_asks_for_its_teacher(composed: Callable[..., dict], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a teacher, got teacher=null"):
        build(complete(composed("recipe=legal_ner_distill", output_dir=tmp_path)))


def test_the_embedded_corpus_is_read_without_a_path(composed: Callable[..., dict]) -> None:
    sizes = ("data.corpus.num_train=2", "data.corpus.num_dev=1", "data.corpus.num_test=1")
    splits = make(composed("recipe=legal_ner", *sizes)["data"]).splits("ner")
    assert {name: len(documents) for name, documents in splits.items()} == {"train": 2, "dev": 1, "test": 1}
    assert len(make(composed(*sizes, "data.max_train_documents=1")["data"]).splits("ner")["train"]) == 1


def test_strategies_choose_the_techniques(composed: Callable[..., dict]) -> None:
    assert composed("recipe=legal_ner", "strategy=truncate")["windows"]["mode"] == "truncate"
    assert composed("recipe=legal_ner", "strategy=truncate", "windows=overlap")["windows"]["mode"] == "overlap"
    assert composed("recipe=legal_ner", "strategy=truncate")["selection"]["method"] == "none"
    assert composed("recipe=legal_ner", "strategy=select")["selection"]["method"] == "cnn"


def test_lightning_has_every_argument_of_the_trainer_files(composed: Callable[..., dict]) -> None:
    node = composed()["trainer"]
    parameters = inspect.signature(get_object(node["_target_"]).__init__).parameters
    assert set(node) - {"_target_"} <= set(parameters)
