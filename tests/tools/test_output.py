"""Output within bounds: the head, the tail, and the exact size of what is missing."""

from __future__ import annotations

import asyncio
import tracemalloc

from case_tables import for_every_row
from treadle.core.tools import ToolProgress
from treadle.tools.output import HEAD_SIZE_MAX, REPORT_S, REPORT_SIZE_MAX, TAIL_SIZE_MAX, Output

LIMIT = HEAD_SIZE_MAX + TAIL_SIZE_MAX


@for_every_row("chunk_size", [1000, 65536, 10**6])
@for_every_row("size", [0, 1, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT + 7])
async def test_head_and_tail_are_kept_and_the_gap_is_counted(size: int, chunk_size: int) -> None:
    data = (b"abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]
    output = Output(lambda _: None)
    for start in range(0, size, chunk_size):
        output.add(data[start : start + chunk_size])
    output.close()
    text = output.text()
    if size <= LIMIT:
        assert text == data.decode()
    else:
        head, tail = data[:HEAD_SIZE_MAX].decode(), data[-TAIL_SIZE_MAX:].decode()
        assert text == f"{head}\n[{size - LIMIT} bytes dropped here]\n{tail}"


async def test_endless_output_takes_no_more_memory_than_its_bounds() -> None:
    output = Output(lambda _: None)
    chunk = b"x" * 65536
    tracemalloc.start()
    for _ in range(3000):
        output.add(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    output.close()
    assert peak < 4 * LIMIT


async def test_bytes_that_are_not_text_are_replaced() -> None:
    output = Output(lambda _: None)
    output.add(b"\xff\xfe ok \xc3")
    output.add(b"\xa4")
    output.close()
    assert output.text() == "\ufffd\ufffd ok ä"


async def test_reports_come_at_intervals_with_what_is_new() -> None:
    reports: list[ToolProgress] = []
    output = Output(reports.append)
    for piece in ("one ", "t\u00e4".encode()[:2], "t\u00e4".encode()[2:], b"wo"):
        output.add(piece.encode() if isinstance(piece, str) else piece)
    assert reports == []
    await asyncio.sleep(REPORT_S * 1.5)
    assert reports == [ToolProgress(message="one täwo", units_processed=9)]
    output.add(b"x" * 3 * REPORT_SIZE_MAX + b"end")
    output.close()
    output.close()
    assert [len(report.message or "") for report in reports] == [8, REPORT_SIZE_MAX]
    assert reports[1].message is not None
    assert reports[1].message.endswith("xend")
