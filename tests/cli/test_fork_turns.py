"""A fork goes back beyond its beginning, and is called what the thread is called it was made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from treadle.app.threads.inherited_turns import find_past_turns
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places


@pytest.fixture
def store(environment: dict[str, str]) -> LocalStore:
    return LocalStore(Places.find(environment))


def begin(treadle: Run, script: Callable[[str], str]) -> str:
    """A thread of two turns, with a title of its own."""
    model = script('[[replies]]\ntext = "Yes."\n')
    treadle("-p", "first", "-m", model)
    treadle("-c", "-p", "second")
    (line,) = json.loads(treadle("list", "--json").stdout)
    thread = str(line["id"])
    treadle("rename", thread, "my own title")
    return thread


def in_view(treadle: Run, thread: str) -> list[str]:
    """What the model is shown next: the prompts in the request that a turn makes."""
    fold = json.loads(treadle("show", thread, "--json").stdout)
    hidden = {
        at for start, end in fold["conversation"].get("hidden", []) for at in range(start, end)
    }
    messages = enumerate(fold["conversation"]["messages"])
    return [one["content"] for at, one in messages if one["role"] == "user" and at not in hidden]


def test_a_fork_has_the_title_that_its_base_was_given(
    treadle: Run, script: Callable[[str], str]
) -> None:
    thread = begin(treadle, script)
    fork = treadle("fork", thread).stdout.strip()
    titles = {line["id"]: line["title"] for line in json.loads(treadle("list", "--json").stdout)}
    assert titles == {thread: "my own title", fork: "my own title"}
    treadle("rename", fork, "another")
    assert json.loads(treadle("show", thread, "--json").stdout)["metadata"]["title"] == (
        "my own title"
    )


def test_one_goes_back_to_before_the_fork_and_comes_back(
    treadle: Run, script: Callable[[str], str], store: LocalStore
) -> None:
    thread = begin(treadle, script)
    fork = treadle("fork", thread).stdout.strip()
    treadle("-r", fork, "-p", "third")
    again = treadle("fork", fork).stdout.strip()
    treadle("-r", again, "-p", "fourth")
    past = find_past_turns(store, again)
    assert [(one.thread, one.turn.prompt) for one in past] == [
        (thread, "first"), (thread, "second"), (fork, "third"), (again, "fourth"),
    ]  # fmt: skip
    second = past[1].turn.version
    done = treadle("rewind", again, "--version", str(second - 1), "--of", thread[-8:])
    assert done.returncode == 0, done.stderr
    assert in_view(treadle, again) == ["first"]
    assert [one.turn.prompt for one in find_past_turns(store, again)] == ["first"]
    back = done.stderr.split("--version ")[1].split()[0]
    assert treadle("rewind", again, "--version", back).returncode == 0
    assert in_view(treadle, again) == ["first", "second", "third", "fourth"]
    third = past[2].turn.version
    assert treadle("rewind", again, "--version", str(third - 1), "--of", fork).returncode == 0
    assert in_view(treadle, again) == ["first", "second"]
    treadle("-r", again, "-p", "other")
    assert in_view(treadle, again) == ["first", "second", "other"]
    assert treadle("verify", again).returncode == treadle("replay", again).returncode == 0
    # What it was forked from is as it was.
    assert in_view(treadle, thread) == ["first", "second"]


def test_what_is_no_place_of_a_base_is_refused(
    treadle: Run, script: Callable[[str], str], tmp_path: Path
) -> None:
    thread = begin(treadle, script)
    fork = treadle("fork", thread).stdout.strip()
    head = json.loads(treadle("show", thread, "--json").stdout)["version"]
    for arguments, why in (
        (("--version", "1", "--of", "0000"), "does not go on from"),
        (("--version", str(head + 5), "--of", thread), "there is no place"),
        (("--turn", "1", "--of", thread), "which version"),
        (("--version", "3", "--of", thread, "--files"), "not to what it was forked from"),
    ):
        done = treadle("rewind", fork, *arguments)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
