"""Messages to and from a server that was started, a line each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from msgspec import Struct

from treadle import helper_programs
from treadle.mcp.failures import ConnectionFailed
from treadle.mcp.server import MCPServer
from treadle.process.service import Service

MESSAGE_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a message; a server that sends a longer one is not heard any more."""

_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR",
                     "TZ", "USER")  # fmt: skip


class ServerProgram(Struct, frozen=True):
    """A server as it is started: the program by its whole path, and all that it gets.

    `given` are those variables of its environment that its settings name.
    """

    argv: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    given: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()


HoldProgram: TypeAlias = Callable[[ServerProgram], AbstractContextManager[ServerProgram]]
"""Makes ready what holds a program, and puts things right when it is over."""


def find_program(server: MCPServer) -> ServerProgram:
    """The program of a server, as no command of an agent can have put it there.

    Raises:
        ConnectionFailed: there is no such program.
    """
    environment = _make_environment(server, helper_programs.environment())
    program = helper_programs.find_program(server.command, environment)
    if program is None:
        raise ConnectionFailed(helper_programs.why_missing(server.command, environment))
    argv = (program, *server.args)
    return ServerProgram(argv, server.folder or os.curdir, environment, server.env)


def start(program: ServerProgram) -> Service:
    """Start a program.

    Raises:
        ConnectionFailed: there is no such folder, or the system refuses.
    """
    try:
        return Service(program.argv, program.folder, program.environment, program.pass_fds)
    except OSError as error:
        raise ConnectionFailed(f"it cannot be started: {error}") from error


def _make_environment(server: MCPServer, own: Mapping[str, str]) -> dict[str, str]:
    """All that a server gets: where things are, and what it was given."""
    return {name: own[name] for name in _INHERITED if name in own} | dict(server.env)


@asynccontextmanager
async def speak_with(
    service: Service, on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams by which the protocol's client talks with a service.

    Args:
        service: what was started; it is not closed here.
        on_end: told when it says no more, and why if that is known.
    """
    heard, hears = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    says, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        why = ""
        async with heard:
            try:
                async for line in _split_lines(service):
                    if (message := _parse(line)) is not None:
                        await heard.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # nobody listens any more
            except ValueError as error:
                why = str(error)
            on_end(why)

    async def write() -> None:
        async with said:
            async for one in said:
                data = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await service.write(data.encode() + b"\n")
                except OSError:  # it ended; `read` hears of it
                    break

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield hears, says
        finally:
            for stream in (hears, says, heard, said):
                stream.close()
            tasks.cancel_scope.cancel()


async def _split_lines(service: Service) -> AsyncIterator[bytes]:
    """The lines that it says; `ValueError` for one that is too long."""
    pieces: list[bytes] = []
    size = 0
    while data := await service.read():
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end])
            pieces, size = [], 0
        pieces.append(rest)
        size += len(rest)
        if size > MESSAGE_SIZE_MAX:
            raise ValueError(f"it sent a message of more than {MESSAGE_SIZE_MAX} bytes")


def _parse(line: bytes) -> SessionMessage | None:
    """The message of a line; `None` for one that is none, as programs print what they like."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None
