"""What is no plain file, and hostile snapshots and locks beside an intact journal, by name.

`HOSTILE` is all there is, those of `store.hostile` among it.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from store.hostile import BYTES, CONTROL, DEEP, EVENTS, HEADERS, HUGE_NUMBER, Bench, Bomb, Make
from treadle.thread.snapshot import _CHECKSUM, sha256

# ---- what is no file, or no plain one -----------------------------------------------------------


def _sparse(path: Path, size: int = 1024**3) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        server.bind(path.name)
        os.chdir(here)


def _elsewhere(bench: Bench) -> Path:
    path = bench.canary.with_name("elsewhere")
    path.write_bytes(bench.good_journal)
    return path


KINDS: Final[dict[str, Callable[[Bench, Path], object]]] = {
    "a folder": lambda bench, path: path.mkdir(),
    "a full folder": lambda bench, path: (path / "x").mkdir(parents=True),
    "a pipe": lambda bench, path: os.mkfifo(path),
    "a socket": lambda bench, path: _socket(path),
    "a link": lambda bench, path: path.symlink_to(_elsewhere(bench)),
    "a link to itself": lambda bench, path: path.symlink_to(path),
    "a dangling link": lambda bench, path: path.symlink_to(bench.canary),
    "a link to a device": lambda bench, path: path.symlink_to("/dev/zero"),
    "a gigabyte of nothing": lambda bench, path: _sparse(path),
}
if os.geteuid() == 0:
    KINDS["a device"] = lambda bench, path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


def _sparse_after(bench: Bench) -> None:
    bench.forge({"type": "pinned"})
    _sparse(bench.journal)


def _hard_link(bench: Bench) -> None:
    os.link(bench.shelf.journal(bench.good), bench.journal)


def _forbidden(bench: Bench) -> None:
    """Root may read it all the same: for root it is a plain thread."""
    bench.forge({"type": "pinned"})
    bench.journal.chmod(0)


FILES: Final[dict[str, Make]] = {
    **{f"file: {name}": (lambda bench, k=k: k(bench, bench.journal)) for name, k in KINDS.items()},
    "file: a gigabyte of nothing after it": _sparse_after,
    "file: another name of a journal": _hard_link,
    "file: forbidden": _forbidden,
}

# ---- snapshots and locks ------------------------------------------------------------------------


def _beside(make: Callable[[Bench], object]) -> Make:
    """An intact journal, and this beside it."""

    def both(bench: Bench) -> None:
        bench.forge({"type": "pinned"})
        make(bench)

    return both


def sealed(body: Any) -> bytes:
    """A snapshot with these contents, whose checksum is right."""
    data = body if isinstance(body, bytes) else msgspec.json.format(msgspec.json.encode(body))
    data = data.rstrip()[:-1].rstrip()
    return data + _CHECKSUM + sha256(data).hexdigest().encode() + b'"\n}\n'


def _snapshot(change: Callable[[dict[str, Any]], object]) -> Make:
    """The good thread's snapshot, for this one, changed and sealed again."""

    def make(bench: Bench) -> None:
        text = bench.shelf.snapshot(bench.good).read_text().replace(bench.good, bench.thread_id)
        whole = json.loads(text)
        del whole["checksum"]
        whole["head"] = _head_of(bench.journal)
        whole["thread"]["version"] = whole["head"]["seq"]
        change(whole)
        bench.snapshot.write_bytes(sealed(whole))

    return _beside(make)


def _head_of(journal: Path) -> dict[str, Any]:
    data = journal.read_bytes()
    last = json.loads(data.splitlines()[-1])
    return {"seq": last["seq"], "hash": last["hash"], "at": last["at"], "size": len(data)}


def _of(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda whole: whole.update(values)


def _head(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda whole: whole["head"].update(values)


SNAPSHOTS: Final[dict[str, Make]] = {
    **{
        f"snapshot: {name}": _beside(lambda bench, k=k: k(bench, bench.snapshot))
        for name, k in KINDS.items()
    },
    **{
        f"snapshot: {name}": _beside(lambda bench, data=data: bench.snapshot.write_bytes(data))
        for name, data in {
            "empty": b"",
            "nul runs": bytes(4096),
            "words": b"no snapshot",
            "deep": b'{"x":' + DEEP + b"}",
            "deep and sealed": sealed(b'{"x":' + DEEP + b"}"),
            "a number and sealed": sealed(b'{"format":' + HUGE_NUMBER + b"}"),
            "nothing and sealed": sealed({}),
        }.items()
    },
    "snapshot: a pickle": _beside(
        lambda bench: bench.snapshot.write_bytes(pickle.dumps(Bomb(bench.reach())))
    ),
    "snapshot: of another thread": _beside(
        lambda bench: bench.snapshot.write_bytes(
            bench.shelf.snapshot(bench.good).read_bytes(),
        )
    ),
    "snapshot: without a journal": lambda bench: bench.snapshot.write_bytes(
        bench.shelf.snapshot(bench.good).read_bytes()
    ),
    "snapshot: forged": _snapshot(lambda whole: None),
    "snapshot: of format 99": _snapshot(_of(format=99)),
    "snapshot: of the future": _snapshot(_head(seq=10**6)),
    "snapshot: standing nowhere": _snapshot(_head(size=2**62)),
    "snapshot: standing before the beginning": _snapshot(_head(size=-5)),
    "snapshot: standing on another record": _snapshot(_head(hash="f" * 32)),
    "snapshot: of a state that is none": _snapshot(
        lambda whole: whole["thread"]["agent_state"].update(kind="woven")
    ),
    "snapshot: of a conversation that is none": _snapshot(
        lambda whole: whole["thread"].update(conversation={"hidden": [[5, -1]]})
    ),
    "snapshot: of a header that is none": _snapshot(_of(header={"type": "pinned"})),
    "snapshot: of a task without one": _snapshot(
        lambda whole: whole["header"].update(machine="task")
    ),
}
LOCKS: Final[dict[str, Make]] = {
    **{
        f"lock: {name}": _beside(lambda bench, k=k: k(bench, bench.lock))
        for name, k in KINDS.items()
    },
    "lock: words": _beside(lambda bench: bench.lock.write_bytes(b"{pid: 1, " + b"x" * 100_000)),
    "lock: a host of control characters": _beside(
        lambda bench: bench.lock.write_text(json.dumps({"pid": -1, "host": CONTROL}))
    ),
}
HOSTILE: Final[dict[str, Make]] = {**BYTES, **HEADERS, **EVENTS, **FILES, **SNAPSHOTS, **LOCKS}

NAMES: Final = (
    "Thumbs.db",
    ".DS_Store",
    "{id}.jsonl.bak",
    "{id}.jsonl~",
    ".{id}.jsonl.swp",
    "{id}.jsonl.lnk",
    "{id}.JSONL",
    "{id} (conflicted copy).jsonl",
    "{id}.json.tmp",
    "x.jsonl",
    ".jsonl",
    "T-.jsonl",
    "T-../../x.jsonl".replace("/", "\u2215"),
    "-rf.jsonl",
    "{id}\n.jsonl",
    "\x1b[2J{id}.jsonl",
    "\udcff{id}.jsonl",
)
"""Names in the folder of threads that are no threads'."""
