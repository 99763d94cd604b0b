"""Journals for tests: plain ones, and random ones that hold every event and every fact."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import sha256
from random import Random
from typing import Final

from msgspec.structs import replace

from core.random_events import random_durable_event
from core.samples import (
    CONFIG,
    answer,
    call,
    decided,
    ended,
    failure,
    required,
    said,
    success,
    unsummed,
)
from treadle.core.approval import Modified, Rejected
from treadle.core.branch_join import pair_calls_with_results
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, Masking, View
from treadle.core.events import (
    DURABLE,
    CancelRequested,
    Compacted,
    CompactionRequested,
    PostToolsHookCompleted,
    ResultsMasked,
    RetryTimeoutFired,
    Rewound,
    Steered,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.messages import Attachment, BlobRef, Message, SeenFile
from treadle.core.task.events import (
    TASK_EVENTS,
    CustomState,
    Graph,
    MemoryChanges,
    StateCompleted,
    StateFailed,
    TaskConfig,
    TaskGiven,
    TaskInformed,
    TaskResumed,
    TimeRanOut,
    TraceLine,
)
from treadle.core.tools import Access, RiskLevel
from treadle.thread.codec import Entry, decode_entry, encode_entry
from treadle.thread.facts import (
    FORMAT_VERSION,
    Annotated,
    BackgroundEnded,
    BranchRecord,
    ChildStarted,
    CommandBegun,
    CommandShown,
    Configured,
    ContextObserved,
    ExtraSet,
    Fact,
    FilesNotSaved,
    FilesSaved,
    Foreign,
    GitObserved,
    Granted,
    Imported,
    InputQueued,
    InputWithdrawn,
    KindGranted,
    Merged,
    Pinned,
    PrivacySet,
    Recovered,
    Renamed,
    RequestTaken,
    Restored,
    Revoked,
    Scrubbed,
    ServerAnswered,
    ServerAsked,
    Shared,
    Tagged,
    TakenOver,
    TaskEnded,
    ThreadCreated,
    Trashed,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, Record, encode_batch, scan_journal

ID: Final = "T-01900000-0000-7000-8000-00000000000a"
OTHER_ID: Final = "T-01900000-0000-7000-8000-00000000000b"

HEADER: Final = ThreadCreated(FORMAT_VERSION, ID, "chat", "treadle/0.1.0", "/w", "/w/src")


def at(tick: int) -> str:
    """A time, `tick` microseconds after some morning."""
    return f"2026-11-21T08:15:30.{tick:06}Z"


def write(batches: Iterable[Sequence[Entry]], head: Head = Head()) -> tuple[bytes, Head]:  # noqa: B008
    """The bytes of a journal whose writes were these, one tick apart, and its head."""
    data = b""
    for tick, batch in enumerate(batches, start=head.seq):
        lines, head = encode_batch(head, at(tick), [encode_entry(entry)[1] for entry in batch])
        data += lines
    return data, head


def fold_of(records: Sequence[Record]) -> ThreadFold:
    """The fold of records from the first."""
    header = decode_entry(records[0].event)
    assert isinstance(header, ThreadCreated)
    fold = ThreadFold(header)
    for record in records:
        fold.apply(record.seq, record.at, decode_entry(record.event))
    return fold


def records_of(data: bytes) -> list[Record]:
    found = scan_journal(data)
    assert found.condition.value == "clean"
    return found.records


PLAIN: Final[tuple[tuple[Entry, ...], ...]] = (
    (HEADER,),
    (Configured(CONFIG, "scripted"), GitObserved("main", "c0ffee", False, "host/path"), said("go")),
    (answer("", call("a"), call("b", "edit")), ToolStarted("b", at(3))),
    (ended("a", success("a", "one\u2028line\0 \U0001f9f5")),),
    (ended("b", success("b", "written", "file.txt")), GitObserved("main", "c0ffee", True)),
    (PostToolsHookCompleted(True, "committed"), GitObserved("main", "beef", False)),
    (answer('done, {"seq":1,"at":"","event":{},"hash":"' + "0" * 32 + '"}'),),
)
"""A small session in seven writes, with text that looks like a journal."""


def large(rounds: int = 5) -> bytes:
    """A journal of about forty records, in writes of one to four."""
    batches = list(PLAIN[:-1])
    for number in range(rounds):
        batches += [
            (answer(f"round {number}"), Recovered("nothing to do")),
            (InputQueued(Message.user("next")), said("next"), GitObserved("main", f"{number:040}")),
            (answer("", call(f"r{number}", "edit")), ToolStarted(f"r{number}", at(9))),
            (ended(f"r{number}", failure(f"r{number}")),),
        ]
    return write(batches)[0]


def random_batches(random: Random, count: int) -> list[tuple[Entry, ...]]:
    """Writes whose records hold events in an order a runtime may cause, and facts among them."""
    fold = ThreadFold(HEADER)
    entries: list[Entry] = [HEADER]
    while len(entries) < count:
        entry: Entry
        if random.random() < 0.3:
            entry = random_fact(random, len(entries))
        else:
            entry = random_durable_event(random, fold.state, len(entries))
        entry, _ = encode_entry(entry)
        fold.apply(len(entries) + 1, at(len(entries)), entry)
        entries.append(entry)
    batches: list[tuple[Entry, ...]] = []
    while entries:
        size = random.choice((1, 1, 1, 2, 3, 4))
        batches.append(tuple(entries[:size]))
        del entries[:size]
    return batches


def random_fact(random: Random, number: int = 0) -> Entry:
    """Any fact; the records of merges with different numbers are different ones."""
    if random.random() < 0.06:
        return random_merge(random, number)
    return _random_plain_fact(random)


def _random_plain_fact(random: Random) -> Entry:
    model = random.choice(("model-1", "model-2"))
    config: AgentConfig = replace(CONFIG, model_name=model, max_retries=random.randrange(4))
    return random.choice(
        (
            Configured(config, random.choice(("", "scripted"))),
            GitObserved(),
            GitObserved("main", random.choice((None, "c0ffee", "beef")), random.random() < 0.5),
            GitObserved(None, "dead", True, random.choice((None, "host/path")), ("f",), True),
            InputQueued(Message.user(random.choice(("", "go on", "later"))), random.random() < 0.5),
            InputWithdrawn(),
            CommandBegun(random.choice(("a", "b")), "make", "/w"),
            CommandShown(
                "make",
                random.choice(("", "built")),
                random.randrange(2),
                random.choice(("", "a", "b")),
            ),
            Recovered("the process had died"),
            Renamed(random.choice(("", "The loom")), random.choice(("person", "model"))),
            Tagged(random.choice(((), ("red",), ("red", "blue"))), random.choice(((), ("red",)))),
            Pinned(random.random() < 0.5),
            Annotated("ask Ada"),
            ExtraSet({"x": random.choice((None, 1, [2]))}),
            ContextObserved(environment={"LANG": random.choice(("C", "de"))}),
            FilesSaved(random.choice(("c0ffee", "f00d")), "beef", "after"),
            FilesNotSaved("after", "no room"),
            random.choice((Trashed(), Restored())),
            random.choice((Shared("public"), Shared("private", True), Shared(None, False))),
            PrivacySet(random.random() < 0.5),
        )
    )


def random_merge(random: Random, number: int) -> Merged:
    """What another branch may bring: a few records, and some messages that are whole."""
    entries = [_random_plain_fact(random) for _ in range(random.randrange(1, 3))]
    records = [branch_record(2 * number + nth, entry) for nth, entry in enumerate(entries)]
    calls = tuple(map(call, random.sample("abc", random.randrange(3))))
    messages = random.choice(
        (
            (),
            (Message.user("there"),),
            (Message.user("there"), Message.assistant("yes", calls)),
        )
    )
    queued = random.choice(((), (Message.user("unheard"),)))
    return Merged(
        random.randrange(9),
        "0" * 32,
        tuple(records),
        pair_calls_with_results(messages),
        queued,
        "loom",
    )


def branch_record(seq: int, entry: Entry) -> BranchRecord:
    """A record of another branch, with a hash that no other of these has."""
    event = json.loads(encode_entry(entry)[1])
    digest = sha256(json.dumps([seq, event]).encode()).hexdigest()[:32]
    return BranchRecord(seq, at(seq % 1_000_000), digest, event)


SHOT: Final = Attachment("image", "image/png", "shot.png", BlobRef("ab" * 32, 99), 640, 480)

EVERY_ENTRY: Final[tuple[Entry, ...]] = (
    HEADER,
    Configured(CONFIG, "scripted"),
    GitObserved(),
    GitObserved("main", "c0ffee", True, "host/path", ("a", "b"), True),
    InputQueued(Message.user("later")),
    InputQueued(Message.user("rather this"), steers=True),
    InputQueued(Message.user("@a", seen=(SeenFile("a", "digest", 1, 9, "0.AABB"),))),
    InputWithdrawn(),
    CommandBegun("0badcafe", "make", "/w"),
    CommandShown("make", "no rule", 2, "0badcafe"),
    BackgroundEnded("a", "make serve", "exit", 2, "no port", BlobRef("0" * 64, 9)),
    BackgroundEnded("b", "make watch", "unknown"),
    RequestTaken("0badcafe", "approve", "a page on this machine", "a"),
    ServerAsked("a/1", "a", "judge", "form", "Your name?"),
    ServerAnswered("a/1", "accept", '{"name":"Ann"}'),
    Recovered("mended"),
    replace(said("see"), message=Message.user("see", (SHOT,))),
    said("go"),
    answer("", call("a"), call("b", "edit")),
    answer("text"),
    ToolStarted("a", at(1)),
    ToolUncertain("a"),
    Steered(Message.user("rather this")),
    ended("a", replace(success("a"), attachments=(SHOT,))),
    ended("a"),
    ended("a", failure("a")),
    PostToolsHookCompleted(True, "done"),
    ToolStarted("a", at(1), access=Access.READ),
    required("a", "b"),
    decided("a"),
    decided("a", Rejected("not today")),
    decided("a", Modified('{"x":1}', RiskLevel.HIGH)),
    CompactionRequested("the names"),
    Rewound(9, View(3, Compaction(1, "they said hello"), ((1, 2),)), at(2)),
    Compacted(2, "they said hello", at(2), Usage(9, 1), "model-1"),
    ResultsMasked(Masking(2, 1_000, "read_file"), at(2)),
    unsummed(),
    Granted("drop", RiskLevel.HIGH),
    KindGranted("bash", RiskLevel.HIGH, "git status", "f00d"),
    Revoked("bash", "git status"),
    ChildStarted("a", OTHER_ID),
    TaskEnded("Error", "Max steps 15 exceeded", "steps"),
    ContextObserved("treadle", "/w", 8, {"approval_mode": "ask"}, {"LANG": "C"}),
    FilesSaved("c0ffee", "beef", "before"),
    FilesSaved("f00d", "bead", "after", ("big.bin",)),
    FilesNotSaved("before", "no room"),
    Renamed("The loom"),
    Renamed("A loom", "model", Usage(9, 1), "model-2"),
    Tagged(("red", "blue"), ("green",)),
    Pinned(),
    Pinned(is_pinned=False),
    Annotated("ask Ada"),
    ExtraSet({"x": [1, None], "y": None}),
    Trashed(),
    Restored(),
    Scrubbed(2, "0123456789abcdef0123456789abcdef"),
    Shared("public"),
    Shared(with_support=True),
    PrivacySet(is_private=True),
    PrivacySet(is_private=False),
    TakenOver(),
    Merged(
        3,
        "0123456789abcdef0123456789abcdef",
        (
            branch_record(4, said("from the other machine")),
            branch_record(5, answer("gladly", call("m", "edit"))),
            branch_record(6, InputQueued(Message.user("and then?"))),
        ),
        (
            Message.user("from the other machine"),
            Message.assistant("gladly", (call("m", "edit"),)),
            Message.tool(call("m", "edit"), "it is not known"),
        ),
        (Message.user("and then?"),),
        "loom",
    ),
    Imported("claude-code", "s-1", "/h/s.jsonl", ("line 3 is no JSON",), 2),
    Foreign('{"type":"summary"}'),
    RetryTimeoutFired(),
    CancelRequested("partial", "why"),
    TaskGiven(
        "weave",
        at(3),
        "research",
        "be exact",
        TaskConfig(max_steps=3, models={"default": "model-1"}, output_schema={"type": "object"}),
        TokenBudget(max_total=9, max_cost_usd=Decimal("0.1"), max_time_s=1.5),
        ("drop",),
        Graph((CustomState("Gate", ("extra",)),), (("Gate", "One", "Done"),), ("Parked",), 9),
    ),
    StateCompleted("Gate", "One"),
    StateCompleted(
        "Gate",
        "One",
        MemoryChanges(step=2, current_tool_call=None, extra={"x": [1, None, {"y": "z"}]}),
        (TraceLine("SEEN", "it"), TraceLine("SEEN", "", "Elsewhere")),
        ("do better",),
        Usage(9, 1, cost_usd=Decimal("0.25")),
        at(4),
    ),
    StateFailed("Gate"),
    StateFailed("Gate", Usage(3, 4), at(4)),
    TimeRanOut(at(5)),
    TaskResumed(at(6)),
    TaskInformed("[Since it was last told, this has changed]\n- Mode: auto.", at(6)),
)
"""One of each kind that a record can hold, some twice; failures of models stand in `FAILURES`."""

NO_SAMPLE: Final = "give it a sample in EVERY_ENTRY in tests/thread/journals.py"

ENTRY_KINDS: Final[tuple[type, ...]] = (*DURABLE, *TASK_EVENTS, *Fact.__args__)
"""Every event and every fact that a record can hold."""

FAILURES: Final = tuple(LlmErrorKind)
