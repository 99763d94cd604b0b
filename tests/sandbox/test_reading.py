"""Commands that only read, on every backend that works here: what works, and what they are told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from treadle.core.messages import ToolCall
from treadle.core.tools import Access, ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.command_environment import make_reading_variables
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Level, Network, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.command_hints import COULD_ONLY_READ, HAD_NO_NETWORK
from treadle.tools.registry import Registry

WORKING: Final = [name for name in BACKENDS if find_backend((name,)).name]
PYTHON: Final = sys.executable
FILES: Final = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "import calc\n\n\ndef test_add(tmp_path):\n    (tmp_path / 'x').mkdir()\n"
    "    assert calc.add(1, 2) == 3\n",
    "test_unit.py": "import unittest\n\n\nclass Adding(unittest.TestCase):\n"
    "    def test(self):\n        pass\n",
    "Makefile": "all:\n\techo built > out\n\ncheck:\n\t@echo checked\n",
    "data.json": '{"a": [1, 2]}\n',
    "notes.txt": "one\ntwo\nthree\n",
}

WORKS: Final = (
    "git status --short",
    "git log --oneline -3",
    "git diff",
    "git diff HEAD~1 --stat",
    "git show --stat HEAD",
    "git blame calc.py",
    "git branch -a",
    "git ls-files",
    "git grep -n add",
    "git rev-parse HEAD",
    "git describe --always",
    "git stash list",
    "git cat-file -p HEAD",
    "grep -rn add .",
    "find . -name '*.py' -newer Makefile -o -name '*.txt'",
    "ls -la && tree . 2> /dev/null || ls -R",
    "cat calc.py notes.txt | head -3 | wc -l",
    "sed -n '1,2p' notes.txt; awk '{print NR, $0}' notes.txt",
    "sort -r notes.txt | uniq -c | tail -1",
    "diff -u calc.py test_calc.py || true",
    "diff <(sort notes.txt) <(sort -r notes.txt) > /dev/null; test $? = 1",
    "cat <<< 'here'; cat << E\nthere\nE",
    "du -sh .; df -h . > /dev/null; stat calc.py",
    "file calc.py 2> /dev/null || head -c 10 calc.py",
    "sha256sum calc.py && md5sum calc.py",
    "tar cf - . | tar tf - | wc -l",
    'tar czf "$TMPDIR/all.tar.gz" . && ls "$TMPDIR"',
    'cp calc.py "$TMPDIR/" && cat "$TMPDIR/calc.py"',
    'd=$(mktemp -d) && echo x > "$d/x" && cat "$d/x" && rm -r "$d"',
    "make -n all && make check",
    f"{PYTHON} -c 'import calc; print(calc.add(1, 2))'",
    f"{PYTHON} -c 'import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b\"x\"); f.flush()'",
    f"{PYTHON} -c 'import multiprocessing as m; print(m.get_context(\"fork\").Pipe()[0])'",
    f"{PYTHON} -m json.tool data.json",
    f"{PYTHON} -m unittest -q test_unit",
    f"{PYTHON} -m pytest -q test_calc.py",
    f"{PYTHON} -m ruff check . --isolated",
    f"{PYTHON} -m mypy calc.py --config-file=",
    f"{PYTHON} -m compileall -q -f calc.py --help > /dev/null",
    "sleep 0 & wait; (exit 3); test $? = 3",
    "timeout 5 true; kill -0 $$; sh -c 'kill -TERM $$'; test $? = 143",
    "ps > /dev/null || true; env > /dev/null; id; uname -a; date; nproc",
    "xargs -n1 echo < notes.txt; seq 3 | paste -sd+",
)
"""As an agent calls them all day; each ends with 0."""


@pytest.fixture(params=WORKING)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a small project in it, which is the workspace."""
    made = tmp_path / "home"
    (made / "ws").mkdir(parents=True)
    (made / ".gitconfig").write_text("[user]\nname = Ada\nemail = a@b.c\n")
    monkeypatch.setenv("HOME", str(made))
    for name, text in FILES.items():
        (made / "ws" / name).write_text(text)
    for command in ("init -q", "add -A", "commit -qm one", "commit -qm two --allow-empty"):
        subprocess.run(["git", "-C", str(made / "ws"), *command.split()], check=True)
    return made


def tools(ws: Path, backend: str, policy: Policy | None = None) -> Registry:
    sandbox = Sandbox(policy or Policy(), ws, backends=(backend,))
    return Registry(builtin_tools(), workspace=ws, sandbox=sandbox)


async def shown(registry: Registry, command: str, **more: object) -> str:
    call = ToolCall("c", "bash", json.dumps({"command": command, **more}))
    outcome = await registry.execute(call, key="c", progress=lambda report: None)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


