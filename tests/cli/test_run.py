"""`treadle -p`: one turn without a terminal, its streams, its exit codes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from case_tables import for_every_row
from cli.conftest import Run
from treadle.app.sessions.approval_modes import MODES
from treadle.app.sessions.sub_agents import KINDS
from treadle.core.llm import ADVICE, LlmErrorKind
from treadle.tools.builtin import builtin_tools

HELLO = '[[replies]]\ntext = "Hello to you."\n'

FIX = """
[[replies]]
when.system = "commit message"
text = "fix: add instead of subtracting"

[[replies]]
text = "I look first."
calls = [{ tool = "read_file", arguments = { path = "calc.py" } }]

[[replies]]
text = "It subtracts."
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }

[[replies]]
text = "It adds now."
"""

Script = Callable[[str], str]


def git(repository: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_answer_alone_is_on_stdout(treadle: Run, script: Script) -> None:
    done = treadle("-p", "hello", "-m", script(HELLO))
    assert (done.returncode, done.stdout) == (0, "Hello to you.\n")
    assert "thread T-" in done.stderr
    assert "treadle resume T-" in done.stderr


def test_an_agent_fixes_a_bug_and_commits_its_own_change_only(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    (repository / "notes.txt").write_text("mine\n")
    (repository / "staged.txt").write_text("mine too\n")
    git(repository, environment, "add", "staged.txt")
    done = treadle("-p", "fix add", "-m", script(FIX), "--approval-mode", "auto")
    assert (done.returncode, done.stdout) == (0, "It adds now.\n"), done.stderr
    body = git(repository, environment, "log", "-1", "--format=%B")
    assert body.startswith("fix: add instead of subtracting")
    assert "Treadle-Thread: T-" in body
    shown = git(repository, environment, "show", "--format=", "--name-only", "HEAD")
    assert shown == "calc.py\n"
    status = git(repository, environment, "status", "--porcelain")
    assert status == "A  staged.txt\n?? notes.txt\n"


def test_in_a_worktree_nothing_of_the_persons_own_folder_changes(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    (repository / "mine.txt").write_text("mine\n")
    before = git(repository, environment, "status", "--short", "--branch")
    place = repository.with_name(f"{repository.name}.worktrees") / "port"
    for command in (("-p", "fix add"), ("run", "fix add")):
        options = ("-m", script(FIX), "--approval-mode", "auto", "--worktree", command[0][-1])
        done = treadle(*command, *options)
        assert done.returncode == 0, done.stderr
        place = place.with_name(command[0][-1])
        said = (
            f"new worktree {place}, branch {place.name}; 1 changed file of yours stays where it is"
        )
        assert said in done.stderr.splitlines()
        subject = git(place, environment, "log", "--format=%s", "-1")
        assert subject == "fix: add instead of subtracting\n"
    assert git(repository, environment, "status", "--short", "--branch") == before


def test_no_commit_leaves_the_change_to_the_person(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    model = script(FIX)
    done = treadle("-p", "fix add", "-m", model, "--approval-mode", "auto", "--no-commit")
    assert done.returncode == 0, done.stderr
    assert git(repository, environment, "status", "--porcelain") == " M calc.py\n"


def test_without_auto_all_tools_are_offered_and_only_those_that_read_run(
    treadle: Run, script: Script, repository: Path, tmp_path: Path
) -> None:
    done = treadle("-p", "fix add", "-m", script(FIX))
    assert "approval mode plan" in done.stderr
    assert "not in plan mode" in done.stderr
    assert "a - b" in (repository / "calc.py").read_text()
    snapshot = next((tmp_path / "home" / "data" / "threads").glob("*.json"))
    offered = json.loads(snapshot.read_text())["config"]["tools"]
    built_in = [tool.definition.name for tool in builtin_tools()] + [one.name for one in KINDS]
    assert [tool["name"] for tool in offered] == built_in


def test_json_is_one_object_with_outcome_and_usage(treadle: Run, script: Script) -> None:
    done = treadle("-p", "hello", "-m", script(HELLO), "--output-format", "json")
    result = json.loads(done.stdout)
    assert result["type"] == "result"
    assert result["outcome"] == "done"
    assert result["answer"] == "Hello to you."
    assert result["usage"]["input_tokens"] > 0
    assert result["thread"].startswith("T-")


def test_stream_json_begins_with_the_thread_and_ends_with_the_result(
    treadle: Run, script: Script
) -> None:
    done = treadle("-p", "fix", "-m", script(FIX), "--output-format", "stream-json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[0]["type"] == "thread"
    assert records[0]["schema"] == 1
    assert records[-1]["type"] == "result"
    kinds = [record["type"] for record in records]
    for kind in ("turn_started", "text_delta", "tool_started", "tool_finished"):
        assert kind in kinds


def test_piped_input_is_appended_to_the_prompt(treadle: Run, script: Script) -> None:
    model = script('[[replies]]\nwhen.user = "review[\\\\s\\\\S]*diff of mine"\ntext = "Good."\n')
    assert treadle("-p", "review", "-m", model, stdin="diff of mine").stdout == "Good.\n"


def test_a_dash_takes_the_prompt_from_stdin(treadle: Run, script: Script) -> None:
    model = script('[[replies]]\nwhen.user = "^only this$"\ntext = "Good."\n')
    assert treadle("-p", "-", "-m", model, stdin="only this").stdout == "Good.\n"


def test_continue_takes_the_last_thread_of_this_folder_and_says_which(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    model = script(HELLO)
    treadle("-p", "one", "-m", model)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    treadle("-p", "other", "-m", model, cwd=elsewhere)
    done = treadle("-c", "-p", "two")
    threads = {line["title"]: line for line in json.loads(treadle("list", "--json").stdout)}
    assert threads["one"]["message_count"] == 4
    assert threads["other"]["message_count"] == 2
    assert f"going on with {threads['one']['id']}" in done.stderr


def test_a_private_thread_is_recorded_as_such(treadle: Run, script: Script) -> None:
    treadle("-p", "hello", "-m", script(HELLO), "--private")
    assert json.loads(treadle("list", "--json").stdout)[0]["is_private"] is True


def test_the_example_of_the_documents_works_as_it_stands(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str]
) -> None:
    document = Path(__file__).parents[2] / "docs" / "scripted-models.md"
    example = document.read_text().split("```toml fix.toml\n")[1].split("```")[0]
    done = treadle("-p", "fix add", "-m", script(example), "--approval-mode", "auto")
    assert done.returncode == 0
    assert "ERROR" not in done.stderr
    assert "a + b" in (repository / "calc.py").read_text()
    assert git(repository, environment, "log", "-1", "--format=%s") == (
        "fix: add instead of subtracting\n"
    )


SECRET = """
[[replies]]
when.step = 0
calls = [
    { tool = "write_file", arguments = { path = "calc.py", content = "T = 'abcdefghijkl123'" } },
    { tool = "bash", arguments = { command = "printf 'abcdefghijkl'; echo 123" } },
]

