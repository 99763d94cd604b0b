"""`treadle run`: a task from its beginning to its end, its limits, its form, its signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.test_model_wiring import chat, configure, local
from cli.test_real_models import Shell
from cli.test_run import FIX, HELLO, git
from models.loopback import Loopback, stream

Script = Callable[[str], str]
AUTO = ("--approval-mode", "auto")

LOOK = """
[[replies]]
calls = [{ tool = "read_file", arguments = { path = "calc.py" } }]
usage = { input_tokens = 600, output_tokens = 100 }

[[replies]]
calls = [{ tool = "list_files" }]
usage = { input_tokens = 600, output_tokens = 100 }

[[replies]]
text = "I looked twice."
"""


def only_thread(treadle: Run) -> dict[str, Any]:
    (line,) = json.loads(treadle("list", "--json").stdout)
    assert isinstance(line, dict)
    return line


def test_a_task_runs_to_its_end_and_commits_its_own_change_only(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    (repository / "notes.txt").write_text("mine\n")
    done = treadle("run", "fix add", "-m", script(FIX), *AUTO)
    assert (done.returncode, done.stdout) == (0, "It adds now.\n"), done.stderr
    assert "committed" in done.stderr
    assert "Planning" not in done.stderr
    shown = git(repository, environment, "show", "--format=%B", "--name-only", "HEAD")
    assert shown.startswith("fix: add instead of subtracting")
    assert shown.endswith("calc.py\n")
    line = only_thread(treadle)
    assert (line["machine"], line["state"], line["title"]) == ("task", "done", "fix add")
    assert f"Treadle-Thread: {line['id']}@" in shown
    (told,) = treadle("list").stdout.splitlines()
    assert "  task done  " in told
    thread = line["id"]
    assert treadle("verify", thread).returncode == 0
    assert "TaskGiven" in treadle("replay", thread).stdout
    shown = treadle("show", thread).stdout
    for words in ("task     fix add", "state    done", "answer:\nIt adds now.", "step     3 of 50"):
        assert words in shown
    assert "what each turn used is not known" not in treadle("show", thread, "--usage").stderr
    again = treadle("resume", thread)
    assert (again.returncode, again.stdout) == (0, "It adds now.\n")
    assert "the task has ended already" in again.stderr


def test_a_task_has_the_default_mode_ask_and_plan_reads_only(
    treadle: Run, script: Script, repository: Path
) -> None:
    model = script(FIX)
    assert treadle("run", "fix", "-m", model).returncode == 4
    assert treadle("run", "fix", "-m", model, TREADLE_APPROVAL_MODE="plan").returncode == 0
    done = treadle("run", "fix", "-m", model, "--approval-mode", "plan")
    assert (done.returncode, done.stdout) == (0, "It adds now.\n")
    assert "not in plan mode" in done.stderr
    assert "a - b" in (repository / "calc.py").read_text()


def test_piped_input_is_appended_to_the_task(treadle: Run, script: Script) -> None:
    model = script('[[replies]]\nwhen.user = "^review[\\\\s\\\\S]*diff of mine$"\ntext = "Good."\n')
    assert treadle("run", "review", "-m", model, stdin="diff of mine").stdout == "Good.\n"
    model = script('[[replies]]\nwhen.user = "^only this$"\ntext = "Good."\n', "other.toml")
    assert treadle("run", "-", "-m", model, stdin="only this").stdout == "Good.\n"


def test_json_and_stream_json_tell_all_of_a_task(treadle: Run, script: Script) -> None:
    model = script(LOOK)
    done = treadle("run", "look", "-m", model, "--output-format", "json", "--private")
    result = json.loads(done.stdout)
    assert only_thread(treadle)["is_private"]
    assert (result["type"], result["outcome"]) == ("result", "done")
    assert result["answer"] == "I looked twice."
    done = treadle("run", "look", "-m", model, "--output-format", "stream-json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert (records[0]["type"], records[-1]["type"]) == ("thread", "result")
    states = [record["state"] for record in records if record["type"] == "state_started"]
    assert states == ["Idle", *["Planning", "Acting", "Observing"] * 2, "Planning", "Done"]
    (answer,) = [record for record in records if record["type"] == "final_answer"]
    assert answer["text"] == "I looked twice."


def test_the_trace_is_printed_at_the_end_and_can_be_read_later(
    treadle: Run, script: Script
) -> None:
    done = treadle("run", "look", "-m", script(LOOK), "--trace")
    assert done.stdout == "I looked twice.\n"
    assert "TASK_COMPLETE" in done.stderr
    thread = only_thread(treadle)["id"]
    table = treadle("trace", thread).stdout
    assert table in done.stderr
    entries = json.loads(treadle("trace", thread, "--json").stdout)
    assert len(entries) == len(table.splitlines()) - 1
    assert entries[-1]["event"] == "TASK_COMPLETE"


def test_a_conversation_has_no_trace_and_says_what_there_is(treadle: Run, script: Script) -> None:
    treadle("-p", "hello", "-m", script(HELLO))
    done = treadle("trace", only_thread(treadle)["id"])
    assert done.returncode == 2
    assert "treadle replay" in done.stderr


def test_a_task_takes_no_prompt_and_no_new_limits_and_is_not_what_continue_means(
    treadle: Run, script: Script
) -> None:
    treadle("run", "look", "-m", script(LOOK))
    line = only_thread(treadle)
    for arguments in (["-r", line["id"], "-p", "more"], ["resume", line["id"], "-p", "more"]):
        done = treadle(*arguments)
        assert done.returncode == 2
        assert "takes no further prompts" in done.stderr
    assert "begun with" in treadle("resume", line["id"], "--max-cost", "3").stderr
    assert "reflects by itself" in treadle("compact", line["id"]).stderr
    assert treadle("-c", "-p", "more").returncode == 2
    assert only_thread(treadle)["version"] == line["version"]


# ---- limits ------------------------------------------------------------------------------------

HANGS = '[[replies]]\ntext = "I think"\nhang = true\ntimes = 0\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-steps", "2"], "Max steps 2 exceeded"),
        (["--max-tokens", "700"], "Token budget exceeded: 700 of 700 tokens used"),
    ],
)
def test_a_limit_stops_a_task_with_exit_code_3(
    treadle: Run, script: Script, arguments: list[str], words: str
) -> None:
    done = treadle("run", "look", "-m", script(LOOK), *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert words in done.stderr
    shown = treadle("show", only_thread(treadle)["id"]).stdout
    assert f"error    {words}" in shown
    assert "stopped  by its limit of" in shown


def test_a_time_limit_stops_a_model_that_never_answers(treadle: Run, script: Script) -> None:
    done = treadle("run", "look", "-m", script(HANGS), "--time-limit", "0.1s")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Time limit exceeded" in done.stderr
    assert treadle("resume", only_thread(treadle)["id"]).returncode == 3


async def test_a_cost_limit_stops_a_task_and_a_turn(
    repository: Path, environment: dict[str, str]
) -> None:
    shell = Shell(repository, environment)
    look = (("call_1", "read_file", {"path": "calc.py"}),)
    answers = [stream(chat("", look)), stream(chat("", look))]
    async with Loopback(*answers) as server:
        configure(environment, local("gpt", server, 'prices = "openai"'))
        name = ("-m", "gpt:gpt-4o")
        done = await shell("run", "look", *name, "--max-cost", "0.000001")
        assert (done.code, done.stdout) == (3, ""), done.stderr
        assert "Cost budget exceeded" in done.stderr
        assert "is not known" not in done.stderr
        done = await shell("-p", "look", *name, "--max-cost", "$0.000001")
        assert (done.code, done.stdout) == (3, ""), done.stderr
        assert "Cost budget exceeded" in done.stderr


def test_a_turn_has_limits_of_its_own_which_the_next_turn_has_anew(
    treadle: Run, script: Script
) -> None:
    model = script(LOOK)
    done = treadle("-p", "look", "-m", model, "--max-tokens", "700")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Token budget exceeded" in done.stderr
    assert treadle("-c", "-p", "again").stdout == "I looked twice.\n"
    done = treadle("-c", "-p", "again", "-m", script(HANGS), "--time-limit", "0.1")
    assert done.returncode == 3
    assert "time limit" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--time-limit", "soon"],
        ["--time-limit", "0"],
        ["--time-limit", "1d"],
        ["--max-cost", "nan"],
        ["--max-cost", "-1"],
        ["--max-cost", "much"],
        ["--max-tokens", "0"],
        ["--max-steps", "0"],
    ],
)
def test_a_limit_that_is_none_is_refused_and_makes_nothing(
    treadle: Run, tmp_path: Path, arguments: list[str]
) -> None:
    done = treadle("run", "look", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
    assert not (tmp_path / "home").exists()


# ---- the form of the answer --------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMED = """
[[replies]]
text = "It is 4."

