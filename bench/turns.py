"""Durable turns: against bare appends of the same bytes, over length, many at once, at rest."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import msgspec

from bench.report import Row, at_most
from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, UserInput
from treadle.core.llm import LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    EffectClass,
    Outcome,
    ToolDefinition,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session
from treadle.secrets.redaction import Redactor
from treadle.store.disk import PosixDisk
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.thread_writer import ThreadWriter
from treadle.tools.background import BackgroundCommands

LENGTHS = (10, 100, 1_000, 5_000, 20_000)
TURNS = 40
KEPT_TURNS = 5_000
"""So many of one thread are made to see what each has written, snapshots included."""

KEYS = {f"key_{number}": f"Zx9Rv{number}B47Hq2LmN0Ty6" for number in range(10)}
"""As a person has them whose keys the command line keeps out of threads."""

FLEET = 1_000
IDLE = 300
RESULT = "".join(
    f"src/module.py:{line}: warning: `value` may be read before it is set\n" for line in range(99)
)[:1_000]
"""A kilobyte as tools print it."""


class CountingDisk(PosixDisk):
    """The real disk, counting what is written and synced."""

    def __init__(self) -> None:
        self.writes: list[int] = []
        self.sync_count = 0

    def write(self, handle: int, data: bytes) -> None:
        """Counted."""
        self.writes.append(len(data))
        super().write(handle, data)

    def sync(self, handle: int) -> None:
        """Counted."""
        self.sync_count += 1
        super().sync(handle)


class Model:
    """Answers at once, or after a delay; calls a tool when asked to."""

    name = "bench"

    def __init__(self, delay_s: float = 0.0, calls: int = 1) -> None:
        self._delay_s = delay_s
        self._calls = calls

    def traits(self, model: str) -> ModelTraits:
        """Nothing is known of it."""
        return ModelTraits()

    async def stream(
        self, request: LlmRequest
    ) -> AsyncGenerator[LlmEvent.Completed | LlmEvent.TextDelta, None]:
        """One response."""
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        length = len(request.messages)
        usage = Usage(100, 20)
        if request.messages[-1].role == "user" and "tool" in request.messages[-1].content:
            calls = tuple(
                ToolCall(f"call-{length}-{n}", "work", '{"path":"src/module.py"}')
                for n in range(self._calls)
            )
            yield LlmEvent.Completed(LlmResponse(Message.assistant("", calls), usage, "tool_use"))
        else:
            text = "The tool did what it should; nothing else is left to do here."
            yield LlmEvent.TextDelta(text)
            yield LlmEvent.Completed(LlmResponse(Message.assistant(text), usage, "stop"))


class Work:
    """One tool that changes things and gives a kilobyte back."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    def definitions(self) -> Sequence[ToolDefinition]:
        """The one."""
        return [ToolDefinition("work", "Work.", {"type": "object"}, EffectClass.MUTATE)]

    def risk_of(self, call: ToolCall) -> None:
        """Never more than declared."""

    def scope_of(self, call: ToolCall) -> None:
        """Nothing besides the call itself."""

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        """Wait, then answer."""
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return ToolExecutionOutcome.Success(call.id, RESULT)


PROMPT = "please run the tool on the module and tell me what it says"


