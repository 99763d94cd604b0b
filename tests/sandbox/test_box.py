"""Commands in the sandbox, on every backend that works here: what they see, change and use up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.clock import use_up
from treadle.core.approval import NeverAsk
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, RiskLevel, ToolErrorKind, ToolExecutionOutcome
from treadle.process import program as process
from treadle.sandbox import launch
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Level, Limits, Network, Policy
from treadle.tools.bash import TIMEOUT_S
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from workspace.repo import is_gone

Run = Callable[..., Awaitable[Outcome]]

WORKING = [name for name in BACKENDS if find_backend((name,)).name]


@pytest.fixture(params=WORKING)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a repository in it, which is the workspace."""
    made = tmp_path / "home"
    (made / "ws").mkdir(parents=True)
    (made / ".gitconfig").write_text("[user]\nname = Ada\nemail = a@b.c\n[http]\nproxy = secret\n")
    (made / ".ssh").mkdir()
    (made / ".ssh/id").write_text("secret")
    monkeypatch.setenv("HOME", str(made))
    subprocess.run(["git", "init", "-q", str(made / "ws")], check=True)
    return made


def tools(ws: Path, backend: str, policy: Policy | None = None) -> Registry:
    sandbox = Sandbox(policy or Policy(), ws, backends=(backend,))
    return Registry(builtin_tools(), workspace=ws, sandbox=sandbox)


async def run(registry: Registry, command: str, **more: object) -> Outcome:
    call = ToolCall("c", "bash", json.dumps({"command": command, "access": "write", **more}))
    return await registry.execute(call, key="c", progress=lambda report: None)


async def shown(registry: Registry, command: str, **more: object) -> str:
    outcome = await run(registry, command, **more)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


async def test_a_command_commits_in_the_name_of_the_person(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend)
    said = await shown(registry, "touch a; git add a; git commit -qm x && git log --format=%an:%ae")
    assert said == "Ada:a@b.c\n[exit code 0]"
    assert "secret" not in await shown(registry, "git config --list; env")


async def test_nothing_but_the_workspace_is_seen_of_the_home_or_changed(
    home: Path, backend: str
) -> None:
    registry = tools(home / "ws", backend)
    said = await shown(registry, f"cat {home}/.ssh/id; echo x > {home}/new; echo y > /etc/new")
    assert "secret" not in said
    assert not (home / "new").exists()
    assert "[exit code 0]" not in said


@pytest.mark.parametrize(
    "attack",
    [
        "echo x >> .git/config",
        "rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
        "mkdir -p .treadle; echo x > .treadle/config.toml",
        "echo ../evil > .git/commondir",
        "mkdir -p .git/remotes; echo 'URL: /evil' > .git/remotes/origin",
        "mkdir -p .git/branches; echo /evil > .git/branches/origin",
        "git init -q new; mkdir -p new/.git/remotes; echo 'URL: /evil' > new/.git/remotes/origin",
        "mkdir -p sub/new; mv sub gone; mkdir -p sub/.git; echo x > sub/.git/config",
    ],
)
async def test_what_runs_programs_later_is_as_it_was(home: Path, backend: str, attack: str) -> None:
    ws = home / "ws"
    (ws / "sub/.git/hooks").mkdir(parents=True)
    (ws / "sub/.git/config").write_text("[core]\n")
    watched = [ws / ".git/config", ws / "sub/.git/config"]
    before = [path.read_text() for path in watched]
    await shown(tools(ws, backend), attack)
    assert [path.read_text() for path in watched] == before
    names = (".git/remotes", ".git/branches/origin", "new/.git/remotes/origin")
    for name in (".git/hooks/pre-commit", ".treadle", ".git/commondir", *names):
        assert not (ws / name).exists()


async def test_a_folder_without_git_gets_none_and_no_trace_is_left(
    tmp_path: Path, backend: str
) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    await shown(tools(ws, backend), "git init; echo x > .git/config; mkdir .treadle; touch a")
    made_aside = [path.name for path in ws.iterdir() if not path.name.endswith(".put-aside")]
    assert made_aside == ["a"]


