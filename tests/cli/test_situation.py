"""What an agent is told of where and how it works, by each command that begins or goes on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from treadle.thread.typed_words import SITUATION_HEAD

EARLY, LATE = "Etc/GMT+12", "Pacific/Kiritimati"
"""Places where it is never the same day."""


@pytest.fixture
def model(script: Callable[[str], str]) -> str:
    return script('[[replies]]\ntext = "So it is."\n')


def events_of(repository: Path, thread: str) -> list[dict[str, Any]]:
    journal = repository.parent / "home/data/threads" / f"{thread}.jsonl"
    return [json.loads(line)["event"] for line in journal.read_text().splitlines()]


def newest_thread(treadle: Run) -> str:
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


def test_a_thread_begins_with_the_facts_and_each_prompt_tells_those_that_have_changed(
    treadle: Run, model: str, repository: Path, environment: dict[str, str]
) -> None:
    (repository / "mine.txt").write_text("half a thought")
    assert treadle("-p", "one", "-m", model, TZ=EARLY).returncode == 0
    git = ["git", "checkout", "--quiet", "-b", "loom"]
    subprocess.run(git, cwd=repository, env=environment, check=True)
    auto = ("--approval-mode", "auto", "--network", "on", "--sandbox", "off", "--no-commit")
    for prompt in ("two", "three"):
        assert treadle("-c", "-p", prompt, "-m", model, *auto, TZ=LATE).returncode == 0
    thread = newest_thread(treadle)
    events = events_of(repository, thread)
    prompts = {one["config"]["system_prompt"] for one in events if one["type"] == "configured"}
    assert len(prompts) == 1, "the same in every request"
    (told,) = prompts
    for fact in (
        "- Mode: plan. ",
        "- Person: not there: at a call that needs a yes the work stops until somebody gives it.",
        "- Branch: main",
        "- Commits: Treadle commits what a round of calls has changed",
        "- Uncommitted, and not yours: mine.txt",
        f"- Folder: {repository}\n",
    ):
        assert fact in told, fact
    first, second, third = [
        one["message"]["content"] for one in events if one["type"] == "user_input"
    ]
    assert (first, third) == ("one", "three")
    words, _, news = second.partition(SITUATION_HEAD)
    lines = news.splitlines()[1:]
    assert words == "two"
    assert [line.partition(":")[0] for line in lines] == [
        "- Date",
        "- Mode",
        "- Person",
        "- Commands",
        "- Network",
        "- Branch",
        "- Commits",
    ]
    assert lines[1:6] == [
        "- Mode: auto. Files are changed and commands run unasked.",
        "- Person: not there: a call that needs a yes is refused, and the work goes on.",
        "- Commands: they run without a sandbox, as the person's own do.",
        "- Network: commands have it.",
        "- Branch: loom",
    ]
    assert f"{lines[0]}\n" not in told
    assert treadle("verify", thread).returncode == 0


def test_a_task_is_told_too_and_a_folder_without_a_repository_is_said_to_be_none(
    treadle: Run, model: str, tmp_path: Path, repository: Path
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    assert treadle("run", "do it", "-m", model, cwd=folder).returncode == 0
    (given,) = [
        one for one in events_of(repository, newest_thread(treadle)) if one["type"] == "task_given"
    ]
    assert "- Mode: ask. A person is asked" in given["system_prompt"]
    assert "Treadle makes none, as this folder is in no git repository." in given["system_prompt"]
    assert "Branch" not in given["system_prompt"]


def test_where_nothing_can_hold_commands_that_is_told() -> None:
    """Without a backend there is no sandbox."""
    from treadle.app.sessions.situation import SituationObserver
    from treadle.sandbox.box import Sandbox
    from treadle.sandbox.policy import Policy

    for may_ask, told in ((True, "unheld"), (False, "refused")):
        sandbox = Sandbox(Policy(may_ask=may_ask), Path.cwd(), backends=())
        observer = SituationObserver(str(Path.cwd()), sandbox, False, True)
        assert observer.observe_mode("auto").commands == told


def test_a_task_that_is_resumed_in_another_mode_hears_of_it(
    treadle: Run, script: Callable[[str], str], repository: Path
) -> None:
    """Nobody answers the request that leaves in plan mode; the one of the next process does."""
    model = script(
        '[[replies]]\nerror = { kind = "overloaded", message = "busy", retry_after_s = 9999 }\n'
        '[[replies]]\ntext = "So it is, and it is done."\n'
    )
    done = treadle("run", "do it", "-m", model, "--approval-mode", "plan")
    assert done.returncode != 0
    thread = newest_thread(treadle)
    assert "task_informed" not in {one["type"] for one in events_of(repository, thread)}
    done = treadle("resume", thread, "-m", model, "--approval-mode", "auto")
    assert done.returncode in (0, 75), done.stderr
    (told,) = [one for one in events_of(repository, thread) if one["type"] == "task_informed"]
    assert told["text"].splitlines()[0] == SITUATION_HEAD.strip()
    assert "- Mode: auto. Files are changed and commands run unasked." in told["text"]
    shown = treadle("show", thread)
    assert shown.stdout.count("[Since it was last told") == 1
    assert "note:\n[Since it was last told, this has changed]" in shown.stdout
    assert "- Mode: auto." in treadle("export", thread, "--format", "markdown").stdout
    assert treadle("verify", thread).returncode == 0
    assert treadle("replay", thread).returncode == 0
