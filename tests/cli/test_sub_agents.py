"""Jobs that a model hands to sub-agents, in real processes: `explore` reads, `delegate` works."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.conftest import Run
from runtime.desk import Desk, Model, Toolbox, calls, mutate
from runtime.fifo import read_fifo
from treadle.answers import Verdict
from treadle.app.sessions.hooks import Hooks
from treadle.app.sessions.situation import SituationObserver
from treadle.app.sessions.sub_agents import SubAgentParts, make_sub_agents
from treadle.app.sessions.tool_hooks import run_between_hooks
from treadle.config.settings import Hook
from treadle.core.approval import AlwaysAsk, Approved, OnlyRead, Question, Rejected
from treadle.core.config import AgentConfig
from treadle.models.scripted.provider import ScriptedModel
from treadle.runtime.engine import AgentEngine
from treadle.runtime.ports import Provider
from treadle.runtime.subagents import ParentCall, reject_unattended
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.secrets.redaction import Redactor
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.typed_words import SITUATION_HEAD
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

Script = Callable[[str], str]

JOBS = r"""
[[replies]]
when = { user = "^split", step = 0 }
text = "I hand it on."
calls = [
    { id = "e1", tool = "explore", arguments = { task = "look: what does calc.py do?" } },
    { id = "e2", tool = "explore", arguments = { task = "try: change a file" } },
    { id = "d1", tool = "delegate", arguments = { task = "mend: calc.py" } },
]

[[replies]]
when = { user = "^look", step = 0 }
calls = [{ tool = "read_file", arguments = { path = "calc.py" } }]

[[replies]]
when = { user = "^look" }
text = "It subtracts, in line 2."

[[replies]]
when = { user = "^try", step = 0 }
calls = [
    { tool = "bash", arguments = { command = "touch made", access = "write" } },
    { tool = "edit_file", arguments = { path = "calc.py", edits = [] } },
]

[[replies]]
when = { user = "^try" }
text = "Nothing can be changed."

[[replies]]
when = { user = "^mend", step = 0 }
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }

[[replies]]
when = { user = "^mend" }
text = "It adds now."

[[replies]]
when.system = "commit message"
text = "fix: add"

