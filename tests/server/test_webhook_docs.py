"""The adapters in docs/webhooks.md run as they stand there."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Final

from server.receivers import Receiver
from server.running import PATIENCE_S
from treadle.server.http import webhook_sender
from treadle.server.webhooks.delivery_queue import RETRY_DELAYS_S, Delivery
from treadle.store.local_store import utc_now
from treadle.web.public_requests import PublicRequests

PAGE: Final = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
NTFY, MAIL = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SECRET: Final = "whsec_c2VjcmV0"
BODY: Final = b'{"type":"question","data":{"title":"Mend it","url":"https://t.example/threads/T"}}'


@contextmanager
def running(script: str, **environment: str) -> Iterator[int]:
    """The port of an adapter that runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "SECRET": SECRET, "PORT": str(port), **environment},
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                continue
        yield port
    finally:
        process.kill()
        process.wait()


async def deliver(port: int, secret: str = SECRET, now: str = "") -> str:
    requests = PublicRequests(allows_private=True, connect_s_max=5, total_s_max=PATIENCE_S)
    one = Delivery(1, 1, 1, f"http://127.0.0.1:{port}/", secret, "msg_1", 1, BODY)
    return await webhook_sender.send(requests, one, now or utc_now(), PATIENCE_S)


async def test_ntfy_is_told_and_only_what_is_signed_and_fresh() -> None:
    with Receiver() as ntfy, running(NTFY, NTFY=ntfy.url) as port:
        assert await deliver(port) == ""
        got = ntfy.next()
        assert (got.body, got.headers["title"]) == (b"Mend it", "Treadle: question")
        assert got.headers["click"] == "https://t.example/threads/T"
        assert await deliver(port, "whsec_b3RoZXI=") == "the answer 401"
        assert await deliver(port, now="2026-11-21T08:15:30.000000Z") == "the answer 401"
        assert ntfy.count == 1
    with running(NTFY, NTFY=ntfy.url) as port:
        assert "without an answer" in await deliver(port), "what ntfy did not take is tried again"


async def test_mail_is_sent() -> None:
    got: Queue[bytes] = Queue()
    listener = socket.create_server(("127.0.0.1", 0))
    Thread(target=take_mail, args=(listener, got), daemon=True).start()
    here = f"127.0.0.1:{listener.getsockname()[1]}"
    with running(MAIL, SMTP=here, FROM="treadle@t.example", TO="ada@t.example") as port:
        assert await deliver(port) == ""
    listener.close()
    mail = got.get(timeout=PATIENCE_S)
    assert b"Subject: Treadle: question: Mend it" in mail
    assert b"https://t.example/threads/T" in mail


def take_mail(listener: socket.socket, got: Queue[bytes]) -> None:
    """Speak as much SMTP as one mail needs."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb", buffering=0) as file:
        file.write(b"220 here\r\n")
        while line := file.readline():
            word = line[:4].upper().strip()
            if word == b"DATA":
                file.write(b"354 go on\r\n")
                lines = []
                while (part := file.readline()) != b".\r\n":
                    lines.append(part)
                got.put(b"".join(lines))
            file.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")


def test_the_page_says_how_long_it_is_tried() -> None:
    assert RETRY_DELAYS_S[:5] == (5, 30, 120, 600, 3600)
    assert "for five days" in PAGE
    assert "webhook-signature" in PAGE
