"""Thousands of threads, and one that is very long: each job against what the same costs raw."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from bench.processor import Command, least_processor_ms, processor_ms
from bench.report import Row, at_most, median_s
from treadle.core.config import AgentConfig
from treadle.core.events import (
    LlmEvent,
    PostToolsHookCompleted,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.llm import LlmResponse, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.store.index.index_file import INDEX_NAME
from treadle.store.index.lookup import Index
from treadle.store.index.search import parse_query
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.codec import Entry, decode_entry, encode_entry
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import Annotated, Configured, GitObserved, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, encode_batch, scan_journal

THREADS = int(os.environ.get("BENCH_THREADS", "20000"))
"""How many there are; fewer for a quick look."""

LONG = 100_000
"""Events of the long thread."""

TIMES = 15
TREADLE = str(Path(sys.executable).parent / "treadle")
AT = "2026-11-21T08:15:30.000000Z"

WORDS = [f"{first}{second}" for first in ("ba", "ko", "li", "mu", "ne") for second in "bdfglmnprt"]
VOCABULARY = [f"{one}{two}" for one in WORDS for two in WORDS]


def _text(random: Random, count: int) -> str:
    """Words as unequal as those of people: some are everywhere, most are rare."""
    size = len(VOCABULARY)
    return " ".join(VOCABULARY[int(size * random.random() ** 3)] for _ in range(count))


def _turn(random: Random, number: int) -> list[Entry]:
    call = ToolCall(f"c{number}", "read_file", f'{{"path":"src/module_{random.randrange(99)}.py"}}')
    return [
        UserInput(Message.user(_text(random, 12))),
        LlmEvent.Completed(LlmResponse(Message.assistant("", (call,)), Usage(900, 40))),
        ToolStarted(call.id),
        ToolCompleted(call.id, ToolExecutionOutcome.Success(call.id, _text(random, 120))),
        PostToolsHookCompleted(False),
        LlmEvent.Completed(LlmResponse(Message.assistant(_text(random, 40)), Usage(999, 90))),
    ]


def _journal(thread_id: str, entries: list[Entry], at: str = AT) -> bytes:
    header = ThreadCreated(1, thread_id, "chat", "bench", f"/work/project-{len(entries) % 50}")
    start: list[Entry] = [
        header,
        Configured(AgentConfig("bench:model")),
        GitObserved("main", f"{hash(thread_id) % 16**10:040x}", False, "example.org/a/project"),
    ]
    pieces: list[bytes] = []
    head = Head()
    every = [*start, *entries]
    for place in range(0, len(every), 3):
        batch = [encode_entry(entry)[1] for entry in every[place : place + 3]]
        data, head = encode_batch(head, at, batch)
        pieces.append(data)
    return b"".join(pieces)


def _thread_id(number: int) -> str:
    return f"T-0190{number:04x}-0000-7000-8000-{number:012x}"


def _generate(root: Path, random: Random) -> int:
    """The threads: two turns and a half on average, one of a hundred with a hundred. Bytes."""
    folder = root / "threads"
    folder.mkdir(parents=True, mode=0o700)
    size = 0
    stock = [_turn(random, number) for number in range(2_000)]
    for number in range(THREADS):
        turns = 60 if number % 100 == 99 else 1 + number % 4
        entries = [entry for turn in random.sample(stock, turns) for entry in turn]
        at = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T08:15:30.000000Z"
        data = _journal(_thread_id(number), entries, at)
        (folder / f"{_thread_id(number)}.jsonl").write_bytes(data)
        size += len(data)
    return size


def _ratio(ours: Callable[[], object], raw: Callable[[], object]) -> tuple[float, str]:
    """How much longer ours takes, each the median of some runs in turn."""
    ours()
    raw()
    ours_s: list[float] = []
    raw_s: list[float] = []
    for _ in range(TIMES):
        ours_s.append(median_s(ours, 1))
        raw_s.append(median_s(raw, 1))
    one, other = statistics.median(ours_s), statistics.median(raw_s)
    return one / other, f"{one * 1e3:.2f} ms against {other * 1e3:.2f} ms raw"


def measure() -> list[Row]:
    """Everything here."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return [
            *_measure_many(root / "data"),
            *_measure_start(root),
            *_measure_long(root / "long"),
        ]