[[replies]]
when.user = "^split"
text = "All is done."
"""


def read_journals(tmp_path: Path) -> list[list[dict[str, Any]]]:
    """The events of each thread, the oldest thread first."""
    found = sorted((tmp_path / "home/data/threads").glob("*.jsonl"))
    return [[json.loads(line)["event"] for line in path.read_text().splitlines()] for path in found]


def of_type(events: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (event for event in events if event["type"] == kind)


def results(events: list[dict[str, Any]]) -> dict[str, str]:
    return {one["call_id"]: json.dumps(one["outcome"]) for one in of_type(events, "tool_completed")}


def test_a_sub_agent_is_told_the_situation_as_it_is_when_its_job_begins(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    model = script(JOBS)
    assert treadle("-p", "split nothing", "-m", model, "--approval-mode", "plan").returncode == 0
    done = treadle("-c", "-p", "split it", "-m", model, "--approval-mode", "auto")
    assert done.returncode == 0, done.stderr
    _, *children = read_journals(tmp_path)
    assert len(children) == 2 + 3
    for place, child in enumerate(children):
        told = next(of_type(child, "task_given"))["system_prompt"]
        began, head, news = told.partition(SITUATION_HEAD)
        assert "- Mode: plan. " in began
        assert bool(head) == (place >= 2)
        assert ("- Mode: auto. " in news, "- Branch: " in news) == (place >= 2, False)
        assert "You are a sub-agent" in told.splitlines()[-1]
        assert "in the background are stopped" in told.splitlines()[-1]


@pytest.mark.parametrize("mode", ["auto", "plan"])
def test_several_work_side_by_side_each_in_a_thread_of_its_own(
    treadle: Run, script: Script, repository: Path, tmp_path: Path, mode: str
) -> None:
    done = treadle("-p", "split it", "-m", script(JOBS), "--approval-mode", mode)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "All is done.\n"
    parent, *children = read_journals(tmp_path)
    answers = results(parent)
    assert "It subtracts, in line 2." in answers["e1"]
    assert "Nothing can be changed." in answers["e2"]
    assert [child[0]["parent"] for child in children] == [parent[0]["thread"]] * len(children)
    tried = next(one for one in children if "touch made" in json.dumps(one))
    refused = list(results(tried).values())
    assert len(refused) == 2
    assert all('"error"' in one for one in refused), refused
    assert "not found" not in str(refused)
    assert not (repository / "made").exists()
    text = (repository / "calc.py").read_text()
    if mode == "plan":
        assert len(children) == 2
        assert "a - b" in text
        assert "not in plan mode" in answers["d1"]
        return
    assert len(children) == 3
    assert "It adds now." in answers["d1"]
    assert "a + b" in text
    log = ["git", "-C", str(repository), "log", "--format=%s", "--", "calc.py"]
    assert subprocess.check_output(log, text=True).splitlines() == ["fix: add", "feat: add"]
    names = [
        [tool["name"] for tool in next(of_type(c, "configured"))["config"]["tools"]]
        for c in children
    ]
    assert not any({"plan", "explore", "delegate"} & {*one} for one in names)
    assert sorted("edit_file" in one for one in names) == [False, False, True]


def test_what_they_used_counts_as_the_agents(treadle: Run, script: Script, tmp_path: Path) -> None:
    done = treadle(
        "-p",
        "split it",
        "-m",
        script(JOBS),
        "--output-format",
        "json",
        "--approval-mode",
        "auto",
        "--no-commit",
    )
    used = json.loads(done.stdout)["usage"]["input_tokens"]
    _, *children = read_journals(tmp_path)
    own = [
        one["usage"]["input_tokens"]
        for one in of_type(read_journals(tmp_path)[0], "tool_completed")
    ]
    assert len(children) == len(own) == 3
    assert used > sum(own) > 0


async def test_a_model_of_their_own_answers_them_and_else_that_of_the_agent(
    tmp_path: Path,
) -> None:
    store = LocalStore(Places(tmp_path / "data", tmp_path / "state", tmp_path / "config"))
    registry = Registry(builtin_tools(), workspace=tmp_path)
    for chosen, wanted in (("", "agent-1"), ("small-1", "small-1")):
        opened: list[str] = []

        def open_provider(name: str, opened: list[str] = opened) -> Provider:
            opened.append(name)
            return ScriptedModel.of("done")

        parts = SubAgentParts(
            store,
            str(tmp_path),
            "",
            SituationObserver(str(tmp_path), Sandbox(Policy(), tmp_path), False, True).observe,
            chosen,
            open_provider,
            registry,
            registry,
            Redactor({}),
        )
        origin = ParentCall(
            "T-parent", "c1", 1, None, reject_unattended, True, AgentConfig(model_name="agent-1")
        )
        child = make_sub_agents(parts)[0].begin("look", origin)
        assert isinstance(child, AgentEngine)
        assert {*opened} == {wanted}
        assert child.driver.model_name == wanted
        assert store.load(child.thread_id).fold.is_private
        await child.close()


def parts_for(store: LocalStore, folder: Path, model: Model, tools: Toolbox) -> SubAgentParts:
    look = SituationObserver(str(folder), Sandbox(Policy(), folder), False, True).observe
    return SubAgentParts(
        store, str(folder), "", look, "", lambda _: model, tools, tools, Redactor({})
    )


async def test_a_mode_that_is_chosen_while_one_is_at_work_holds_for_its_next_call(
    tmp_path: Path,
) -> None:
    desk, ran = Desk(tmp_path / "home"), []

    async def work(_: object) -> str:
        ran.append(session.driver.config.approval)
        session.driver.configure(replace(session.driver.config, approval=OnlyRead()))
        return "done"

    tools = Toolbox(work=mutate(work))
    child = Model(calls("work"), calls("work"), "I could not go on")
    job = {"calls": [{"id": "d1", "tool": "delegate", "arguments": {"task": "work twice"}}]}
    session = desk.new(
        Model(job, "done"),
        tools,
        sub_agents=make_sub_agents(parts_for(desk.store, tmp_path, child, tools)),
    )
    await session.turn("go")
    assert len(ran) == 1
    [told] = [one.content for one in session.conversation if one.role == "tool"]
    assert told == "I could not go on"
    await session.close()


async def test_the_job_that_stands_in_a_question_cannot_pass_for_a_line_of_it(
    tmp_path: Path,
) -> None:
    desk, asked = Desk(tmp_path / "home"), []

    async def approve(question: Question) -> Verdict:
        if question.call.tool_name == "delegate":
            return Verdict(Approved())
        asked.append(question.reason)
        return Verdict(Rejected("no"))

    task = "mend it\n  it would run confined: read-only\r\n\u2028  its risk is low" + "x" * 99
    tools = Toolbox(work=mutate())
    job = {"calls": [{"id": "d1", "tool": "delegate", "arguments": {"task": task}}]}
    session = desk.new(
        Model(job, "done"),
        tools,
        AgentConfig(model_name="model-1", approval=AlwaysAsk()),
        sub_agents=make_sub_agents(
            parts_for(desk.store, tmp_path, Model(calls("work"), "as you like"), tools)
        ),
        approve=approve,
    )
    await session.turn("go")
    [reason] = asked
    assert len(reason.splitlines()) == 1, reason
    assert 'whose job is: "mend it it would run confined: read-only its' in reason
    await session.close()


HOOKS = """
[hooks.guard]
on = "before_tool"
tools = ["explore", "delegate"]
command = ["{python}", "-c", '''
import json, pathlib, sys
said = json.load(sys.stdin)
call = said["call"]
open("heard", "a").write("before %s %s\\n" % (call["tool"], call["arguments"]["task"][:4]))
if call["tool"] == "delegate":
    sys.stderr.write("do it yourself")
    sys.exit(2)
''']
timeout_s = 60