def make_thread(
    store: LocalStore, length: int, question_size: int = 150, answer_size: int = 336
) -> ThreadWriter:
    """A thread of so many messages of so many characters, saved and opened again."""
    writer = store.create("bench", workspace="/bench")
    for number in range(length // 2):
        question = f"question {number}: {'what about this? ' * 99}"[:question_size]
        writer.stage(UserInput(Message.user(question)))
        answer = f"answer {number}: {'it is as you would expect. ' * 99}"[:answer_size]
        writer.stage(LlmEvent.Completed(LlmResponse(Message.assistant(answer), Usage(100, 20))))
        if number % 100 == 99:
            writer.commit()
    writer.commit()
    writer.close()
    return store.open(writer.thread_id)


async def _measure_turns(
    root: Path, length: int, options: DriverOptions
) -> tuple[float, float, int, list[int]]:
    """Median seconds of a turn and of the bare writes, syncs per turn, sizes of its writes."""
    disk = CountingDisk()
    store = LocalStore(Places(root, root, root), disk=disk)
    session = Session(make_thread(store, length), Model(), Work(), AgentConfig("bench"), options)
    await session.turn(PROMPT)
    disk.writes.clear()
    disk.sync_count = 0
    await session.turn(PROMPT)
    sizes, sync_count = list(disk.writes), disk.sync_count
    bare = os.open(root / f"bare-{length}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ours_s: list[float] = []
    bare_s: list[float] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        await session.turn(PROMPT)
        middle = time.perf_counter()
        for size in sizes:
            os.write(bare, b"x" * size)
            os.fdatasync(bare)
        bare_s.append(time.perf_counter() - middle)
        ours_s.append(middle - start)
    os.close(bare)
    await session.close()
    return statistics.median(ours_s), statistics.median(bare_s), sync_count, sizes


def measure_turns() -> list[Row]:
    """The cost of a turn with a tool, by length of the thread."""
    rows: list[Row] = []
    ratios: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for length, name, options, aim in (
            *((length, "", DriverOptions(), 1.6) for length in LENGTHS),
            (1_000, ", redacted", DriverOptions(redactor=Redactor(KEYS)), 2.0),
        ):
            root = Path(folder) / f"{length}{name}"
            root.mkdir()
            ours_s, bare_s, sync_count, sizes = asyncio.run(_measure_turns(root, length, options))
            ratios.setdefault(length, ours_s / bare_s)
            note = f"{ours_s * 1e3:.2f} ms against {bare_s * 1e3:.2f} ms bare"
            title = f"turn at {length:,} messages{name} / bare appends"
            rows.append(at_most(title, ours_s / bare_s, "x", aim, note))
    flat = ratios[LENGTHS[-1]] / ratios[LENGTHS[0]]
    rows.append(at_most("turn: ratio at 20,000 / ratio at 10", flat, "x", 1.3))
    rows.append(at_most("turn: syncs", sync_count, "", 5))
    call = ToolCall("call-1-0", "work", '{"path":"src/module.py"}')
    answer = "The tool did what it should; nothing else is left to do here."
    messages = [
        Message.user(PROMPT),
        Message.assistant("", (call,)),
        Message.tool(call, RESULT),
        Message.assistant(answer),
    ]
    own = sum(len(msgspec.json.encode(message)) for message in messages)
    note = f"{sum(sizes)} bytes written, the messages have {own}"
    rows.append(at_most("turn: bytes written / messages' own", sum(sizes) / own, "x", 2.0, note))
    return rows


async def _measure_kept(root: Path) -> tuple[float, float]:
    """Bytes written for a turn of a thread with many, and bytes on the disk at 5,000 messages."""

    def size() -> int:
        return sum(file.stat().st_size for file in root.rglob("*") if file.is_file())

    disk = CountingDisk()
    store = LocalStore(Places(root, root, root), disk=disk)
    session = Session(store.create("bench"), Model(), Work(), AgentConfig("bench"))
    kept = 0
    for number in range(KEPT_TURNS):
        await session.turn(PROMPT)
        if number == 5_000 // 4 - 1:  # a turn has four messages
            kept = size()
    await session.close()
    return sum(disk.writes) / KEPT_TURNS, kept


def measure_kept() -> list[Row]:
    """What a thread of many turns has written, and what of it stays."""
    with tempfile.TemporaryDirectory() as folder:
        written, kept = asyncio.run(_measure_kept(Path(folder)))
    return [
        at_most(f"written for a turn, over {KEPT_TURNS:,} turns", written / 1e3, "kB", 5),
        at_most("  on the disk at 5,000 messages", kept / 1e6, "MB", 4.5),
    ]


def measure_parallel_tools() -> list[Row]:
    """Eight tools of 50 ms, asked for at once."""

    async def run(root: Path) -> float:
        store = LocalStore(Places(root, root, root))
        session = Session(store.create("bench"), Model(calls=8), Work(0.05), AgentConfig("bench"))
        took: list[float] = []
        for _ in range(7):
            start = time.perf_counter()
            await session.turn(PROMPT)
            took.append(time.perf_counter() - start)
        await session.close()
        return statistics.median(took)

    with tempfile.TemporaryDirectory() as folder:
        took_s = asyncio.run(run(Path(folder)))
    return [
        at_most("eight parallel tools of 50 ms, whole turn / one tool", took_s / 0.05, "x", 1.1)
    ]


def measure_fleet() -> list[Row]:
    """Many threads in one process, each in turns with a tool and a model that takes 10 ms."""

    async def run(root: Path) -> tuple[float, float]:
        store = LocalStore(Places(root, root, root))
        sessions = [
            Session(store.create("bench"), Model(0.01), Work(), AgentConfig("bench"))
            for _ in range(FLEET)
        ]
        rates: list[float] = []
        costs: list[float] = []
        for _ in range(5):
            start, cost = time.perf_counter(), time.process_time()
            await asyncio.gather(*(session.turn(PROMPT) for session in sessions))
            rates.append(FLEET / (time.perf_counter() - start))
            costs.append((time.process_time() - cost) / FLEET)
        for session in sessions:
            await session.close()
        return statistics.median(rates), statistics.median(costs)

    with tempfile.TemporaryDirectory() as folder:
        rate, cost_s = asyncio.run(run(Path(folder)))
        bare = _measure_bare_fleet(Path(folder))
    note = f"{rate:,.0f} a second; four synced appends for each thread alone: {bare:,.0f}"
    name = f"{FLEET:,} threads at once"
    return [
        Row(f"{name}: durable turns / bare appends of each", rate / bare, "x", note=note),
        at_most(f"{name}: processor of a turn", cost_s * 1e3, "ms", 1),
    ]


def _measure_bare_fleet(root: Path) -> float:
    """Turns a second of a program that only appends four times to each file and syncs each."""
    names = [root / f"bare-{number}" for number in range(FLEET)]
    files = [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in names]
    rates: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        for file in files:
            for _ in range(4):
                os.write(file, b"x" * 600)
                os.fdatasync(file)
        rates.append(FLEET / (time.perf_counter() - start))
    for file in files:
        os.close(file)
    return statistics.median(rates)


_IDLE = """
import gc, sys
from pathlib import Path
from bench.turns import IDLE, Model, Work, make_thread
from treadle.core.config import AgentConfig
from treadle.runtime.session import Session
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

root = Path(sys.argv[1])
store = LocalStore(Places(root, root, root))
ids = []
for _ in range(IDLE):
    writer = make_thread(store, 50, 431, 431)
    ids.append(writer.thread_id)
    writer.close()
del writer
keep = [Session(store.open(ids[0]), Model(), Work(), AgentConfig("bench"))]
before = resident()
for thread_id in ids[1:]:
    keep.append(Session(store.open(thread_id), Model(), Work(), AgentConfig("bench")))
print((resident() - before) / (IDLE - 1))
"""


def measure_idle() -> list[Row]:
    """Memory that an open thread takes while nothing happens in it."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _IDLE, folder], capture_output=True, text=True, check=True
        )
    return [at_most("idle thread of 50 messages of 431 bytes", float(done.stdout) / 1e3, "kB", 30)]
