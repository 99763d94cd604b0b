"""What format 1 has come to hold since its first golden threads: approvals, tasks, years."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from typing import Final, NamedTuple

from core.samples import call, said, success
from thread.journals import at, branch_record
from treadle.core.approval import (
    AlwaysAsk,
    Approved,
    AskAbove,
    Grant,
    Modified,
    Rejected,
    Scope,
    ToolBased,
)
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, View
from treadle.core.events import (
    ApprovalDecided,
    CancelRequested,
    Compacted,
    CompactionFailed,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    Rewound,
    Steered,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import BlobRef, Message, ToolCall
from treadle.core.task.events import (
    CustomState,
    Graph,
    MemoryChanges,
    StateCompleted,
    StateFailed,
    TaskConfig,
    TaskGiven,
    TaskResumed,
    TimeRanOut,
    TraceLine,
)
from treadle.core.tools import (
    EffectClass,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    ChildStarted,
    CommandShown,
    Configured,
    ContextObserved,
    ExtraSet,
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
    Renamed,
    Restored,
    Revoked,
    Scrubbed,
    Shared,
    Tagged,
    TakenOver,
    TaskEnded,
    Trashed,
)
from treadle.thread.fold import CHAT, TASK

OBJECT: Final = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS: Final = (
    ToolDefinition("look", "looks", OBJECT, EffectClass.READ, RiskLevel.LOW),
    ToolDefinition("put", "puts", OBJECT, EffectClass.IDEMPOTENT, RiskLevel.HIGH),
    ToolDefinition("edit", "edits", OBJECT, EffectClass.MUTATE, RiskLevel.CRITICAL),
)
ANSWER: Final = {"type": "object", "properties": {"count": {"type": "integer"}}}


class Golden(NamedTuple):
    """A thread: the state it ends in and its writes; the first of a task is that of its header.

    `base` is the thread and the version that a fork goes on from.
    """

    state: str
    batches: tuple[tuple[Entry, ...], ...]
    machine: str = CHAT
    parent: tuple[str, str, int] | None = None
    base: tuple[str, int] | None = None


def thread_id(number: int) -> str:
    return f"T-01900000-0000-7000-8000-{number:012x}"


def says(
    tick: int,
    text: str,
    *calls: ToolCall,
    usage: Usage | None = None,
    risks: tuple[RiskLevel | None, ...] = (),
    fault: str = "",
    confidence: float | None = None,
    scopes: tuple[Scope | None, ...] = (),
) -> LlmEvent.Completed:
    """A model's answer at that time."""
    reason = "tool_use" if calls else "stop"
    message = Message.assistant(text, calls)
    response = LlmResponse(message, usage or Usage(10, 2), reason, confidence)
    return LlmEvent.Completed(response, at(tick), risks, fault, scopes)


def runs(tick: int, call_id: str, *changed: str) -> tuple[Entry, Entry]:
    """A call from its start to its good end."""
    outcome = success(call_id, f"{call_id} went well", *changed)
    return ToolStarted(call_id, at(tick)), ToolCompleted(call_id, outcome, at(tick + 1))


# ---- conversations -----------------------------------------------------------------------------

ASKING: Final = AgentConfig(
    model_name="model-1",
    system_prompt="be brief",
    tools=TOOLS,
    approval=AskAbove(RiskLevel.HIGH),
    granted={"look": RiskLevel.MEDIUM},
    parallel_max=2,
    context_tokens_max=1000,
    compact_at=0.5,
)
TOOL_BASED: Final = AgentConfig(approval=ToolBased({"put": RiskLevel.LOW, "edit": RiskLevel.HIGH}))
UNSUMMED: Final = CompactionFailed(
    LlmError(LlmErrorKind.OVERLOADED, "so it goes", 1.5, Usage(8, 0)), at(21)
)

