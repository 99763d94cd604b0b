"""Sends what waits, behind the answers: one task of each process, any number of processes.

What is sent is signed as Standard Webhooks says, with HMAC-SHA256 over id, time and body. Of the
answer only the status is read; a redirect is a failure, since nobody has said that it may be sent
there. An address is looked up, checked and connected to as `web/public_requests.py` says.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from hmac import digest
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from treadle.server.http import logs
from treadle.server.refusals import Refusal
from treadle.server.webhooks import delivery_queue
from treadle.server.webhooks.delivery_queue import Delivery
from treadle.server.webhooks.status_request import post
from treadle.version import __version__
from treadle.web.public_requests import PublicRequests
from treadle.web.web_address import WebFailure, read_address

Result = TypeVar("Result")
Run = Callable[[Callable[[Connection], Any], bool], Awaitable[Any]]
"""Runs a function in a transaction, in a thread; says whether it writes."""

SEND_S_MAX: Final = 10.0
"""From the look at the name to the status of the answer."""
PARALLEL_MAX: Final = 8
POLL_S: Final = 2.0
"""How often it is looked whether something is due. A push wakes nobody: most tell nobody anything,
and would cost a look each."""
REFUSED: Final = "nothing may be sent there: its host is not one of the public internet"


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """What `webhook-signature` says."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = digest(key, f"{message_id}.{timestamp}.".encode() + body, sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


def make_requests(*, allows_private: bool) -> PublicRequests:
    """What webhooks are sent by."""
    return PublicRequests(
        allows_private=allows_private, connect_s_max=SEND_S_MAX, total_s_max=SEND_S_MAX
    )


async def send(
    requests: PublicRequests, delivery: Delivery, now: str, send_s_max: float = SEND_S_MAX
) -> str:
    """Send a delivery once.

    Args:
        requests: by what it is sent.
        delivery: what is sent.
        now: the time.
        send_s_max: how long all of it may take.

    Returns:
        Why it was not taken, in a few words; empty if it was.
    """
    try:
        address = read_address(delivery.url)
        timestamp = int(datetime.fromisoformat(now).timestamp())
        headers = {
            "content-type": "application/json",
            "user-agent": f"treadle/{__version__}",
            "webhook-id": delivery.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(
                delivery.secret, delivery.message_id, timestamp, delivery.body
            ),
        }
        async with asyncio.timeout(send_s_max):
            places = await requests.find_places(address)
            tls = await requests.read_tls() if address.scheme == "https" else None
            status = await post(address, places, tls, headers, delivery.body)
    except WebFailure as failure:
        # What names of its network lead to is nothing that a server tells its people.
        return REFUSED if failure.is_refused else failure.message
    except TimeoutError:
        return f"no answer within {send_s_max:g} seconds"
    except Exception as error:  # noqa: BLE001  whatever it is, it is to be tried again later
        return " ".join(f"{type(error).__name__}: {error}".split())
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"the answer {status} leads elsewhere, which is not followed"
    return f"the answer {status}"


class WebhookSender:
    """The task. `wake` it when somebody waits for what is to be sent.

    Args:
        run: runs transactions.
        now: the clock, in the form of records.
        requests: by what is sent.
    """

    def __init__(self, run: Run, now: Callable[[], str], requests: PublicRequests) -> None:
        self._run = run
        self._now = now
        self._requests = requests
        self._woken = asyncio.Event()
        self._sending: dict[int, tuple[int, asyncio.Task[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; what a process that died has left is sent too."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    def wake(self) -> None:
        """Look soon."""
        self._woken.set()

    async def close(self) -> None:
        """End; what is being sent is sent again by whoever comes next."""
        sending = [task for _, task in self._sending.values()]
        tasks = [*sending, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def _work(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._begin_due()
            except Refusal:
                pass  # the database is away, or its disk full: all of it waits there
            except Exception as error:  # noqa: BLE001  it is in the log; sending goes on
                logs.log_event("webhooks_failed", level=logging.ERROR, error=error)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._woken.wait()

    async def _begin_due(self) -> None:
        """Take what is due, as much as there is room for, and begin to send it."""
        room = PARALLEL_MAX - len(self._sending)
        if room <= 0 or not await self._run(
            lambda db: delivery_queue.has_due(db, self._now()), False
        ):
            return
        busy = {webhook_id: user_id for webhook_id, (user_id, _) in self._sending.items()}
        taken = await self._run(
            lambda db: delivery_queue.take_due(db, self._now(), room, busy), True
        )
        for delivery in taken:
            task = asyncio.get_running_loop().create_task(self._send(delivery))
            self._sending[delivery.webhook_id] = (delivery.user_id, task)

    async def _send(self, delivery: Delivery) -> None:
        try:
            problem = await send(self._requests, delivery, self._now())
            with suppress(Refusal):  # its time runs out, and it is sent again
                await self._run(
                    lambda db: delivery_queue.finish(db, delivery, self._now(), problem), True
                )
        finally:
            del self._sending[delivery.webhook_id]
            self.wake()
