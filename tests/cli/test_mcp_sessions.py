"""Servers of tools in real sessions: joined, held, asked about, refused, ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run

PLAIN = Path(__file__).parents[1] / "mcp_servers" / "plain_server.py"

SCRIPT = """
[[replies]]
when.system = "commit message"
text = "chore: notes"

[[replies]]
when = { user = "say it", step = 0 }
calls = [{ tool = "plain__echo", arguments = { text = "hello" } }]

[[replies]]
when.user = "say it"
text = "Said."
"""

Add = Callable[..., None]


@pytest.fixture
def add(treadle: Run, repository: Path) -> Add:
    """Names a server that leaves what it got in a folder of the repository."""
    (repository / "left").mkdir()
    (repository / ".gitignore").write_text("left/\n")

    def named(*options: str, how: str = "", name: str = "plain") -> None:
        command = (sys.executable, str(PLAIN), how, "left")
        done = treadle("mcp", "add", name, "--write", *options, "--", *command)
        assert done.returncode == 0, done.stderr

    return named


def shown(treadle: Run) -> dict[str, Any]:
    (line, *_) = json.loads(treadle("list", "--json").stdout)
    return dict(json.loads(treadle("show", line["id"], "--json").stdout))


def results(document: dict[str, Any]) -> list[str]:
    messages = document["conversation"]["messages"]
    return [one["content"] for one in messages if one["role"] == "tool"]


def list_processes_in(folder: Path) -> list[str]:
    """Who works there, whatever number it has in a sandbox."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if one.readlink().is_relative_to(folder):
                found.append(one.parent.name)
    return found


def test_a_server_is_tried_and_its_tools_are_named_with_what_is_known_of_them(
    treadle: Run, add: Add, tmp_path: Path
) -> None:
    add()
    file = tmp_path / "home" / "config" / "config.toml"
    file.write_text(f'{file.read_text()}\n[mcp.plain.tools]\nnote = {{ effect = "read" }}\n')
    done = treadle("mcp", "test", "plain")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        ["plain__drop", "mutate", "high"],
        ["plain__echo", "mutate", "high"],
        ["plain__note", "read", "medium"],
    ]
    told = json.loads(treadle("mcp", "test", "plain", "--json").stdout)
    assert told["tools"][1]["input_schema"]["required"] == ["text"]
    assert treadle("mcp", "test", "plane").stderr.startswith(
        "treadle: no server is called plane; did you mean plain?"
    )
    add(how="no list", name="broken")
    done = treadle("mcp", "test", "broken")
    assert done.returncode == 5
    assert "broken" in done.stderr
    assert "mcp.broken.network = true gives it one" in done.stderr


def test_a_session_has_the_tools_and_the_server_gets_what_it_was_given_and_no_more(
    treadle: Run, add: Add, script: Callable[[str], str], repository: Path
) -> None:
    add("-e", "LEVEL=info", "-e", "PLAIN_TOKEN")
    secrets = {"PLAIN_TOKEN": "hunter2-value", "OTHER_TOKEN": "hunter3-value", "PLAIN": "text"}
    model = script(SCRIPT)
    done = treadle("-p", "say it", "-m", model, "--approval-mode", "auto", **secrets)
    assert (done.returncode, done.stdout) == (0, "Said.\n"), done.stderr
    assert results(shown(treadle)) == ["echo: hello"]
    got = json.loads((repository / "left" / "environment.json").read_text())
    assert (got["PLAIN_TOKEN"], got["LEVEL"]) == ("hunter2-value", "info")
    assert {"OTHER_TOKEN", "PLAIN", "TREADLE_HOME"} & got.keys() == set()
    assert list_processes_in(repository) == [], "it ended with the session"


