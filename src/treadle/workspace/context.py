"""Where and how the agent works, as it is recorded: project, folder, workers, environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from treadle.core.config import AgentConfig
from treadle.thread.facts import ContextObserved

ENVIRONMENT_NAMES: Final = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "CI", "CC", "CXX", "MAKEFLAGS"),
    *("VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "PYTHONPATH", "PYTHONHASHSEED", "PYENV_VERSION"),
    *("NODE_ENV", "GOPATH", "GOFLAGS", "RUSTFLAGS", "JAVA_HOME"),
)
"""What of the environment decides how builds and tests behave. The rest may be anybody's secret,
and is not recorded; nor are options in which people put tokens (`NODE_OPTIONS`), nor `PATH` and
`SHELL`: colleagues read the record, and those tell what a person has installed and where."""

VALUE_LENGTH_MAX: Final = 4_096


def describe_context(
    folder: str,
    started_in: str,
    config: AgentConfig,
    approval_mode: str,
    environment: Mapping[str, str],
    *,
    began_in: str | None = None,
) -> ContextObserved:
    """The record of where and how the agent works; secrets in it are not replaced yet.

    Args:
        folder: the workspace.
        started_in: the folder where the program was started.
        config: what bounds its work.
        approval_mode: which calls are asked about, in the words of people.
        environment: all of it.
        began_in: the folder that the thread began in, if it has begun.
    """
    bounds: dict[str, Any] = {
        "approval_mode": approval_mode,
        "max_steps": config.max_steps,
        "max_retries": config.max_retries,
        "tool_timeout_s": config.tool_timeout_s,
        "context_tokens_max": config.context_tokens_max,
    }
    return ContextObserved(
        project_name=_project(Path(folder)),
        directory=started_in,
        workers=config.parallel_max,
        worker_configuration=bounds,
        environment={
            name: _without_home(environment[name], environment.get("HOME", ""))[:VALUE_LENGTH_MAX]
            for name in ENVIRONMENT_NAMES
            if environment.get(name)
        },
        workspace="" if began_in in (None, folder) else folder,
    )


def _without_home(value: str, home: str) -> str:
    """The value with `~` for the home folder, whose name is nobody's business."""
    home = home.rstrip("/")
    return re.sub(rf"(?<![^:=\s]){re.escape(home)}(?=/|:|$)", "~", value) if home else value


def _project(folder: Path) -> str:
    """The name of the repository's folder; outside of one, that of the workspace."""
    for place in (folder, *folder.parents):
        if os.path.exists(place / ".git"):  # noqa: PTH110  it never raises
            return place.name
    return folder.name