[[replies]]
text = '''```json
{"n": "four"}
```'''

[[replies]]
text = '''```json
{"n": 4, "ä": "ö"}
```'''
"""


def test_the_answer_is_the_json_document_that_fits_the_schema(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    form = ("--output-schema", str(tmp_path / "schema.json"))
    done = treadle("run", "count", "-m", script(FORMED), *form)
    assert (done.returncode, done.stdout) == (0, '{"n": 4, "ä": "ö"}\n'), done.stderr
    again = treadle("resume", only_thread(treadle)["id"])
    assert again.stdout == done.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read"),
        ("{", "is no JSON file"),
        ("[]", "must be a JSON object"),
        ('{"type": "integr"}', "schema is not valid"),
    ],
)
def test_a_schema_that_is_none_is_named_and_nothing_is_made(
    treadle: Run, tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_text(content)
    done = treadle("run", "count", "--output-schema", str(path))
    assert done.returncode == 2
    assert words in done.stderr
    assert str(path) in done.stderr
    assert not (tmp_path / "home").exists()


# ---- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code"), [("bad_request", 1), ("authentication", 5), ("overloaded", 75)]
)
def test_a_task_whose_model_fails_ends_as_a_turn_would(
    treadle: Run, script: Script, kind: str, code: int
) -> None:
    failure = f'kind = "{kind}", message = "so it goes", retry_after_s = 0'
    model = script(f"[[replies]]\nerror = {{ {failure} }}\ntimes = 0\n")
    done = treadle("run", "x", "-m", model)
    assert (done.returncode, done.stdout) == (code, "")
    assert "so it goes" in done.stderr
    state = only_thread(treadle)["state"]
    assert state == ("planning" if code == 75 else "error")


def test_a_task_whose_model_is_away_for_long_goes_on_when_it_is_back(
    treadle: Run, script: Script
) -> None:
    away = script('[[replies]]\nerror = { kind = "overloaded", retry_after_s = 0 }\ntimes = 0\n')
    assert treadle("run", "x", "-m", away).returncode == 75
    thread = only_thread(treadle)["id"]
    again = treadle("resume", thread)
    assert again.returncode == 75
    assert "ended already" not in again.stderr
    assert "overloaded" in treadle("show", thread).stdout
    done = treadle("resume", thread, "-m", script(HELLO, "back.toml"))
    assert (done.returncode, done.stdout) == (0, "Hello to you.\n")


def test_the_kind_of_task_chooses_the_model(
    treadle: Run, script: Script, environment: dict[str, str]
) -> None:
    other = script('[[replies]]\ntext = "The reviewer."\n', "other.toml")
    models = f'[models]\ndefault = "{script(HELLO)}"\nreview = "{other}"\n'
    configure(environment, models)
    assert treadle("run", "x").stdout == "Hello to you.\n"
    assert treadle("run", "x", "--task-type", "review").stdout == "The reviewer.\n"
    assert treadle("run", "x", "--task-type", "else").stdout == "Hello to you.\n"


GRAPH = """
import asyncio, sys
from pathlib import Path
from treadle import AgentBuilder, LocalStore, Places, ScriptedModel
from treadle.core.task.table import Event, State

