"""Commands in the background, in a session: recorded, told to the model once, ended with it."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.desk import Desk, Model
from treadle.core.config import AgentConfig
from treadle.errors import StoreError
from treadle.outputs import Notice
from treadle.runtime.session import Session
from treadle.sandbox import after_command
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Policy
from treadle.thread.typed_words import ENDS_HEAD
from treadle.tools import background
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

CONFIG = AgentConfig(model_name="model-1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a gate: `cat gate` waits until somebody writes into it."""
    monkeypatch.setattr(background, "START_S", 0.01)
    made = tmp_path / "ws"
    made.mkdir()
    for name in ("gate", "ready"):
        os.mkfifo(made / name)
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """With the loop of the system: programs are run here."""
    return Desk(tmp_path / "home")


def ask(tool: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"id": call_id, "tool": tool, "arguments": arguments}]}


def begin(command: str) -> dict[str, Any]:
    return ask("bash", "c1", command=command, access="write", background=True)


def opened(desk: Desk, folder: Path, *replies: Any, thread_id: str = "") -> tuple[Session, Model]:
    model, tools = Model(*replies), Registry(builtin_tools(), workspace=folder)
    if thread_id:
        return desk.reopen(thread_id, model, tools), model  # type: ignore[arg-type]
    return desk.new(model, tools, CONFIG), model  # type: ignore[arg-type]


def open_gate(folder: Path) -> None:
    (folder / "gate").write_text("open\n")


async def ended(desk: Desk, session: Session) -> None:
    """Return when all of them have, and it is recorded."""
    while session.driver.background.running:
        await asyncio.wait([one.work for one in session.driver.background.running])
        await asyncio.sleep(0)
    assert desk.kinds(session.thread_id)[-1] == "background_ended"


def results(session: Session) -> list[str]:
    return [one.content for one in session.conversation if one.role == "tool"]


async def test_the_model_is_told_of_an_end_by_the_next_result_and_only_once(
    desk: Desk, folder: Path
) -> None:
    session, model = opened(
        desk,
        folder,
        begin("cat gate; exit 4"),
        ask("bash", "c2", command="echo open > gate", access="write"),
        ask("background_command", "c3", call="c1", timeout_s=60),
        ask("bash", "c4", command="true"),
        "done",
    )
    await session.turn("go")
    told = "[the command in the background c1 ended with exit code 4: cat gate; exit 4]"
    assert sum(told in one for one in results(session)) == 1
    assert results(session)[-1] == "[exit code 0]"
    assert f"{told}\nopen\n[exit code 4]" in "".join(results(session)[1:3])
    assert ENDS_HEAD not in model.requests[-1].messages[0].content
    desk.check(session)
    await session.close()


async def test_an_end_that_a_result_has_told_is_not_told_by_the_next_process(
    desk: Desk, folder: Path
) -> None:
    session, _ = opened(
        desk, folder, begin("cat gate"), ask("background_command", "c2", stop=True), "done"
    )
    await session.turn("go")
    assert "c1 was stopped" in results(session)[-1]
    assert session.driver.journal.fold.undelivered.ends == ()
    await session.close()
    again, _ = opened(desk, folder, "yes", thread_id=session.thread_id)
    await again.turn("well?")
    assert again.conversation[-2].content == "well?"
    desk.check(again)
    await again.close()


async def test_what_ends_between_turns_is_told_with_the_next_prompt(
    desk: Desk, folder: Path
) -> None:
    session, model = opened(desk, folder, begin("cat gate") | {"when": {"user": "^go"}}, "it runs")
    await session.turn("go")
    await asyncio.to_thread(open_gate, folder)
    await ended(desk, session)
    assert len(model.requests) == 2  # nobody is woken by it
    assert "c1 ended with exit code 0: cat gate" in desk.heard.of(Notice)[-1].text
    await session.turn("well?")
    told = "[the command in the background c1 ended with exit code 0: cat gate]"
    said = session.conversation[-2].content
    assert said == f"well?{ENDS_HEAD}\n{told}\nopen\n[exit code 0]"
    await session.turn("again?")
    assert session.conversation[-2].content == "again?"
    desk.check(session)
    await session.close()


async def test_its_output_is_read_while_it_runs_and_whole_when_it_has_ended(
    desk: Desk, folder: Path
) -> None:
    session, _ = opened(
        desk,
        folder,
        begin("seq 900; echo > ready; cat gate; seq 901 3000"),
        ask("bash", "c1b", command="cat ready"),
        ask("read_file", "c2", path="output:c1", start_line=899),
        ask("search_files", "c3", path="output:c1", pattern="^450$"),
        ask("bash", "c4", command="echo open > gate", access="write"),
        ask("background_command", "c5", timeout_s=60),
        ask("read_file", "c6", path="output:c1", start_line=2999),
        "done",
    )
    await session.turn("go")
    read, searched, _, _, whole = results(session)[2:]
    assert "899\n" in read
    assert "901" not in read
    assert "450" in searched
    assert "3000" in whole
    assert "[exit code 0]" in whole
    end = next(one for one in desk.events(session.thread_id) if one["type"] == "background_ended")
    assert end["blob"]["size"] > len(end["output"])
    assert 'read_file("output:c1")' in end["output"]
    desk.check(session)
    await session.close()


