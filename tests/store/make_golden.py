"""Writes the golden files of a format: `python tests/store/make_golden.py FOLDER` (a new folder).

Run it once per format version, commit what it wrote, and never run it for that version again: the
files stand for what people have on their disks. Clock and ids are fixed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from core.samples import CONFIG, answer, broken, call, ended, failure, said, success
from store.shelf import CREATOR, Shelf, fill
from thread.journals import at
from treadle.core.events import (
    CancelRequested,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.messages import Message
from treadle.core.tools import ToolErrorKind
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured, GitObserved, InputQueued, Recovered

OPENING: tuple[Entry, ...] = (
    Configured(CONFIG, "scripted"),
    GitObserved("main", "c0ffee", True, "host/path", ("a.txt", "b.txt"), True),
    said('mend it: "quotes", \\ and \u2028, \0, \U0001f9f5, äöü'),
)
CALLS = answer("on it", call("a"), call("b", "edit", '{"cut'), call("b"), usage=Usage(10, 2))
HOOKED: tuple[tuple[Entry, ...], ...] = (
    (CALLS, ToolStarted("b", at(3))),
    (ToolStarted("a", at(4)), ended("a", failure("a", ToolErrorKind.NOT_FOUND))),
    (ended("b", success("b", "mended", "a.txt", "b.txt")),),
    (ended("b-1-2"),),
)

THREADS: dict[str, tuple[tuple[Entry, ...], ...]] = {
    "waiting_for_user_input": (
        OPENING,
        *HOOKED,
        (PostToolsHookCompleted(True, "committed beef"), GitObserved("main", "beef")),
        (answer("done", usage=Usage(30, 4, estimated=True)),),
        (said("more"), InputQueued(Message.user("and then"))),
        (CancelRequested("I was", "the person stopped"), GitObserved()),
    ),
    "calling_llm": (
        OPENING,
        (broken(LlmErrorKind.OVERLOADED, retry_after_s=1.5, jitter=0.5),),
        (RetryTimeoutFired(),),
    ),
    "executing_tools": (
        OPENING,
        *HOOKED[:2],
        (Recovered("the process had died"), ToolUncertain("b")),
    ),
    "post_tools_hook": (OPENING, *HOOKED),
    "error": (OPENING, (broken(),), (Recovered(),)),
}
"""Threads by the state they end in; between them every event and every fact."""


def make(folder: Path, work: Path) -> None:
    """The threads, half of their snapshots a few records old, and what they fold to."""
    expected = {}
    shelf = Shelf(work)
    for number, (state, batches) in enumerate(THREADS.items()):
        writer = shelf.store.create(CREATOR, workspace="/w", cwd="/w/src", is_private=number == 1)
        fill(writer, *batches[:2])
        writer.write_snapshot()
        fill(writer, *batches[2:])
        if number % 2:
            writer.snapshot_head = writer.head
        writer.close()
        loaded = shelf.store.load(writer.thread_id)
        expected[writer.thread_id] = {
            "state": state,
            "hash": loaded.head.hash,
            "document": loaded.fold.document(),
        }
    for path in shelf.threads.glob("T-*.json*"):
        shutil.copyfile(path, folder / path.name)
    told = msgspec.json.format(msgspec.json.encode(expected), indent=1)
    (folder / "expected.json").write_bytes(told + b"\n")


if __name__ == "__main__":
    new = Path(sys.argv[1])
    new.mkdir(parents=True)
    with TemporaryDirectory() as work:
        make(new, Path(work))
