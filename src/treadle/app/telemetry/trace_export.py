"""A thread as spans and metrics of OpenTelemetry: for a collector, or as the JSON it would get."""

from __future__ import annotations

import os

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.stores import user_redactor
from treadle.app.telemetry.otlp_settings import OtlpSettings, read_otlp_settings
from treadle.app.telemetry.thread_spans import (
    ThreadSpans,
    encode_in_bodies,
    hold_for_sending,
    list_family,
    measure_thread,
    read_thread_spans,
)
from treadle.errors import PrivateThreadError
from treadle.store.local_store import LocalStore
from treadle.store.port import Store
from treadle.store.threads import AnyThreads, find_threads
from treadle.telemetry.content import ContentFormatter


class TraceExport(Struct, frozen=True):
    """What was exported: how many spans, of which threads; a thread's sub-agents go with it.

    `lines` is the OTLP JSON, one request a line; empty if it was sent. `problem` says why these are
    not all spans, if they are not.
    """

    span_count: int
    threads: tuple[str, ...]
    lines: tuple[bytes, ...] = ()
    problem: str = ""


def export_trace(
    store: Store | AnyThreads, thread: str, url: str = "", *, with_content: bool = False
) -> TraceExport:
    """The spans and metrics of a thread and its sub-agents, sent to a collector or handed out.

    Whatever state it is in, it need not be free. Exporting it again makes the same spans.

    Args:
        store: where it is: a folder, or a store of a program's own.
        thread: its id; in a folder also how that begins or ends.
        url: of the collector, without `/v1/traces`; empty for the lines that it would get.
            Headers, time and the service's name are those of the environment (`OTEL_...`).
        with_content: whether what was said goes along, without known secrets. It does besides if
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says so.

    Raises:
        UsageError: there is no such thread.
        ConfigError: the address or a variable of the environment cannot be used.
        PrivateThreadError: it is private, and would be sent.
        RemoteError: the collector cannot be reached, or does not take it.
        StoreError: it cannot be read.
    """
    threads = find_threads(store)
    thread_id = threads.resolve(thread) if isinstance(threads, LocalStore) else thread
    settings = read_otlp_settings(os.environ, url or "http://localhost")
    assert settings is not None
    settings = replace(settings, with_content=settings.with_content or with_content)
    content = ContentFormatter(user_redactor().redact) if settings.with_content else None

    def read(one: str) -> ThreadSpans:
        return read_thread_spans(threads, one, content)

    family = list_family(read(thread_id), read)
    problems = [one.problem for one in family if one.problem]
    lines: list[bytes] = []
    for one in family:
        traces = encode_in_bodies(one.spans, settings.resource)
        metrics = measure_thread(one, settings.resource)
        if not url:
            lines += [*traces, *metrics]
            continue
        try:
            with hold_for_sending(threads, one.thread):  # nothing of it becomes private meanwhile
                _send(settings, traces, metrics)
        except PrivateThreadError as error:
            if one.thread == thread_id:
                raise
            problems.append(error.message)
    count = sum(len(one.spans) for one in family)
    named = tuple(one.thread for one in family)
    return TraceExport(count, named, tuple(lines), "; ".join(problems))


def _send(settings: OtlpSettings, traces: list[bytes], metrics: list[bytes]) -> None:
    from treadle.app.telemetry.otlp_client import send_otlp  # who prints needs no HTTP

    send_otlp(settings, traces, metrics)