[[replies]]
text = "Done."
"""


def test_a_known_secret_is_kept_out_and_its_mark_is_never_written_into_files(
    treadle: Run, script: Script, repository: Path, tmp_path: Path
) -> None:
    before = (repository / "calc.py").read_text()
    done = treadle(
        *("-p", "say abcdefghijkl123", "-m", script(SECRET), "--approval-mode", "auto"),
        *("--output-format", "stream-json"),
        MY_TOKEN="abcdefghijkl123",
    )
    assert done.returncode == 0
    assert "Nothing was done" in done.stdout
    assert "abcdefghijkl123" not in done.stdout
    assert (repository / "calc.py").read_text() == before
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"abcdefghijkl123" in path.read_bytes()]


def test_resuming_a_finished_thread_says_that_nothing_was_left(
    treadle: Run, script: Script
) -> None:
    treadle("-p", "hello", "-m", script(HELLO))
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    done = treadle("resume", thread)
    assert (done.returncode, done.stdout) == (0, "Hello to you.\n")
    assert "nothing was left unfinished; this is the last answer" in done.stderr
    assert "0 tokens in, 0 out (whole thread: " in done.stderr


TITLE = r"""
[[replies]]
when.step = 0
calls = [{ tool = "bash", arguments = { command = 'printf "\033]0;title\007"' } }]