WAITING_FOR_APPROVAL: Final = Golden(
    "waiting_for_approval",
    (
        (
            Configured(AgentConfig(approval=AlwaysAsk())),
            Configured(TOOL_BASED, "scripted"),
            Configured(ASKING, "scripted"),
            said("mend it all"),
        ),
        (
            says(
                2,
                "on it",
                call("a", "edit", '{"path":"a.txt"}'),
                call("b", "put"),
                call("c", "look", '{"path":"/etc/passwd"}'),
                call("d", "edit"),
                call("e", "look"),
                risks=(None, None, RiskLevel.CRITICAL),
            ),
        ),
        (ApprovalDecided("a", Approved(), at(3)),),
        (ApprovalDecided("b", Rejected('not "today"'), at(4)),),
        (ApprovalDecided("c", Modified('{"path":"c.txt"}', RiskLevel.HIGH), at(5)),),
        (Granted("edit", RiskLevel.CRITICAL), ApprovalDecided("d", Approved(), at(6))),
        (*runs(7, "a", "a.txt"), *runs(9, "c")),
        (*runs(11, "d"), *runs(13, "e")),
        (PostToolsHookCompleted(True, "committed beef", Usage(30, 3), "model-2", at(15)),),
        (says(16, "done"), CompactionRequested("the names", at(17))),
        (Compacted(8, "It was mended.", at(18), Usage(90, 9), "model-2"),),
        (said("and now?"), says(19, "now it is good", usage=Usage(590, 10))),
        (said("put it there"), UNSUMMED),
        (says(22, "", call("a", "put"), call("b", "put"), call("c", "edit")),),
        (ApprovalDecided("a-11-0", Rejected(), at(23)),),
    ),
)

COMPACTING: Final = Golden(
    "compacting",
    (
        (Configured(ASKING, "scripted"), GitObserved("main", "c0ffee"), said("tell me")),
        (LlmEvent.Error(LlmError(LlmErrorKind.SERVER, "so it goes"), 0.5, at(2)),),
        (RetryTimeoutFired(at(3)), CancelRequested("I was", "the person stopped", at(4))),
        (said("tell me more"), says(5, "a long story", usage=Usage(490, 10))),
        (said("go on"),),
    ),
)

# ---- tasks -------------------------------------------------------------------------------------

WORKING: Final = AgentConfig(
    model_name="model-1", tools=TOOLS, approval=AskAbove(RiskLevel.HIGH), max_retries=1
)
GATE: Final = CustomState(
    "Gate",
    (
        *("step", "retry_count", "confidence_score", "current_tool_call", "pending_tool_calls"),
        *("last_observation", "final_answer", "error", "extra"),
    ),
)
GRAPH: Final = Graph(
    (GATE,),
    (
        ("Planning", "LlmFinalAnswer", "Gate"),
        ("Gate", "Act", "Acting"),
        ("Gate", "Park", "Parked"),
    ),
    ("Parked",),
    900,
)
GIVEN: Final = TaskGiven(
    'count: "lines", \\ and \u2028, \U0001f9f5',
    at(1),
    "research",
    "be exact",
    TaskConfig(
        max_steps=14,
        max_retries=2,
        confidence_threshold=0.25,
        reflect_every_n_steps=1,
        min_answer_length=5,
        models={"default": "model-1", "research": "model-2"},
        output_schema=ANSWER,
        self_reported_confidence=True,
        history_style="text",
        model_written_reflection=True,
    ),
    TokenBudget(100_000, 90_000, 9_000, Decimal("1.50"), 3600.5),
    ("drop", "burn"),
    GRAPH,
)
WRITTEN: Final = MemoryChanges(
    step=3,
    retry_count=1,
    confidence_score=0.75,
    current_tool_call=ToolCall("g1", "look", '{"path":"g"}'),
    pending_tool_calls=(ToolCall("g2", "look"),),
    last_observation="SUCCESS: seen",
    final_answer="so far",
    error="not counted yet",
    extra={"seen": [1, None, {"deep": "\u2028"}], "share": 0.5},
)
CLEARED: Final = MemoryChanges(
    current_tool_call=None, pending_tool_calls=(), last_observation=None, error=None, extra={}
)
LOGGED: Final = (TraceLine("COUNTED", "4 lines"), TraceLine("SEEN", "", "Elsewhere"))
COST: Final = Usage(100, 20, False, 60, 30, 0, Decimal("0.00123"))

