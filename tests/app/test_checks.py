"""What `treadle doctor` looks at."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from treadle.app.upkeep.checks import LIBRARIES


def test_only_what_is_installed_with_the_command_is_missed() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    needed = {re.split(r"[<>=~\[ ]", one)[0] for one in project["project"]["dependencies"]}
    assert set(LIBRARIES) <= needed
