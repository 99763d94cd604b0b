"""What settings of git lead to, and what leads to hidden paths, is held while commands run."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from treadle.core.messages import ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.sandbox import repositories
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.placeholders import make_placeholders, remove_placeholders
from treadle.sandbox.policy import Policy
from treadle.sandbox.protected import find_protected
from treadle.tool_failure import ToolFailure
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

WORKING = [name for name in BACKENDS if find_backend((name,)).name]


@pytest.fixture(params=WORKING)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home/ws"
    made.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    return made


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


async def shown(ws: Path, backend: str, command: str, policy: Policy | None = None) -> str:
    sandbox = Sandbox(policy or Policy(), ws, backends=(backend,))
    registry = Registry(builtin_tools(), workspace=ws, sandbox=sandbox)
    call = ToolCall("c", "bash", json.dumps({"command": command, "access": "write"}))
    outcome = await registry.execute(call, key="c", progress=lambda report: None)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


def text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize(
    ("hooks", "attacked"),
    [
        ("tools/hooks", "tools/hooks/pre-commit"),
        (".husky/_", ".husky/_/pre-commit"),
        (".husky/_", ".husky/pre-commit"),
    ],
    ids=["a folder", "husky", "beside husky"],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there"])
async def test_hooks_among_the_files_are_as_they_were(
    ws: Path, backend: str, hooks: str, attacked: str, is_there: bool
) -> None:
    git(ws, "config", "core.hooksPath", hooks)
    target = ws / attacked
    if is_there:
        target.parent.mkdir(parents=True)
        target.write_text("was\n")
    top = attacked.split("/")[0]
    command = f"mv {top} gone; mkdir -p {target.parent}; echo x > {target}; touch ran"
    await shown(ws, backend, command)
    assert text(target) == ("was\n" if is_there else None)
    assert text(ws / "ran") == ""


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there"])
async def test_included_settings_are_as_they_were(ws: Path, backend: str, is_there: bool) -> None:
    git(ws, "config", "include.path", "../one.inc")
    git(ws, "config", "includeIf.onbranch:X.path", "../conf/two.inc")
    (ws / "conf").mkdir()
    if is_there:
        (ws / "one.inc").write_text("[include]\n\tpath = conf/three.inc\n")
        (ws / "conf/two.inc").write_text("[core]\n")
        (ws / "conf/three.inc").write_text("[core]\n")
    names = ("one.inc", "conf/two.inc", *(["conf/three.inc"] if is_there else []))
    before = [text(ws / name) for name in names]
    attack = "".join(f"rm -f {name}; echo '[evil]' > {name}; " for name in names)
    await shown(ws, backend, f"mv conf gone; mkdir conf; {attack} git status && touch ran")
    assert [text(ws / name) for name in names] == before
    assert text(ws / "ran") == ""


async def test_settings_of_a_relative_name_are_as_they_were(
    ws: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "conf/mine")
    (ws / "conf").mkdir()
    (ws / "conf/mine").write_text("[user]\n\tname = Ada\n")
    attack = "rm -f conf/mine; echo '[core]' > conf/mine; mv conf gone; touch ran"
    await shown(ws, backend, attack)
    assert (text(ws / "conf/mine"), text(ws / "ran")) == ("[user]\n\tname = Ada\n", "")


async def test_a_repository_of_another_name_that_a_git_file_names_is_held(
    ws: Path, backend: str
) -> None:
    (ws / ".git").rename(ws / ".store")
    (ws / ".git").write_text("gitdir: .store\n")
    before = text(ws / ".store/config")
    attack = "mv .store gone; echo x >> .store/config; echo x > .store/hooks/pre-commit"
    await shown(ws, backend, attack)
    assert text(ws / ".store/config") == before
    assert text(ws / ".store/hooks/pre-commit") is None


async def test_what_a_killed_run_has_left_is_put_aside_before_the_next(
    ws: Path, backend: str
) -> None:
    (ws / ".git/commondir").write_text("../evil\n")
    said = await shown(ws, backend, "cat .git/commondir; touch ran")
    assert said.startswith(".\n[put back")
    assert text(ws / ".git/commondir") is None
    assert text(ws / "ran") == ""


async def test_settings_of_one_work_tree_that_are_read_cannot_be_made(ws: Path) -> None:
    git(ws, "config", "extensions.worktreeConfig", "true")
    said = await shown(ws, "bubblewrap", "echo x > .git/config.worktree; git status && touch ran")
    assert "Read-only" in said or "denied" in said or "busy" in said
    assert text(ws / ".git/config.worktree") is None
    assert text(ws / "ran") == ""


async def test_what_leads_to_hidden_paths_cannot_be_renamed(ws: Path) -> None:
    (ws / "own/deep/state").mkdir(parents=True)
    (ws / "own/deep/state/trusted").write_text("secret")
    policy = Policy(hidden=(str(ws / "own/deep/state"), str(ws / "new/deep/state")))
    for attack in ("mv own moved", "mv own/deep moved", "mkdir -p new/deep/state; touch new/x"):
        await shown(ws, "bubblewrap", attack, policy)
    said = await shown(ws, "bubblewrap", "cat moved/*/* own/*/*/* moved/*; ls new", policy)
    assert "secret" not in said
    assert text(ws / "own/deep/state/trusted") == "secret"
    assert not (ws / "new").exists()


def test_a_placeholder_stays_until_no_program_needs_it(tmp_path: Path) -> None:
    folder, file = str(tmp_path / "folder"), str(tmp_path / "file")
    program = """
