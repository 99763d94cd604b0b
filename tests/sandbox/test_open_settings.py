"""Commands that write settings of git: a person is asked, and nothing else comes to be written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.risk.settings import settings_written
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Level, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

WRITES = {
    "git remote add o https://h.example/x": "remote.o.url = https://h.example/x, remote.o.*",
    "git remote add -t main o git@h:x": "remote.o.url = git@h:x, remote.o.*",
    "git remote set-url o https://h/x": "remote.o.url = https://h/x, remote.o.*",
    "git remote rename o p": "remote.o.*, remote.p.*, branch.*.*",
    "git remote remove o": "remote.o.*, branch.*.*",
    "git branch -u o/main": "branch.*.*",
    "git branch -m new": "branch.*.*",
    "git branch new o/main": "branch.*.*",
    "git checkout -b new o/main": "branch.*.*",
    "git switch --track o/main": "branch.*.*",
    "git push -u o main 2>&1 | tail -3": "branch.*.*",
    "git pull --set-upstream o main": "branch.*.*",
    "git submodule add https://h/x": "submodule.*.*, submodule.active",
    "git submodule update --init": "submodule.*.*, submodule.active",
    "git config user.name Ada": "user.name = Ada",
    "git config --add Remote.O.Fetch x": "remote.O.fetch = x",
    "git config set user.name Ada": "user.name = Ada",
    "git config --unset user.name": "user.name",
    "git config core.fsmonitor ./x": "core.fsmonitor = ./x",
    "git --no-pager remote add o https://h/x && git remote -v | cat": (
        "remote.o.url = https://h/x, remote.o.*"
    ),
    # Of these none is known, or more than git runs while they would be open.
    "git config user.name": "",
    "git config --get user.name": "",
    "git config --global user.name x": "",
    "git config -f x user.name x": "",
    "git config --rename-section remote.o alias": "",
    "git remote -v": "",
    "git branch new": "",
    "git branch -d new": "",
    "git checkout -b new": "",
    "git push o main": "",
    "git submodule update": "",
    "git submodule foreach 'git config a.b c'": "",
    "make && git remote add o https://h/x": "",
    "git remote add o https://h/x; ./x.sh": "",
    "git -C sub remote add o https://h/x": "",
    "cd sub && git remote add o https://h/x": "",
    "GIT_DIR=x git remote add o https://h/x": "",
    "./git remote add o https://h/x": "",
    "git -c alias.x=!evil remote add o https://h/x": "",
    "git remote add o $(./x)": "",
    "git remote add o https://h/x > .git/config": "",
    "if true; then git remote add o https://h/x; fi": "",
}
WRITTEN = (
    "git remote add o https://h.example/x.git",
    "git config user.name Ada",
    "git remote set-url o git@h.example:x.git",
    "git branch -u o/main",
    "git branch -m trunk",
    "git config --unset user.name",
    "git remote rename o up",
)
REFUSED = (
    "git config core.fsmonitor ./x",
    "git config alias.x '!./x'",
    "git config core.worktree /",
    "git config include.path ../x",
    "git config extensions.worktreeConfig true",
    "git config submodule.s.update '!./x'",
    "git config branch.main.remote ../evil",
    "git config branch.main.remote foo::./x",
    "git remote add o foo::./x",
    "git remote add o ./evil",
    "git remote add o file:///evil",
    "git remote add o ssh://-oProxyCommand=x",
)
PUT_BACK = {
    "writes more": "printf '[core]\\nfsmonitor=./x\\n' >> .git/config",
    "names a program": "git config remote.o.uploadpack ./x",
    "names more": "git config remote.p.url https://evil/x",
    "by a link": "mv .git/config x; ln -s ../x .git/config",
    "makes it unreadable": "echo '[' >> .git/config",
    "removes another": "git config --unset core.bare",
    "removes all": "rm .git/config",
}
"""What a program of the workspace could do that a hook of the person's runs."""


