"""The spans of a thread as it stands on disk, and of the sub-agents that worked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final

from msgspec import Struct

from treadle.app.stores import user_redactor
from treadle.app.telemetry.otlp_settings import wants_content
from treadle.errors import PrivateThreadError, TreadleError, UnknownThreadError
from treadle.store.local_store import LocalStore
from treadle.store.threads import AnyThreads
from treadle.sync.shareable_thread import hold_for_request
from treadle.telemetry.attributes import CONVERSATION, SUB_AGENT_THREAD
from treadle.telemetry.content import ContentFormatter
from treadle.telemetry.metrics import MeasuredSpans
from treadle.telemetry.otlp_json import encode_metrics, encode_spans
from treadle.telemetry.span_fold import SpanFold
from treadle.telemetry.spans import FinishedSpan, SpanContext, SpanLink
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Base, ChildStarted, ThreadCreated
from treadle.thread.record import JournalCondition, Record

BODY_SIZE_MAX: Final = 2 * 1024 * 1024
"""Bytes of spans in one request, about; collectors take twenty times as much at least."""

DESCENDANT_COUNT_MAX: Final = 1000


class ThreadSpans(Struct, frozen=True):
    """The spans of one thread; `problem` says why these are not all of them, if they are not."""

    thread: str
    spans: Sequence[FinishedSpan]
    problem: str = ""


def make_content(environ: Mapping[str, str]) -> ContentFormatter | None:
    """What makes texts fit to be sent, if the environment says that they are sent."""
    return ContentFormatter(user_redactor().redact) if wants_content(environ) else None


def read_thread_spans(
    store: AnyThreads, thread_id: str, content: ContentFormatter | None = None
) -> ThreadSpans:
    """All spans of a thread, which need not be free.

    Raises:
        UnknownThreadError: there is no such thread.
        StoreError: it cannot be read.
    """
    found = store.scan(thread_id)
    if not found.records:
        raise UnknownThreadError(f"thread {thread_id} holds no intact record")
    spans = make_span_fold(store, thread_id, content)
    problem = found.reason if found.condition is JournalCondition.CORRUPT else ""
    try:
        for record in found.records:
            spans.apply(record)
    except UnknownEntryError as error:
        problem = f"a record was written by a newer Treadle: {error.message}"
    listed = [*spans.take_finished(), *spans.list_unfinished()]
    return ThreadSpans(thread_id, listed, problem)


def make_span_fold(store: AnyThreads, thread_id: str, content: ContentFormatter | None) -> SpanFold:
    """The fold of a thread before its first record, which knows what it hangs on."""
    fold = store.load_initial_fold(thread_id)
    return SpanFold(fold, find_origin(store, fold.header), content)


def list_family(first: ThreadSpans, read: Callable[[str], ThreadSpans]) -> list[ThreadSpans]:
    """A thread and those of its sub-agents, and of theirs; what is gone is left out."""
    found = {first.thread: first}
    todo = list_children(first.spans)
    while todo and len(found) < DESCENDANT_COUNT_MAX:
        thread_id = todo.pop(0)
        if thread_id in found:
            continue
        with suppress(TreadleError):
            found[thread_id] = read(thread_id)
            todo += list_children(found[thread_id].spans)
    return [*found.values()]


def list_children(spans: Iterable[FinishedSpan]) -> list[str]:
    """The threads of sub-agents that these calls have begun."""
    return [
        str(span.attributes[SUB_AGENT_THREAD])
        for span in spans
        if SUB_AGENT_THREAD in span.attributes
    ]


def find_origin(store: AnyThreads, header: ThreadCreated) -> SpanLink | None:
    """The call that a thread works for, or the turn that it goes on from, as far as it is here."""
    try:
        if header.parent and header.parent_call:
            found = _find_call(store, header.parent, header.parent_call)
            return None if found is None else _make_link(found, header.parent, "parent_call")
        if header.base is not None:
            found = _find_base_turn(store, header.base)
            return None if found is None else _make_link(found, header.base.thread, "fork_base")
    except TreadleError:
        pass  # it is gone or damaged: what this thread did is known all the same
    return None


def _make_link(context: SpanContext, thread_id: str, what: str) -> SpanLink:
    return SpanLink(context, {"treadle.link": what, CONVERSATION: thread_id})


def _find_call(store: AnyThreads, thread_id: str, call_id: str) -> SpanContext | None:
    spans = SpanFold(store.load_initial_fold(thread_id))
    for record in store.scan(thread_id).records:
        spans.apply(record)
        if _begins_child(record, call_id):
            return spans.find_call_span(call_id)
    return None


def _begins_child(record: Record, call_id: str) -> bool:
    if b'"child_started"' not in bytes(record.event):
        return False
    entry = decode_entry(record.event)
    return isinstance(entry, ChildStarted) and entry.call_id == call_id


def _find_base_turn(store: AnyThreads, base: Base) -> SpanContext | None:
    spans = SpanFold(store.load_initial_fold(base.thread))
    for record in store.scan(base.thread).records[: base.version]:
        spans.apply(record)
    return spans.current


def hold_for_sending(store: AnyThreads, thread_id: str) -> AbstractContextManager[None]:
    """While what is told of a thread is sent, nobody makes it private.

    Who makes a thread private later is the command, which works on folders alone: in another store
    it counts what is recorded when this begins.

    Raises:
        PrivateThreadError: it, what it goes on from, or whom it works for, is private.
        StorageBusyError: it is being sent by somebody else at this moment.
        StoreError: it cannot be read.
    """
    if isinstance(store, LocalStore):
        return hold_for_request(store, thread_id)
    todo, seen = [thread_id], {""}
    while todo:
        if (one := todo.pop()) in seen:
            continue
        seen.add(one)
        try:
            fold = store.load(one).fold
        except UnknownThreadError:
            if one == thread_id:
                raise
            continue  # as in folders, what is not here is nobody's to ask
        if fold.is_private:
            raise PrivateThreadError(f"thread {thread_id} is private, or {one}, which it hangs on")
        base = fold.header.base
        todo += (fold.header.parent or "", base.thread if base else "")
    return nullcontext()


def encode_in_bodies(spans: Sequence[FinishedSpan], resource: Mapping[str, str]) -> list[bytes]:
    """Spans as bodies of requests, each of a size that collectors take."""
    bodies: list[bytes] = []
    waiting: list[FinishedSpan] = []
    size = 0
    for span in spans:
        length = 500 + sum(len(str(value)) for value in span.attributes.values())
        if waiting and size + length > BODY_SIZE_MAX:
            bodies.append(encode_spans(waiting, resource))
            waiting, size = [], 0
        waiting.append(span)
        size += length
    return [*bodies, *([encode_spans(waiting, resource)] if waiting else [])]


def measure_thread(found: ThreadSpans, resource: Mapping[str, str]) -> list[bytes]:
    """The metrics of a thread as the body of a request; none of one in which nothing happened."""
    measured = MeasuredSpans()
    measured.add(found.spans)
    return [encode_metrics(measured, resource, found.thread)] if measured.end_ns else []
