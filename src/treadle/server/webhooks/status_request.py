"""One POST, of whose answer the status is read and nothing that comes behind it.

A library of HTTP reads all of an answer's head, and before it as many heads of statuses 1xx as come
along: a receiver that sends nothing else would keep a whole process from its other work. What is
read here is bounded, whatever comes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Final

from treadle.web.public_requests import CONNECT_ADDRESS_COUNT_MAX
from treadle.web.web_address import WebAddress, WebFailure

CONNECT_S_MAX: Final = 5.0
READ_SIZE_MAX: Final = 8192
"""Of lines up to the status that counts: some servers send `100 Continue` unasked."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
_SWITCHING: Final = 101
"""What comes behind it is another protocol, so there is no later status."""


async def post(
    address: WebAddress,
    places: Sequence[str],
    tls: SSLContext | None,
    headers: Mapping[str, str],
    body: bytes,
) -> int:
    """Post to the first of some IP addresses that answers, over a connection of its own.

    Args:
        address: what is asked for.
        places: IP addresses of its host.
        tls: for HTTPS, and only then.
        headers: besides the host and the length.
        body: what is posted.

    Returns:
        The status of the answer.

    Raises:
        WebFailure: nobody is there, or what answers is no HTTP.
        OSError: the connection broke.
    """
    reader, writer = await _connect(address, places, tls)
    try:
        told = {"host": address.authority, **headers, "connection": "close"}
        told["content-length"] = str(len(body))
        lines = (f"{name}: {value}\r\n" for name, value in told.items())
        head = f"POST {address.target} HTTP/1.1\r\n{''.join(lines)}\r\n"
        writer.write(head.encode("ascii") + body)
        return await _read_status(reader)
    finally:
        writer.transport.abort()  # nobody waits for how the other side takes its end


async def _connect(
    address: WebAddress, places: Sequence[str], tls: SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    problem = ""
    for place in places[:CONNECT_ADDRESS_COUNT_MAX]:
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                return await asyncio.open_connection(
                    place,
                    address.port,
                    ssl=tls,
                    # The connection is to the address; the certificate must be for the name.
                    server_hostname=None if tls is None else address.host,
                    limit=READ_SIZE_MAX,
                )
        except TimeoutError:
            problem = f"none within {CONNECT_S_MAX:g} seconds"
        except OSError as error:
            problem = " ".join(f"{type(error).__name__}: {error}".split())
    raise WebFailure(f"no connection to {address.host}: {problem}")


async def _read_status(reader: asyncio.StreamReader) -> int:
    size = 0

    async def read_line() -> bytes:
        nonlocal size
        try:
            line = await reader.readline()
        except ValueError:  # longer than the limit of the reader
            raise WebFailure("the answer has a line without an end") from None
        size += len(line)
        if not line:
            raise WebFailure("the connection was closed without an answer")
        if size > READ_SIZE_MAX:
            raise WebFailure("there comes no answer but beginnings of one")
        return line

    while True:
        found = _STATUS_LINE.fullmatch(await read_line())
        if found is None:
            raise WebFailure("what answers there does not speak HTTP")
        status = int(found[1])
        if status >= 200 or status == _SWITCHING:
            return status
        while (await read_line()).strip():
            pass