PARKED: Final = Golden(
    "parked",
    (
        (Configured(WORKING, "scripted"), GIVEN),
        (
            says(3, "", call("a"), call("b"), usage=COST, confidence=0.9),
            ToolStarted("a", at(4)),
            ToolStarted("b", at(5)),
            ChildStarted("b", thread_id(10)),
        ),
        (ToolCompleted("a", success("a", "two"), at(6)),),
        (ToolCompleted("b", success("b", "two more"), at(7), COST),),
        (says(8, "", call("c", "edit", '{"path":"c","confidence":0.8}')),),
        (ApprovalDecided("c", Modified('{"path":"d"}', RiskLevel.CRITICAL), at(9)),),
        runs(10, "c", "d"),
        (PostToolsHookCompleted(True, "committed beef", Usage(30, 3), "model-2", at(12)),),
        (Compacted(4, "Four lines were seen.", at(13), Usage(50, 5), "model-2"),),
        (TaskResumed(at(14)), says(15, "four", fault="it is not JSON")),
        (says(16, '{"count":4}', confidence=0.95),),
        (StateFailed("Gate", Usage(3, 4), at(17)),),
        (StateCompleted("Gate", "Act", WRITTEN, LOGGED, ("look again",), COST, at(18)),),
        runs(19, "g1"),
        (UNSUMMED,),
        (says(22, '{"count":5}'),),
        (StateCompleted("Gate", "Park", CLEARED, at=at(23)), TaskEnded("Parked")),
    ),
    TASK,
)

WAITING_FOR_HUMAN: Final = Golden(
    "waiting_for_human",
    (
        (Configured(WORKING, "scripted"), TaskGiven("look into it", at(1))),
        (says(2, "on it", call("a", "put"), call("b"), call("c", "edit")),),
        (ApprovalDecided("a", Rejected("not there"), at(3)), TaskResumed(at(4))),
    ),
    TASK,
    (thread_id(9), "b", 1),
)

OUT_OF_TIME: Final = Golden(
    "error",
    (
        (
            Configured(WORKING, "scripted"),
            TaskGiven(
                "be quick",
                at(1),
                config=TaskConfig(parallel_tools=False),
                budget=TokenBudget(max_time_s=1.5),
            ),
        ),
        (says(2, "", call("a"), call("b", "look")), ToolStarted("a", at(3))),
        (
            TimeRanOut("2026-11-21T08:15:32.000000Z"),
            TaskEnded("Error", "Time limit exceeded: 2 of 1.5 s used", "time"),
        ),
    ),
    TASK,
)

# ---- threads of years --------------------------------------------------------------------------

OUTPUTS: Final = (b"a line of many\n" * 99, "a line of many \u2028, too\n".encode() * 99)
"""What is kept beside the threads."""
SEEN, DONE = (BlobRef(sha256(data).hexdigest(), len(data)) for data in OUTPUTS)
EDITING: Final = AgentConfig(model_name="model-1", tools=TOOLS)
LOOKED: Final = ToolExecutionOutcome.Error(
    "a", ToolError(ToolErrorKind.FAILED, "it is too long", "the beginning"), SEEN
)
EDITED: Final = ToolExecutionOutcome.Success("b", "mended", ("a.txt",), DONE)

LONG_LIVED: Final = Golden(
    "waiting_for_user_input",
    (
        (
            Imported("loom", "s-1", "/w/s-1.json", ("line 3 is no JSON",), 1),
            Foreign('{"odd":"\u2028"}'),
            Configured(EDITING, "scripted"),
            ContextObserved(
                "treadle", "/w/src", 4, {"memory": "1G", "deep": [1, None]}, {"TERM": "xterm"}
            ),
            said("mend it"),
            Renamed("What a model calls it", "model", Usage(20, 5), "model-2"),
        ),
        (
            FilesSaved("c1" * 20, "71" * 20, "before", ("big.bin",)),
            says(2, "on it", call("a"), call("b", "edit", '{"path":"a.txt"}')),
            ToolStarted("a", at(3)),
            ToolStarted("b", at(3)),
        ),
        (ToolCompleted("a", LOOKED, at(4)), ToolCompleted("b", EDITED, at(5))),
        (
            FilesSaved("c2" * 20, "72" * 20, "after"),
            PostToolsHookCompleted(True, "committed", Usage(9, 3), "model-2", at(6), "be" * 20),
        ),
        (says(7, "it is mended"),),
        (said("now the other"), says(8, "that one too")),
        (CompactionRequested("the names", at(9)), Compacted(7, "Both were mended.", at(10))),
        (said("wrong"), says(11, "indeed")),
        (Rewound(20, View(7, Compaction(7, "Both were mended.")), at(12)),),
        (said("right"), says(13, "quite")),
        (Rewound(23, View(9, Compaction(7, "Both were mended."), ((7, 9),)), at(14)),),
        (
            Renamed("What its person calls it"),
            Tagged(("one", "two")),
            Tagged(("three",), ("one",)),
            Pinned(),
            Pinned(False),
            Annotated('a note: "quotes", \\ and \u2028'),
            ExtraSet({"kept": {"deep": [1, None, "\u2028"]}, "gone": 1}),
            ExtraSet({"gone": None}),
            Scrubbed(2, "0a" * 16),
            FilesNotSaved("before", "no room"),
            ContextObserved("treadle", "/v/src", 4, workspace="/v"),
        ),
        (Trashed(),),
        (Restored(),),
        (said("go on"), says(15, "gladly")),
    ),
)