[[replies]]
text = "ok"
"""


def test_what_would_steer_a_terminal_is_not_shown(treadle: Run, script: Script) -> None:
    model = script(TITLE)
    done = treadle("-p", "hello", "-m", model, "--approval-mode", "auto")
    assert "]0;title" in done.stderr
    assert "\x1b]" not in done.stderr
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    assert "\x1b]" not in treadle("show", thread).stdout


# ---- what goes wrong ---------------------------------------------------------------------------


@for_every_row(
    "arguments, words",
    [
        (["-p", " "], "the prompt is empty"),
        (["-p", "x", "-m", "nobody:knows"], "there is no provider 'nobody'"),
        (["-p", "x", "-m", "scripted:/no/such/file.toml"], "/no/such/file.toml"),
        (["-p", "x", "-C", "/no/such/folder"], "is no folder"),
        (["-p", "x", "-r", "T-0"], "too short to mean a thread"),
        (["-p", "x", "-r", "T-0190"], "there is no thread"),
        (["-p", "x", "-c"], "no thread has worked in"),
        (["-p", "x", "-c", "-r", "T-0"], "two threads"),
        (["-p", "x", "--max-steps", "0"], "--max-steps"),
        (["-p", "x", "--approval-mode", "yolo"], "--approval-mode"),
        (["-c"], "add -p PROMPT"),
        (["show", "T-01a1fdbf-1184-7453-9b14-9cf3346936b3"], "there is no thread"),
        (["show", "../../etc/passwd"], "there is no thread"),
        (["resume", "nothing", "-p", "x"], "there is no thread"),
        (["replay", "nothing"], "there is no thread"),
        (["verify", "nothing"], "there is no thread"),
        (["nonsense"], "No such command"),
        (["verfy"], "did you mean verify?"),
        (["Undo"], "did you mean rewind?"),
        (["fix", "the", "bug"], "No such command"),
        (["fix it", "now"], "stands in quotes"),
        (["fix it", "-p", "x"], "two prompts"),
        (["--", "list", "of", "files"], "stands in quotes"),
        (["config", "set", "max_steps", "many"], "max_steps must be a whole number"),
        (["config", "set", "aproval_mode", "ask"], "did you mean approval_mode?"),
        (["config", "set", "a b", "1"], "is no key of the settings"),
        (["config", "set", "models", "x"], "models must be a table"),
        (["config", "set", "providers.mine.api", "openai-chat"], "needs base_url"),
        (["help", "nonsense"], "No such command"),
        (["-p", "x", "list"], "before no command"),
        (["--private", "list"], "before no command"),
        (["--output-format", "json", "list"], "before no command"),
    ],
)
def test_a_call_that_cannot_be_is_refused_and_makes_nothing(
    treadle: Run, tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = treadle(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home").exists()


def test_a_bad_script_is_named_with_its_place(treadle: Run, script: Script) -> None:
    done = treadle("-p", "x", "-m", script("[[replies]]\ntxt = 3\n"))
    assert done.returncode == 2
    assert "script.toml" in done.stderr
    assert "replies[0]" in done.stderr


@pytest.mark.parametrize(
    ("kind", "code"), [("bad_request", 1), ("authentication", 5), ("overloaded", 75)]
)
def test_a_model_that_fails_says_what_to_do_and_the_thread_goes_on(
    treadle: Run, script: Script, kind: str, code: int
) -> None:
    failure = f'kind = "{kind}", message = "so it goes", retry_after_s = 0'
    model = script(f"[[replies]]\nerror = {{ {failure} }}\ntimes = 0\n")
    done = treadle("-p", "x", "-m", model, "--output-format", "json")
    assert done.returncode == code
    assert json.loads(done.stdout)["error_kind"] == kind
    done = treadle("-p", "x", "-m", model)
    assert (done.returncode, done.stdout) == (code, "")
    assert f"so it goes; {ADVICE[LlmErrorKind(kind)]}" in done.stderr
    assert treadle("-c", "-p", "again", "-m", script(HELLO)).stdout == "Hello to you.\n"


def test_max_steps_ends_with_3(treadle: Run, script: Script) -> None:
    done = treadle("-p", "fix", "-m", script(FIX), "--max-steps", "1")
    assert done.returncode == 3
    assert "max steps" in done.stderr


def test_a_home_that_cannot_be_made_ends_with_75_and_names_it(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = treadle("-p", "x", "-m", script(HELLO), TREADLE_HOME=str(tmp_path / "file" / "home"))
    assert done.returncode == 75
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_workspace_that_is_gone_can_be_shown_but_not_worked_in(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    treadle("-p", "hello", "-m", script(HELLO), cwd=folder)
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    folder.rmdir()
    assert "Hello to you." in treadle("show", thread).stdout
    done = treadle("resume", thread, "-p", "more")
    assert done.returncode == 2
    assert "-C FOLDER" in done.stderr
    assert treadle("resume", thread, "-p", "more", "-C", str(tmp_path)).returncode == 0


@pytest.mark.parametrize("begin", [("-p",), ("run",)])
@pytest.mark.parametrize("level", ["workspace-write", "read-only", "off"])
def test_in_plan_mode_what_would_change_something_is_answered_so_in_every_sandbox(
    treadle: Run, script: Script, repository: Path, begin: tuple[str, ...], level: str
) -> None:
    before = (repository / "calc.py").read_text()
    model = script(EDIT)
    done = treadle(*begin, "go", "-m", model, "--approval-mode", "plan", "--sandbox", level)
    assert (done.returncode, done.stdout) == (0, "This is my plan.\n")
    assert done.stderr.count("not in plan mode") == 2
    assert "not found" not in done.stderr
    assert (repository / "calc.py").read_text() == before


EDIT = """
[[replies]]
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", old_text = "a - b", new_text = "a + b" }

