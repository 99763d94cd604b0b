"""`show`: a thread as it stands, as it stood, and what happened between its messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path
from treadle.app.threads.times import local_time, parse_moment_end

Script = Callable[[str], str]

EDITS = """
[[replies]]
calls = [{ tool = "write_file", arguments = { path = "new.py", content = "x = 1\\n" } }]

[[replies]]
text = "Written."

[[replies]]
text = "Second."
"""


@pytest.fixture
def thread(treadle: Run, script: Script, once: Once[str]) -> str:
    """A thread of two turns, the first of which makes a commit."""

    def make() -> str:
        model = script(EDITS)
        treadle("-p", "write it", "-m", model, "--approval-mode", "auto")
        treadle("-c", "-p", "and now?")
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


def shown(treadle: Run, *arguments: str) -> dict[str, Any]:
    done = treadle("show", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def prompts(document: dict[str, Any]) -> list[str]:
    return [m["content"] for m in document["conversation"]["messages"] if m["role"] == "user"]


def test_the_commits_of_a_thread_are_listed_with_their_subjects(treadle: Run, thread: str) -> None:
    told = treadle("show", thread).stdout
    (line,) = [line for line in told.splitlines() if line.startswith("commit ")]
    assert "version" in line
    assert "committed" in told


def test_a_thread_is_shown_as_it_stood_at_the_end_of_a_turn(treadle: Run, thread: str) -> None:
    assert prompts(shown(treadle, thread, "--turn", "1")) == ["write it"]
    assert prompts(shown(treadle, thread, "--turn", "0")) == []
    assert prompts(shown(treadle, thread, "--turn", "2")) == ["write it", "and now?"]
    done = treadle("show", thread, "--turn", "3")
    assert (done.returncode, "turns 0 to 2" in done.stderr) == (2, True)


def test_a_thread_is_shown_as_it_stood_at_a_time(treadle: Run, thread: str, tmp_path: Path) -> None:
    journal = tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl"
    records = [json.loads(line) for line in journal.read_bytes().splitlines()]
    for record in records:
        last = max(one["seq"] for one in records if one["at"] <= record["at"])
        assert shown(treadle, thread, "--at", record["at"])["version"] == last
    done = treadle("show", thread, "--at", "2001-01-01")
    assert (done.returncode, "began later" in done.stderr) == (2, True)


def test_a_thread_is_shown_as_it_stood_at_a_commit(treadle: Run, thread: str) -> None:
    first, second = shown(treadle, thread)["git_commits"]
    then = shown(treadle, thread, "--at-commit", first[:8])
    assert then["git_current_commit_sha"] == first
    assert prompts(then) == ["write it"]
    assert (
        shown(treadle, thread, "--at-commit", second)["version"]
        == shown(treadle, thread)["version"]
    )
    done = treadle("show", thread, "--at-commit", "ffffffff")
    assert (done.returncode, "has not seen" in done.stderr) == (2, True)


def test_two_moments_at_once_are_refused(treadle: Run, thread: str) -> None:
    assert treadle("show", thread, "--turn", "1", "--version", "2").returncode == 2


def test_the_output_of_a_call_is_printed_whole(treadle: Run, thread: str) -> None:
    messages = shown(treadle, thread)["conversation"]["messages"]
    call, *_ = [call["id"] for m in messages for call in m.get("tool_calls", ())]
    done = treadle("show", thread, "--output", call)
    assert done.stdout == next(m["content"] for m in messages if m["role"] == "tool")
    assert treadle("show", thread, "--output", "nobody").returncode == 2


def test_a_fork_is_shown_with_what_it_has_from_its_base(treadle: Run, thread: str) -> None:
    fork = treadle("fork", thread, "--turn", "1").stdout.strip()
    treadle("-r", fork, "-p", "another way")
    told = treadle("show", fork).stdout
    assert f"fork of  {thread}" in told
    order = ("write it", "committed", "Written.", "here the fork begins", "another way")
    assert sorted(order, key=told.index) == list(order)
    assert "and now?" not in told
    assert prompts(shown(treadle, thread)) == ["write it", "and now?"]


def test_where_the_agent_works_is_in_the_document(treadle: Run, thread: str) -> None:
    document = shown(treadle, thread)
    assert document["project_name"] == "repository"
    assert document["worker_count"] == 8
    assert document["worker_configuration"]["approval_mode"] == "auto"
    assert "HOME" not in document["environment"]
    assert document["environment"]["LC_ALL"] == "C.UTF-8"


def test_a_fork_names_its_base_for_programs(treadle: Run, thread: str) -> None:
    told = json.loads(treadle("fork", thread, "--version", "3", "--json").stdout)
    assert told["base"]["thread"] == thread
    assert told["base"]["version"] == 3
    assert shown(treadle, told["thread"])["forked_from"] == told["base"]


@pytest.mark.parametrize(
    "arguments", [("--version", "99"), ("--turn", "9"), ("--version", "3", "--turn", "1")]
)
def test_a_place_that_is_not_there_cannot_be_forked(
    treadle: Run, thread: str, arguments: tuple[str, ...]
) -> None:
    before = treadle("list", "--json").stdout
    assert treadle("fork", thread, *arguments).returncode == 2
    assert treadle("list", "--json").stdout == before


def test_a_turn_can_be_had_in_a_fork_in_one_step(treadle: Run, thread: str) -> None:
    before = shown(treadle, thread)
    done = treadle("-r", thread, "--fork", "-p", "beside it")
    assert done.returncode == 0, done.stderr
    assert shown(treadle, thread) == before
    newest = json.loads(treadle("list", "--json").stdout)[0]
    assert (newest["forked_from"], newest["title"]) == (thread, "write it")
    assert prompts(shown(treadle, newest["id"])) == ["write it", "and now?", "beside it"]
    for arguments in (("--fork", "-p", "x"), ("--fork",)):
        assert treadle(*arguments).returncode == 2


def test_each_turn_begins_with_the_numbers_that_other_commands_take(
    treadle: Run, thread: str
) -> None:
    heads = [line for line in treadle("show", thread).stdout.splitlines() if "── turn" in line]
    assert len(heads) == 2
    for number, line in enumerate(heads, 1):
        found = re.match(r"── turn (\d+), version (\d+), (.*)", line)
        assert found is not None
        assert int(found[1]) == number
        then = shown(treadle, thread, "--version", found[2])
        assert len(prompts(then)) == number
        before = shown(treadle, thread, "--version", str(int(found[2]) - 1))
        assert len(prompts(before)) == number - 1
        assert found[3] == local_time(then["updated_at"])


def test_of_a_fork_only_its_own_turns_have_numbers(treadle: Run, thread: str) -> None:
    fork = treadle("fork", thread, "--turn", "1").stdout.strip()
    assert "here the fork begins" in treadle("show", fork).stdout
    assert "── turn" not in treadle("show", fork).stdout
    treadle("-r", fork, "-p", "another way")
    told = treadle("show", fork).stdout
    assert told.count("── turn") == 1
    assert told.index("here the fork begins") < told.index("── turn 1, ")
    assert told.index("── turn 1, ") < told.index("another way", told.index("── turn"))
    assert treadle("rewind", fork, "--turn", "0").returncode == 0


def test_a_call_whose_whole_output_is_kept_says_what_prints_it(
    treadle: Run, script: Script
) -> None:
    call = 'calls = [{ tool = "bash", arguments = { command = "seq 1 20000" } }]'
    model = script(f'[[replies]]\nwhen.step = 0\n{call}\n[[replies]]\ntext = "Counted."\n')
    live = treadle("-p", "count", "-m", model, "--approval-mode", "auto").stderr
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    fork = treadle("fork", thread).stdout.strip()
    assert re.search(r"… \d+ more lines", live) is None
    for one in (thread, fork):
        told = treadle("show", one).stdout
        assert re.search(r"… \d+ more lines", told) is None
        found = re.search(r"\(whole output: treadle (show .*)\)", told)
        assert found is not None
        assert treadle(*found[1].split()).stdout.count("\n") == 20000


def test_a_minute_or_a_day_means_its_end(treadle: Run, thread: str) -> None:
    now = shown(treadle, thread)
    minute = local_time(now["updated_at"])
    assert minute in treadle("show", thread).stdout
    for text in (minute, minute.replace(" ", "T"), minute[:10], "today"):
        assert shown(treadle, thread, "--at", text)["version"] == now["version"]


@for_every_row(
    "text, end",
    [
        ("2026-11-20T15:30Z", "2026-11-20T15:30:59.999999Z"),
        ("2026-11-20 15:30:10Z", "2026-11-20T15:30:10.999999Z"),
        ("2026-11-20T15:30:10.5Z", "2026-11-20T15:30:10.500000Z"),
        ("12h", "2026-11-21T00:34:56.000000Z"),
    ],
)
def test_the_end_of_a_moment_is_that_of_its_last_unit(text: str, end: str) -> None:
    assert parse_moment_end(text, "2026-11-21T12:34:56.000000Z") == end
