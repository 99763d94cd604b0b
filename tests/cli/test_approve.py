"""Approval modes, and calls that wait for a person: asked, kept, answered from another process."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from cli.conftest import Run
from cli.test_ask import QUESTION, Terminal
from cli.test_run import FIX, HELLO, git

Script = Callable[[str], str]
ASK = ("--approval-mode", "ask")
BEGIN = {"turn": "-p", "task": "run"}

COMMAND = """
[[replies]]
text = "I run it."
calls = [{ tool = "bash", arguments = { access = "write", command = "echo ran >> effects" } }]

[[replies]]
when = { step = 1, last = "not on a Friday" }
text = "Then not."

[[replies]]
when = { step = 1, last = "changed the arguments" }
text = "You changed it."

[[replies]]
text = "It ran."
"""

CHANGED = '{"command": "echo changed >> effects", "access": "write"}'

TWO = """
[[replies]]
calls = [
  { tool = "bash", id = "one", arguments = { access = "write", command = "echo one >> effects" } },
  { tool = "bash", id = "other", arguments = { access = "write", command = "echo b >> effects" } },
  { tool = "write_file", id = "third", arguments = { path = "new.txt", content = "new" } },
]

[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = "echo later >> effects" } }]

[[replies]]
text = "Done."
"""

KINDS = """
[[replies]]
calls = [
  { tool = "bash", id = "status", arguments = { access = "write", command = "git status -bs" } },
  { tool = "bash", id = "again", arguments = { access = "write", command = "git status" } },
  { tool = "bash", id = "other", arguments = { access = "write", command = "echo b >> effects" } },
]

[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = "git status -s" } }]

[[replies]]
text = "Done."
"""

FILES = """
[[replies]]
calls = [
    { tool = "write_file", id = "in", arguments = { path = "src/a.txt", content = "a" } },
    { tool = "write_file", id = "below", arguments = { path = "src/deep/b.txt", content = "b" } },
    { tool = "write_file", id = "beside", arguments = { path = "srcs/c.txt", content = "c" } },
]

[[replies]]
text = "Done."
"""

ONE_FILE = """
[[replies]]
calls = [
    { tool = "write_file", arguments = { path = "n", content = "a\\nb\\n" } },
    { tool = "edit_file", arguments = { path = "n", edits = [{ old_str = "a", new_str = "1" }] } },
    { tool = "edit_file", arguments = { path = "n", edits = [{ old_str = "b", new_str = "2" }] } },
]