[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = "touch made" } }]

[[replies]]
text = "This is my plan."
"""


def test_plan_mode_refuses_what_changes_something_and_says_so_with_the_same_tools_as_any_mode(
    treadle: Run, script: Script, repository: Path
) -> None:
    model, before = script(EDIT), (repository / "calc.py").read_text()
    prefixes = []
    for mode in ("plan", "ask"):
        done = treadle("-p", "mend it", "-m", model, "--approval-mode", mode)
        thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
        journal = repository.parent / "home/data/threads" / f"{thread}.jsonl"
        events = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
        [config] = [one["config"] for one in events if one["type"] == "configured"]
        prefixes.append((config["tools"], config["system_prompt"]))
        if mode == "plan":
            results = [one["outcome"] for one in events if one["type"] == "tool_completed"]
            assert (done.returncode, done.stdout) == (0, "This is my plan.\n")
            assert all("not in plan mode" in json.dumps(one) for one in results)
            assert (len(results), "not found" in json.dumps(results)) == (2, False)
    (tools, told), (other_tools, other_told) = prefixes
    assert tools == other_tools
    # A thread says in which mode it began, at the end of what it is told first.
    lines, other_lines = told.splitlines(), other_told.splitlines()
    differ = [pair for pair in zip(lines, other_lines, strict=True) if pair[0] != pair[1]]
    assert [one[:12] for pair in differ for one in pair] == ["- Mode: plan", "- Mode: ask."]
    assert (repository / "calc.py").read_text() == before
    assert not (repository / "made").exists()


NETWORK = """
[[replies]]
calls = [{ tool = "bash", arguments = { command = "true", network = true } }]

[[replies]]
when = { tool = "bash", last = "no network here" }
text = "I went on without."

[[replies]]
text = "It had the network."
"""


def test_in_no_mode_a_run_that_nobody_watches_waits_for_somebody_to_allow_the_network(
    treadle: Run, script: Script
) -> None:
    model, ended = script(NETWORK), {}
    for mode in MODES:
        for network in ("", "off", "ask", "on"):
            flags = ("--network", network) if network else ()
            done = treadle("-p", "fetch", "-m", model, "--approval-mode", mode, *flags)
            ended[mode, network] = done.returncode, done.stdout
    went_on, had_it = (0, "I went on without.\n"), (0, "It had the network.\n")
    # Who says `ask` for this run wants to be asked, and comes back for it.
    expected = {"": went_on, "off": went_on, "ask": (4, ""), "on": had_it}
    assert ended == {(mode, one): end for mode in MODES for one, end in expected.items()}
