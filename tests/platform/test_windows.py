"""On Windows one line says what to do, before anything is imported that Windows has not."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.platform = "win32"
for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty", "signal"):
    sys.modules[name] = None
sys.argv = ["treadle", *sys.argv[1:]]
from treadle.cli.entry_point import main
main()
"""


def test_one_line_says_to_use_wsl() -> None:
    for arguments in ([], ["--version"], ["-p", "hello"], ["list"]):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout) == (5, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("treadle: ")
        assert "WSL" in line