@pytest.fixture(params=[name for name in BACKENDS if find_backend((name,)).name])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    ws = tmp_path / "ws"
    ws.mkdir()
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (
        ["init", "-qb", "main"],
        [*own, "commit", "-q", "--allow-empty", "-m", "x"],
        ["update-ref", "refs/remotes/o/main", "HEAD"],
        ["config", "alias.mine", "!mine"],
        ["config", "user.email", "a@b.c"],
    ):
        subprocess.run(["git", "-C", str(ws), *command], check=True)
    return ws


def tools(ws: Path, backend: str, policy: Policy | None = None) -> Registry:
    sandbox = Sandbox(policy or Policy(), ws, backends=(backend,))
    return Registry(builtin_tools(), workspace=ws, sandbox=sandbox)


def call_of(command: str) -> ToolCall:
    return ToolCall("c", "bash", json.dumps({"command": command, "access": "write"}))


def scope_of(registry: Registry, command: str) -> Scope:
    found = registry.scope_of(call_of(command))
    assert found is not None
    return found


async def run(registry: Registry, command: str) -> Outcome:
    return await registry.execute(call_of(command), key="c", progress=lambda report: None)


def text_of(outcome: Outcome) -> str:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return outcome.error.message


def test_the_settings_that_a_command_writes_are_read_off_its_words() -> None:
    wrong = {
        command: found
        for command, expected in WRITES.items()
        if (found := ", ".join(map(str, settings_written(command)))) != expected
    }
    assert wrong == {}


async def test_what_a_person_was_asked_about_is_written(repository: Path, backend: str) -> None:
    registry = tools(repository, backend)
    wrong = {}
    for command in WRITTEN:
        scope = scope_of(registry, command)
        before = (repository / ".git/config").read_bytes()
        said = text_of(await run(registry, command))
        is_written = (repository / ".git/config").read_bytes() != before
        is_asked = scope.must_ask and "it writes settings of git: " in "".join(scope.reasons)
        if not (is_asked and not scope.refused and is_written and said.endswith("[exit code 0]")):
            wrong[command] = scope, said
        if "put " in said:
            wrong[command] = scope, said
    assert wrong == {}
    assert "!mine" in (repository / ".git/config").read_text()


async def test_what_could_run_a_program_is_refused_and_nobody_is_asked(
    repository: Path, backend: str
) -> None:
    registry = tools(repository, backend)
    before = (repository / ".git/config").read_bytes()
    wrong = {}
    for command in REFUSED:
        said = text_of(await run(registry, command))
        if "no command may set" not in scope_of(registry, command).refused + said:
            wrong[command] = said
    assert wrong == {}
    assert (repository / ".git/config").read_bytes() == before


async def test_what_else_is_written_is_put_back_and_told(repository: Path, backend: str) -> None:
    config, hook = repository / ".git/config", repository / ".git/hooks/post-commit"
    hook.write_text("#!/bin/sh\nsh ./check.sh\n")
    hook.chmod(0o755)
    before = config.read_bytes()
    wrong = {}
    adds = "git config user.name Ada && git remote add o https://h/x"
    command = f"{adds} && git commit -q --allow-empty -m x"
    for name, attack in PUT_BACK.items():
        (repository / "check.sh").write_text(f"{attack}\n")
        said = text_of(await run(tools(repository, backend), command))
        if config.is_symlink() or config.read_bytes() != before or "put back" not in said:
            wrong[name] = said
    assert wrong == {}


async def test_where_nobody_can_be_asked_it_is_refused_with_what_to_do(
    repository: Path, backend: str
) -> None:
    command = "git remote add o https://h/x"
    registry = tools(repository, backend, Policy(may_ask=False))
    assert "nobody is there to be asked" in scope_of(registry, command).refused
    assert "A person can do it" in text_of(await run(registry, command))
    # Where nothing is shut, or all is, nobody is asked.
    for level, why in ((Level.OFF, ""), (Level.READ_ONLY, 'the sandbox is "read-only"')):
        free = tools(repository, backend, Policy(level=level, may_ask=False))
        assert why in scope_of(free, command).refused
        assert bool(why) == bool(scope_of(free, command).refused)
        assert not scope_of(free, command).must_ask


async def test_one_that_is_shut_out_says_how_to_ask(repository: Path, backend: str) -> None:
    said = text_of(await run(tools(repository, backend), "true $(:); git config user.name Ada"))
    assert "a person is asked about" in said