def _measure_many(root: Path) -> list[Row]:
    random = Random(5)
    size = _generate(root, random)
    store = LocalStore(Places(root, root, root))
    index = Index(store)
    search = Command([TREADLE, "search", VOCABULARY[300]], root, _home(root.parent))
    took_s = processor_ms(search) / 1e3
    start = time.process_time()
    for path in (root / "threads").iterdir():
        for record in scan_journal(path.read_bytes()).records:
            decode_entry(record.event)
    decoding_s = time.process_time() - start
    raw = sqlite3.connect(root / INDEX_NAME)
    name = f"{THREADS:,} threads"
    made = root.joinpath(INDEX_NAME).stat().st_size
    note = f"{size / 1e6:.0f} MB of threads; the index has {made / 1e6:.0f} MB; by `treadle search`"
    rows = [
        at_most(f"{name}: index made of nothing, processor", took_s, "s", 15, note),
        Row("  to reading and decoding them", took_s / decoding_s, "x"),
    ]
    rows += _measure_reading(name, index, raw, root)
    rows += _measure_update(name, index, store, raw)
    index.close()
    raw.close()
    return rows


def _home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "TREADLE_HOME": str(folder)}


def _measure_start(home: Path) -> list[Row]:
    """What a person waits for, in a home with many threads: whole processes."""
    (home / "folder").mkdir()
    (home / "model.toml").write_text('[[replies]]\ntext = "Hello."\n')
    turn = [TREADLE, "-m", f"scripted:{home / 'model.toml'}", "-p", "hello"]
    words = {"COMP_WORDS": f"treadle show {_thread_id(0)[:6]}", "COMP_CWORD": "2"}
    many = _home(home)
    none = {**many, "TREADLE_HOME": str(home / "empty")}
    folder = home / "folder"
    took = least_processor_ms(
        {
            "turn": Command(turn, folder, many),
            "turn without": Command(turn, folder, none),
            "search": Command([TREADLE, "search", VOCABULARY[300]], folder, many),
            "id": Command([TREADLE], folder, many | words | {"_TREADLE_COMPLETE": "bash_complete"}),
            "start": Command([TREADLE, "--version"], folder, many),
        }
    )
    over, name = took["turn"] - took["turn without"], f"{THREADS:,} threads"
    start = f"{took['start']:.0f} ms to start"
    note = f"{took['turn without']:.0f} ms of processor without them"
    return [
        at_most(f"{name}: treadle -p, over none", over, "ms", 50, note),
        at_most(f"{name}: treadle search, a common word", took["search"], "ms", 300, start),
        at_most(f"{name}: tab completes an id", took["id"], "ms", 150, start),
    ]


def _measure_reading(name: str, index: Index, raw: sqlite3.Connection, root: Path) -> list[Row]:
    """The jobs without the look at the folder, which is a row of its own."""
    decode = msgspec.json.Decoder(ThreadSummary).decode
    two = f"{VOCABULARY[300]} {VOCABULARY[700]}"

    def raw_list() -> object:
        rows = raw.execute(
            "SELECT summary FROM threads WHERE trashed = 0 "
            "ORDER BY is_pinned DESC, updated_at DESC, id DESC LIMIT 50"
        )
        return [decode(row[0]) for row in rows]

    def raw_search() -> object:
        query = (
            "SELECT rowid, snippet(words, -1, '', '', '…', 20) FROM words WHERE words MATCH ? "
            "ORDER BY bm25(words) LIMIT 20"
        )
        return raw.execute(query, (two,)).fetchall()

    def raw_look() -> object:
        found = {}
        with os.scandir(root / "threads") as entries:
            for entry in entries:
                found[entry.name] = entry.stat()
        return found

    look_s = median_s(index.update_all, TIMES)
    # The look is part of every answer; taken off here, so that each row says one thing.
    listing, searching = _without_look(index)
    list_ratio, list_note = _ratio(listing, raw_list)
    search_ratio, search_note = _ratio(lambda: searching(two), raw_search)
    look_ratio, look_note = _ratio(index.update_all, raw_look)

    def whole_search() -> object:
        index.update_all()
        return index.search(two, limit=20)

    whole_s = median_s(whole_search, TIMES)
    return [
        at_most(f"{name}: list of 50 / raw query", list_ratio, "x", 2.0, list_note),
        at_most(f"{name}: search of two words / raw query", search_ratio, "x", 2.0, search_note),
        at_most(f"{name}: nothing new / raw stat of all", look_ratio, "x", 3.0, look_note),
        Row(f"{name}: a search as a person sees it", whole_s * 1e3, "ms", note=f"{look_s:.3f} s"),
    ]


def _without_look(index: Index) -> tuple[Callable[[], object], Callable[[str], object]]:
    from treadle.store.index import lookup as module

    database = index._file._open()

    def listing() -> object:
        return module._select_summaries(database, module.ALL_THREADS, 50)

    def searching(text: str) -> object:
        query = parse_query(text)
        return module._find_by_text(database, query, module.ALL_THREADS, 20)

    return listing, searching