def times_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns)
        for path in (folder, *folder.rglob("*"))
    }


async def test_what_agents_run_all_day_works_and_changes_nothing(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend)
    before = times_of(home)
    said = {command: await shown(registry, command) for command in WORKS}
    wrong = {name: text for name, text in said.items() if not text.endswith("[exit code 0]")}
    assert wrong == {}
    assert len(WORKS) >= 40
    assert times_of(home) == before


async def test_what_the_scratch_folder_held_is_gone(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend)
    said = await shown(registry, 'echo x > "$TMPDIR/kept" && cat "$TMPDIR/kept"')
    assert said == "x\n[exit code 0]"
    assert await shown(registry, 'ls "$TMPDIR" | grep kept; true') == "[exit code 0]"


async def test_the_cache_of_the_workspace_is_read_and_not_written(home: Path, backend: str) -> None:
    policy = Policy(caches=str(home / ".cache/treadle/commands"))
    registry = tools(home / "ws", backend, policy)
    assert not (home / ".cache").exists()
    write = 'echo crate > "$CARGO_HOME/kept"; mkdir -p "$GOMODCACHE/cache/download"'
    assert await shown(registry, write, access="write") == "[exit code 0]"
    before = times_of(home)
    command = 'cat "$CARGO_HOME/kept"; echo $GOPROXY; echo x > "$CARGO_HOME/kept"'
    said = await shown(tools(home / "ws", backend, policy), command)
    assert said.startswith("crate\nfile://")
    assert "exit code 1" in said
    assert times_of(home) == before


def test_each_variable_leads_to_the_scratch_folder_or_to_what_can_be_read() -> None:
    env = {"PYTEST_ADDOPTS": "-x", "MAVEN_ARGS": "-q", "NODE_COMPILE_CACHE": "/n"}
    for cache in ("", "/cache"):
        found = make_reading_variables(env, "/scratch", cache, "/home/a")
        assert found["GIT_OPTIONAL_LOCKS"] == "0"
        assert found["PYTHONDONTWRITEBYTECODE"] == "1"
        assert found["PYTEST_ADDOPTS"] == "-x -p no:cacheprovider"
        assert found["MAVEN_ARGS"].endswith("/home/a/.m2/repository -q")
        assert "NODE_COMPILE_CACHE" in found
        assert "SCCACHE_DIR" not in found
        paths = {name: value for name, value in found.items() if value.startswith("/")}
        read = {"CARGO_HOME", "NUGET_PACKAGES"} if cache else set()
        assert {name for name in paths if paths[name].startswith("/cache/")} == read
        rest = paths.keys() - read
        assert {name for name in rest if not paths[name].startswith("/scratch/.cache/")} == set()
        assert len(rest) > 15
    assert make_reading_variables({}, "/s", "", "")["PYTEST_ADDOPTS"] == "-p no:cacheprovider"


async def test_a_command_gets_these_variables(home: Path, backend: str) -> None:
    said = await shown(
        tools(home / "ws", backend),
        'echo $GIT_OPTIONAL_LOCKS $PYTHONDONTWRITEBYTECODE; echo "${MYPY_CACHE_DIR#$TMPDIR}"',
    )
    assert said == "0 1\n/.cache/mypy\n[exit code 0]"
    write = await shown(
        tools(home / "ws", backend), "echo $GIT_OPTIONAL_LOCKS$MYPY_CACHE_DIR-", access="write"
    )
    assert write == "-\n[exit code 0]"


@pytest.mark.parametrize("network", [Network.ASK, Network.ON])
async def test_it_has_no_network_unless_it_says_so(
    home: Path, backend: str, network: Network
) -> None:
    registry = tools(home / "ws", backend, Policy(network=network))
    command = "cat /proc/net/dev 2> /dev/null; python3 -c 'import socket; socket.socket()'; true"
    names = "python3 -c 'import socket; print(len(socket.if_nameindex()) > 1)'"
    if backend == "bubblewrap":
        assert await shown(registry, names) == "False\n[exit code 0]"
    else:
        assert "Operation not permitted" in await shown(registry, command)
    with_network = await shown(
        registry, "python3 -c 'import socket; socket.socket()'", network=True
    )
    assert with_network == "[exit code 0]"
    assert "Read-only" in (said := await shown(registry, "touch x", network=True)) or (
        "Permission denied" in said
    )


async def test_what_a_person_lets_commands_change_is_seen(home: Path, backend: str) -> None:
    (home / "more").mkdir()
    (home / "more/file").write_text("more\n")
    registry = tools(home / "ws", backend, Policy(writable=("~/more",)))
    said = await shown(registry, "cat ~/more/file || cat ../more/file; echo x > ../more/file")
    assert said.startswith("more\n") or "more\n" in said
    assert (home / "more/file").read_text() == "more\n"


