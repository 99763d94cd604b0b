"""The person's hooks: what they are told, what they can stop, and what becomes of broken ones."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from treadle.app.sessions.hooks import Hooks
from treadle.app.sessions.tool_hooks import add_hooks
from treadle.config.settings import Hook, HookMoment
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass, ToolErrorKind, ToolExecutionOutcome
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry

CALL = ToolCall("c1", "append", '{"text":"x"}')


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


class Desk:
    """A folder with a tool that leaves a trace, and hooks around it."""

    def __init__(self, folder: Path, **hooks: Hook) -> None:
        self.file = folder / "file.txt"
        self.warnings: list[str] = []
        self.hooks = Hooks(hooks, str(folder))
        self.hooks.tell = self.warnings.append

        @tool(effect=EffectClass.MUTATE)
        def append(text: str) -> str:
            """Add a text to the file.

            Args:
                text: What is added.
            """
            with self.file.open("a") as file:
                file.write(text)
            return "added"

        self.tools = add_hooks(Registry([append]), self.hooks)

    def run(self) -> ToolExecutionOutcome.Success | ToolExecutionOutcome.Error:
        return asyncio.run(self.tools.execute(CALL, key="k", progress=lambda progress: None))


def hook(on: HookMoment, program: str, **rest: Any) -> Hook:
    return Hook(on, python(program), **{"timeout_s": 60.0, **rest})


def says_no(reason: str) -> str:
    return f"import sys; sys.stderr.write({reason!r}); sys.exit(2)"


def test_a_hook_that_says_no_keeps_the_call_from_running_and_the_model_reads_why(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, guard=hook("before_tool", says_no("not on a sunday")))
    outcome = desk.run()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.REJECTED
    assert "guard: not on a sunday" in outcome.error.message
    assert not desk.file.exists()


def test_a_hook_reads_the_call_as_an_object_and_the_workspace_is_its_folder(tmp_path: Path) -> None:
    program = (
        "import json, os, pathlib, sys\n"
        "told = json.load(sys.stdin)\n"
        "pathlib.Path('told.json').write_text(json.dumps([told, os.getcwd()]))\n"
    )
    desk = Desk(tmp_path, note=hook("before_tool", program))
    assert isinstance(desk.run(), ToolExecutionOutcome.Success)
    told, folder = json.loads((tmp_path / "told.json").read_text())
    assert folder == str(tmp_path)
    assert told == {
        "event": "before_tool",
        "folder": str(tmp_path),
        "call": {"id": "c1", "tool": "append", "arguments": {"text": "x"}},
    }


def test_what_a_hook_says_after_a_call_stands_behind_its_result(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lint=hook("after_tool", says_no("line 1 is too long")))
    outcome = desk.run()
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    assert outcome.output == "added\n[a hook of the user's says: lint: line 1 is too long]"
    assert desk.file.read_text() == "x"


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (Hook("before_tool", ("/no/such/program",)), "cannot be run: No such file"),
        (hook("before_tool", "import signal; signal.pause()", timeout_s=0.3), "was not done in"),
        (hook("before_tool", "import os; os.kill(os.getpid(), 9)"), "was ended by signal 9"),
    ],
    ids=["missing", "slow", "killed"],
)
def test_a_guard_that_fails_lets_nothing_pass(tmp_path: Path, broken: Hook, told: str) -> None:
    desk = Desk(tmp_path, guard=broken)
    outcome = desk.run()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert told in outcome.error.message
    assert not desk.file.exists()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (Hook("after_tool", ("/no/such/program",)), "cannot be run: No such file"),
        (hook("after_tool", "import signal; signal.pause()", timeout_s=0.3), "was not done in"),
        (hook("after_tool", "import os; os.kill(os.getpid(), 9)"), "was ended by signal 9"),
    ],
    ids=["missing", "slow", "killed"],
)
def test_a_hook_after_a_call_that_fails_is_a_warning_and_the_result_stays(
    tmp_path: Path, broken: Hook, told: str
) -> None:
    desk = Desk(tmp_path, lint=broken)
    outcome = desk.run()
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    assert outcome.output == "added"
    assert [told in one for one in desk.warnings] == [True]


def test_hooks_run_in_their_order_and_the_first_that_says_no_ends_it(tmp_path: Path) -> None:
    program = "open('order', 'a').write('{0} '); import sys; sys.exit('{0}' == 'second' and 2)"
    names = ("first", "second", "third")
    desk = Desk(tmp_path, **{one: hook("before_tool", program.format(one)) for one in names})
    outcome = desk.run()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert "the hook second said no" in outcome.error.message
    assert (tmp_path / "order").read_text().split() == ["first", "second"]


def test_the_home_folder_is_found_in_the_place_of_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "guard"
    program.write_text("#!/bin/sh\necho not you >&2\nexit 2\n")
    program.chmod(0o700)
    outcome = Desk(tmp_path, guard=Hook("before_tool", "~/guard now")).run()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert "guard: not you" in outcome.error.message


def test_another_exit_code_is_a_warning_to_the_person_and_stops_nothing(tmp_path: Path) -> None:
    program = "import sys; sys.exit('hmm')"
    desk = Desk(tmp_path, guard=hook("before_tool", program), lint=hook("after_tool", program))
    assert isinstance(desk.run(), ToolExecutionOutcome.Success)
    assert desk.warnings == [
        "the hook guard ended with exit code 1: hmm",
        "the hook lint ended with exit code 1: hmm",
    ]


def test_a_hook_is_asked_about_the_tools_it_names_only(tmp_path: Path) -> None:
    guard = hook("before_tool", says_no("never"), tools=("bash", "edit_*"))
    desk = Desk(tmp_path, guard=guard)
    assert isinstance(desk.run(), ToolExecutionOutcome.Success)
    desk = Desk(tmp_path, guard=hook("before_tool", says_no("never"), tools=("app*",)))
    assert isinstance(desk.run(), ToolExecutionOutcome.Error)


def test_a_hook_that_neither_reads_nor_stops_talking_is_held_to_its_bounds(tmp_path: Path) -> None:
    program = "import sys; sys.stdin.close(); sys.stderr.write('y' * 10**7); sys.exit(2)"
    desk = Desk(tmp_path, guard=hook("before_tool", program))
    outcome = desk.run()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert 8_000 < len(outcome.error.message) < 9_000


def has_ended(pid: int) -> bool:
    """Whether it is gone, or going: a kill takes its time where many want the processor."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([process], [], [], 60.0)
    os.close(process)
    return bool(ended)


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """Where a hook writes who it has started; there is nothing, or all of it."""
    return tmp_path / "child"


