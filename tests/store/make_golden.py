"""Writes the golden files of a format: `python tests/store/make_golden.py FOLDER` (a new folder).

What it wrote is committed and never made again: the files stand for what people have on their
disks. A format that has grown gets one more thread at the end; only that one, and what it folds to,
is taken over from a new run. Clock and ids are fixed.
"""

from __future__ import annotations

import shutil
import sys
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent.parent))

from core.samples import Failure, answer, broken, call, ended, said, success
from store.grown import GROWN, OBJECT, OUTPUTS, Golden
from store.grown_questions import ASKED_AFTER_ALL
from store.shelf import CREATOR, Shelf, fill
from thread.journals import at
from treadle.core.approval import Decision, NeverAsk, Policy
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, View
from treadle.core.events import (
    DURABLE,
    CancelRequested,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ToolCompleted,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import BlobRef, CallPart, Message, NativeLayout, OpaquePart, TextPart
from treadle.core.task.events import (
    TASK_EVENTS,
    CustomState,
    Graph,
    MemoryChanges,
    TaskConfig,
    TraceLine,
)
from treadle.core.tools import (
    EffectClass,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
)
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Base,
    CommandBegun,
    CommandShown,
    Configured,
    Fact,
    GitObserved,
    InputQueued,
    Recovered,
)
from treadle.thread.fold import TASK

FULL = AgentConfig(
    model_name="model-1",
    system_prompt="be brief",
    tools=(
        ToolDefinition("look", "looks", OBJECT, EffectClass.READ, RiskLevel.LOW),
        ToolDefinition("put", "puts", OBJECT, EffectClass.IDEMPOTENT, RiskLevel.HIGH),
        ToolDefinition("edit", "edits", OBJECT, EffectClass.MUTATE, RiskLevel.CRITICAL),
    ),
    max_retries=2,
    llm_timeout_s=60.5,
    tool_timeout_s=90.5,
    max_tokens=1000,
    temperature=0.5,
    max_steps=50,
)
OPENING: tuple[Entry, ...] = (
    Configured(FULL, "scripted"),
    GitObserved("main", "c0ffee", True, "host/path", ("a.txt", "b.txt"), True),
    said('mend it: "quotes", \\ and \u2028, \0, \U0001f9f5, äöü'),
)
ASKING = Message.assistant("on it", (call("a"), call("b", "edit", '{"cut'), call("b")))
CALLS = LlmEvent.Completed(LlmResponse(ASKING, Usage(10, 2), "tool_use"), at(2))
NOT_FOUND = Failure("a", ToolError(ToolErrorKind.NOT_FOUND, "no such tool", "half of it"))
HOOKED: tuple[tuple[Entry, ...], ...] = (
    (CALLS, ToolStarted("b", at(3))),
    (ToolStarted("a"), ToolCompleted("a", NOT_FOUND, at(4))),
    (ended("b", success("b", "mended", "a.txt", "b.txt")),),
    (ToolCompleted("b-2-2", success("b-2-2")),),
)

THINKING = '{"type":"thinking","thinking":"hm \\u2028","signature":"c2ln+/=="}'
LAYOUT = (OpaquePart(THINKING), TextPart(4), TextPart(2), CallPart())
SPENT = Usage(100, 20, False, 60, 30, 15, Decimal("0.00123"))
THOUGHT = LlmResponse(
    Message(
        "assistant", "so, ok", (call("b", "edit"),), native=NativeLayout("anthropic:m#0f", LAYOUT)
    ),
    SPENT,
    "tool_calls",
)
FAILED = LlmError(LlmErrorKind.CUT_STREAM, "so it goes", 0.0, Usage(7, 1, unpriced_tokens=8))

