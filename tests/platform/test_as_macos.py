"""What macOS has not is taken away before anything is imported: then the file tools still work.

This is Linux all the same. It shows that nothing asks for Linux's own means outside of its place,
and that commands are refused where nothing can hold them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = r"""
import ctypes, fcntl, os, sys

sys.platform = "darwin"
for name in ("O_PATH", "fdatasync", "posix_fadvise", "memfd_create", "pidfd_open"):
    delattr(os, name)
for name in ("F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW"):
    delattr(fcntl, name)

from treadle.platform import file_locks, file_sync, file_systems, held_files, open_beneath

assert open_beneath.open_beneath is open_beneath.open_by_walk
assert held_files.held_files is held_files.BY_QUESTION
assert file_locks.lock_question is file_locks.BY_ANY_LOCK
assert file_sync.sync_file is file_sync.full_sync
assert file_systems.find_type("/", lambda argv: b"x on / (apfs)\n") == "apfs"

from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import find_backend
from treadle.sandbox.policy import Policy
from treadle.tool_failure import ToolFailure
from treadle.tools.files import overwrite
from treadle.tools.paths import Root

workspace = sys.argv[1]
root = Root(workspace)
os.symlink("/etc", workspace + "/out")
os.symlink(workspace, workspace + "/in")
overwrite(root, "in/made/a.txt", b"text")
with os.fdopen(root.open_file("made/a.txt"), "rb") as file:
    assert file.read() == b"text"
try:
    root.open_file("out/passwd")
except ToolFailure as failure:
    print(failure.kind.name)
print(find_backend().why_not)
print(Sandbox(Policy(), workspace).standing().refused.partition(".")[0])
"""


def test_tools_work_and_commands_are_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    missing = "sandbox-exec is not in /usr/bin"
    assert done.stdout.splitlines() == [
        "PATH_OUTSIDE_WORKSPACE",
        missing,
        f"nothing can hold commands here: {missing}",
    ]
