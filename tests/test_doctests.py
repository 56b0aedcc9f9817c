"""The examples of docstrings give what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WITH_EXAMPLES = [path for path in sorted((ROOT / "longdoc").rglob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    found = doctest.testmod(import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    assert found.attempted
    assert not found.failed