async def test_a_link_in_the_place_of_a_protected_file_is_refused(home: Path, backend: str) -> None:
    (home / "ws/.treadle").symlink_to("/etc")
    outcome = await run(tools(home / "ws", backend), "touch ran")
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.REJECTED
    assert not (home / "ws/ran").exists()


async def test_hidden_paths_cannot_be_read_wherever_they_are(home: Path) -> None:
    for place in (home / "ws/own", home / "elsewhere"):
        place.mkdir()
        (place / "thread").write_text("secret")
    policy = Policy(hidden=(str(home / "ws/own"), str(home / "elsewhere"), str(home / "ws/none")))
    registry = tools(home / "ws", "bubblewrap", policy)
    said = await shown(
        registry, f"cat own/* {home}/elsewhere/*; touch own/new none/new; mkdir none"
    )
    assert "secret" not in said
    assert not (home / "ws/none").exists()
    assert [path.name for path in (home / "ws/own").iterdir()] == ["thread"]


async def test_read_only_leaves_the_workspace_alone(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend, Policy(Level.READ_ONLY))
    assert "[exit code 1]" in await shown(registry, "touch new", access="read")
    outcome = await run(registry, "touch new")
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert 'sandbox = "workspace-write"' in outcome.error.message
    assert not (home / "ws/new").exists()


