"""The arrows of the layers, and what an import costs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "longdoc"
# What a package may import of ours, beside itself and longdoc.errors; and of others, beside the standard library.
OURS = {
    "text": set(),
    "attention": set(),
    "models": {"text", "attention"},
    "training": {"text", "attention", "models"},
    "callbacks": {"text", "attention", "models"},
    "app": {"text", "attention", "models", "training", "callbacks"},
}
OPTIONAL = {"flash_attn", "matplotlib"}
_LEVEL_0 = {"numpy", "sklearn", "sentencex", "tokenizers"}
_LEVEL_2 = _LEVEL_0 | {"torch", "transformers"}
_LEVEL_3 = _LEVEL_2 | {"lightning", "torchmetrics", "datasets", "pyarrow", "seqeval"}
OTHERS = {
    "text": _LEVEL_0,
    "attention": {"torch", "flash_attn"},
    "models": _LEVEL_2,
    "training": _LEVEL_3,
    "callbacks": {"torch", "numpy", "lightning", "transformers", "matplotlib"},
    "app": _LEVEL_3 | {"hydra", "omegaconf", "rich", "yaml", "matplotlib"},
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_only_what_its_level_allows(path: Path) -> None:
    level = path.relative_to(PACKAGE).parts[0]
    for name in imports(path):
        top, *rest = name.split(".")
        if top != "longdoc":
            assert top in sys.stdlib_module_names or top in OTHERS[level], f"{level} may not import {name}"
        elif rest and rest[0] != "errors":
            assert rest[0] == level or rest[0] in OURS[level], f"{level} may not import {name}"


def test_every_package_has_a_level() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in files()} == set(OURS)


def test_imports_stand_at_the_top() -> None:
    for path in files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = [
            node
            for function in ast.walk(tree)
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            for node in ast.walk(function)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and ast.unparse(node).split()[1].split(".")[0] not in OPTIONAL
        ]
        assert not inside, f"{path}:{inside[0].lineno}: import inside a function or class"


@pytest.mark.parametrize("module", ["longdoc", "longdoc.errors", "longdoc.app.cli", "longdoc.app.hydra_app"])
def test_import_is_cheap(module: str) -> None:
    script = (
        f"import sys, {module}; print(sorted({{'torch', 'transformers', 'lightning', 'datasets'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_every_exported_name_loads() -> None:
    import longdoc

    for name in longdoc.__all__:
        assert getattr(longdoc, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = longdoc.nothing