async def test_a_socket_in_the_workspace_is_not_reached_and_a_pipe_not_written(
    home: Path, backend: str
) -> None:
    os.mkfifo(home / "ws/pipe")
    reader = os.open(home / "ws/pipe", os.O_RDONLY | os.O_NONBLOCK)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / "ws/s"))
    listener.listen()
    listener.setblocking(False)
    program = "import socket; socket.socket(socket.AF_UNIX).connect('s')"
    said = await shown(tools(home / "ws", backend), f'echo x > pipe; python3 -c "{program}"')
    assert "exit code 1" in said
    assert os.read(reader, 10) == b""
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()
    os.close(reader)


@pytest.mark.parametrize("top", [one for one in ("/dev/shm",) if Path(one).is_dir()])
async def test_a_workspace_in_shared_memory_is_held_like_any_other(
    home: Path, backend: str, top: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies below `/dev`, whose devices may be written and hold no credentials."""
    with TemporaryDirectory(dir=top) as folder:
        (Path(folder) / "kube").write_text("canary\n")
        monkeypatch.setenv("KUBECONFIG", f"{folder}/kube")
        os.mkfifo(f"{folder}/pipe")
        reader = os.open(f"{folder}/pipe", os.O_RDONLY | os.O_NONBLOCK)
        command = "echo x > pipe; cat kube; echo x > /dev/null && echo done"
        said = await shown(tools(Path(folder), backend), command)
        written = os.read(reader, 10)
        os.close(reader)
    assert ("canary" in said, "done" in said, written) == (False, True, b"")


# ---- what a command is told that could not do something ------------------------------------------

HINTS: Final = (
    ("echo x > new", {}, COULD_ONLY_READ),
    ('python3 -c \'open("new", "w")\'', {}, COULD_ONLY_READ),
    ("git add -A; git commit -qm x --allow-empty", {}, COULD_ONLY_READ),
    ("chmod 700 calc.py", {}, COULD_ONLY_READ),
    ("mkdir -p build/x", {}, COULD_ONLY_READ),
    ("echo 'Read-only file system'; exit 1", {"access": "write"}, ""),
    ("echo 'Read-only file system'", {}, ""),
    ("exit 3", {}, ""),
    ("grep -q nothing calc.py", {}, ""),
    ("touch /etc/new-file", {}, ""),
    ("python3 -c 'import socket; socket.getaddrinfo(\"a.invalid\", 1)'", {}, HAD_NO_NETWORK),
    ("echo 'curl: (6) Could not resolve host: x.y' >&2; exit 6", {}, HAD_NO_NETWORK),
    ("echo 'Network is unreachable'; exit 1", {"access": "write"}, HAD_NO_NETWORK),
)


async def test_a_failure_for_want_of_access_is_told_in_one_line(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend)
    wrong = {}
    for command, more, hint in HINTS:
        said = await shown(registry, command, **more)
        hints = [line for line in said.splitlines() if line.startswith("[this command ")]
        if hints != ([f"[{hint}]"] if hint else []) or (hint and not said.endswith(f"[{hint}]")):
            wrong[command] = said
    assert wrong == {}


async def test_nobody_is_told_to_ask_for_what_is_refused(home: Path, backend: str) -> None:
    closed = tools(home / "ws", backend, Policy(Level.READ_ONLY, Network.OFF))
    for command in ("touch new", "echo 'Network is unreachable'; exit 1"):
        assert "[this command " not in await shown(closed, command)


# ---- the sibling ---------------------------------------------------------------------------------


def test_a_sandbox_has_one_sibling_that_is_its_own(home: Path, backend: str) -> None:
    box = Sandbox(Policy(), home / "ws", backends=(backend,))
    reading = box.reading
    assert reading is box.reading
    assert reading.reading is reading
    assert reading.only_reads
    assert reading.workspace == box.workspace
    assert not reading.has_network(False)
    assert reading.standing().confined.startswith("read-only, no network")
    assert reading.standing().ground != box.standing().ground
    scope = tools(home / "ws", backend).scope_of(ToolCall("c", "bash", '{"command": "ls"}'))
    assert scope is not None
    assert (scope.access, scope.confined) == (Access.READ, reading.standing().confined)


async def test_no_socket_in_the_file_system_is_reached_by_whatever_name(
    home: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells under which words one was bound, which may name no folder."""
    monkeypatch.chdir(home / "ws")
    connect = (
        f"{PYTHON} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"own.sock\")' 2>&1; "
        "echo reached $?"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("own.sock")
        listener.listen()
        said = await shown(tools(home / "ws", backend), connect)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "reached 1" in said
