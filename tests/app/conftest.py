"""A tiny corpus on disk, small settings, and one finished run that several tests look at."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from longdoc.app.recipes import config_folder, register_recipes
from longdoc.app.train import train

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")
PLACES = ("Oslo", "Rome", "Paris", "Lima", "Cairo")
SMALL = (
    "model.scratch.width=16",
    "model.scratch.num_layers=1",
    "model.scratch.num_heads=2",
    "model.scratch.vocab_size=120",
    "windows.size_tokens=32",
    "windows.overlap_tokens=8",
    "data.max_tokens_per_batch=128",
    "trainer.max_epochs=12",
    "trainer.accelerator=cpu",
    "optim.lr=0.01",
)


def judgment(rng: random.Random, number: int) -> dict:
    text, entities = "", []
    for i in range(rng.randint(6, 20)):
        for word, label in (
            (rng.choice(NAMES), "PERSON"),
            (" met the court in", None),
            (f" {rng.choice(PLACES)}", "PLACE"),
            (". ", None),
        ):
            start = len(text) + (len(word) - len(word.lstrip()))
            text += word
            if label is not None:
                entities.append({"start": start, "end": len(text), "label": label, "slice": "far" if i > 8 else None})
    return {"id": f"doc-{number}", "text": text, "entities": entities}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    for split, size in (("train", 10), ("dev", 3), ("test", 4)):
        rows = [json.dumps(judgment(rng, number)) for number in range(size)]
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def class_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents whose class is told by one sentence somewhere in them; a word of it stands in none of the other class."""
    folder = tmp_path_factory.mktemp("class_corpus")
    rng = random.Random(0)
    for split, size in (("train", 16), ("dev", 6), ("test", 8)):
        rows = []
        for number in range(size):
            label = ("appeal", "claim")[number % 2]
            sentences = [
                f"{rng.choice(NAMES)} met the court in {rng.choice(PLACES)}." for _ in range(rng.randint(4, 16))
            ]
            sentences.insert(rng.randrange(len(sentences)), f"The {label} was heard.")
            rows.append(json.dumps({"id": f"doc-{number}", "text": " ".join(sentences), "label": label}))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def composed() -> Callable[..., dict]:
    """Compose ``conf`` into plain containers."""

    def make(*overrides: str, output_dir: Path | str = "nowhere") -> dict:
        OmegaConf.register_new_resolver("longdoc_recipe", lambda name: name or "defaults", replace=True)
        register_recipes()
        with initialize_config_dir(str(config_folder("conf")), version_base="1.3"):
            config = compose("config", [*overrides, f"output_dir={output_dir}"])
        return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]

    return make


@pytest.fixture(scope="session")
def small_run(corpus: Path, composed: Callable[..., dict], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a finished run."""
    output = tmp_path_factory.mktemp("run")
    cache = tmp_path_factory.mktemp("cache")
    train(
        composed(f"data.path={corpus}", f"data.cache_dir={cache}", *SMALL, output_dir=output),
        {"recipe": None, "strategy": "chunk"},
    )
    return output
