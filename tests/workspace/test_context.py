"""What is recorded of where the agent works helps to do it again, and tells nothing else."""

from __future__ import annotations

from pathlib import Path

from treadle.core.config import AgentConfig
from treadle.workspace.context import ENVIRONMENT_NAMES, VALUE_LENGTH_MAX, describe_context


def test_of_the_environment_only_what_is_listed_is_recorded(tmp_path: Path) -> None:
    environment = {"LANG": "C", "AWS_SECRET_ACCESS_KEY": "hush", "HOME": "/root", "TZ": ""}
    seen = describe_context(str(tmp_path), str(tmp_path), AgentConfig(), "ask", environment)
    assert seen.environment == {"LANG": "C"}
    everything = dict.fromkeys(ENVIRONMENT_NAMES, "x" * (VALUE_LENGTH_MAX + 1))
    seen = describe_context(str(tmp_path), str(tmp_path), AgentConfig(), "ask", everything)
    assert {len(value) for value in seen.environment.values()} == {VALUE_LENGTH_MAX}


def test_what_colleagues_read_does_not_tell_what_a_person_has_installed_and_where(
    tmp_path: Path,
) -> None:
    environment = {
        "HOME": "/home/ada/",
        "PATH": "/home/ada/bin:/opt/acme/bin:/usr/bin",
        "SHELL": "/bin/fish",
        "VIRTUAL_ENV": "/home/ada/loom/.venv",
        "PYTHONPATH": "/home/ada:/home/adam/x:/srv/home/ada",
    }
    seen = describe_context(str(tmp_path), str(tmp_path), AgentConfig(), "ask", environment)
    assert seen.environment == {
        "VIRTUAL_ENV": "~/loom/.venv",
        "PYTHONPATH": "~:/home/adam/x:/srv/home/ada",
    }


def test_the_project_is_named_after_the_repository_or_else_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "loom" / "src"
    inner.mkdir(parents=True)

    def name(folder: Path) -> str:
        return describe_context(str(folder), "/", AgentConfig(), "ask", {}).project_name

    assert name(inner) == "src"
    (tmp_path / "loom" / ".git").mkdir()
    assert name(inner) == "loom"


def test_workers_and_what_bounds_them_are_told(tmp_path: Path) -> None:
    config = AgentConfig(parallel_max=3, max_steps=7, max_retries=2)
    seen = describe_context(str(tmp_path), "/started/here", config, "auto-edit", {})
    assert (seen.workers, seen.directory) == (3, "/started/here")
    assert seen.worker_configuration["approval_mode"] == "auto-edit"
    assert seen.worker_configuration["max_steps"] == 7