@pytest.mark.parametrize(
    "family", ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG"]
)
async def test_sockets_that_could_reach_outside_are_denied_while_the_network_is_off(
    home: Path, backend: str, family: str
) -> None:
    if backend == "bubblewrap" and family in ("AF_INET", "AF_INET6"):
        family = f"{family}, socket.SOCK_RAW, 1"
    if backend == "bubblewrap" and family == "AF_NETLINK":
        family = f"{family}, socket.SOCK_RAW, 12"  # that of packet filters
    command = f"python3 -c 'import socket; socket.socket(socket.{family})' 2>&1 | tail -1"
    said = await shown(tools(home / "ws", backend), command)
    assert "Operation not permitted" in said


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_command_may_serve_itself_on_a_loopback_of_its_own(
    home: Path, address: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        program = f"""
import socket
family = socket.AF_INET6 if ":" in "{address}" else socket.AF_INET
server = socket.create_server(("{address}", 0), family=family)
caller = socket.create_connection(server.getsockname()[:2])
server.accept()[0].send(b"served")
print(caller.recv(9).decode())
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
except OSError as error:
    print(error.strerror)
"""
        (home / "ws/serve.py").write_text(program)
        said = await shown(tools(home / "ws", "bubblewrap"), "python3 serve.py")
    assert said == "served\nConnection refused\n[exit code 0]"


async def test_the_network_is_asked_for_refused_or_there(home: Path, backend: str) -> None:
    ws = home / "ws"
    asked = tools(ws, backend).sandbox
    assert asked is not None
    assert asked.standing(wants_network=True).must_ask
    assert not asked.standing(wants_network=False).must_ask
    assert asked.standing(wants_network=True).ground != asked.standing().ground
    outcome = await run(tools(ws, backend, Policy(network=Network.OFF)), "true", network=True)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.REJECTED
    command = "python3 -c 'import socket; socket.socket(); print(1)'"
    said = await shown(tools(ws, backend, Policy(network=Network.ON)), command)
    assert said == "1\n[exit code 0]"


@pytest.mark.parametrize(
    ("command", "limits", "note"),
    [
        (
            "for i in $(seq 40); do sleep 1000 & done; sleep 1000",
            Limits(processes_max=20),
            "it had too many processes",
        ),
        (
            "python3 -c \"import time; x = b'x' * 2**27; time.sleep(1000)\"",
            Limits(memory_size_max=2**26),
            "it used too much memory",
        ),
    ],
    ids=["processes", "memory"],
)
async def test_who_uses_up_too_much_is_ended_and_told_so(
    home: Path, backend: str, command: str, limits: Limits, note: str
) -> None:
    said = await shown(tools(home / "ws", backend, Policy(limits=limits)), command)
    assert note in said
    assert "[killed by signal 9: Killed]" in said


EXIT_THREAD = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
"""The system call by which one thread ends, and not its process."""
_MEBI = "m = 2**20; b = bytes(m)"
_WAIT = "print(1, flush=True); signal.pause()"
MEMORY = {
    "shared": f"x = mmap.mmap(-1, 900 * m); [x.write(b) for i in range(900)]; {_WAIT}",
    "a file without a name": "f = os.memfd_create('x'); [os.write(f, b) for i in range(900)];"
    f" {_WAIT}",
    "one that is mapped and closed": "f = os.memfd_create('x'); os.truncate(f, 900 * m);"
    f" x = mmap.mmap(f, 900 * m); os.close(f); [x.write(b) for i in range(900)]; {_WAIT}",
    "in a child": "x = mmap.mmap(-1, 900 * m); os.fork() or [x.write(b) for i in range(900)];"
    f" {_WAIT}",
    "after the end of the first thread": "import ctypes, threading; l = ctypes.CDLL(None);"
    " i = ctypes.c_void_p(threading.get_ident()); threading.Thread(target=lambda:"
    " (l.pthread_join(i, None), bytearray(b) * 900, threading.Event().wait())).start();"
    f" l.syscall({EXIT_THREAD}, 0)",
    "half of each": "x = bytearray(b) * 150; f = os.memfd_create('x');"
    f" [os.write(f, b) for i in range(150)]; {_WAIT}",
}
IN_BUBBLEWRAP = {
    "a file in memory": f"f = open('/tmp/x', 'wb'); [f.write(b) for i in range(400)]; {_WAIT}",
    "a segment": "import ctypes; l = ctypes.CDLL(None); l.shmat.restype = ctypes.c_void_p;"
    " p = l.shmat(l.shmget(0, ctypes.c_size_t(900 * m), 0o1600), None, 0);"
    f" ctypes.memset(ctypes.c_void_p(p), 1, 900 * m); l.shmdt(ctypes.c_void_p(p)); {_WAIT}",
}


async def test_memory_counts_that_is_shared_or_a_file(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend, Policy(limits=Limits(memory_size_max=256 * 2**20)))
    missed = {}
    for name, program in (MEMORY | (IN_BUBBLEWRAP if backend == "bubblewrap" else {})).items():
        program = f"import mmap, os, signal; {_MEBI}; {program}"
        outcome = await run(registry, f'python3 -c "{program}"', timeout_s=20)
        if "it used too much memory" not in str(outcome):
            missed[name] = outcome
    assert missed == {}


async def test_what_many_share_counts_once(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend, Policy(limits=Limits(memory_size_max=256 * 2**20)))
    program = """
import mmap, os, select
x = mmap.mmap(-1, 100 * 2**20)
x.write(bytes(100 * 2**20))
for i in range(5):
    if os.fork() == 0:
        sum(x[at] for at in range(0, len(x), 4096))
        select.select([], [], [], 0.5)
        os._exit(0)
for i in range(5):
    os.wait()
print("done")
"""
    (home / "ws/share.py").write_text(program)
    assert await shown(registry, "python3 share.py") == "done\n[exit code 0]"


async def test_who_fills_the_disk_is_ended_and_told_so(home: Path, backend: str) -> None:
    limits = Limits(disk_growth_max=64 * 2**20)
    command = "for ((i=0;; i++)); do head -c 8M /dev/zero > f$i; done"
    said = await shown(tools(home / "ws", backend, Policy(limits=limits)), command)
    assert "the disk has filled too much" in said


async def test_no_file_that_runs_as_its_owner_is_left(home: Path, backend: str) -> None:
    ways = (
        "cp /bin/true a; chmod u+s a; chmod 4755 a; install -m 4755 /bin/true b",
        "python3 -c 'import os; os.close(os.open(\"c\", os.O_CREAT | os.O_RDWR, 0o6755))'",
        "python3 -c 'import os; os.mknod(\"d\", 0o104755)'",
        "python3 -c 'import os; os.fchmod(os.open(\"a\", 0), 0o4755)'",
        "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(452, -100, b\"a\", 0o4755, 0)'",
        "mkdir -p g; chmod 2755 g; touch g/ran",
    )
    registry = tools(home / "ws", backend)
    for way in ways:
        await shown(registry, f"umask 0; {way} 2> /dev/null; true")
    modes = {path.name: path.stat().st_mode for path in (home / "ws").iterdir() if path.is_file()}
    assert "a" in modes
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o6000} == {}
    assert (home / "ws/g/ran").exists()