async def review(memory, tools, llm, output):
    return memory, Event.REFLECT_DONE

home = Path(sys.argv[1])
store = LocalStore(Places(home / "data", home / "state", home / "config"))
builder = AgentBuilder("review", llm=ScriptedModel.of("Done."), store=store)
builder.state("Reviewing", review).transition(State.IDLE, Event.START, "Reviewing")
builder.transition("Reviewing", Event.REFLECT_DONE, State.PLANNING)
asyncio.run(builder.build().close())
"""


def test_a_task_with_states_of_a_program_needs_that_program(
    treadle: Run, script: Script, tmp_path: Path, environment: dict[str, str]
) -> None:
    program = [sys.executable, "-c", GRAPH, environment["TREADLE_HOME"]]
    subprocess.run(program, env=environment, check=True)
    thread = only_thread(treadle)["id"]
    done = treadle("resume", thread, "-m", script(HELLO))
    assert done.returncode == 1
    assert "needs a handler for its state 'Reviewing'" in done.stderr
    assert "the program that began it" in done.stderr
    assert treadle("show", thread).returncode == 0


PARENT = """
import asyncio, sys
from pathlib import Path
from treadle import AgentBuilder, LocalStore, Places, ScriptedModel

home = Path(sys.argv[1])
store = LocalStore(Places(home / "data", home / "state", home / "config"))
child = AgentBuilder("", llm=ScriptedModel.of("The child says so, at some length."))
calls = {"calls": [{"tool": "helper", "arguments": {"task": "help me"}}]}
llm = ScriptedModel.of(calls, "The parent says so, at some length.")
builder = AgentBuilder("parents", llm=llm, store=store).sub_agent("helper", "Helps.", child)
engine = builder.build()
asyncio.run(engine.run())
asyncio.run(engine.close())
"""


def test_a_sub_agent_is_told_apart_and_goes_on_with_its_parent_only(
    treadle: Run, script: Script, environment: dict[str, str]
) -> None:
    program = [sys.executable, "-c", PARENT, environment["TREADLE_HOME"]]
    subprocess.run(program, env=environment, check=True)
    lines = {line["title"]: line for line in json.loads(treadle("list", "--json").stdout)}
    parent, child = lines["parents"]["id"], lines["help me"]["id"]
    assert lines["help me"]["parent"] == parent
    assert "sub-agent" in treadle("list").stdout
    assert f"children {child}" in treadle("show", parent).stdout
    assert f"parent   {parent}" in treadle("show", child).stdout
    done = treadle("resume", child, "-m", script(HELLO))
    assert done.returncode == 2
    assert parent in done.stderr
    assert treadle("verify").returncode == 0
    assert "failure" not in treadle("doctor").stdout.split("threads")[-1]


SLOW = """
[[replies]]
when.step = 0
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo ran >> effects; cat fifo" }

