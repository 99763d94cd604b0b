"""The fold from a thread's records to spans: what is exported of a run, live or long over.

Each turn of a conversation is a trace, and so is a task. Its first span is `invoke_agent`; below it
stand `chat MODEL` for each request, `execute_tool NAME` for each call, and Treadle's own for hooks
and the states of custom graphs. When work begins is said by the machine's action, when it ends by a
record: the fold of the thread itself runs beside this one, so that both see one thread.

Ids are made of the thread and of the record that began the work. So a run that is exported again,
from any machine, is made of the same spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from treadle.core.actions import (
    AgentAction,
    RunPostToolsHook,
    RunState,
    SendLlmRequest,
    Summarize,
)
from treadle.core.events import (
    CancelRequested,
    Compacted,
    CompactionFailed,
    LlmEvent,
    PostToolsHookCompleted,
    UserInput,
)
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import StateCompleted, StateFailed, TaskGiven, TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.telemetry.attributes import (
    CHAT,
    INVOKE_AGENT,
    MODEL,
    OPERATION,
    PURPOSE,
    describe_model,
    describe_request,
    describe_thread,
    describe_usage,
)
from treadle.telemetry.content import ContentFormatter
from treadle.telemetry.spans import (
    AttributeValue,
    FinishedSpan,
    OpenSpan,
    SpanContext,
    SpanFailure,
    SpanLink,
    make_span_id,
    make_trace_id,
)
from treadle.telemetry.turn_records import HOOK, RECORD_HANDLERS, STATE, make_error, name_call
from treadle.telemetry.turn_spans import TurnSpans, Work
from treadle.thread.codec import Entry, decode_entry, get_usage
from treadle.thread.facts import Renamed
from treadle.thread.fold import TASK, ThreadFold
from treadle.thread.record import Record

_REQUEST: Final[Work] = ("request", "")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNFINISHED: Final = SpanFailure("unfinished", "there is no record of its end")


class SpanFold:
    """The spans of a thread as far as its records have been applied.

    Args:
        fold: the thread before the first of them, which is folded along.
        origin: what the thread goes on from, or whom it works for.
        content: makes what was said fit to be sent; without it, nothing of that is.
    """

    def __init__(
        self,
        fold: ThreadFold,
        origin: SpanLink | None = None,
        content: ContentFormatter | None = None,
    ) -> None:
        self.fold = fold
        self._origin = origin
        self._content = content
        self._record_id = ""
        self._now_ns = 0
        self._turn: TurnSpans | None = None
        self._told_count = len(fold.conversation)
        self._finished: list[FinishedSpan] = []
        self.current: SpanContext | None = None
        """The turn that is under way, or else the last one."""

    def apply(self, record: Record) -> None:
        """Take in the next record.

        Raises:
            UnknownEntryError: this version cannot fold it; nothing has changed.
        """
        entry = decode_entry(record.event)
        call = self._find_call(getattr(entry, "call_id", ""))
        action = self.fold.apply(record.seq, record.at, entry)
        self._record_id = record.id
        self._now_ns = max(self._now_ns, to_nanoseconds(record.at))
        if not self.fold.is_idle and (self._turn is None or self._turn.is_over):
            self._begin_turn(entry)
        if (turn := self._turn) is not None:
            turn.advance(record.id, self._now_ns)
            if (take := RECORD_HANDLERS.get(type(entry))) is not None:
                take(turn, entry, call, self._content)
        if (end_request := _REQUEST_ENDS.get(type(entry))) is not None:
            end_request(self, entry)
        if turn is not None and not turn.is_over:
            self._begin_work(turn, action)
            if self.fold.is_idle:
                self._end_turn(turn, entry)

    def take_finished(self) -> list[FinishedSpan]:
        """The spans of the turns that have ended since the last time, and what belongs to none."""
        if self._turn is not None and self._turn.is_over:
            self._finished += self._turn.list_spans()
            self._turn = None
        finished, self._finished = self._finished, []
        return finished

    def list_unfinished(self) -> list[FinishedSpan]:
        """Those of the turn that is under way, if the records ended here."""
        if self._turn is None or self._turn.is_over:
            return []
        if self.fold.machine.questions:
            return self._turn.list_unfinished("approval_needed", None)
        return self._turn.list_unfinished("unfinished", _UNFINISHED)

    def find_call_span(self, call_id: str) -> SpanContext | None:
        """The span of a call that is at work."""
        known = None if self._turn is None else self._turn.find(name_call(call_id))
        return None if known is None else known.context

    # ---- turns -----------------------------------------------------------------------------------

    def _begin_turn(self, entry: Entry) -> None:
        self._finished = self.take_finished()
        header = self.fold.header
        of_turn = "" if header.machine == TASK else self._record_id
        trace_id = make_trace_id(header.thread, of_turn)
        self.current = SpanContext(
            trace_id, make_span_id(header.thread, self._record_id, INVOKE_AGENT)
        )
        attributes: dict[str, AttributeValue] = {
            **describe_model(self.fold.provider, self._find_model()),
            OPERATION: INVOKE_AGENT,
            **describe_thread(header, self.fold.imported_from),
        }
        said = _find_prompt(entry)
        if self._content is not None and said is not None:
            attributes["gen_ai.input.messages"] = self._content.messages((said,))
        links = () if self._origin is None else (self._origin,)
        self._origin = None
        root = OpenSpan(
            INVOKE_AGENT, self.current, "", "internal", self._now_ns, attributes, links=links
        )
        self._turn = TurnSpans(header.thread, root, self._record_id)

    def _end_turn(self, turn: TurnSpans, entry: Entry) -> None:
        outcome, error = _OUTCOMES.get(type(entry), "done"), None
        if isinstance(entry, LlmEvent.Error | CompactionFailed):
            error = make_error(entry.error.kind.value, entry.error.message, self._content)
        elif isinstance(entry, TimeRanOut):
            error = SpanFailure("time")
        turn.close(outcome, error, None if outcome == "done" else SpanFailure(outcome))

    def _find_model(self) -> str:
        machine = self.fold.machine
        if isinstance(machine, TaskMachine):
            return machine.model_name
        return machine.config.model_name

    def _find_call(self, call_id: str) -> ToolCall | None:
        """A call of this round, as it is to be run."""
        if not call_id:
            return None
        machine = self.fold.machine
        calls = [*(call for call, _ in machine.round), *(one.call for one in machine.questions)]
        return next((call for call in calls if call.id == call_id), None)

    # ---- work ------------------------------------------------------------------------------------

    def _begin_work(self, turn: TurnSpans, action: AgentAction | None) -> None:
        if isinstance(action, SendLlmRequest):
            self._begin_request(turn, action.request, "")
        elif isinstance(action, Summarize):
            self._begin_request(turn, action.request, "summary")
        elif isinstance(action, RunState):
            attributes = {"treadle.state": action.state}
            turn.begin(STATE, f"run_state {action.state}", "internal", attributes)
        elif isinstance(action, RunPostToolsHook):
            turn.begin(HOOK, "run_hook", "internal", {})

    def _begin_request(self, turn: TurnSpans, request: LlmRequest, purpose: str) -> None:
        if turn.find(_REQUEST) is not None:
            return  # asked for again: by a process, say, that has found it unanswered
        found = self._describe_model(request.model, purpose)
        found.update(describe_request(request))
        messages = self.fold.conversation[self._told_count :]
        self._told_count = len(self.fold.conversation)
        if self._content is not None:
            found["gen_ai.input.messages"] = self._content.messages(messages)
            if request.system:
                system = self._content.system(request.system)
                turn.root.attributes.setdefault("gen_ai.system_instructions", system)
        turn.begin(_REQUEST, _name_request(found), "client", found)

    def _describe_model(self, model: str, purpose: str) -> dict[str, AttributeValue]:
        found = describe_model(self.fold.provider, model or self._find_model())
        found["gen_ai.conversation.id"] = self.fold.header.thread
        if purpose:
            found[PURPOSE] = purpose
        return found

    def _end_request(
        self, found: Mapping[str, AttributeValue], error: SpanFailure | None = None
    ) -> None:
        request = None if self._turn is None else self._turn.find(_REQUEST)
        if self._turn is None or request is None:
            self._add_request({**self._describe_model("", ""), **found}, error)
            return
        if self.fold.imported_from and not self.fold.machine.config.tools:
            # Nobody here has asked: who did is recorded with the answer, and not before it.
            model = self._describe_model("", "")
            request.name = _name_request(model)
            request.attributes.update(model)
            if MODEL not in self._turn.root.attributes:
                self._turn.root.attributes.update({**model, OPERATION: INVOKE_AGENT})
        self._turn.end(_REQUEST, found, error)

    def _add_request(self, found: Mapping[str, AttributeValue], error: SpanFailure | None) -> None:
        """A request of which only the end is recorded: below a turn, or, before any, by itself."""
        thread = self.fold.header.thread
        turn = self.current or SpanContext(make_trace_id(thread, self._record_id), "")
        span_id = make_span_id(thread, self._record_id, CHAT)
        context, name = SpanContext(turn.trace_id, span_id), _name_request(found)
        made = OpenSpan(name, context, turn.span_id, "client", self._now_ns, dict(found))
        self._finished.append(made.end(self._now_ns, error, {}))

    def _take_answer(self, entry: LlmEvent.Completed) -> None:
        response = entry.response
        found = describe_usage(response.usage)
        if response.finish_reason:
            found["gen_ai.response.finish_reasons"] = (response.finish_reason,)
        if self._content is not None:
            answer = found["gen_ai.output.messages"] = self._content.answer(response)
            if self._turn is not None:
                self._turn.root.attributes["gen_ai.output.messages"] = answer
        self._end_request(found)

    def _take_failed_request(self, entry: LlmEvent.Error | CompactionFailed) -> None:
        error = make_error(entry.error.kind.value, entry.error.message, self._content)
        self._end_request(describe_usage(entry.error.usage), error)

    def _take_summary(self, entry: Compacted) -> None:
        self._end_request(describe_usage(entry.usage))

    def _take_other_request(self, entry: Entry) -> None:
        """Of requests for what is not the agent's answer, it is recorded what they used."""
        if (usage := get_usage(entry)) is not None:
            model = getattr(entry, "model", "")
            found = self._describe_model(model, _PURPOSES[type(entry)])
            if ":" in model:  # of another provider, perhaps
                found.update(describe_model("", model))
            self._add_request({**found, **describe_usage(usage)}, None)