async def test_no_memory_segment_is_left(home: Path, backend: str) -> None:
    command = (
        "import ctypes; l = ctypes.CDLL(None); n = l.shmget(0, ctypes.c_size_t(4096), 0o1600);"
        " l.shmctl(n, 0, None); print(n >= 0)"
    )
    said = await shown(tools(home / "ws", backend), f"python3 -c '{command}'")
    # One in the namespace of bubblewrap ends with it.
    assert said == f"{backend == 'bubblewrap'}\n[exit code 0]"


async def test_programs_may_look_at_the_addresses_of_their_own_network(home: Path) -> None:
    program = (
        "import socket; s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.bind((0, 0));"
        " s.send(b'\\x14\\0\\0\\0\\x12\\0\\1\\3' + bytes(12)); print(b'lo' in s.recv(65536))"
    )
    said = await shown(tools(home / "ws", "bubblewrap"), f'python3 -c "{program}"')
    assert said == "True\n[exit code 0]"


async def test_folders_in_memory_are_bounded(home: Path) -> None:
    if find_backend(("bubblewrap",)).version < (0, 8):
        pytest.skip("this bubblewrap knows no sizes")
    sizes = "df -B1 --output=size /tmp /var/tmp /dev/shm | tail -n 3"
    said = await shown(tools(home / "ws", "bubblewrap"), sizes)
    assert said.split()[:3] == [str(512 * 2**20)] * 3


async def test_files_end_at_the_limit(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend, Policy(limits=Limits(file_size_max=4096)))
    await shown(registry, "head -c 10000 /dev/zero > big")
    assert (home / "ws/big").stat().st_size == 4096