async def test_it_ends_with_its_session_which_is_recorded_and_told_later(
    desk: Desk, folder: Path
) -> None:
    session, _ = opened(desk, folder, begin("echo on; cat gate"), "it runs")
    await session.turn("go")
    [one] = session.driver.background.running
    await session.close()
    assert one.work.done()
    assert desk.events(session.thread_id)[-1]["how"] == "session"
    again, _ = opened(desk, folder, "I see", thread_id=session.thread_id)
    await again.turn("well?")
    assert "c1 was stopped when the session ended" in again.conversation[-2].content
    desk.check(again)
    await again.close()


@pytest.mark.parametrize("resumes", [False, True])
async def test_after_a_crash_nobody_knows_how_it_ended_and_it_is_not_run_again(
    desk: Desk, folder: Path, *, resumes: bool
) -> None:
    def die(_: object) -> None:
        if len(model.requests) == 2:
            desk.disk.kill()

    session, model = opened(desk, folder, begin("cat gate"), "it runs")
    thread_id = session.thread_id
    model._on_request = die if resumes else lambda _: None
    if resumes:
        with pytest.raises(StoreError):
            await session.turn("go")
    else:
        await session.turn("go")
    left = session.driver.background.running
    desk.crash()
    await session.driver.background.commands.stop(left)  # as its pipe breaks
    replies = "unused", ask("bash", "c3", command="true"), "I see"
    again, _ = opened(desk, folder, *(replies if resumes else ["I see"]), thread_id=thread_id)
    await (again.resume() if resumes else again.turn("well?"))
    unknown = "c1 was running when its session died: whether and how it ended is not known"
    told = [one.content for one in again.conversation if unknown in one.content]
    assert len(told) == 1
    assert again.driver.background.running == ()
    desk.check(again)
    await again.close()


async def test_an_end_that_the_disk_does_not_take_is_told_to_the_person(
    desk: Desk, folder: Path
) -> None:
    def refuse(operation: str, path: str, handle: int) -> None:
        if operation == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    session, _ = opened(desk, folder, begin("cat gate"), "it runs")
    await session.turn("go")
    desk.disk.before = refuse
    open_gate(folder)
    await asyncio.wait([one.work for one in session.driver.background.running])
    await asyncio.sleep(0)
    told = [one.text for one in desk.heard.of(Notice)]
    assert told[-1].startswith(
        "[the command in the background c1 ended with exit code 0: cat gate]"
    )
    assert "that is not recorded: cannot write" in told[-1]
    desk.disk.before = lambda operation, path, handle: None
    await session.close()


async def test_secrets_in_what_it_prints_are_replaced(desk: Desk, folder: Path) -> None:
    class Redactor:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    model = Model(begin("cat gate; seq 2000; echo hun''ter2; seq 2000"), "it runs")
    tools = Registry(builtin_tools(), workspace=folder)
    session = desk.new(model, tools, CONFIG, redactor=Redactor())  # type: ignore[arg-type]
    await session.turn("go")
    await asyncio.to_thread(open_gate, folder)
    await ended(desk, session)
    kept = session.driver.journal.writer.read_output("c1")
    assert kept is not None
    assert b"hunter2" not in kept
    assert b"[REDACTED:password]" in kept
    await session.close()


async def test_no_look_at_a_running_one_cuts_through_a_secret(desk: Desk, folder: Path) -> None:
    """Neither the end of its output that a look shows, nor a page of it."""
    threads: list[threading.Thread] = []

    class Redactor:
        def redact(self, text: str) -> str:
            if "BEGIN\nhunter2" in text:
                threads.append(threading.current_thread())
            return text.replace("BEGIN\nhunter2\nEND", "[REDACTED:key]")

    model = Model(
        begin(f"printf 'BEGIN\\nhunter2\\nEND\\n{'x' * 1990}'; echo on > ready; cat gate"),
        ask("bash", "c2", command="cat ready"),
        ask("background_command", "c3"),
        ask("read_file", "c4", path="output:c1", start_line=2),
        ask("search_files", "c5", path="output:c1", pattern="hunter"),
        "it runs",
    )
    tools = Registry(builtin_tools(), workspace=folder)
    session = desk.new(model, tools, CONFIG, redactor=Redactor())  # type: ignore[arg-type]
    await session.turn("go")
    assert "xxx" in results(session)[2]
    told = [one.removeprefix("[c1 runs").replace("'BEGIN", "") for one in results(session)]
    assert not any("\nhunter2" in one or "2: hunter2" in one for one in told), told
    # It takes seconds for megabytes, in which nobody else waits. (What c1 itself shows is short.)
    assert len([one for one in threads if one is not threading.main_thread()]) == 3
    await session.close()