def _measure_update(
    name: str, index: Index, store: LocalStore, raw: sqlite3.Connection
) -> list[Row]:
    thread_id = _thread_id(THREADS // 2)
    writer = store.open(thread_id)
    text = "a note about the loom and what it wove"

    def ours() -> None:
        writer.stage(Annotated(text))
        writer.write()
        index.update(thread_id, writer.fold)

    raw.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, text TEXT)")
    raw.execute("CREATE VIRTUAL TABLE IF NOT EXISTS bare_words USING fts5(text)")

    def bare() -> None:
        with raw:
            raw.execute("INSERT INTO bare (text) VALUES (?)", (text,))
            raw.execute("INSERT INTO bare_words (text) VALUES (?)", (text,))

    ratio, note = _ratio(ours, bare)
    writer.close()
    return [Row(f"{name}: update after one append / raw insert", ratio, "x", note=note)]


# ---- one long thread ---------------------------------------------------------------------------


def _measure_long(root: Path) -> list[Row]:
    (root / "threads").mkdir(parents=True, mode=0o700)
    random = Random(6)
    lengths = {"long": LONG, "short": 100}
    store = LocalStore(Places(root, root, root))
    paths: dict[str, Path] = {}
    for number, (name, length) in enumerate(lengths.items()):
        entries = [entry for place in range(length // 6) for entry in _turn(random, place)]
        paths[name] = root / "threads" / f"{_thread_id(number)}.jsonl"
        paths[name].write_bytes(_journal(paths[name].stem, entries))
    rows = _measure_memory(root, paths["long"])
    for path in paths.values():
        writer = store.open(path.stem)
        writer.write_snapshot()
        writer.close()
    rows += _measure_opening(store, paths["long"])
    rows += _measure_appending(root, store, paths)
    return rows


def _measure_opening(store: LocalStore, path: Path) -> list[Row]:
    def decoded() -> object:
        return [decode_entry(record.event) for record in scan_journal(path.read_bytes()).records]

    def folded() -> object:
        records = scan_journal(path.read_bytes()).records
        header = decode_entry(records[0].event)
        assert isinstance(header, ThreadCreated)
        fold = ThreadFold(header)
        for record in records:
            fold.apply(record.seq, record.at, decode_entry(record.event))
        return fold

    bytes_of = path.with_suffix(".json").stat().st_size

    def snapshot_decoded() -> object:
        return msgspec.json.decode(path.with_suffix(".json").read_bytes())

    rows: list[Row] = []
    for name, ours, raw, limit in (
        ("fold from nothing / decode of its records", folded, decoded, 3.0),
        ("open / decode of its snapshot", lambda: store.load(path.stem), snapshot_decoded, 4.0),
    ):
        ours_s, raw_s = median_s(ours, 3), median_s(raw, 3)
        note = f"{ours_s * 1e3:.0f} ms against {raw_s * 1e3:.0f} ms; {bytes_of / 1e6:.0f} MB"
        rows.append(at_most(f"{LONG:,} events: {name}", ours_s / raw_s, "x", limit, note))
    return rows


def _measure_appending(root: Path, store: LocalStore, paths: dict[str, Path]) -> list[Row]:
    ratios: dict[str, float] = {}
    rows: list[Row] = []
    for name, path in paths.items():
        writer = store.open(path.stem)
        bare = os.open(root / f"bare-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        entry = Annotated("what a person wrote down about it")
        before = writer.head.size
        writer.stage(entry)
        writer.commit()
        size = writer.head.size - before

        def ours(writer=writer, entry=entry) -> None:  # type: ignore[no-untyped-def]
            for _ in range(10):
                writer.stage(entry)
                writer.commit()

        def raw(bare=bare, size=size) -> None:  # type: ignore[no-untyped-def]
            for _ in range(10):
                os.write(bare, b"x" * size)
                os.fdatasync(bare)

        ratios[name], note = _ratio(ours, raw)
        title = f"append to a thread of {LONG if name == 'long' else 100:,} events / raw"
        rows.append(at_most(title, ratios[name], "x", 2.0, note))
        os.close(bare)
        writer.close()
    flat = ratios["long"] / ratios["short"]
    return [*rows, at_most(f"append: ratio at {LONG:,} / ratio at 100", flat, "x", 1.3)]


_OPEN = """
import sys
from pathlib import Path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.index.search import parse_query
root = Path(sys.argv[1])
store = LocalStore(Places(root, root, root))

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before = peak()
loaded = store.load(sys.argv[2])
print((peak() - before) * 1024)
"""


def _measure_memory(root: Path, path: Path) -> list[Row]:
    """Of a process that opens it from its journal alone, at its peak."""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(root), path.stem],
        capture_output=True,
        text=True,
        check=True,
    )
    size = path.stat().st_size
    note = f"{int(done.stdout) / 1e6:.0f} MB for {size / 1e6:.0f} MB"
    ratio = int(done.stdout) / size
    return [at_most(f"{LONG:,} events: peak memory of opening / bytes", ratio, "x", 4.0, note)]