import sys
from treadle.sandbox.placeholders import make_placeholders, remove_placeholders
made = make_placeholders(sys.argv[1:2], [(sys.argv[2], b"x")])
print("made", flush=True)
sys.stdin.readline()
print(remove_placeholders(made), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, folder, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "made\n"
        first, second = (make_placeholders([folder], [(file, b"x")]) for _ in range(2))
        assert remove_placeholders(first) == []
        assert remove_placeholders(second) == []
        assert {one.name for one in tmp_path.iterdir()} == {"file", "folder"}
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "[]\n"
    assert not list(tmp_path.iterdir())


def test_what_is_not_empty_any_more_is_told(tmp_path: Path) -> None:
    made = make_placeholders([str(tmp_path / "folder")], [(str(tmp_path / "file"), b"")])
    (tmp_path / "folder/x").touch()
    (tmp_path / "file").write_text("x")
    assert len(remove_placeholders(made)) == 2


def test_repositories_that_were_found_are_not_lost_among_many_folders(
    ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "FOLDER_COUNT_MAX", 20)
    sub = ws / "z/y/sub"
    sub.mkdir(parents=True)
    git(sub, "init", "-q")
    config = str(sub / ".git/config")
    assert config in find_protected([str(ws)]).shut
    for number in range(50):
        (ws / f"a{number}").mkdir()
    assert config in find_protected([str(ws)]).shut


@pytest.mark.parametrize("at", ["node_modules/x", "target/deep/x", ".venv/src/x", "a/b/c/d/e/f/g"])
def test_what_was_there_before_the_first_command_is_found_wherever_it_lies(
    ws: Path, at: str
) -> None:
    (ws / at).mkdir(parents=True)
    git(ws / at, "init", "-q")
    assert str(ws / at / ".git/config") in find_protected([str(ws)]).shut


def test_a_workspace_with_too_many_folders_is_refused(
    ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "ALL_COUNT_MAX", 20)
    for number in range(50):
        (ws / f"a{number}").mkdir()
    with pytest.raises(ToolFailure, match="more than 20 folders"):
        find_protected([str(ws)])


async def test_no_socket_that_is_in_sight_answers_whatever_its_kind_and_however_many(
    ws: Path, tmp_path: Path
) -> None:
    place = tmp_path / "seen"
    place.mkdir()
    listen = "import socket, sys; s = socket.socket(1); s.bind(sys.argv[1]); s.listen(); "
    with ExitStack() as stack:
        names = [f"s{number}" for number in range(250)]
        for name in (*names, "datagrams"):
            kind = socket.SOCK_DGRAM if name == "datagrams" else socket.SOCK_STREAM
            server = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            server.bind(str(place / name))
            if kind == socket.SOCK_STREAM:
                server.listen(1)
        other = ["unshare", "--user", "--net", sys.executable, "-c"]
        program = f"{listen} print(1, flush=True); sys.stdin.read()"
        elsewhere = stack.enter_context(
            subprocess.Popen(  # noqa: ASYNC220
                [*other, program, str(place / "elsewhere")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        assert elsewhere.stdout is not None
        assert elsewhere.stdout.readline() == b"1\n"
        program = f"""
import os, socket
for name in sorted(os.listdir("{place}")):
    kind = socket.SOCK_DGRAM if name == "datagrams" else socket.SOCK_STREAM
    try:
        socket.socket(socket.AF_UNIX, kind).connect("{place}/" + name)
        print("reached", name)
    except OSError:
        pass
print(len(os.listdir("{place}")))
"""
        (ws / "connect.py").write_text(program)
        policy = Policy(readable=(str(place),))
        assert await shown(ws, "bubblewrap", "python3 connect.py", policy) == "252\n[exit code 0]"


async def test_sockets_that_are_in_sight_cannot_be_connected_to(ws: Path, tmp_path: Path) -> None:
    place = tmp_path / "seen"
    place.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "s"))
        server.listen(1)
        command = (
            f'ls {place}; python3 -c "import socket; '
            f"socket.socket(socket.AF_UNIX).connect('{place}/s')\" 2>&1 | tail -1"
        )
        said = await shown(ws, "bubblewrap", command, Policy(readable=(str(place),)))
    assert said.startswith("s\nConnectionRefused")