async def test_exit_codes_signals_and_what_was_left_are_told(home: Path, backend: str) -> None:
    registry = tools(home / "ws", backend)
    assert await shown(registry, "exit 3") == "[exit code 3]"
    assert await shown(registry, "kill -9 $$") == "[killed by signal 9: Killed]"
    left = "[killed at the end: 1 process in the background]"
    assert left in await shown(registry, "sleep 60 & true")


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("level", [Level.WORKSPACE_WRITE, Level.OFF])
async def test_what_is_left_ends_even_if_its_first_thread_has_ended(
    home: Path, monkeypatch: pytest.MonkeyPatch, level: Level
) -> None:
    # As for somebody who may not make a control group: what is left has to be found.
    monkeypatch.setattr(launch, "make_group", lambda count: None)
    ws = home / "ws"
    os.mkfifo(ws / "go")
    (ws / "daemon.py").write_text(
        "import ctypes, os, threading\n"
        "os.setsid()\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "open('new', 'w').write(str(os.getpid()))\n"
        "os.rename('new', 'pid')\n"
        f"ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)\n"
    )
    registry = tools(ws, "landlock", Policy(level))
    command = "(python3 daemon.py > /dev/null 2>&1 &); read x < go; echo"
    task = asyncio.create_task(shown(registry, command, timeout_s=60))
    pid = 0
    try:
        while not pid or state_of(pid) != "Z":
            assert not task.done()
            await asyncio.sleep(0.01)
            pid = int((ws / "pid").read_text()) if (ws / "pid").exists() else 0
        await asyncio.to_thread((ws / "go").write_text, "x\n")
        assert "[killed at the end: 1 process in the background]" in await task
        assert is_gone(pid)
    finally:
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def test_who_is_stopped_hears_it_first(
    home: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 60.0)
    command = "trap 'echo bye; exit' TERM; echo on; sleep 1000 & wait"
    call = ToolCall("c", "bash", json.dumps({"command": command, "access": "write"}))
    reported = asyncio.Event()
    registry = tools(home / "ws", backend)
    task = asyncio.ensure_future(
        registry.execute(call, key="c", progress=lambda report: reported.set())
    )
    await asyncio.wait(
        {task, asyncio.ensure_future(reported.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    await use_up(TIMEOUT_S)
    outcome = await task
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.TIMEOUT
    assert outcome.error.output == "on\nbye\n"


def test_without_a_backend_a_person_is_asked_if_there_is_one(home: Path) -> None:
    ws = home / "ws"
    standing = Sandbox(Policy(), ws, backends=()).standing()
    assert not standing.is_confined
    assert standing.confined.startswith("no sandbox")
    for words in ("treadle doctor", "bubblewrap", "--sandbox off", 'sandbox = "off"'):
        assert words in standing.refused
    for may_ask in (True, False):
        free = Sandbox(Policy(may_ask=may_ask), ws, backends=())
        registry = Registry(builtin_tools(), workspace=ws, sandbox=free)
        call = ToolCall("c", "bash", '{"command": "touch ran", "access": "write"}')
        scope = registry.scope_of(call)
        assert scope is not None
        assert scope.refused == ("" if may_ask else standing.refused)
        config = AgentConfig(approval=NeverAsk(), tools=registry.definitions())
        asked = config.make_question(call, registry.risk_of(call), scope)
        assert (asked is not None) == may_ask
        if asked is not None:
            assert "nothing can hold commands here" in asked.reasons[0]


async def test_what_nothing_can_hold_does_not_run_where_nobody_can_be_asked(home: Path) -> None:
    ws = home / "ws"
    free = Sandbox(Policy(may_ask=False), ws, backends=())
    outcome = await run(Registry(builtin_tools(), workspace=ws, sandbox=free), "touch ran")
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.REJECTED
    assert not (ws / "ran").exists()
    off = Sandbox(Policy(Level.OFF), ws, backends=())
    await shown(Registry(builtin_tools(), workspace=ws, sandbox=off), "touch ran")
    assert (ws / "ran").exists()


def test_what_a_yes_stands_on_is_the_same_in_every_terminal_and_changes_with_all_else(
    home: Path,
) -> None:
    def ground(policy: Policy | None = None, folder: str = "ws", **more: str) -> str:
        environ = {"HOME": str(home), "PATH": os.environ["PATH"], **more}
        return Sandbox(policy or Policy(), home / folder, environ=environ).standing().ground

    assert ground(TMUX="1", SSH_AUTH_SOCK="/run/agent", COLUMNS="80") == ground()
    (home / "other").mkdir()
    others = {ground(CC="x"), ground(folder="other"), ground(Policy(Level.READ_ONLY))}
    others |= {ground(Policy(network=Network.ON)), ground(Policy(readable=("/srv",)))}
    assert len(others - {ground()}) == 5


def test_a_workspace_with_the_home_in_it_is_asked_about(home: Path) -> None:
    standing = Sandbox(Policy(), home).standing()
    assert standing.must_ask
    assert "home folder" in standing.why_wide
    assert not Sandbox(Policy(), "/").standing().is_confined


async def test_the_workspace_is_known_by_its_path_too(home: Path) -> None:
    registry = tools(home / "ws", "bubblewrap")
    for command, is_alarming in (
        (f"cd {home}/ws && pytest -q", False),
        (f"rm -rf {home}/ws/build", False),
        (f"rm -rf {home}/ws", True),
    ):
        call = ToolCall("c", "bash", json.dumps({"command": command, "access": "write"}))
        scope = registry.scope_of(call)
        assert scope is not None
        assert bool(scope.reasons) is is_alarming, command
        assert bool(scope.kinds) is not is_alarming, command
        assert (registry.risk_of(call) is RiskLevel.CRITICAL) is is_alarming, command


def test_every_backend_is_tried_on_a_machine_of_ours() -> None:
    assert list(BACKENDS) == WORKING or not os.environ.get("CI")
