"""A configuration builds what it may, and nothing else."""

from collections.abc import Callable

import pytest

from longdoc.app.targets import check_targets
from longdoc.errors import ConfigError


@pytest.mark.parametrize(
    "target",
    [
        "shutil.copy",
        "os.system",
        "torch.load",
        "torch.hub.load",
        "joblib.load",
        "pandas.read_pickle",
        "builtins.eval",
        "subprocess.Popen",
        "longdocs.anything",
        "lightning.fabric.utilities.seed.os.system",
        "longdoc.app.cli.sys.exit",
        "torch.optim.optimizer.torch.load",
        "longdoc.app.nothing.Here",
        7,
    ],
)
def test_refused(target: object) -> None:
    with pytest.raises(ConfigError, match=r"callbacks\.list\[0\]\.x\._target_="):
        check_targets({"callbacks": {"list": [{"x": {"_target_": target}}]}})


def test_the_environment_may_allow_more(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"a": {"_target_": "fractions.Fraction"}}
    with pytest.raises(ConfigError, match="set LONGDOC_ALLOWED_TARGETS"):
        check_targets(config)
    monkeypatch.setenv("LONGDOC_ALLOWED_TARGETS", "mine., fractions.")
    check_targets(config)


def test_what_we_ship_is_allowed(composed: Callable[..., dict]) -> None:
    check_targets(composed("recipe=legal_ner"))