[[replies]]
when = { step = 1, last = "Uncertain" }
text = "It may have happened."

[[replies]]
text = "something else"
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_task_that_is_stopped_or_killed_goes_on_and_repeats_no_command(
    treadle: Run,
    script: Script,
    repository: Path,
    environment: dict[str, str],
    number: int,
    code: int,
) -> None:
    os.mkfifo(repository / "fifo")
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", "run", "go", "-m", script(SLOW), *AUTO, "--no-commit"],
        cwd=repository,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    fifo = os.open(repository / "fifo", os.O_WRONLY)  # returns when the command runs
    process.send_signal(number)
    shown, errors = process.communicate(timeout=60)
    os.close(fifo)
    assert (process.returncode, shown) == (code, ""), errors
    done = treadle("resume", only_thread(treadle)["id"])
    assert done.returncode == 0, done.stderr
    assert (repository / "effects").read_text() == "ran\n"
    assert treadle("verify").returncode == 0


def test_a_limit_of_cost_that_cannot_hold_is_said_to_be_none(treadle: Run, script: Script) -> None:
    done = treadle("run", "look", "-m", script(HELLO), "--max-cost", "1")
    assert done.returncode == 0
    assert "--max-tokens can stop it, --max-cost cannot" in done.stderr
    assert "--max-cost cannot" not in treadle("run", "look", "-m", script(HELLO)).stderr


def test_a_task_whose_output_nobody_takes_still_ends_well(
    environment: dict[str, str], repository: Path, script: Script
) -> None:
    command = f"{sys.executable} -m treadle run look -m {script(HELLO)} >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=repository, env=environment, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