_PURPOSES: Final[Mapping[type, str]] = {
    PostToolsHookCompleted: "commit message",
    Renamed: "title",
    StateCompleted: "custom state",
    StateFailed: "custom state",
}

_REQUEST_ENDS: Final[Mapping[type, Callable[[SpanFold, Any], None]]] = {
    LlmEvent.Completed: SpanFold._take_answer,
    LlmEvent.Error: SpanFold._take_failed_request,
    Compacted: SpanFold._take_summary,
    CompactionFailed: SpanFold._take_failed_request,
    **dict.fromkeys(_PURPOSES, SpanFold._take_other_request),
}
"""What ends a request to a model."""

_OUTCOMES: Final[Mapping[type, str]] = {
    LlmEvent.Error: "failed",
    CompactionFailed: "failed",
    TimeRanOut: "limit",
    CancelRequested: "cancelled",
}
"""How a turn ended, by the record that ended it; with all others it is done."""


def fold_spans(spans: SpanFold, records: Iterable[Record]) -> list[FinishedSpan]:
    """All spans of a thread whose records these are, those of a turn that is under way too.

    Raises: as `SpanFold.apply`.
    """
    for record in records:
        spans.apply(record)
    return [*spans.take_finished(), *spans.list_unfinished()]


def _name_request(found: Mapping[str, AttributeValue]) -> str:
    return f"{CHAT} {found.get(MODEL, '')}".rstrip()


def _find_prompt(entry: Entry) -> Message | None:
    if isinstance(entry, UserInput):
        return entry.message
    return Message.user(entry.task, entry.attachments) if isinstance(entry, TaskGiven) else None


def to_nanoseconds(at: str) -> int:
    """Nanoseconds since 1970 of a time as records hold it; 0 if it is none."""
    try:
        passed = datetime.fromisoformat(at).replace(tzinfo=UTC) - _EPOCH
    except ValueError:
        return 0
    return max(0, passed // timedelta(microseconds=1) * 1000)


def format_nanoseconds(passed_ns: int) -> str:
    """The time in UTC, as records have it, so many nanoseconds after 1970 began."""
    moment = _EPOCH + timedelta(microseconds=passed_ns // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