[[replies]]
text = "Done."
"""


def only_thread(treadle: Run) -> dict[str, Any]:
    (line,) = json.loads(treadle("list", "--json").stdout)
    assert isinstance(line, dict)
    return line


@pytest.fixture(params=BEGIN)
def begin(request: pytest.FixtureRequest, treadle: Run) -> Callable[..., str]:
    """Begins a turn or a task that comes to wait for approval; gives the thread."""

    def start(model: str, *arguments: str) -> str:
        done = treadle(
            BEGIN[request.param], "go", "-m", model, *(arguments or (*ASK, "--no-commit"))
        )
        assert (done.returncode, done.stdout) == (4, ""), done.stderr
        thread = str(only_thread(treadle)["id"])
        assert f"treadle approve {thread} --yes" in done.stderr
        assert f"treadle approve {thread} --no REASON" in done.stderr
        return thread

    return start


# ---- modes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "code"), [("ask", 4), ("auto-edit", 0), ("auto", 0)])
def test_a_mode_asks_about_an_edit_or_commits_it(
    treadle: Run,
    script: Script,
    repository: Path,
    environment: dict[str, str],
    mode: str,
    code: int,
) -> None:
    done = treadle("-p", "fix add", "-m", script(FIX), "--approval-mode", mode)
    assert done.returncode == code, done.stderr
    log = git(repository, environment, "log", "--format=%s")
    assert log.count("fix: add instead") == (code == 0)
    if code:
        done = treadle("approve", only_thread(treadle)["id"], "--yes")
        assert (done.returncode, done.stdout) == (0, "It adds now.\n"), done.stderr
        assert "fix: add instead" in git(repository, environment, "log", "--format=%s")


def test_a_command_needs_a_yes_in_auto_edit_and_the_thread_keeps_its_mode(
    treadle: Run, script: Script
) -> None:
    auto_edit = ("--approval-mode", "auto-edit")
    assert treadle("-p", "go", "-m", script(COMMAND), *auto_edit).returncode == 4
    thread = only_thread(treadle)["id"]
    assert treadle("approve", thread, "--yes").stdout == "It ran.\n"
    assert treadle("-c", "-p", "again").returncode == 4
    assert treadle("approve", thread, "--no", "not on a Friday").stdout == "Then not.\n"
    assert treadle("-c", "-p", "again", "--approval-mode", "auto").stdout == "It ran.\n"


# ---- answers from another process --------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "then", "effects"),
    [
        (["--yes"], "It ran.\n", "ran\n"),
        (["--no", "not on a Friday"], "Then not.\n", None),
        (["--args", CHANGED], "You changed it.\n", "changed\n"),
    ],
)
def test_a_call_that_waits_is_answered_from_another_process(
    treadle: Run,
    script: Script,
    repository: Path,
    begin: Callable[..., str],
    answer: list[str],
    then: str,
    effects: str | None,
) -> None:
    thread = begin(script(COMMAND))
    assert not (repository / "effects").exists()
    done = treadle("approve", thread, *answer)
    assert (done.returncode, done.stdout) == (0, then), done.stderr
    path = repository / "effects"
    assert (path.read_text() if path.exists() else None) == effects
    assert treadle("verify", thread).returncode == 0
    again = treadle("approve", thread, *answer)
    assert again.returncode == 2
    assert "waits for no approval" in again.stderr


def test_what_waits_is_shown_without_changing_anything(
    treadle: Run, script: Script, begin: Callable[..., str]
) -> None:
    thread = begin(script(COMMAND))
    version = only_thread(treadle)["version"]
    shown = treadle("approve", thread[:20])
    assert shown.returncode == 0
    for words in ("· high risk", "│ command: echo ran >> effects", f"{thread} --yes"):
        assert words in shown.stdout
    (question,) = json.loads(treadle("approve", thread, "--json").stdout)
    assert json.loads(question["call"]["arguments_json"])["command"] == "echo ran >> effects"
    assert "waits for approval" in treadle("list").stdout
    assert shown.stdout in treadle("show", thread).stdout
    again = treadle("resume", thread)
    assert (again.returncode, again.stdout) == (4, "")
    assert "│ command: echo ran >> effects" in again.stderr
    assert only_thread(treadle)["version"] == version


def test_programs_get_the_questions_in_the_stream_and_in_the_result(
    treadle: Run, script: Script, begin: Callable[..., str]
) -> None:
    thread = begin(script(COMMAND), *ASK, "--no-commit", "--output-format", "text")
    for arguments in (["resume", thread], ["resume", thread, "--output-format", "json"]):
        assert treadle(*arguments).returncode == 4
    done = treadle("resume", thread, "--output-format", "stream-json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    (asked,) = [record for record in records if record["type"] == "approval_requested"]
    assert asked["thread"] == thread
    assert asked["questions"][0]["call"]["tool_name"] == "bash"
    assert records[-1]["outcome"] == "approval_needed"
    assert records[-1]["questions"] == asked["questions"]
    assert "treadle approve" not in done.stderr
    done = treadle("approve", thread, "--yes", "--output-format", "json")
    assert json.loads(done.stdout)["answer"] == "It ran."


def test_of_several_calls_one_can_be_answered_and_none_runs_before_all_are(
    treadle: Run, script: Script, repository: Path, begin: Callable[..., str]
) -> None:
    thread = begin(script(TWO))
    done = treadle("approve", thread, "oth", "--no", "no need")
    assert done.returncode == 4, done.stderr
    assert "call other" not in done.stderr
    assert not (repository / "effects").exists()
    done = treadle("approve", thread, "one", "--args", CHANGED)
    assert done.returncode == 4
    assert treadle("approve", thread, "--yes").returncode == 4  # the later command
    assert (repository / "effects").read_text() == "changed\n"
    assert (repository / "new.txt").read_text() == "new"
    assert treadle("approve", thread, "--yes").stdout == "Done.\n"
    assert (repository / "effects").read_text() == "changed\nlater\n"


def test_an_answer_that_would_be_used_up_for_nothing_is_refused(
    treadle: Run, script: Script, repository: Path, begin: Callable[..., str]
) -> None:
    thread = begin(script(TWO))
    for wrong in ("{}", '{"command": 1}', '{"command": "ls", "shell": "zsh"}'):
        done = treadle("approve", thread, "one", "--args", wrong)
        assert done.returncode == 2, done.stderr
        assert "bash does not take these arguments" in done.stderr
    assert treadle("resume", thread, "--approval-mode", "plan").returncode == 4
    done = treadle("approve", thread, "one", "--yes")
    assert done.returncode == 2
    assert "refuses bash" in done.stderr
    assert treadle("resume", thread, "--approval-mode", "ask").returncode == 4
    assert treadle("approve", thread, "--yes").returncode == 4  # the later command
    assert (repository / "effects").exists()


def test_always_allows_the_kinds_of_a_call_for_the_rest_of_the_thread_until_it_is_taken_back(
    treadle: Run, script: Script, repository: Path, begin: Callable[..., str]
) -> None:
    thread = begin(script(KINDS))
    assert "nothing is allowed" in treadle("approve", thread, "--grants").stderr
    done = treadle("approve", thread, "status", "--yes", "--always")
    assert done.returncode == 4
    assert "call again" not in done.stderr, "it is of the same kind"
    assert "call other" in done.stderr
    told = treadle("approve", thread, "--grants")
    assert told.stdout == "bash: git status, up to high risk\n"
    (grant,) = json.loads(treadle("approve", thread, "--grants", "--json").stdout)
    assert (grant["tool_name"], grant["kind"]) == ("bash", "git status")
    assert treadle("approve", thread, "--yes").stdout == "Done.\n", "the later one is granted"
    assert (repository / "effects").read_text() == "b\n"
    assert "a person allowed bash: git status for good" in treadle("show", thread).stdout
    refused = treadle("approve", thread, "--revoke", "git log")
    assert refused.returncode == 2
    assert "allowed: bash: git status" in refused.stderr
    assert treadle("approve", thread, "--revoke", "git status").returncode == 0
    assert treadle("approve", thread, "--grants").stdout == ""
    assert treadle("approve", thread, "--revoke", "git status").returncode == 2
    assert treadle("verify", thread).returncode == 0


def test_always_is_refused_for_a_call_that_can_only_be_allowed_by_itself(
    treadle: Run, script: Script, repository: Path, begin: Callable[..., str]
) -> None:
    # What bash expands is another command each time.
    thread = begin(script(COMMAND.replace("echo ran", "echo $PWD")))
    done = treadle("approve", thread, "--yes", "--always")
    assert done.returncode == 2
    assert "can only be allowed by itself" in done.stderr
    assert not (repository / "effects").exists()
    assert treadle("approve", thread, "--yes").stdout == "It ran.\n"


def test_a_grant_of_a_folder_covers_files_below_it_and_no_others(
    treadle: Run, script: Script, repository: Path
) -> None:
    assert treadle("-p", "go", "-m", script(FILES), *ASK, "--no-commit").returncode == 4
    thread = only_thread(treadle)["id"]
    done = treadle("approve", thread, "in", "--yes", "--always")
    assert (done.returncode, "call below" in done.stderr) == (4, False)
    assert "call beside" in done.stderr
    assert treadle("approve", thread, "--no", "not there").stdout == "Done.\n"
    assert (repository / "src" / "deep" / "b.txt").read_text() == "b"
    assert not (repository / "srcs").exists()


def test_a_yes_does_not_stand_for_a_file_that_has_changed_since(
    treadle: Run, script: Script, repository: Path
) -> None:
    assert treadle("-p", "go", "-m", script(FILES), *ASK, "--no-commit").returncode == 4
    thread = only_thread(treadle)["id"]
    assert treadle("approve", thread, "in", "--yes").returncode == 4
    (repository / "src").mkdir()
    (repository / "src" / "a.txt").write_text("mine")
    done = treadle("approve", thread, "--no", "not there")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "a person allowed this call, but the file has changed since; nothing ran" in done.stderr
    assert (repository / "src" / "a.txt").read_text() == "mine"


def test_a_yes_to_several_changes_of_one_file_stands_for_each_in_its_turn(
    treadle: Run, script: Script, repository: Path, begin: Callable[..., str]
) -> None:
    thread = begin(script(ONE_FILE))
    done = treadle("approve", thread, "--yes")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (repository / "n").read_text() == "1\n2\n"
    assert "ERROR" not in treadle("show", thread).stdout
    assert treadle("verify", thread).returncode == 0


@for_every_row(
    "arguments, words",
    [
        (["--yes", "--no", "x"], "give one of them"),
        (["--always"], "--always goes with --yes"),
        (["--no", "x", "--always"], "--always goes with --yes"),
        (["--json", "--yes"], "--json shows what waits"),
        (["--grants", "--yes"], "--grants and --revoke answer nothing"),
        (["one", "--revoke", "bash"], "--grants and --revoke answer nothing"),
        (["--revoke", "bash", "--json"], "--json goes with --grants"),
        (["--revoke", "bash"], "allowed: nothing is"),
        (["--args", "{}"], "--args needs a CALL"),
        (["one", "--args", "[]"], "takes a JSON object"),
        (["one", "--args", "{"], "takes a JSON object"),
        (["o", "--yes"], "2 calls begin with 'o'"),
        (["x", "--yes"], "no call that waits begins with 'x'"),
        (["x"], "those that wait: one, other, third"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_and_changes_nothing(
    treadle: Run, waiting: str, arguments: list[str], words: str
) -> None:
    version = only_thread(treadle)["version"]
    done = treadle("approve", waiting, *arguments)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert only_thread(treadle)["version"] == version


@pytest.fixture
def waiting(treadle: Run, script: Script) -> str:
    assert treadle("-p", "go", "-m", script(TWO), *ASK).returncode == 4
    return str(only_thread(treadle)["id"])


def test_where_nothing_waits_it_says_so(treadle: Run, script: Script) -> None:
    treadle("-p", "hello", "-m", script(HELLO))
    thread = only_thread(treadle)["id"]
    for arguments in ([], ["--yes"], ["--json"]):
        done = treadle("approve", thread, *arguments)
        assert done.returncode == 2
        assert "waits for no approval" in done.stderr


def test_a_prompt_that_comes_while_calls_wait_is_delivered_after_them(
    treadle: Run, script: Script, repository: Path
) -> None:
    later = '[[replies]]\nwhen.user = "and then"\ntext = "And then this."\n\n'
    assert treadle("-p", "go", "-m", script(later + COMMAND), *ASK, "--no-commit").returncode == 4
    done = treadle("-c", "-p", "and then")
    assert done.returncode == 4
    assert "the prompt is kept" in done.stderr
    done = treadle("approve", only_thread(treadle)["id"], "--yes")
    assert (done.returncode, done.stdout) == (0, "And then this.\n"), done.stderr
    assert (repository / "effects").read_text() == "ran\n"


# ---- in a terminal -----------------------------------------------------------------------------


def terminal(repository: Path, environment: dict[str, str], *arguments: str) -> Terminal:
    program = [sys.executable, "-m", "treadle", *arguments, "--no-commit"]
    return Terminal("", repository, environment, program)


@pytest.mark.parametrize("kind", BEGIN)
@pytest.mark.parametrize(
    ("answer", "then", "effects"),
    [
        ("y\r", "It ran.", "ran\n"),
        ("n\rnot on a Friday\r", "Then not.", None),
        (f"e\r{CHANGED}\r", "You changed it.", "changed\n"),
    ],
)
def test_in_a_terminal_a_person_is_asked(
    script: Script,
    repository: Path,
    environment: dict[str, str],
    kind: str,
    answer: str,
    then: str,
    effects: str | None,
) -> None:
    shown = terminal(repository, environment, BEGIN[kind], "go", "-m", script(COMMAND), *ASK)
    shown.read_until(QUESTION)
    assert shown.shown.index("I run it.") < shown.shown.index("command: echo ran >> effects")
    shown.type(answer)
    assert then in shown.read_to_the_end()
    assert shown.process.wait() == 0
    path = repository / "effects"
    assert (path.read_text() if path.exists() else None) == effects


@pytest.mark.parametrize(
    ("kind", "by"), [("turn", "resume"), ("task", "resume"), ("task", "approve")]
)
def test_a_question_survives_the_death_of_who_asked_it(
    treadle: Run,
    script: Script,
    repository: Path,
    environment: dict[str, str],
    kind: str,
    by: str,
) -> None:
    shown = terminal(repository, environment, BEGIN[kind], "go", "-m", script(COMMAND), *ASK)
    shown.read_until(QUESTION)
    shown.process.kill()
    shown.read_to_the_end()
    shown.process.wait()
    assert not (repository / "effects").exists()
    thread = only_thread(treadle)["id"]
    if by == "approve":
        done = treadle("approve", thread, "--yes", "--no-commit")
        assert (done.returncode, done.stdout) == (0, "It ran.\n"), done.stderr
    else:
        again = terminal(repository, environment, "resume", thread)
        again.read_until(QUESTION)
        again.type("y\r")
        assert "It ran." in again.read_to_the_end()
        assert again.process.wait() == 0
    assert (repository / "effects").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("leave", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), ("end of input", 130)]
)
def test_who_leaves_a_question_of_a_task_open_can_answer_it_later(
    treadle: Run,
    script: Script,
    repository: Path,
    environment: dict[str, str],
    leave: Any,
    code: int,
) -> None:
    shown = terminal(repository, environment, "run", "go", "-m", script(COMMAND), *ASK)
    shown.read_until(QUESTION)
    if leave == "end of input":
        shown.type("\x04")
    else:
        shown.process.send_signal(leave)
    text = shown.read_to_the_end()
    assert "Traceback" not in text
    assert shown.process.wait() == code, text
    assert f"treadle resume {only_thread(treadle)['id'][-8:]}" in text
    done = treadle("approve", only_thread(treadle)["id"], "--yes", "--no-commit")
    assert (done.returncode, done.stdout) == (0, "It ran.\n"), done.stderr


def test_always_in_a_terminal_holds_in_the_next_process_too(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    model = script(COMMAND.replace("echo ran >> effects", "git status"))
    shown = terminal(repository, environment, "-p", "go", "-m", model, *ASK)
    shown.read_until(QUESTION)
    shown.type("a\r")
    assert "It ran." in shown.read_to_the_end()
    assert shown.process.wait() == 0
    assert treadle("-c", "-p", "again", "--no-commit").stdout == "It ran.\n"


def test_a_thread_that_is_open_elsewhere_is_not_answered(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    shown = terminal(repository, environment, "-p", "go", "-m", script(COMMAND), *ASK)
    shown.read_until(QUESTION)
    assert treadle("approve", only_thread(treadle)["id"], "--yes").returncode == 75
    shown.type("y\r")
    assert "It ran." in shown.read_to_the_end()
    assert shown.process.wait() == 0
    assert (repository / "effects").read_text() == "ran\n"
