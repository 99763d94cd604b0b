"""What a person at the keyboard waits for: the prompt at the start, and each key."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.report import Row, at_most

TIMES: Final = 9
KEYS: Final = 300
DEADLINE_S: Final = 60.0

LIVE: Final = b"\x1b[?2004h"
"""From here on the real input draws."""

SCRIPT: Final = """
[[replies]]
when.user = "^stream"
text = '''
{text}
'''
chunk_size = 4
delay_s = 0.001

[[replies]]
text = "Hello."
"""

PACED_SCRIPT: Final = """
[[replies]]
text = '''
{text}

the last words
'''
chunk_size = 20
delay_s = 0.002
"""
"""As a fast model gives it."""

_PARAGRAPH: Final = "The store asks the disk for *one* record, and the disk gives `two`. " * 4
TEXT: Final = "\n\n".join(_PARAGRAPH for _ in range(200))


class _Terminal:
    """A program behind a pseudo-terminal, its bytes as they come."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.raw = bytearray()
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [*command], cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def wait_for(self, what: bytes, start: int = 0) -> float:
        """When it came, in seconds of the clock."""
        until = time.monotonic() + DEADLINE_S
        while self.raw.find(what, start) < 0:
            if time.monotonic() > until:
                raise TimeoutError(f"{what!r} did not come: {bytes(self.raw[-500:])!r}")
            if select.select([self._ours], [], [], 1.0)[0]:
                self.raw += os.read(self._ours, 65536)
        return time.perf_counter()

    def processor_ms(self) -> float:
        """What its threads have taken of the processor so far, in milliseconds."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1e6

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def key_delays_ms(self, first: int) -> list[float]:
        """How long each of `KEYS` characters, of the numbers from `first` on, takes to be shown."""
        took = []
        for number in range(first, first + KEYS):
            key = chr(number)
            at, begun = len(self.raw), time.perf_counter()
            self.type(key)
            took.append((self.wait_for(key.encode(), at) - begun) * 1e3)
        return took


_BARE: Final = "input('> ')"


def _bare_processor_ms(root: Path, env: Mapping[str, str]) -> float:
    """What an interpreter takes that does nothing."""
    used = []
    for _ in range(TIMES):
        with _Terminal([sys.executable, "-I", "-c", _BARE], root, env) as terminal:
            terminal.wait_for(b"> ")
            used.append(terminal.processor_ms())
    return min(used)


def _measure_stream(root: Path) -> list[Row]:
    """What an answer costs that comes at a realistic pace, in the chat."""
    text = "\n\n".join(_PARAGRAPH for _ in range(60))
    env = _user(root, PACED_SCRIPT.format(text=text))
    chat = [sys.executable, "-P", "-m", "treadle", "-m", f"scripted:{root / 'model.toml'}"]
    costs, sizes = [], []
    for _ in range(3):
        with _Terminal(chat, root, env) as terminal:
            terminal.wait_for(b"a new thread")
            terminal.wait_for(LIVE)
            before, at = terminal.processor_ms(), len(terminal.raw)
            terminal.type("go\r")
            terminal.wait_for(b"the last words", at)
            costs.append((terminal.processor_ms() - before) / len(text) * 1e3)
            sizes.append((len(terminal.raw) - at) / len(text))
    return [
        at_most(
            "an answer in the chat, 20 characters per 2 ms, processor", min(costs), "ms/kB", 30
        ),
        at_most("  bytes to the terminal / bytes of the text", statistics.median(sizes), "x", 3),
    ]


def _user(root: Path, script: str) -> dict[str, str]:
    (root / "model.toml").write_text(script)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "TREADLE_HOME": str(root / "home"),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


def measure() -> list[Row]:
    """The chat of a fresh user in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        env = _user(root, SCRIPT.format(text=TEXT))
        chat = [sys.executable, "-P", "-m", "treadle", "-m", f"scripted:{root / 'model.toml'}"]
        bare, prompt, real, used = [], [], [], []
        for _ in range(TIMES):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
            bare.append((time.perf_counter() - begun) * 1e3)
            with _Terminal(chat, root, env) as terminal:
                prompt.append((terminal.wait_for(b"> ") - terminal.began) * 1e3)
                real.append((terminal.wait_for(LIVE) - terminal.began) * 1e3)
                used.append(terminal.processor_ms())
        bare_used = _bare_processor_ms(root, env)
        with _Terminal(chat, root, env) as terminal:
            terminal.wait_for(b"a new thread")
            terminal.wait_for(LIVE)
            idle = terminal.key_delays_ms(0x4E00)
            terminal.type("\x03")  # clears the input
            terminal.type("stream\r")
            terminal.wait_for(b"two")
            streaming = terminal.key_delays_ms(0x5E00)
            at = len(terminal.raw)
            terminal.wait_for(b"record", at)  # it streams still
        streamed = _measure_stream(root)
    over = statistics.median(bare)
    quiet, busy = statistics.median(idle), statistics.median(streaming)
    return [
        at_most("treadle to its prompt, over bare", statistics.median(prompt) - over, "ms", 200),
        Row("treadle until keys are heard, over bare", statistics.median(real) - over, "ms"),
        at_most(
            "treadle until keys are heard, processor, over bare",
            min(used) - bare_used,
            "ms",
            200,
        ),
        Row("a key to the screen, nothing going on, p50", quiet, "ms"),
        Row(
            "a key to the screen while an answer streams, p50",
            busy,
            "ms",
            note=f"over idle: {busy / quiet:.1f}x",
        ),
        at_most(
            "a key to the screen while an answer streams, p99",
            statistics.quantiles(streaming, n=100)[98],
            "ms",
            50,
        ),
        *streamed,
    ]
