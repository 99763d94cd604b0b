"""Thread files as an enemy, a bad disk or another program may leave them, by name.

Whoever can write the file can compute hashes: so the chain of what is forged here is right.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from store.shelf import Shelf
from thread.journals import at
from treadle.thread.facts import ThreadCreated
from treadle.thread.record import Head, encode_batch

DEEP: Final = b"[" * 100_000 + b"]" * 100_000
HUGE_NUMBER: Final = b"9" * 5000
CONTROL: Final = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\u202e\u2066"


class Bench(Struct, frozen=True):
    """Where a hostile thread is put, and what it may want to reach.

    `good` is an intact thread beside it; nothing may ever make `canary`.
    """

    shelf: Shelf
    thread_id: str
    journal: Path
    good: str
    canary: Path

    @property
    def snapshot(self) -> Path:
        return self.journal.with_suffix(".json")

    @property
    def lock(self) -> Path:
        return self.shelf.lock(self.thread_id)

    @property
    def good_journal(self) -> bytes:
        return self.shelf.journal(self.good).read_bytes()

    def header(self, **changes: Any) -> dict[str, Any]:
        """What record 1 says, with these fields changed; `...` leaves one out."""
        header = {
            "type": "thread_created",
            "format": 1,
            "thread": self.thread_id,
            "machine": "chat",
            "creator": "treadle/0.1.0",
            "workspace": "/w",
            "cwd": "/w/src",
            **changes,
        }
        return {key: value for key, value in header.items() if value is not ...}

    def forge(self, *events: Any, **changes: Any) -> None:
        """Write a journal whose chain is right: a header and these events, one write each."""
        self.journal.write_bytes(forged(self.header(**changes), *events))

    def reach(self) -> str:
        """A command that would make the canary."""
        return f"touch {self.canary}"


def forged(*events: Any) -> bytes:
    """A journal of these events; bytes are taken as they are."""
    data, head = b"", Head()
    for tick, event in enumerate(events):
        body = event if isinstance(event, bytes) else msgspec.json.encode(event)
        line, head = encode_batch(head, at(tick), [body])
        data += line
    return data


Make = Callable[[Bench], object]


def _raw(change: Callable[[bytes], bytes]) -> Make:
    return lambda bench: bench.journal.write_bytes(change(bench.good_journal))


def _event(*events: Any) -> Make:
    return lambda bench: bench.forge(*events)


def _header(**changes: Any) -> Make:
    return lambda bench: bench.forge({"type": "pinned"}, **changes)


class Bomb:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


# ---- bytes that are no journal, or not one any more ---------------------------------------------

BYTES: Final[dict[str, Make]] = {
    "empty": _raw(lambda good: b""),
    "a brace": _raw(lambda good: b"{"),
    "nul runs": _raw(lambda good: bytes(4096)),
    "a line end": _raw(lambda good: b"\n"),
    "a million line ends": _raw(lambda good: b"\n" * 1_000_000),
    "words": _raw(lambda good: b"this is no journal\n"),
    "bytes that are no text": _raw(lambda good: b"\xff\xfe\xfa\n" * 9),
    "utf-16": _raw(lambda good: good.decode().encode("utf-16")),
    "a byte order mark": _raw(lambda good: b"\xef\xbb\xbf" + good),
    "carriage returns": _raw(lambda good: good.replace(b"\n", b"\r\n")),
    "carriage returns alone": _raw(lambda good: good.replace(b"\n", b"\r")),
    "line separators": _raw(lambda good: good.replace(b"\n", "\u2028".encode())),
    "a line separator after it": _raw(lambda good: good + "\u2028".encode()),
    "an archive": _raw(lambda good: b"\x1f\x8b\x08\x00" + good),
    "a database": _raw(lambda good: b"SQLite format 3\0" + bytes(4080)),
    "a list of records": _raw(lambda good: b"[" + good.replace(b"\n", b",") + b"{}]\n"),
    "nul runs before it": _raw(lambda good: bytes(512) + good),
    "nul runs after it": _raw(lambda good: good + bytes(4096)),
    "nul runs in the middle": _raw(lambda good: good[:200] + bytes(300) + good[500:]),
    "words after it": _raw(lambda good: good + b"and so on"),
    "half a record after it": _raw(lambda good: good + b'{"seq":8,"at":"2026'),
    "no last line end": _raw(lambda good: good[:-1]),
    "no first record": _raw(lambda good: good.split(b"\n", 1)[1]),
    "twice": _raw(lambda good: good + good),
    "backwards": _raw(lambda good: b"".join(reversed(good.splitlines(keepends=True)))),
    "no line ends": _raw(lambda good: good.replace(b"\n", b"")),
    "blanks before lines": _raw(lambda good: b" " + good.replace(b"\n", b"\n ")),
    "megabytes in one line": _raw(lambda good: b'{"seq":1,"at":"' + b"x" * 5_000_000),
    "megabytes after it": _raw(lambda good: good + b'{"seq":' * 700_000),
    "seals of records alone": _raw(lambda good: b',"hash":"%b"}\n' % (b"0" * 32) * 50_000),
    "a pickle": lambda bench: bench.journal.write_bytes(pickle.dumps(Bomb(bench.reach()))),
    "a tagged document": lambda bench: bench.journal.write_text(
        f"!!python/object/apply:os.system ['{bench.reach()}']\n"
    ),
}

# ---- headers ----------------------------------------------------------------------------------

WRONG: Final = {"number": 7, "text": "x\0", "list": [[]], "object": {"type": "x"}, "null": None}


def _wrong_fields() -> dict[str, Make]:
    return {
        f"header: {field} is a {kind}": _header(**{field: value})
        for field in ThreadCreated.__struct_fields__
        for kind, value in WRONG.items()
    }


def _base(**changes: Any) -> Make:
    """A fork of the good thread, but for this."""

    def make(bench: Bench) -> None:
        last = json.loads(bench.good_journal.splitlines()[-1])
        base = {"thread": bench.good, "version": last["seq"], "hash": last["hash"], **changes}
        bench.forge({"type": "pinned"}, base=base)

    return make


def _base_itself(bench: Bench) -> None:
    bench.forge(base={"thread": bench.thread_id, "version": 1, "hash": "0" * 32})


def _bases_in_a_circle(bench: Bench) -> None:
    other = bench.shelf.next_id()
    bench.forge(base={"thread": other, "version": 1, "hash": "0" * 32})
    header = bench.header(
        thread=other, base={"thread": bench.thread_id, "version": 1, "hash": "0" * 32}
    )
    bench.journal.with_name(f"{other}.jsonl").write_bytes(forged(header))


def _base_of(events: Callable[[Bench, str], bytes]) -> Make:
    """A fork of version 2 of a thread with these bytes."""

    def make(bench: Bench) -> None:
        other = bench.shelf.next_id()
        data = events(bench, other)
        bench.journal.with_name(f"{other}.jsonl").write_bytes(data)
        seal = data.splitlines()[1][-34:-2].decode(errors="replace") if b"\n" in data else ""
        bench.forge(base={"thread": other, "version": 2, "hash": seal})

    return make


def _damaged(bench: Bench, other: str) -> bytes:
    data = forged(bench.header(thread=other), {"type": "pinned"}, {"type": "pinned"})
    return data.replace(b'"machine"', b'"Machine"')


def _long_chain(bench: Bench) -> None:
    below: dict[str, Any] = {}
    for _ in range(50):
        other = bench.shelf.next_id()
        data = forged(bench.header(thread=other, **below))
        bench.journal.with_name(f"{other}.jsonl").write_bytes(data)
        below = {"base": {"thread": other, "version": 1, "hash": json.loads(data)["hash"]}}
    bench.forge(**below)


HEADERS: Final[dict[str, Make]] = {
    **_wrong_fields(),
    **{
        f"header: a thread named {name!r}"[:70]: _header(thread=name)
        for name in ("../../x", "/etc/passwd", "", "T-", "\0", "T-1\nT-2", CONTROL, "T-" * 50_000)
    },
    **{
        f"header: format {number}": _header(format=number)
        for number in (2, 99, 2**31, 2**63, 2**64, -1, 0, True, 1.5)
    },
    "header: another thread's id": lambda bench: bench.forge(thread=bench.good),
    "header: a machine of the future": _header(machine="loom"),
    "header: a machine that is code": _header(machine="__import__('os')"),
    "header: unknown fields": _header(later={"x": [1]}, __class__="os.system"),
    "header: no header": lambda bench: bench.journal.write_bytes(forged({"type": "pinned"})),
    "header: twice": lambda bench: bench.forge(bench.header(), bench.header(machine="task")),
    "base: itself": _base_itself,
    "base: in a circle": _bases_in_a_circle,
    "base: missing": _base(thread="T-01900000-0000-7000-8000-ffffffffffff"),
    "base: outside": _base(thread="../../x"),
    "base: other contents": _base(hash="f" * 32),
    "base: no hash": _base(hash=""),
    **{f"base: version {n}": _base(version=n) for n in (0, -1, 99, 2**62, 2**63, 2**64, "1", None)},
    "base: damaged": _base_of(_damaged),
    "base: empty": _base_of(lambda bench, other: b""),
    "base: newer": _base_of(
        lambda bench, other: forged(bench.header(thread=other, format=2), {"type": "pinned"})
    ),
    "base: with an event of the future": _base_of(
        lambda bench, other: forged(bench.header(thread=other), {"type": "woven"})
    ),
    "base: of another machine": _base_of(
        lambda bench, other: forged(bench.header(thread=other, machine="task"), {"type": "pinned"})
    ),
    "base: fifty deep": _long_chain,
}

# ---- events -----------------------------------------------------------------------------------


def _codes(bench: Bench) -> list[dict[str, Any]]:
    """How programs that build objects from what they read are made to run a command."""
    command = bench.reach()
    return [
        {"type": "__reduce__", "py/object": "os.system", "py/reduce": ["os.system", [command]]},
        {"type": "constructor", "lc": 1, "id": ["os", "system"], "kwargs": {"command": command}},
        {"type": "user_input", "__class__": "os.system", "__init__": {"args": [command]}},
        {"type": "json", "module": "os", "name": "system", "args": [command]},
        {"$type": "System.Diagnostics.Process", "type": "pinned", "arguments": command},
        {"type": f"$({command})"},
        {"type": "extra_set", "extra": {"__proto__": {"x": command}, "__reduce__": command}},
    ]


def _code(number: int) -> Make:
    return lambda bench: bench.forge(_codes(bench)[number])


SAID: Final = {"type": "user_input", "message": {"role": "user", "content": "go"}}
MACHINE: Final[dict[str, Any]] = {
    "a result of no call": {"type": "tool_completed", "call_id": "nobody", "outcome": {}},
    "a hook of nothing": {"type": "hook_completed", "action_taken": True},
    "a decision about nothing": {"type": "approval_decided", "call_id": "x"},
    "an event of a task": {"type": "task_given", "task": "x", "at": ""},
    "an event of the future": {"type": "woven", "x": 1},
    "a message of nobody": {"type": "user_input", "message": {"role": "root", "content": ""}},
    "negative usage": {
        "type": "llm_completed",
        "response": {"message": {"role": "assistant", "content": ""}, "usage": {"input": -5}},
    },
    "a compaction of nothing": {"type": "compacted", "through": 10**9, "summary": "x"},
}
VIEWS: Final[dict[str, Any]] = {
    "longer than all": {"length": 10**9},
    "negative": {"length": -1},
    "hidden beyond": {"length": 1, "hidden": [[0, 9]]},
    "hidden backwards": {"length": 1, "hidden": [[1, 0]]},
    "hidden negative": {"length": 1, "hidden": [[-5, -1]]},
    "a million hidden": {"length": 1, "hidden": [[0, 0]] * 100_000},
    "summed up beyond": {"length": 1, "compaction": {"through": 9, "summary": "x"}},
    "summed up negative": {"length": 1, "compaction": {"through": -9, "summary": "x"}},
    "of text": {"length": "1"},
    "of 64 bits": {"length": 2**63},
}
FACTS: Final[dict[str, list[Any]]] = {
    "trashed twice": [{"type": "trashed"}, {"type": "trashed"}],
    "restored without being trashed": [{"type": "restored"}],
    "files saved under garbage": [
        {"type": "files_saved", "commit": name, "tree": name, "moment": "before"}
        for name in ("../../x", "--upload-pack=touch x", "", "\0", "x" * 100_000)
    ],
    "files saved at no moment": [
        {"type": "files_saved", "commit": "c", "tree": "t", "moment": "never"}
    ],
    "a tag of a megabyte": [{"type": "tagged", "added": ["x" * 1_000_000]}],
    "ten thousand tags": [{"type": "tagged", "added": [str(n) for n in range(10_000)]}],
    "a tag of control characters": [{"type": "tagged", "added": [CONTROL, "\0", ""]}],
    "a tag that is a number": [{"type": "tagged", "added": [5]}],
    "a title of control characters": [{"type": "renamed", "title": CONTROL}],
    "a title of a megabyte": [{"type": "renamed", "title": "W" * 1_000_000}],
    "a title by nobody": [{"type": "renamed", "title": "x", "by": "root"}],
    "a long note": [{"type": "annotated", "text": CONTROL * 100_000}],
    "deep extra": [b'{"type":"extra_set","extra":{"x":%b}}' % (b"[" * 900 + b"]" * 900)],
    "extra that is a list": [{"type": "extra_set", "extra": [1]}],
    "a negative count of what was scrubbed": [{"type": "scrubbed", "count": -1, "before": "x"}],
    "imported from nowhere": [
        {"type": "imported", "source": CONTROL, "session": "../../x", "path": "/etc/shadow"}
    ],
    "foreign garbage": [{"type": "foreign", "text": CONTROL + "\0" * 1000}],
    "a child that is itself": [{"type": "child_started", "call_id": "a", "thread": "../../x"}],
    "an environment of anything": [
        {"type": "context_observed", "environment": {"LD_PRELOAD": "/tmp/x.so"}, "workers": -1}
    ],
    "a configuration of nonsense": [
        {"type": "configured", "config": {"model_name": CONTROL, "max_retries": -1}}
    ],
}
EVENTS: Final[dict[str, Make]] = {
    **{f"code: shape {number}": _code(number) for number in range(7)},
    **{f"event: {name}": _event(event) for name, event in MACHINE.items()},
    **{
        f"rewound: {name}": _event(SAID, {"type": "rewound", "to": 1, "view": view})
        for name, view in VIEWS.items()
    },
    **{f"fact: {name}": _event(*events) for name, events in FACTS.items()},
    "event: deep": _event(DEEP),
    "event: deep in a field": _event(b'{"type":"pinned","x":%b}' % DEEP),
    "event: unclosed": _event(b"[" * 100_000),
    "event: a number of 5,000 digits": _event(HUGE_NUMBER),
    "event: a field of 5,000 digits": _event(b'{"type":"pinned","is_pinned":%b}' % HUGE_NUMBER),
    "event: an exponent without end": _event(b'{"type":"rewound","to":1e999999,"view":{}}'),
    "event: fields that stand twice": _event(b'{"type":"pinned","type":"trashed","type":"x"}'),
    "event: no text": _event(b'{"type":"annotated","text":"\xff\xfe"}'),
    "event: lone surrogates": _event(b'{"type":"annotated","text":"\\ud800 \\udc00\\ud800"}'),
    "event: not a number": _event(b'{"type":"annotated","text":NaN}'),
    "event: a null character": _event({"type": "annotated", "text": "\0"}),
    "event: a null for a type": _event({"type": None}),
    "event: a list": _event([1, 2]),
    "event: nothing": _event({}),
    "event: a line end inside": _event(b'{"type":"annotated",\n"text":"x"}'),
    "event: a record inside": _event(
        {"type": "annotated", "text": 'x","hash":"' + "0" * 32 + '"}\n{"seq":9'}
    ),
}