async def test_the_person_and_the_model_are_told_what_was_put_aside_however_it_ends(
    desk: Desk, folder: Path
) -> None:
    """It may be the person's own, who has worked in the folder all the while."""
    missed = []
    for how in ("exit", "stopped", "session"):
        sandbox = Sandbox(Policy(Level.WORKSPACE_WRITE), folder)
        tools = Registry(builtin_tools(), workspace=folder, sandbox=sandbox)
        model = Model(begin("echo on > ready; cat gate"), "it runs")
        session = desk.new(model, tools, CONFIG)  # type: ignore[arg-type]
        await session.turn("go")
        await asyncio.to_thread((folder / "ready").read_text)
        make_repository(folder / how)
        if how == "exit":
            await asyncio.to_thread(open_gate, folder)
            await ended(desk, session)
        elif how == "stopped":
            await session.driver.background.stop(["c1"])
        await session.close()
        end = next(e for e in desk.events(session.thread_id) if e["type"] == "background_ended")
        assert end.get("how", "exit") == how
        aside = f"{folder / how / '.git'} ("
        if aside not in end["output"]:
            missed.append(f"{how}: the model")
        if not any(aside in one.text for one in desk.heard.of(Notice)):
            missed.append(f"{how}: the person")
    assert missed == []


async def test_what_one_has_made_for_git_to_run_does_not_stand_until_its_own_end(
    desk: Desk, folder: Path
) -> None:
    """Each command that ends finds what an older one has made before the newer began."""
    make = "git init -q planted && git -C planted config core.fsmonitor /tmp/x"
    sandbox = Sandbox(Policy(Level.WORKSPACE_WRITE), folder)
    tools = Registry(builtin_tools(), workspace=folder, sandbox=sandbox)
    model = Model(
        begin(f"{make}; git init -q plain; echo on > ready; cat gate"),
        ask("bash", "c2", command="cat ready"),
        ask("bash", "c3", command="git init -q second", access="write"),
        "it runs",
    )
    make_repository(folder / "mine")  # before all of them
    session = desk.new(model, tools, CONFIG)  # type: ignore[arg-type]
    await session.turn("go")
    left = list_repositories(folder)
    assert left == ["mine", "plain", "second"], results(session)
    assert any("planted/.git (" in one for one in results(session))
    await session.close()
    assert list_repositories(folder) == left
    assert after_command._under_way == {}


def list_repositories(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/.git"))


def make_repository(folder: Path) -> None:
    """With a hook."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    hook = folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)


def limits() -> dict[str, tuple[dict[str, Any], float]]:
    return {
        "no limit named": ({"command": "true"}, 330.0),
        "a shorter one": ({"command": "true", "timeout_s": 10}, 330.0),
        "hours": ({"command": "true", "timeout_s": 7200}, 7230.0),
        "as others call it": ({"command": "true", "timeout": 600}, 630.0),
        "a text": ({"command": "true", "timeout_s": "900"}, 930.0),
        "nonsense": ({"command": "true", "timeout_s": [1]}, 330.0),
        "too much": ({"command": "true", "timeout_s": 1e12}, 86430.0),
    }


def test_a_call_may_run_as_long_as_it_says(folder: Path) -> None:
    import msgspec

    from treadle.core.messages import ToolCall
    from treadle.runtime.calls import find_call_limit

    config = AgentConfig(tools=Registry(builtin_tools(), workspace=folder).definitions())
    found: Callable[[str, object], float] = lambda tool, given: find_call_limit(  # noqa: E731
        config, ToolCall("c", tool, msgspec.json.encode(given).decode())
    )
    assert {name: found("bash", given) for name, (given, _) in limits().items()} == {
        name: wanted for name, (_, wanted) in limits().items()
    }
    assert found("read_file", {"path": "x", "timeout_s": 9000}) == 330.0
    config = AgentConfig(tools=Registry(builtin_tools("openai"), workspace=folder).definitions())
    assert found("shell_command", {"command": "x", "timeout_ms": 9_000_000}) == 9030.0
    assert found("shell_command", {"command": "x", "timeout_s": 9000}) == 9030.0
    assert found("shell_command", {"command": "x"}) == 330.0
    assert found("bash", ["no object"]) == 330.0
    assert found("no_such_tool", {"timeout_s": 9000}) == 330.0