THREADS: tuple[Golden, ...] = (
    Golden(
        "waiting_for_user_input",
        (
            (Configured(AgentConfig()), said("one")),
            (CancelRequested(),),
            OPENING,
            *HOOKED,
            (PostToolsHookCompleted(True, "committed beef"), GitObserved("main", "beef")),
            (
                LlmEvent.Completed(
                    LlmResponse(Message.assistant("done"), Usage(3, 4, True), "stop")
                ),
            ),
            (said("more"), InputQueued(Message.user("and then"))),
            (CancelRequested("I was", "the person stopped"), GitObserved()),
        ),
    ),
    Golden(
        "calling_llm",
        (
            OPENING,
            (broken(LlmErrorKind.OVERLOADED, retry_after_s=1.5, jitter=0.5),),
            (RetryTimeoutFired(),),
        ),
    ),
    Golden(
        "executing_tools",
        (OPENING, *HOOKED[:2], (Recovered("the process had died"), ToolUncertain("b"))),
    ),
    Golden("post_tools_hook", (OPENING, *HOOKED[:3], (ended("b-1-2"),))),
    Golden("error", (OPENING, (broken(),), (Recovered(),))),
    Golden(
        "calling_llm",
        (
            (Configured(replace(FULL, reasoning="high"), "anthropic"), said("think")),
            (LlmEvent.Error(FAILED),),
            (RetryTimeoutFired(),),
            (LlmEvent.Completed(THOUGHT), ToolStarted("b", at(3))),
            (ended("b", success("b", "mended", "a.txt")),),
            (PostToolsHookCompleted(True, "committed beef", Usage(30, 3, unpriced_tokens=33)),),
        ),
    ),
    *GROWN,
    Golden(
        "waiting_for_user_input",
        (
            (Configured(AgentConfig()), CommandBegun("0badcafe", "make", "/w/src")),
            (CommandShown("make", "no rule \u2028", 2, "0badcafe"),),
            (said("why?"), answer("there is none")),
            (CommandBegun("0badf00d", "make \u2028", "/w"),),
        ),
    ),
    ASKED_AFTER_ALL,
)
"""Threads by the state they end in; between them every event, every fact and every field."""


TAGGED = (*DURABLE, *TASK_EVENTS, *Fact.__args__, *Policy.__args__, *Decision.__args__)
PLAIN = (AgentConfig, LlmResponse, LlmError, Usage, ToolError, NativeLayout, BlobRef)
PLAIN_OF_YEARS = (Base, View, Compaction)
PLAIN_OF_TASKS = (TaskConfig, TokenBudget, CustomState, Graph, MemoryChanges, TraceLine)


def check_whole(stored: bytes) -> None:
    """That no field of an event or fact, or of what they carry, is missing from what was written.

    What has a tag is looked for by it; the fields of the others anywhere.
    """
    seen: dict[str, set[str]] = {}
    for line in stored.splitlines():
        collect(msgspec.json.decode(line)["event"], seen)
    everywhere = set().union(*seen.values())
    for kind in TAGGED:
        tag = str(kind.__struct_config__.tag)
        assert tag in seen or kind is NeverAsk, kind  # the default, which is never written
        assert seen.get(tag, set()) >= {*kind.__struct_encode_fields__}, (kind, seen)
    for kind in (*PLAIN, *PLAIN_OF_TASKS, *PLAIN_OF_YEARS):
        assert everywhere >= {*kind.__struct_encode_fields__}, (kind, everywhere)


def collect(value: Any, seen: dict[str, set[str]]) -> None:
    """Note the names of all fields in a value, by the tag of what has them; "" for no tag."""
    if isinstance(value, dict):
        tag = value.get("type", "")
        seen.setdefault(tag if isinstance(tag, str) else "", set()).update(value)
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            collect(part, seen)


def make(folder: Path, work: Path) -> None:
    """The threads, half of their snapshots a few records old, and what they fold to."""
    expected = {}
    shelf = Shelf(work)
    for number, (state, batches, machine, parent, base) in enumerate(THREADS):
        first = batches[:1] if machine == TASK else ()
        if base is not None:
            writer = shelf.store.fork(*base, creator=CREATOR)
        else:
            writer = shelf.store.create(
                CREATOR,
                workspace="/w",
                cwd="/w/src",
                is_private=number == 1,
                machine=machine,
                parent=parent,
                first=[entry for batch in first for entry in batch],
            )
        for data in OUTPUTS:
            writer.keep(data)
        fill(writer, *batches[len(first) : 2])
        writer.write_snapshot()
        fill(writer, *batches[2:])
        if number % 2:
            writer.snapshot_head = writer.head
        writer.close()
        loaded = shelf.store.load(writer.thread_id)
        assert loaded.fold.state_kind == state, (number, loaded.fold.state_kind)
        expected[writer.thread_id] = {
            "state": state,
            "hash": loaded.head.hash,
            "document": loaded.fold.document(),
        }
    check_whole(b"".join(path.read_bytes() for path in shelf.threads.glob("*.jsonl")))
    for path in shelf.threads.glob("T-*.json*"):
        shutil.copyfile(path, folder / path.name)
    shutil.copytree(shelf.places.data / "blobs", folder / "blobs", ignore=lambda *_: ["tmp"])
    told = msgspec.json.format(msgspec.json.encode(expected), indent=1)
    (folder / "expected.json").write_bytes(told + b"\n")


if __name__ == "__main__":
    new = Path(sys.argv[1])
    new.mkdir(parents=True)
    with TemporaryDirectory() as work:
        make(new, Path(work))
