"""Fixtures for all tests. No test may reach the network."""

import os
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
settings.register_profile(
    "longdoc",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("longdoc")

SHARED = Path(__file__).parent.parent.parent / "shared"


@pytest.fixture(scope="session", autouse=True)
def user_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep encoded documents out of the user's cache."""
    os.environ["LONGDOC_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Give the path of a file or folder of the real data beside the checkout, or skip."""

    def find(path: str) -> Path:
        found = SHARED / path
        if not found.exists():
            pytest.skip(f"needs {path} of the shared data, which is not here")
        return found

    return find


def pytest_configure(config: pytest.Config) -> None:
    """Let pass what Lightning does to torch, and its advice to use more processes than these tests need."""
    for message in (r".*isinstance.treespec, LeafSpec.+ is deprecated", r"The '\w+' does not have many workers"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}")
