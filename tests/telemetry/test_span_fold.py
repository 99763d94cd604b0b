"""Every thread is made of spans that the official packages take, the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from telemetry.judge import list_faults, list_metric_faults, parse_metrics, parse_spans
from thread.journals import OTHER_ID, random_batches, records_of, write
from thread.test_task_threads import random_journal
from treadle.core.events import LlmEvent
from treadle.telemetry.content import ContentFormatter
from treadle.telemetry.metrics import MeasuredSpans
from treadle.telemetry.otlp_json import encode_metrics, encode_spans
from treadle.telemetry.span_fold import SpanFold, fold_spans
from treadle.telemetry.spans import FinishedSpan, SpanContext
from treadle.thread.codec import decode_entry, get_usage
from treadle.thread.facts import Base, Merged, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Record, scan_journal

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"
RESOURCE = {"service.name": "treadle"}


def make_fold(records: Sequence[Record]) -> ThreadFold:
    header = decode_entry(records[0].event)
    assert isinstance(header, ThreadCreated)
    return ThreadFold(header)


def fold(records: Sequence[Record], *, with_content: bool = False) -> list[FinishedSpan]:
    content = ContentFormatter(lambda text: text) if with_content else None
    return fold_spans(SpanFold(make_fold(records), content=content), records)


def export(records: Sequence[Record], *, with_content: bool = False) -> tuple[bytes, bytes]:
    spans = fold(records, with_content=with_content)
    measured = MeasuredSpans()
    measured.add(spans)
    return encode_spans(spans, RESOURCE), encode_metrics(measured, RESOURCE, "T-1")


@given(st.randoms(use_true_random=True), st.integers(1, 60), st.booleans(), st.booleans())
def test_random_threads_are_well_formed_spans_the_same_each_time(
    random: Random, count: int, is_task: bool, with_content: bool
) -> None:
    make = random_journal if is_task else random_batches
    records = records_of(write(make(random, count))[0])
    body, metrics = export(records, with_content=with_content)
    assert list_faults(parse_spans(body)) == []
    assert list_metric_faults(parse_metrics(metrics)) == []
    assert export(records, with_content=with_content) == (body, metrics)


@given(st.randoms(use_true_random=True), st.integers(2, 40))
def test_what_is_taken_piece_by_piece_is_what_is_taken_at_once(random: Random, count: int) -> None:
    records = records_of(write(random_batches(random, count))[0])
    spans, pieces = SpanFold(make_fold(records)), list[FinishedSpan]()
    for record in records:
        spans.apply(record)
        if random.random() < 0.3:
            pieces += spans.take_finished()
    pieces += [*spans.take_finished(), *spans.list_unfinished()]
    whole = fold(records)
    assert {one.context for one in pieces} == {one.context for one in whole}
    assert len(pieces) == len(whole)


@given(st.randoms(use_true_random=True), st.integers(2, 30))
def test_a_fork_in_the_middle_of_anything_is_well_formed(random: Random, count: int) -> None:
    records = records_of(write(random_batches(random, count))[0])
    base = make_fold(records)
    for record in records:
        base.apply(record.seq, record.at, decode_entry(record.event))
    header = ThreadCreated(1, OTHER_ID, "chat", "t", base=Base(base.header.thread, 1, "0" * 32))
    fork = base.make_fork(header)
    own = records_of(write([(header,), *random_batches(random, count)[1:]])[0])
    spans = fold_spans(SpanFold(fork), own)
    assert list_faults(parse_spans(encode_spans(spans, RESOURCE))) == []


@given(st.randoms(use_true_random=True), st.integers(1, 60))
def test_every_token_stands_on_one_span(random: Random, count: int) -> None:
    """But for what a sub-agent used, which stands in its own thread, and another machine's."""
    records = records_of(write(random_batches(random, count))[0])
    entries = [decode_entry(record.event) for record in records]
    used = [get_usage(one) for one in entries if not isinstance(one, Merged)]
    wanted = sum(one.input_tokens for one in used if one is not None)
    told = sum(
        int(str(one.attributes.get("gen_ai.usage.input_tokens", 0))) for one in fold(records)
    )
    assert told == wanted
    answers = sum(isinstance(one, LlmEvent.Completed) for one in entries)
    assert sum(one.name.startswith("chat") for one in fold(records)) >= answers


def test_released_journals_are_well_formed_spans() -> None:
    journals = sorted(GOLDEN.rglob("*.jsonl"))
    assert len(journals) > 5
    faults, told = [], 0
    for path in journals:
        records = scan_journal(path.read_bytes()).records
        header = decode_entry(records[0].event)
        if not isinstance(header, ThreadCreated) or header.base is not None:
            continue
        spans = parse_spans(export(records, with_content=True)[0])
        told += len(spans)
        faults += [f"{path.name}: {fault}" for fault in list_faults(spans)]
    assert faults == []
    assert told > 50


def test_what_was_said_is_there_only_for_who_asks_for_it() -> None:
    for path in GOLDEN.rglob("*.jsonl"):
        records = scan_journal(path.read_bytes()).records
        if b'"base":' in bytes(records[0].event):
            continue
        names = {name for span in fold(records) for name in span.attributes}
        assert not [name for name in names if name.endswith(("messages", "arguments", "result"))]
        assert "gen_ai.system_instructions" not in names
        assert not [
            one for one in fold(records) if one.error is not None and "no such" in one.error.message
        ]


def test_a_value_counts_in_the_bucket_that_ends_with_it() -> None:
    def span(seconds: float, tokens: int) -> FinishedSpan:
        named = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": tokens}
        end_ns = 1_000 + round(seconds * 1e9)
        return FinishedSpan(
            "chat", SpanContext("1" * 32, "2" * 16), "", "client", 1_000, end_ns, named
        )

    measured = MeasuredSpans()
    measured.add([span(0.01, 4), span(0.011, 5), span(500.0, 4**13 + 1), span(0.0, 0)])
    found = {one.name: one for one in parse_metrics(encode_metrics(measured, RESOURCE, "T-1"))}
    (tokens,) = found["gen_ai.client.token.usage"].histogram.data_points
    (times,) = found["gen_ai.client.operation.duration"].histogram.data_points
    assert list(tokens.bucket_counts) == [1, 1, 1, *[0] * 11, 1]
    assert list(times.bucket_counts) == [2, 1, *[0] * 12, 1]
    assert list_metric_faults([*found.values()]) == []
