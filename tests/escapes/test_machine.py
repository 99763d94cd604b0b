"""The machine in which all of this folder runs keeps harm away from the one that somebody needs."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from escapes import conftest as inside
from escapes.machine import ROOM, SIGN, Machine, is_inside

TIMEOUT_S: Final = 100

# Each is tried only where the sign stands.
HARM: Final = f"""
test -e {SIGN} || exit 99
umount -l /dev /proc /sys 2> /dev/null
mount -t tmpfs none "$FOLDER" 2> /dev/null
rm -rf "$FOLDER"/* /etc/passwd /etc/hostname /boot /usr/bin/git /dev/null "$SHM"
echo x > "$FOLDER/new"
echo x > /usr/bin/env
hostname evil 2> /dev/null
echo 1 > "/proc/$VICTIM/oom_score_adj"
kill -9 "$VICTIM"
exec 3<> "/dev/tcp/127.0.0.1/$PORT" && echo called
for m in /sys/fs/cgroup/*/cgroup.procs; do echo "$$" > "$m"; done 2> /dev/null
test -e /etc/passwd || echo harmed
test -s /usr/bin/env && test "$(cat /usr/bin/env)" = x && echo harmed
(kill -9 -1) 2> /dev/null
"""


@contextmanager
def somebody(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What there is to harm: a folder, shared memory, a process, a listener."""
    (tmp_path / "kept").write_text("kept")
    shared = Path("/dev/shm", f"kept-{os.getpid()}-{tmp_path.name}")
    shared.write_text("kept")
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield {
            "FOLDER": str(tmp_path),
            "SHM": str(shared),
            "VICTIM": str(victim.pid),
            "PORT": str(listener.getsockname()[1]),
        }
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert victim.poll() is None
    victim.communicate(b"\n")
    assert victim.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert shared.read_text() == "kept"
    shared.unlink()


def state() -> dict[str, object]:
    """What nothing in there may change of this machine."""
    found: dict[str, object] = {"name": os.uname().nodename}
    for folder in ("/", "/etc", "/boot", "/usr/bin", ROOM):
        found[folder] = sorted(path.name for path in Path(folder).iterdir())
    found["/dev"] = Path("/dev/null").is_char_device()
    found["mounts"] = Path("/proc/self/mountinfo").read_text().count("treadle-machine")
    for name in ("/etc/passwd", "/usr/bin/env", "/proc/sys/kernel/core_pattern"):
        found[name] = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    return found


def test_it_keeps_all_harm_inside(tmp_path: Path) -> None:
    before = state()
    with somebody(tmp_path) as places:
        shell = ["/bin/bash", "-c", HARM]
        machine = Machine(shell, cwd="/", env={"PATH": os.environ["PATH"], **places})
        try:
            machine.process.wait(TIMEOUT_S)
        finally:
            said = machine.close()
        if os.getuid() == 0:
            assert said.count("harmed") == 2, said
        assert "called" not in said.splitlines()
    assert state() == before
    assert not is_inside()


def test_a_daemon_of_it_ends_with_it() -> None:
    name = f"left-{os.getpid()}"
    command = f"test -e {SIGN} || exit 9; (exec -a {name} sleep 300) & disown; setsid sleep 300 &"
    machine = Machine(["/bin/bash", "-c", command], cwd="/")
    assert machine.process.wait(TIMEOUT_S) == 0, machine.close()
    machine.close()
    assert name not in {
        words.partition(b"\0")[0].decode(errors="replace") for words in commands_of_all()
    }


def commands_of_all() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


def test_it_bounds_the_number_of_processes() -> None:
    if os.getuid() == 0 and Path("/sys/fs/cgroup/pids").is_dir():
        command = f"test -e {SIGN} && cat /sys/fs/cgroup/pids/pids.max"
        machine = Machine(["/bin/bash", "-c", command], cwd="/")
        machine.process.wait(TIMEOUT_S)
        assert 0 < int(machine.close()) < 10_000


def test_a_program_does_not_run_where_the_machine_is_not_made(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = Path(__file__).with_name("machine.py")
    order = {
        "outer_mounts": str(Path("/proc/self/ns/mnt").readlink()),
        "argv": ["/bin/touch", str(ran)],
    }
    command = [sys.executable, str(program), json.dumps(order)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "not a machine of its own" in done.stderr
    assert not ran.exists()


def test_a_machine_that_checks_changes_can_run_everything() -> None:
    assert inside.IS_CAPABLE or "CI" not in os.environ


@pytest.mark.parametrize("is_capable", [True, False])
def test_where_all_can_run_a_test_that_is_skipped_has_failed(
    monkeypatch: pytest.MonkeyPatch, is_capable: bool
) -> None:
    monkeypatch.setattr(inside, "IS_CAPABLE", is_capable)
    why = ("file", 1, "Skipped: bubblewrap is not here")
    report = pytest.TestReport("id", ("file", 1, "id"), {}, "skipped", why, "setup")  # type: ignore[arg-type]
    inside.forbid_skip(report)
    assert report.outcome == ("failed" if is_capable else "skipped")
