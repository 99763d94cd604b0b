"""Names are looked up beside each other: one that nobody answers for keeps no other waiting."""

from __future__ import annotations

import asyncio
import socket
from threading import Event
from typing import Any, Final

import pytest

from treadle.web.public_requests import resolve_host

LOOKUPS: Final = 60
"""More than a loop has threads of its own for looking names up."""


async def test_names_that_nobody_answers_for_keep_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over, silent = Event(), asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def look_up(host: str, port: int, *more: Any, **options: Any) -> list[Any]:
        if host.startswith("silent"):
            loop.call_soon_threadsafe(silent.release)
            is_over.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.9", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    tasks = [loop.create_task(resolve_host(f"silent-{at}.example", 80)) for at in range(LOOKUPS)]
    try:
        async with asyncio.timeout(30):
            for _ in range(LOOKUPS):
                await silent.acquire()
            assert await resolve_host("quick.example", 80) == ("203.0.113.9",)
        for task in tasks:
            task.cancel()
        assert {type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)} == {
            asyncio.CancelledError
        }
    finally:
        is_over.set()