FORKED: Final = Golden(
    "calling_llm",
    ((Renamed("another way"),), (said("and if not?"),)),
    base=(thread_id(12), 20),
)

# ---- threads of several machines ---------------------------------------------------------------

BRANCH: Final = (
    branch_record(3, said("from the other machine")),
    branch_record(4, says(4, "", call("a", "edit", '{"path":"\u2028"}'), usage=COST)),
    branch_record(5, InputQueued(Message.user("and then?"))),
    branch_record(6, Tagged(("there",))),
)
THERE: Final = (
    Message.user("from the other machine"),
    Message.assistant("", (call("a", "edit", '{"path":"\u2028"}'),)),
    Message.tool(call("a", "edit"), "nobody knows"),
)
MERGED: Final = Golden(
    "executing_tools",
    (
        (Configured(EDITING, "scripted"),),
        (said("go"), says(1, "on it", call("a")), ToolStarted("a", at(2))),
        (Shared("public", True), Shared("private"), Shared(with_support=False)),
        (PrivacySet(True), PrivacySet(False)),
        (Merged(2, "0a" * 16, BRANCH, THERE, (Message.user("and then?"),), "loom"),),
        (ToolCompleted("a", success("a", "one"), at(3)),),
        (says(4, "here too"),),
        (TakenOver(),),
        (said("once more"), says(5, "gladly", call("a", "edit"))),
        (Merged(2, "0b" * 16, (branch_record(3, Annotated("a note")),), THERE[:1]),),
    ),
)

# ---- who may do what, and what is said meanwhile -----------------------------------------------

GROUND: Final = "0c" * 32
WRITING: Final = Scope(
    ("it changes what runs later by itself", "\u2028"),
    ("src/", "src/deep/"),
    GROUND,
    "0d" * 32,
    "workspace-write, no network, bubblewrap",
    must_ask=True,
)
GOVERNED: Final = Golden(
    "executing_tools",
    (
        (
            Configured(
                AgentConfig(
                    tools=TOOLS,
                    approval=AlwaysAsk(),
                    granted={"look": RiskLevel.LOW},
                    grants=(Grant("edit", RiskLevel.HIGH, "lib/", GROUND),),
                ),
                "scripted",
            ),
        ),
        (
            KindGranted("edit", RiskLevel.MEDIUM, "docs/", GROUND),
            KindGranted("edit", RiskLevel.HIGH, "tests/"),
            Revoked("edit", "tests/"),
            Revoked("look"),
        ),
        (
            said("go"),
            says(1, "", call("a", "edit"), call("b", "edit"), scopes=(WRITING, None)),
        ),
        (
            InputQueued(Message.user("rather this"), steers=True),
            InputQueued(Message.user("and then")),
            InputQueued(Message.user("or not")),
            InputWithdrawn(),
        ),
        (
            ApprovalDecided("a", Approved(), at(2)),
            ApprovalDecided(
                "b", Modified("{}", RiskLevel.LOW), at(3), Scope(ground=GROUND, content="absent")
            ),
        ),
        (
            ToolStarted("a", at(4), WRITING.confined),
            ToolCompleted("a", success("a", "written"), at(5)),
            *runs(6, "b"),
            PostToolsHookCompleted(False),
        ),
        (Steered(Message.user("rather this")), says(8, "so be it")),
        (CommandShown("make", "no rule \u2028", 2),),
        (UserInput(Message.user("and then"), was_queued=True),),
        (says(9, "", call("c", "edit"), scopes=(WRITING,)),),
        (
            ApprovalDecided("c", Approved(), at(10)),
            InputQueued(Message.user("later"), steers=True),
            CommandShown("ls", ""),
        ),
    ),
)

GROWN: Final = (
    *(WAITING_FOR_APPROVAL, COMPACTING, PARKED, WAITING_FOR_HUMAN, OUT_OF_TIME),
    *(LONG_LIVED, FORKED, MERGED, GOVERNED),
)
