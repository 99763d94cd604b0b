"""Nothing that a thread, a file or a repository brings along steers the terminal."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import treadle as treadle_package
from cli.conftest import Run
from core.samples import CONFIG, answer, call, ended, said, success
from treadle.app.json_text import escape_json
from treadle.cli.main import COMMANDS
from treadle.core.events import LlmEvent, ToolStarted
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import (
    Annotated,
    Configured,
    FilesSaved,
    GitObserved,
    Renamed,
    Tagged,
    ThreadCreated,
)
from treadle.thread.record import Head, encode_batch
from treadle.thread.safe_text import sanitize_text

BAD = "\x1b]0;owned\x07\x9b31m\u202egnp\u2066"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ID = "T-019b76da-abe8-7469-8a4b-000000000001"
AT = "2026-01-01T00:00:00.000000Z"


def entries(folder: str) -> list[Entry]:
    reply = answer(BAD, call(f"a{BAD}", f"edit{BAD}", json.dumps({"path": BAD})))
    assert isinstance(reply, LlmEvent.Completed)
    reply = replace(reply, response=replace(reply.response, usage=Usage(3, 4)))
    prompt = said(f"first {BAD}")
    return [
        ThreadCreated(1, ID, "chat", f"treadle/{BAD}", folder, f"/p/{BAD}"),
        Configured(replace(CONFIG, model_name=BAD), BAD),
        GitObserved(BAD, "c0ffee", remote=BAD, changed=(BAD,)),
        replace(prompt, message=replace(Message.user(f"first {BAD}"), name=BAD)),
        FilesSaved(f"HEAD\nHEAD {BAD}", BAD, "before", (BAD,)),
        reply,
        ToolStarted(f"a{BAD}", AT),
        ended(f"a{BAD}", success(f"a{BAD}", f"{BAD}\n{BAD}")),
        FilesSaved(f"--output={BAD}", "HEAD", "after", (BAD,)),
        Renamed(BAD),
        Tagged((BAD,)),
        Annotated(BAD),
    ]


@pytest.fixture
def imported(treadle: Run, repository: Path, tmp_path: Path) -> str:
    """A thread of another machine in which every text is hostile."""
    encoded = [encode_entry(entry)[1] for entry in entries(str(repository))]
    data, _ = encode_batch(Head(), AT, encoded)
    (tmp_path / "gift.jsonl").write_bytes(data)
    check(treadle("import", str(tmp_path / "gift.jsonl"), "--dry-run"))
    done = treadle("import", str(tmp_path / "gift.jsonl"))
    check(done)
    assert done.returncode == 0, done.stderr
    return ID


def check(done: subprocess.CompletedProcess[str]) -> None:
    said = done.stdout + done.stderr
    assert STEERS.findall(said) == [], (done.args, said)
    assert "Traceback" not in said, (done.args, said)


TOLD = (
    *("list", "list --all", "list --tag {bad}", "list --model {bad}", "list --since {bad}"),
    *("search first", "search {bad}", "show {id}", "show {id} --usage", "show {id} --output {bad}"),
    *("show {bad}", "show {id} --at {bad}", "show {id} --at-commit {bad}", "diff {id}"),
    *("rewind {id} --turn 1", "rewind {id} --version 4 --files", "watch {id}", "replay {id}"),
    *("trace {id}", "verify {id}", "verify --all", "graph {id}", "du", "du {id}", "doctor"),
    *("tag {id}", "tag {id} {bad}", "tag {id} fine", "note {id} {bad}", "rename {id} {bad}"),
    *("pr {id}", "pr --base {bad}"),
    *("pin {id}", "fork {id}", "resume {id}", "approve {id}", "compact {id} -m {bad}"),
    *("log {bad}", "log", "blame {bad}", "blame bad.txt", "blame bad.txt:1", "import {bad}"),
    *("export {id}", "export {id} --format html", "export {id} -o {folder}/{bad}"),
    *("export {id} -o {folder}/{bad}", "export {id} -o {folder}/{bad}/{bad}"),
    *("-p x -m {bad}", "-r {bad} -p x", "{bad}", "list --{bad}", "trash {id}", "list --trashed"),
    *("gc --dry-run", "restore {id}", "restore {bad}", "scrub {id} owned --dry-run", ""),
    *("usage", "usage --since {bad}"),
    *("eval {id} -m {bad}", "eval {bad}", "eval list", "eval --resume {bad}", "eval --from {bad}"),
    *("list --json", "show {id} --json", "export {id} --format json"),
    *("run {bad} -m {bad}", "private {id}", "private {bad}", "share {id}", "unshare {id}"),
    *("sync --status", "sync {bad}", "config show", "config {bad}", "models {bad}"),
    *("config set {bad} 1", "config set models.default {bad}", "help {bad}"),
    *("login {bad}", "logout {bad}", "completion {bad}", "acp"),
    *("mcp serve", "mcp {bad}", "mcp add {bad} {bad}", "mcp add one {bad} -e {bad}", "mcp list"),
    *("mcp add two http://{bad} -H {bad}:{bad}", "mcp remove {bad}", "mcp remove one"),
    *("webhooks add {bad}", "webhooks list", "webhooks test 9", "webhooks remove {bad}"),
    *("mcp login {bad}", "mcp logout {bad}", "worker {bad}", "worker {bad}.py:{bad}"),
    *(
        "fleet --in {bad}",
        "fleet --in {bad}.py:x submit {bad}",
        "fleet --in a.py:{bad} cancel {bad}",
        "fleet --in a.py:{bad} limit user {bad} 1",
    ),
)
"""Command lines; `{bad}` is a hostile text."""

NOT_TOLD = {"admin", "demo", "remote", "serve", "web"}
"""What an operator of a server runs, what works in a folder of its own, what prints a link, what
shows a question as `approve` does."""


def test_every_command_is_tried_with_hostile_texts() -> None:
    tried = {line.split(" ")[0] for line in TOLD}
    missing = sorted({*COMMANDS} - tried - NOT_TOLD)
    advice = "give each a line in TOLD of this file, or if it shows no foreign text: NOT_TOLD"
    assert missing == [], f"{missing}: {advice}"
    assert NOT_TOLD - {*COMMANDS} == set()


def test_no_command_lets_a_hostile_thread_steer_the_terminal(
    treadle: Run, repository: Path, environment: dict[str, str], imported: str, tmp_path: Path
) -> None:
    (repository / "bad.txt").write_text(f"{BAD}\n")
    for arguments in (
        ["add", "--all"],
        ["-c", f"user.name={BAD}", "commit", "--quiet", "--message", f"fix: {BAD}"],
    ):
        subprocess.run(["git", *arguments], cwd=repository, env=environment, check=True)
    names = {"{bad}": BAD, "{id}": imported, "{folder}": str(tmp_path)}
    for line in TOLD:
        words = line.split()
        for name, value in names.items():
            words = [word.replace(name, value) for word in words]
        check(treadle(*words))
    (repository / ".treadle").mkdir()
    for key in ("model", BAD):
        text = f"{json.dumps(key)} = {json.dumps(BAD)}\n"
        (repository / ".treadle" / "config.toml").write_text(text)
        done = treadle("config", "trust")
        check(done)
        assert "owned" in done.stdout + done.stderr, "it shows what the file says"


def test_all_json_is_printed_by_what_escapes_it() -> None:
    """And it reads the same as before."""
    source = Path(treadle_package.__file__).parent / "cli"
    unescaped = [
        f"{path.name}: {ast.unparse(node)}"
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("click.echo", "sys.stdout.write", "print")
        and re.search(r"json\.(dumps|encode|format)|to_json", said := ast.unparse(node))
        and "escape_json" not in said
        and not said.startswith("click.echo(legible(")
    ]
    assert unescaped == []
    every = "".join(map(chr, range(0x20, 0x3400))) + "\U0001f600\U000e0041\ufeff\ud800\t\n\x00"
    for text in (every, BAD, "a\u0301\u200d\u05d0", "plain"):
        printed = escape_json(json.dumps({text: [text]}, ensure_ascii=False))
        assert json.loads(printed) == {text: [text]}
        assert sanitize_text(printed) == printed
    assert (
        escape_json('"d\xe9j\xe0 \u65e5\u672c \U0001f600"')
        == '"d\xe9j\xe0 \u65e5\u672c \U0001f600"'
    )


def test_no_command_lets_the_name_of_a_file_steer_the_terminal(
    treadle: Run, script: Callable[[str], str], repository: Path
) -> None:
    (repository / "calc.py").write_text("mine\n")
    command = r"echo 1 >> calc.py; echo 1 > $(printf 'x\033]0;owned\007\342\200\256gnp')"
    arguments = f"{{access = 'write', command = {json.dumps(command)}}}"
    reply = f"[[replies.calls]]\ntool = 'bash'\narguments = {arguments}"
    model = script(f"[[replies]]\n{reply}\n[[replies]]\ntext = 'Done.'\n")
    check(treadle("-p", "go", "-m", model, "--approval-mode", "auto"))
    (thread,) = [word for word in treadle("list").stdout.split() if word.startswith("T-")]
    (made,) = [path for path in repository.iterdir() if path.name.startswith("x")]
    assert STEERS.search(made.name)
    check(treadle("show", thread))
    made.write_text("2\n")
    check(treadle("rewind", thread, "--turn", "0", "--files"))
    check(treadle("rewind", thread, "--turn", "0", "--files", "--force"))
