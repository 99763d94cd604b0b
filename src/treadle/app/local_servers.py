"""Servers of models on this machine: which of those that the settings know are there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from treadle.config.loader import LoadedSettings
from treadle.errors import UsageError
from treadle.models.catalog import is_loopback_host

PROBE_S_MAX: Final = 1.0
"""How long one address may take to say all that it has to say."""

ANSWER_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a list of models that are read."""

MODELS_SHOWN_MAX: Final = 200


class LocalServer(Struct, frozen=True):
    """A server on this machine that lists models: its provider's name, its address, its models."""

    provider: str
    address: str
    models: tuple[str, ...]


async def find_local_servers(
    loaded: LoadedSettings, environ: Mapping[str, str]
) -> tuple[LocalServer, ...]:
    """Ask all providers that are on this machine and need no key for their models, all at once.

    Only loopback addresses are connected to, whatever `localhost` may mean elsewhere. What does not
    answer in whole within `PROBE_S_MAX`, or answers something else, is not there.

    Args:
        loaded: the settings, which say where each would be (Ollama 11434, LM Studio 1234, vLLM
            8000, llama.cpp 8080).
        environ: the environment, which may say where instead.
    """
    wanted: list[tuple[str, str]] = []
    for name, entry in loaded.catalog.providers.items():
        try:
            if not entry.needs_key and loaded.catalog.is_local(name, environ):
                wanted.append((name, entry.url(environ)))
        except UsageError:
            continue
    listed = await asyncio.gather(*(_list_models(url) for _, url in wanted))
    return tuple(
        LocalServer(name, url, models)
        for (name, url), models in zip(wanted, listed, strict=True)
        if models
    )


async def _list_models(url: str) -> tuple[str, ...]:
    """What an OpenAI-compatible server on this machine offers; nothing if there is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or not is_loopback_host(host):
        return ()
    hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    for address in hosts:
        with suppress(OSError, TimeoutError, ValueError, RecursionError):
            async with asyncio.timeout(PROBE_S_MAX):
                data = await _fetch(address, parts.port or 80, f"{parts.path}/models")
            return _read_models(data)
    return ()


async def _fetch(host: str, port: int, path: str) -> bytes:
    """The body of an answer with status 200, else nothing.

    HTTP/1.0, to whose requests nobody answers in chunks. A client would bring seconds of imports
    and the proxies of the environment.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        asked = f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\nAccept: application/json\r\n\r\n"
        writer.write(asked.encode("ascii"))
        status = await reader.readline()
        size = ANSWER_SIZE_MAX
        while (line := await reader.readline()).strip():
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                size = min(int(value), ANSWER_SIZE_MAX)
        if status.split()[1:2] != [b"200"]:
            return b""
        body = bytearray()
        while len(body) < size and (piece := await reader.read(size - len(body))):
            body += piece
        return bytes(body)
    finally:
        writer.close()


def _read_models(data: bytes) -> tuple[str, ...]:
    told = json.loads(data) if data else None
    rows: object = told.get("data") if isinstance(told, dict) else None
    if not isinstance(rows, Iterable):
        return ()
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    named = [name for name in names if isinstance(name, str) and name and name.isprintable()]
    return tuple(named[:MODELS_SHOWN_MAX])