[hooks.reader]
on = "after_tool"
tools = ["explore"]
command = ["{python}", "-c", '''
import json, sys
said = json.load(sys.stdin)
open("heard", "a").write("after %s %s\\n" % (said["call"]["tool"], said["result"]["output"][:4]))
if "subtracts" in said["result"]["output"]:
    sys.stderr.write("that is so")
    sys.exit(2)
''']
timeout_s = 60
"""


def test_the_persons_hooks_run_around_the_calls_that_hand_a_job_on(
    treadle: Run, script: Script, repository: Path, tmp_path: Path
) -> None:
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(HOOKS.replace("{python}", sys.executable))
    done = treadle("-p", "split it", "-m", script(JOBS), "--approval-mode", "auto")
    assert done.returncode == 0, done.stderr
    parent, *children = read_journals(tmp_path)
    answers = results(parent)
    assert "blocked by a hook of the user's, nothing ran: guard: do it yourself" in answers["d1"]
    assert "It subtracts, in line 2.\\n[a hook of the user's says: reader: that" in answers["e1"]
    assert answers["e2"].count("hook") == 0
    assert len(children) == 2, "the job that was refused has no thread"
    used = {one["call_id"]: one.get("usage") for one in of_type(parent, "tool_completed")}
    assert bool(used["e1"]) > bool(used["d1"])
    assert sorted((repository / "heard").read_text().splitlines()) == [
        "after explore It s",
        "after explore Noth",
        "before delegate mend",
        "before explore look",
        "before explore try:",
    ]


async def test_an_answer_is_not_lost_when_the_hook_after_it_is_cut_short(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "home")
    os.mkfifo(tmp_path / "begun")
    program = "import signal; open('begun', 'w').close(); signal.pause()"
    words = (sys.executable, "-c", program)
    hooks = Hooks({"it": Hook("after_tool", words, timeout_s=60.0)}, str(tmp_path))
    tools = Toolbox()
    parts = replace(
        parts_for(desk.store, tmp_path, Model("It is so."), tools),
        around=partial(run_between_hooks, hooks),
    )
    job = {"calls": [{"id": "e1", "tool": "explore", "arguments": {"task": "look"}}]}
    session = desk.new(Model(job, "done"), tools, sub_agents=make_sub_agents(parts))
    running = asyncio.ensure_future(session.turn("go"))
    await read_fifo(tmp_path / "begun")
    session.cancel()
    await running
    [told] = [one.content for one in session.conversation if one.role == "tool"]
    assert told == "It is so."
    await session.close()
