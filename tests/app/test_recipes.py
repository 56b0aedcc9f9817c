"""Where recipes are found and which of two wins."""

from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore

from longdoc.app.recipes import config_folder, recipe_files, register_recipes
from longdoc.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repo = ConfigStore.instance().repo
    monkeypatch.setattr(ConfigStore.instance(), "repo", {**repo, "recipe": dict(repo.get("recipe", {}))})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes" / "team").mkdir(parents=True)
    return tmp_path


def test_recipes_of_the_current_folder_join_and_win(project: Path) -> None:
    (project / "recipes" / "legal_ner.yaml").write_text("seed: 5\n")
    (project / "recipes" / "team" / "ours.yaml").write_text("seed: 6\n")
    assert recipe_files()["legal_ner"] == project / "recipes" / "legal_ner.yaml"
    assert register_recipes() == {}
    assert ConfigStore.instance().load("recipe/legal_ner.yaml").node == {"seed": 5}
    assert ConfigStore.instance().load("recipe/team/ours.yaml").node == {"seed": 6}


def test_numbers_in_a_recipe_are_numbers(project: Path) -> None:
    (project / "recipes" / "ours.yaml").write_text("optim:\n  lr: 2e-4\n")
    assert register_recipes() == {}
    assert ConfigStore.instance().load("recipe/ours.yaml").node.optim.lr == 2e-4


@pytest.mark.parametrize("content", ["a: [1\n", "- 1\n- 2\n", "a: ${b\n"])
def test_a_file_that_is_no_recipe_is_reported_by_path(project: Path, content: str) -> None:
    (project / "recipes" / "bad.yaml").write_text(content)
    broken = register_recipes()
    assert list(broken) == ["bad"]
    assert str(project / "recipes" / "bad.yaml") in broken["bad"]
    assert "\n" not in broken["bad"]


def test_a_missing_folder_is_an_error() -> None:
    with pytest.raises(ConfigError, match="nothing_here: expected this folder"):
        config_folder("nothing_here")
