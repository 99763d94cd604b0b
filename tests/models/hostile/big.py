"""Answers that are big, or have no end, in each format; and a child process that reads them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from models.hostile.formats import Format
from models.hostile.malformed import encoded, told
from models.hostile.raw_server import RawServer
from models.loopback import Answer, Seen, stream

MIB: Final = 1024 * 1024
MARK: Final = "@@@@"


class Mould(Struct, frozen=True):
    """A stream of one text (or one call) around the place of one delta.

    `delta` holds `MARK` where its piece stands.
    """

    before: bytes
    delta: bytes
    after: bytes

    def piece(self, text: str) -> bytes:
        """The event of one piece."""
        return self.delta.replace(MARK.encode(), json.dumps(text)[1:-1].encode())


def text_mould(wire: Format) -> Mould:
    """For a text."""
    return _mould(wire, encoded(wire, told(wire, MARK * 2, ())))


def call_mould(wire: Format) -> Mould:
    """For the arguments of a call."""
    return _mould(wire, encoded(wire, told(wire, "", (("c_1", "bash", MARK * 2),))))


def _mould(wire: Format, data: bytes) -> Mould:
    """Cut at the deltas; what is told once more at the end is told as empty: it was told before."""
    events = [event + b"\n\n" for event in data.split(b"\n\n") if event]
    at = next(number for number, event in enumerate(events) if MARK.encode() in event)
    after = b"".join(events[at + 2 :]).replace(MARK.encode() * 2, b"")
    return Mould(b"".join(events[:at]), events[at], after)


class Swallowed(Struct):
    """What a child process said of one answer."""

    before: int
    peak: int
    ended_s: float
    outcome: str
    kind: str
    error: str
    next: str
    imbalance: str
    characters: int
    full_s: float = 0.0
    """When so many bytes had been sent as the case says are too many."""
    sent_size: int = 0
    """Bytes that were sent."""

    @property
    def growth(self) -> int:
        """Bytes of memory over the base."""
        return self.peak - self.before


class Big(Struct, frozen=True):
    """A big answer: its pieces, made one by one, and the bytes after which it must be stopped."""

    make: Callable[[], Iterable[bytes]]
    too_many: int = 0


async def swallow(wire: Format, folder: Path, *cases: Big) -> list[Swallowed]:
    """Have a process of its own read these answers, each followed by a good one."""
    full_s = [0.0] * len(cases)
    sent_sizes = [0] * len(cases)
    served: set[int] = set()

    def answer(seen: Seen) -> Answer:
        asked = re.search(rb"case (\d+)", seen.body)
        assert asked is not None
        number = int(asked[1])
        if number == 0 or number in served:
            return stream(wire.speak("Fine."))
        served.add(number)
        return Answer(lambda: _metered(cases[number - 1], number - 1, full_s, sent_sizes))

    async with RawServer(answer) as server:
        path = os.pathsep.join([*sys.path])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "models.hostile.swallow"),
            *(wire.name, server.url, str(folder), str(1 + len(cases))),
            env={**os.environ, "PYTHONPATH": path},
            stdout=asyncio.subprocess.PIPE,
        )
        stdout, _ = await process.communicate()
    told_lines: list[Any] = [json.loads(line) for line in stdout.splitlines()]
    assert len(told_lines) == 1 + len(cases), "the process came to its end"
    return [
        Swallowed(**line, full_s=when, sent_size=size)
        for line, when, size in zip(told_lines[1:], full_s, sent_sizes, strict=True)
    ]


async def _metered(
    case: Big, number: int, full_s: list[float], sent_sizes: list[int]
) -> AsyncIterator[bytes]:
    for piece in case.make():
        yield piece
        sent_sizes[number] += len(piece)
        if case.too_many and sent_sizes[number] > case.too_many and not full_s[number]:
            full_s[number] = time.monotonic()


def repeat(piece: bytes, size: int) -> Iterator[bytes]:
    """The same bytes until they are `size` altogether, some at a time."""
    block = piece * max(1, 65536 // len(piece))
    for _ in range(size // len(block) + 1):
        yield block


def filled(mould: Mould, text: str, count: int) -> Iterator[bytes]:
    """A whole stream with `count` deltas of this text."""
    yield mould.before
    event = mould.piece(text)
    each = max(1, 65536 // len(event))
    for start in range(0, count, each):
        yield event * min(each, count - start)
    yield mould.after