def test_what_nobody_knows_is_asked_about_in_each_mode_that_asks_and_refused_by_plan_mode(
    treadle: Run, add: Add, script: Callable[[str], str], tmp_path: Path
) -> None:
    add()
    model = script(SCRIPT)
    for mode in ("ask", "auto-edit"):
        done = treadle("-p", "say it", "-m", model, "--approval-mode", mode)
        assert done.returncode == 4, (mode, done.stderr)
        assert "plain__echo" in done.stderr
        (question,) = shown(treadle)["agent_state"]["questions"]
        assert question["call"]["tool_name"] == "plain__echo"
    answered = treadle("approve", shown(treadle)["id"], "--yes")
    assert (answered.returncode, answered.stdout) == (0, "Said.\n"), answered.stderr

    done = treadle("-p", "say it", "-m", model, "--approval-mode", "plan")
    assert done.returncode == 0, done.stderr
    (result,) = results(shown(treadle))
    assert "plan mode" in result

    # What its person knows of it is said in the settings.
    file = tmp_path / "home" / "config" / "config.toml"
    known = 'echo = { effect = "read", risk = "low" }'
    file.write_text(f"{file.read_text()}\n[mcp.plain.tools]\n{known}\n")
    for mode in ("plan", "ask"):
        done = treadle("-p", "say it", "-m", model, "--approval-mode", mode)
        assert (done.returncode, results(shown(treadle))) == (*(0, ["echo: hello"]),), (
            mode,
            done.stderr,
        )


def test_a_server_that_is_not_there_is_told_of_and_the_turn_goes_on(
    treadle: Run, add: Add, script: Callable[[str], str]
) -> None:
    add("-e", "GONE_TOKEN", name="gone")
    add(how="no list", name="broken")
    (_, *rest) = SCRIPT.split("[[replies]]")
    model = script("[[replies]]" + rest[-1])
    done = treadle("-p", "say it", "-m", model, "--approval-mode", "auto")
    assert (done.returncode, done.stdout) == (0, "Said.\n")
    assert "gone is not used: the variable GONE_TOKEN is not set" in done.stderr
    assert "the MCP server broken is not there" in done.stderr


def test_the_servers_of_a_project_work_as_others_once_it_is_trusted(
    treadle: Run, script: Callable[[str], str], repository: Path
) -> None:
    model = script(SCRIPT)
    server = {"command": sys.executable, "args": [str(PLAIN), "", "/nowhere"]}
    (repository / ".mcp.json").write_text(json.dumps({"mcpServers": {"plain": server}}))
    run = ("-p", "say it", "-m", model, "--approval-mode", "auto")
    done = treadle(*run)
    assert ".mcp.json is not used: nobody has trusted it yet" in done.stderr
    assert "Tool not found" in results(shown(treadle))[0]
    assert treadle("config", "trust", "--yes").returncode == 0
    done = treadle(*run)
    assert "the MCP server plain is not there" in done.stderr, "it may not write anywhere"


def test_a_tool_that_is_always_allowed_is_asked_about_once(
    treadle: Run, add: Add, script: Callable[[str], str]
) -> None:
    add()
    model = script(SCRIPT)
    assert treadle("-p", "say it", "-m", model, "--approval-mode", "ask").returncode == 4
    thread = shown(treadle)["id"]
    done = treadle("approve", thread, "--yes", "--always")
    assert (done.returncode, done.stdout) == (0, "Said.\n"), done.stderr
    done = treadle("resume", thread, "-p", "say it again")
    assert (done.returncode, done.stdout) == (0, "Said.\n"), done.stderr


def test_tasks_and_the_agents_that_are_handed_a_job_have_the_tools_too(
    treadle: Run, add: Add, script: Callable[[str], str]
) -> None:
    add()
    handed = 'calls = [{ tool = "delegate", arguments = { task = "say it please" } }]'
    asked = f'\n[[replies]]\nwhen = {{ user = "hand", step = 0 }}\n{handed}\n'
    model = script(f'{SCRIPT}{asked}\n[[replies]]\nwhen.user = "hand"\ntext = "Handed."\n')
    done = treadle("run", "say it", "-m", model, "--approval-mode", "ask")
    assert done.returncode == 4, done.stderr
    done = treadle("approve", shown(treadle)["id"], "--yes")
    assert (done.returncode, done.stdout) == (0, "Said.\n"), done.stderr

    done = treadle("-p", "hand it on", "-m", model, "--approval-mode", "auto")
    assert (done.returncode, done.stdout) == (0, "Handed.\n"), done.stderr
    lines = json.loads(treadle("list", "--json").stdout)
    (child,) = [line["id"] for line in lines if line.get("parent")]
    told = treadle("show", child, "--json").stdout
    assert "echo: hello" in told
