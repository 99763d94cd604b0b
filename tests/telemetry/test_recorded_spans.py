"""What is recorded of a run stands on its spans, under the names that docs/telemetry.md says."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from core.samples import CONFIG, answer, broken, call, decided, ended, required, said, success
from telemetry.test_span_fold import fold, make_fold
from thread.journals import HEADER, SHOT, records_of, write
from treadle.core.approval import Modified, Rejected
from treadle.core.events import (
    CancelRequested,
    Compacted,
    CompactionRequested,
    PostToolsHookCompleted,
    Steered,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.llm import LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.core.task.events import (
    CustomState,
    Graph,
    StateCompleted,
    StateFailed,
    TaskGiven,
    TimeRanOut,
)
from treadle.core.tools import Access
from treadle.telemetry.content import TEXT_SIZE_MAX, ContentFormatter
from treadle.telemetry.metrics import TOKEN_USAGE, MeasuredSpans
from treadle.telemetry.span_fold import SpanFold, fold_spans
from treadle.telemetry.spans import FinishedSpan, SpanContext, SpanLink
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Configured,
    InputQueued,
    Recovered,
    Renamed,
    TaskEnded,
    ThreadCreated,
)

Batches = Sequence[Sequence[Entry]]

PAGE: Final = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")
BEGUN: Final[Batches] = ((HEADER,), (Configured(CONFIG, "anthropic"), said("go")))
CALLED: Final[Batches] = (*BEGUN, (answer("", call("a", "edit")), ToolStarted("a")))
ASKED: Final[Batches] = (*BEGUN, (answer("", call("a", "drop")),))
HOOKED: Final[Batches] = (*CALLED, (ended("a"),))
TASK: Final = ThreadCreated(1, HEADER.thread, "task", "t")
GRAPH: Final = Graph(
    (CustomState("Weave"),), (("Idle", "Start", "Weave"), ("Weave", "Woven", "Done")), ()
)
GIVEN: Final[Batches] = ((TASK,), (Configured(CONFIG, "anthropic"), TaskGiven("weave")))
LATER: Final = Message.user("rather this")
USED: Final = Usage(
    90,
    40,
    cost_usd=Decimal("0.25"),
    estimated=True,
    cache_read_tokens=5,
    cache_write_tokens=6,
    reasoning_tokens=30,
    web_searches=2,
)
ROOT: Final = "invoke_agent"

CASES: Final[dict[str, tuple[Batches, str, dict[str, Any]]]] = {
    "cancelled": (
        (*CALLED, (CancelRequested(),)),
        ROOT,
        {"treadle.outcome": "cancelled", "error.type": None},
    ),
    "what ended with its turn": (
        (*CALLED, (CancelRequested(),)),
        "execute_tool edit",
        {"error.type": "cancelled"},
    ),
    "title": (
        (*BEGUN, (Renamed("The loom", "model", Usage(9, 1), "mistral:small"),)),
        "chat small",
        {"treadle.purpose": "title", "gen_ai.provider.name": "mistral_ai"},
    ),
    "summary": (
        (*BEGUN, (answer("one"),), (CompactionRequested(),), (Compacted(2, "they", usage=USED),)),
        "chat model-1",
        {"treadle.purpose": "summary", "gen_ai.usage.input_tokens": 90},
    ),
    "commit message": (
        (*HOOKED, (PostToolsHookCompleted(True, usage=Usage(9, 1), model="m:small"),)),
        "chat small",
        {"treadle.purpose": "commit message", "gen_ai.provider.name": "m"},
    ),
    "hook that only says something": (
        (*HOOKED, (PostToolsHookCompleted(False, "nothing to commit"),)),
        "run_hook",
        {"treadle.hook.action_taken": False, "treadle.commit": None},
    ),
    "hook that commits": (
        (*HOOKED, (PostToolsHookCompleted(True, commit="c0ffee"),)),
        "run_hook",
        {"treadle.hook.action_taken": True, "treadle.commit": "c0ffee"},
    ),
    "background": (
        (*CALLED, (ended("a", replace(success("a"), background="make serve")),)),
        "execute_tool edit",
        {"treadle.call.background": True},
    ),
    "what holds a call": (
        (*CALLED[:2], (answer("", call("a")), ToolStarted("a", "", "a box", Access.READ))),
        "execute_tool look",
        {"treadle.call.access": "read", "treadle.call.confined": "a box"},
    ),
    "begun again": (
        (*CALLED, (Recovered("it had died"), ToolUncertain("a")), (ToolStarted("a"),)),
        "execute_tool edit",
        {"treadle.uncertain": {}, "treadle.started_again": {}},
    ),
    "stopped": (
        (*CALLED, (Recovered(stopped="SIGTERM"),)),
        ROOT,
        {"treadle.recovered": {"treadle.was_stopped": True}},
    ),
    "died": (
        (*CALLED, (Recovered("it had died"),)),
        ROOT,
        {"treadle.recovered": {"treadle.was_stopped": False}},
    ),
    "steered": (
        (
            *BEGUN,
            (InputQueued(Message.user("rather"), steers=True),),
            (Steered(Message.user("r")),),
        ),
        ROOT,
        {"treadle.steered": {}},
    ),
    "asked anew": (
        (*ASKED, (decided("a"),), (required("a"),)),
        ROOT,
        {"treadle.approval_required": {"gen_ai.tool.call.id": "a"}},
    ),
    "rejected": (
        (*ASKED, (decided("a", Rejected("not today")),)),
        "execute_tool drop",
        {"error.type": "rejected"},
    ),
    "modified": (
        (*ASKED, (decided("a", Modified("{}")),)),
        ROOT,
        {
            "treadle.approval_decided": {
                "gen_ai.tool.call.id": "a",
                "treadle.decision": "modified",
            }
        },
    ),
    "all that is used": (
        (*BEGUN, (answer("one", usage=USED),)),
        "chat model-1",
        {
            "gen_ai.usage.output_tokens": 40,
            "gen_ai.usage.cache_read.input_tokens": 5,
            "gen_ai.usage.cache_creation.input_tokens": 6,
            "gen_ai.usage.reasoning.output_tokens": 30,
            "treadle.usage.cost_usd": 0.25,
            "treadle.usage.estimated": True,
            "treadle.usage.web_searches": 2,
        },
    ),
    "how it is asked": (
        (
            (HEADER,),
            (Configured(replace(CONFIG, temperature=0.0, max_tokens=70), "xai"), said("go")),
        ),
        "chat model-1",
        {
            "gen_ai.request.temperature": 0.0,
            "gen_ai.request.max_tokens": 70,
            "gen_ai.provider.name": "x_ai",
        },
    ),
    "a limit of a task": (
        (*GIVEN, (TimeRanOut(), TaskEnded("Error", "out of time", "time"))),
        ROOT,
        {"treadle.outcome": "limit", "error.type": "time", "treadle.task.state": "Error"},
    ),
    "time, as it passed": ((*GIVEN, (TimeRanOut(),)), ROOT, {"error.type": "time"}),
    "a limit of two words": (
        (*GIVEN, (TimeRanOut(), TaskEnded("Error", "no more", "input tokens"))),
        ROOT,
        {"treadle.outcome": "limit", "error.type": "input_tokens"},
    ),
    "a task that failed": (
        (*GIVEN, (broken(LlmErrorKind.PERMISSION), TaskEnded("Error", "no"))),
        ROOT,
        {"treadle.outcome": "failed", "error.type": "failed"},
    ),
    "a custom state": (
        (GIVEN[0], (TaskGiven("weave", graph=GRAPH),), (StateCompleted("Weave", "Woven"),)),
        "run_state Weave",
        {"treadle.state": "Weave", "treadle.state.event": "Woven"},
    ),
    "a custom state that failed": (
        (GIVEN[0], (TaskGiven("weave", graph=GRAPH),), (StateFailed("Weave", error="KeyError"),)),
        "run_state Weave",
        {"treadle.state": "Weave", "error.type": "exception"},
    ),
    "what a custom state used": (
        (GIVEN[0], (TaskGiven("weave", graph=GRAPH),), (StateFailed("Weave", Usage(9, 1)),)),
        "chat",
        {"treadle.purpose": "custom state", "gen_ai.usage.input_tokens": 9},
    ),
}
"""A journal, the name of a span, and what it says: attributes, events, `None` what is not there."""


def test_what_is_recorded_stands_on_the_spans_and_in_the_page() -> None:
    misses = []
    for name, (batches, span, wanted) in CASES.items():
        said_by: list[dict[str, Any]] = []
        for one in fold(records_of(write(batches)[0])):
            if one.name == span:
                events = {event.name: dict(event.attributes) for event in one.events}
                found = {**one.attributes, **events}
                said_by.append({key: found.get(key) for key in wanted})
        if wanted not in said_by:
            misses.append((name, said_by))
        misses += [(name, key) for key in wanted if f"`{key}`" not in PAGE and key != "error.type"]
    assert misses == []


def test_only_the_first_turn_of_a_fork_hangs_on_its_base() -> None:
    batches: Batches = (*BEGUN, (answer("one"),), (said("more"),), (answer("two"),))
    records = records_of(write(batches)[0])
    link = SpanLink(SpanContext("1" * 32, "2" * 16))
    spans = fold_spans(SpanFold(make_fold(records), link), records)
    assert [one.links for one in spans if one.name == ROOT] == [(link,), ()]


def test_a_text_loses_its_secrets_before_it_is_cut() -> None:
    secret = "open-sesame-" * 4
    content = ContentFormatter(lambda text: text.replace(secret, "[REDACTED]"))
    half = TEXT_SIZE_MAX // 2
    told = content.text("a" * (half - 20) + secret + "b" * 3 * half)
    assert "sesame" not in told
    assert len(told.encode()) <= TEXT_SIZE_MAX + 100


def test_what_was_shown_is_named_and_broken_arguments_are_text() -> None:
    content = ContentFormatter(str)
    shown = content.messages([Message.user("see", (SHOT,))])
    assert "shot.png" in shown
    response = LlmResponse(Message.assistant("", (call("a", "edit", "{broken"),)))
    assert '"arguments":"{broken"' in content.answer(response)


def test_sums_begin_with_the_earliest_span_and_have_no_series_of_failed_tokens() -> None:
    def span(begin_ns: int, **more: Any) -> FinishedSpan:
        named = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 4, **more}
        context = SpanContext("1" * 32, "2" * 16)
        return FinishedSpan("chat", context, "", "client", begin_ns, begin_ns + 9, named)

    measured = MeasuredSpans()
    measured.add([span(2_000), span(1_000, **{"error.type": "network"}), span(3_000)])
    assert (measured.begin_ns, measured.end_ns) == (1_000, 3_009)
    (point,) = measured.list_points(TOKEN_USAGE)
    assert point.count == 3
    assert "error.type" not in point.attributes
