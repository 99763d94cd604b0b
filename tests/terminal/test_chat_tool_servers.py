"""`/mcp` in the chat: the servers of tools, how each stands, and what it offers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cli.conftest import Run
from cli.test_mcp_sessions import list_processes_in
from terminal.harness import BACKSPACE, ENTER, ESC, TAB
from terminal.talks import Start, Talk
from terminal.test_chat_commands import is_at_rest

PLAIN = Path(__file__).parents[1] / "mcp_servers" / "plain_server.py"


def test_servers_are_shown_with_their_state_before_and_after_they_are_needed(
    start: Start, treadle: Run, repository: Path
) -> None:
    (repository / "left").mkdir()
    for name, how in (("plain", ""), ("broken", "no list")):
        command = (sys.executable, str(PLAIN), how, "left")
        assert treadle("mcp", "add", name, "--write", "--", *command).returncode == 0
    assert treadle("mcp", "add", "gone", "-e", "GONE_TOKEN", "--", "x").returncode == 0
    talk = start("--approval-mode", "auto", "--no-commit", columns=160, rows=50)
    talk.wait_for("gone is not used: the variable GONE_TOKEN is not set")
    talk.say("/mcp", "starts with the next prompt")
    assert "the variable GONE_TOKEN is not set" in talk.text
    talk.say("/mcp plane", "no server is called plane; there are: broken, gone, plain")
    talk.say("hello", "Hello there.")
    talk.wait_for(is_at_rest)
    assert "the MCP server broken is not there" in talk.text
    talk.say("/mcp", "3 tools")
    talk.say("/mcp plain", "plain__echo")
    assert "mutate, high risk" in talk.text
    talk.say("/mode ask", "approval mode ask: asks")
    talk.say("second", "The second answer.")
    talk.wait_for(is_at_rest)
    assert talk.leave() == 0
    # It was started once, and the tools stand in each request as they stood in the first one.
    [thread] = json.loads(treadle("list", "--json").stdout)
    lines = treadle("export", thread["id"], "--format", "jsonl").stdout.splitlines()
    events = [json.loads(line)["event"] for line in lines if '"event"' in line]
    offered = [one for one in events if one["type"] == "configured"]
    names = [[tool["name"] for tool in one["config"]["tools"]] for one in offered]
    counts = [len([name for name in one if name.startswith("plain__")]) for one in names]
    assert (counts[0], {*counts[1:]}) == (0, {3})


def test_prompts_of_a_server_are_named_completed_and_said(
    start: Start, treadle: Run, repository: Path
) -> None:
    (repository / "left").mkdir()
    command = (sys.executable, str(PLAIN), "a prompt", "left")
    assert treadle("mcp", "add", "plain", "--write", "--", *command).returncode == 0
    talk = start("--approval-mode", "plan", columns=120, rows=50)
    talk.wait_for("a new thread in")
    talk.say("/mcp plain", "/plain:review PATH [STYLE]")
    talk.type("/plain:")
    talk.wait_for("\n  /plain:review PATH [STYLE]  Looks at")
    talk.type(TAB)
    talk.wait_for("> /plain:review\n")
    talk.type(TAB)
    talk.wait_for('\n  "two words"')
    talk.type(TAB)
    talk.wait_for('> /plain:review "two words"\n')
    talk.type("second" + ENTER)
    talk.wait_for("The second answer.")
    talk.wait_for(is_at_rest)
    talk.say("/plain:review", "plain:review needs path")
    talk.wait_for("> /plain:review\n")  # it stands in the input again
    talk.type("\x15")
    talk.say("/plain:other x", "the MCP server plain has no prompt 'other'")
    talk.type("\x15")
    assert talk.leave() == 0
    [thread] = json.loads(treadle("list", "--json").stdout)
    assert thread["title"] == '/plain:review "two words" second'
    shown = json.loads(treadle("show", thread["id"], "--json").stdout)
    said = shown["conversation"]["messages"][0]["content"]
    assert '"arguments": {"path": "two words", "style": "second"}' in said


def add(treadle: Run, repository: Path, how: str) -> Path:
    left = repository / "left"
    left.mkdir()
    command = (sys.executable, str(PLAIN), how, "left")
    assert treadle("mcp", "add", "plain", "--write", "--", *command).returncode == 0
    return left


def test_a_form_of_a_server_is_filled_out_by_its_person(
    start: Start, treadle: Run, repository: Path
) -> None:
    left = add(treadle, repository, "asks for one form")
    talk = start("--approval-mode", "auto", "--no-commit", columns=110, rows=50)
    talk.wait_for("a new thread in")
    talk.say("ask them", "The server plain asks you to fill out a form")
    assert "Who are\ufffd[2J you?" in talk.shown
    assert "Your name" in talk.shown
    talk.answer("y")
    talk.wait_for("> ")
    talk.type("A" + ENTER)
    talk.wait_for("Your name: at least 2 characters, please")
    talk.type("nn" + ENTER)
    talk.wait_for("age, if you like")
    talk.type("x" + ENTER)
    talk.wait_for("age, if you like: a whole number, please")
    talk.type(BACKSPACE + ENTER)
    talk.wait_for("Green")
    talk.type("Gre")
    talk.wait_for(lambda screen: "Red" not in screen.shown)
    talk.type(ENTER)
    talk.wait_for("news, if you like")
    talk.type(ENTER)
    talk.wait_for("toys, of bear, car, with commas between, if you like")
    talk.type("car, bear" + ENTER)
    talk.wait_for("send it to the server")
    assert "  Your name: Ann\n  age: 7\n  color: g\n  news: yes\n  toys: car, bear\n" in talk.shown
    talk.answer("y")
    talk.wait_for("It was asked.")
    talk.wait_for(is_at_rest)
    assert "answered · what the server plain asked" in talk.text
    given = json.loads((left / "answers.jsonl").read_text())["result"]
    assert given == {
        "action": "accept",
        "content": {"name": "Ann", "age": 7, "color": "g", "news": True, "toys": ["car", "bear"]},
    }
    assert talk.leave() == 0


def test_a_form_of_a_server_is_filled_out_on_the_command_line(
    treadle: Run, repository: Path, environment: dict[str, str], model: str
) -> None:
    left = add(treadle, repository, "asks for one form")
    asks = ("-p", "ask them", "-m", model, "--approval-mode", "auto", "--no-commit")
    with Talk(repository, environment, asks, 110, 50) as talk:
        for asked, said in (
            ("Fill it out (y), or not (n)", "y"),
            ("Your name", "A"),
            ("at least 2 characters, please", "Ann"),
            ("age, if you like [7]", ""),
            ("one of r (Red), g (Green)", "g"),
            ("news, if you like", "maybe"),
            ("yes or no, please", "no"),
            ("with commas between, if you like", ""),
            ("Send it (y), or not (n)", "y"),
        ):
            talk.wait_for(asked)
            talk.type(said + ENTER)
        talk.wait_for("It was asked.")
    given = json.loads((left / "answers.jsonl").read_text())["result"]
    assert given["content"] == {"name": "Ann", "age": 7, "color": "g", "news": False}


def test_a_model_answers_for_a_server_when_its_person_says_yes(
    start: Start, treadle: Run, repository: Path
) -> None:
    left = add(treadle, repository, "asks for one answer")
    talk = start("--approval-mode", "auto", "--no-commit", columns=110, rows=50)
    talk.wait_for("a new thread in")
    talk.say("ask them", "The server plain asks for an answer of the model")
    assert "[user] a wish" in talk.shown
    talk.answer("n")
    talk.wait_for("It was asked.")
    talk.wait_for(is_at_rest)
    talk.say("ask again", "The server plain asks for an answer of the model")
    talk.answer("y" + ENTER)
    talk.wait_for(lambda screen: screen.text.count("It was asked.") == 2)
    talk.wait_for(is_at_rest)
    talk.say("ask more", "The server plain asks for an answer of the model")
    talk.type(ESC)
    talk.wait_for("put aside · what the server plain asked")
    talk.wait_for(is_at_rest)
    assert talk.leave() == 0
    refused, given, aside = map(json.loads, (left / "answers.jsonl").read_text().splitlines())
    assert refused["error"] == aside["error"] == {"code": -1, "message": "the person said no"}
    assert given["result"]["content"]["text"] == "Granted."


def test_servers_live_on_from_thread_to_thread_and_end_with_the_chat(
    start: Start, treadle: Run, repository: Path
) -> None:
    started = add(treadle, repository, "") / "pid.txt"
    talk = start("--approval-mode", "auto", "--no-commit", columns=110, rows=50)
    talk.wait_for("a new thread in")
    talk.say("hello", "Hello there.")
    talk.wait_for(is_at_rest)
    at = started.stat().st_mtime_ns
    talk.say("/fork", "goes on from version")
    talk.say("second", "The second answer.")
    talk.wait_for(is_at_rest)
    talk.say("/rewind", "Back to before which prompt?")
    talk.wait_for("turn 1")
    talk.type(ENTER)
    talk.wait_for("What goes back?")
    talk.answer("c")
    talk.wait_for(lambda screen: "> second" in screen.shown.splitlines()[-2:][0])
    talk.type("\x15")
    talk.say("/new", "a new thread begins")
    talk.say("ask again", "It was asked.")
    talk.wait_for(is_at_rest)
    assert started.stat().st_mtime_ns == at, "it was started once"
    assert talk.leave() == 0
    assert list_processes_in(repository) == []


def test_where_the_settings_name_none_it_is_told_how_one_is_added(start: Start) -> None:
    talk = start()
    talk.say("/mcp", "`treadle mcp add` adds one")
    assert talk.leave() == 0