def test_a_hook_that_takes_too_long_is_ended_with_what_it_has_started(
    tmp_path: Path, child: Path
) -> None:
    script = "sleep 1000 & echo $! > part; mv part child; wait"
    for timeout_s in (1.0, 5.0, 25.0):  # longer, if it came to nothing in that time
        guard = Hook("before_tool", ("/bin/sh", "-c", script), timeout_s=timeout_s)
        outcome = Desk(tmp_path, guard=guard).run()
        assert isinstance(outcome, ToolExecutionOutcome.Error)
        assert f"was not done in {timeout_s:g} s" in outcome.error.message
        if child.exists():
            break
    assert has_ended(int(child.read_text()))


def test_what_a_hook_leaves_running_is_not_waited_for_and_ends_with_it(
    tmp_path: Path, child: Path
) -> None:
    program = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "sys.exit('done with it')\n"
    )
    desk = Desk(tmp_path, guard=hook("before_tool", program, timeout_s=60.0))
    assert isinstance(desk.run(), ToolExecutionOutcome.Success)
    assert desk.warnings == ["the hook guard ended with exit code 1: done with it"]
    assert has_ended(int(child.read_text()))


TALK = """
[[replies]]
text = "done"
"""


def user_hooks(environment: dict[str, str], text: str) -> None:
    folder = Path(environment["TREADLE_HOME"], "config")
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)


def test_a_prompt_that_a_hook_holds_back_is_not_said(
    treadle: Run, environment: dict[str, str], script: Any, tmp_path: Path
) -> None:
    words = json.dumps(python(says_no("no prompts today")))
    user_hooks(
        environment, f'[hooks.guard]\non = "before_turn"\ncommand = {words}\ntimeout_s = 60\n'
    )
    ran = treadle("-p", "hello", "-m", script(TALK))
    assert ran.returncode == 1
    assert "held the prompt back: guard: no prompts today" in ran.stderr
    assert "done" not in ran.stdout
    ran = treadle("run", "hello", "-m", script(TALK))
    assert ran.returncode == 1
    assert "held the prompt back" in ran.stderr


def test_a_hook_after_a_turn_is_told_how_it_ended(
    treadle: Run, environment: dict[str, str], script: Any, repository: Path
) -> None:
    program = "import pathlib, sys; pathlib.Path('turn.json').write_text(sys.stdin.read())"
    words = json.dumps(python(program))
    user_hooks(environment, f'[hooks.note]\non = "after_turn"\ncommand = {words}\ntimeout_s = 60\n')
    ran = treadle("-p", "hello", "-m", script(TALK))
    assert ran.returncode == 0, ran.stderr
    told = json.loads((repository / "turn.json").read_text())
    assert told["event"] == "after_turn"
    assert told["turn"]["outcome"] == "done"
    assert told["turn"]["answer"] == "done"


def test_a_hook_without_a_command_is_named_with_its_line(
    treadle: Run, environment: dict[str, str], script: Any
) -> None:
    user_hooks(environment, '[hooks.note]\non = "after_turn"\n')
    ran = treadle("-p", "hello", "-m", script(TALK))
    assert ran.returncode == 2
    assert "config.toml:1: hooks.note needs command" in ran.stderr


def test_a_guard_of_paths_is_asked_about_each_file_of_a_patch(tmp_path: Path) -> None:
    program = (
        "import json, sys; call = json.load(sys.stdin)['call']; open('seen', 'a').write("
        "call['arguments']['path'] + ' ' + ','.join(call['paths']) + '\\n');"
        "sys.exit(2 if 'secret' in call['arguments']['path'] else 0)"
    )
    hooks = Hooks({"guard": hook("before_tool", program, tools=("edit_file",))}, str(tmp_path))
    text = (
        "*** Begin Patch\n*** Add File: a\n*** Update File: b\n*** Move to: secret\n"
        "*** Delete File: c\n*** End Patch"
    )
    call = ToolCall("c1", "apply_patch", json.dumps({"input": text}))
    assert asyncio.run(hooks.before_tool(call))
    every = "a,b,secret,c"
    assert (tmp_path / "seen").read_text().splitlines() == [
        f"{path} {every}" for path in ("a", "b", "secret")
    ]
