"""An editor made of the official Python SDK's own client, and the process it talks with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import acp
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    NewSessionResponse,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
)

import warm_process
from models.loopback import Answer, Loopback, stream
from models.speakers import KEYS, anthropic

WAIT_S: Final = 60.0
KEY, URL, _ = KEYS["anthropic"]

Update = dict[str, Any]


def provider(server: Loopback) -> dict[str, str]:
    """The variables with which a treadle asks this server."""
    return {KEY: "sk-ant-test-0123456789", URL: server.url}


def says(text: str = "", *calls: tuple[str, str, dict[str, Any]]) -> Answer:
    """An answer of the provider: text, and calls by id, tool and arguments."""
    return stream(anthropic(text, calls))


class Editor:
    """What an editor does, as the SDK's client calls it.

    `files` are its unsaved buffers; without them it offers no file system. `answer` chooses one of
    the options it is asked with; `None` cancels.
    """

    def __init__(self, files: dict[str, str] | None = None) -> None:
        self.files = files
        self.written: list[tuple[str, str]] = []
        self.updates: list[Update] = []
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], str | None] = lambda _: "once"
        self.can_answer = asyncio.Event()
        self.can_answer.set()
        self._changed = asyncio.Condition()

    def on_connect(self, conn: Any) -> None:
        """Nothing is needed of it."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        told = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append({"session": session_id, **told})
        async with self._changed:
            self._changed.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        question = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        question["options"] = {one.option_id: (one.kind, one.name) for one in options}
        self.asked.append({"session": session_id, **question})
        async with self._changed:
            self._changed.notify_all()
        await self.can_answer.wait()
        chosen = self.answer(question)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=chosen)
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        assert self.files is not None
        if path not in self.files:
            raise acp.RequestError(-32002, f"no such buffer: {path}")
        return ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        """As editors do: into the buffer, and onto the disk."""
        assert self.files is not None
        self.files[path] = content
        self.written.append((path, content))
        await asyncio.to_thread(Path(path).write_text, content)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that an update or a question brings."""
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(holds), WAIT_S)

    def kinds(self) -> list[str]:
        return [one["sessionUpdate"] for one in self.updates]

    def of(self, kind: str) -> list[Update]:
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """What was said, in one piece."""
        return "".join(one["content"].get("text", "") for one in self.of(kind))


class Process:
    """A `treadle acp` and the connection to it."""

    def __init__(self, connection: Any, process: warm_process.WarmProcess, pipes: Pipes) -> None:
        self.connection = connection
        self.pipes = pipes
        self._process = process

    async def begin(self, folder: Path) -> str:
        """A new session."""
        made: NewSessionResponse = await self.connection.new_session(
            cwd=str(folder), mcp_servers=[]
        )
        return made.session_id

    async def say(self, session: str, text: str) -> str:
        """A prompt of words; why its turn has ended."""
        blocks = [TextContentBlock(type="text", text=text)]
        done = await self.connection.prompt(session_id=session, prompt=blocks)
        return str(done.stop_reason)

    async def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        await self.wait()

    async def wait(self) -> int:
        """The exit code."""
        return await asyncio.to_thread(self._process.wait, WAIT_S)

    async def leave(self) -> int:
        """The editor vanishes; the exit code."""
        self.pipes.writer.close()
        return await self.wait()


class Pipes:
    """The ends of a process's standard input and output that are the editor's."""

    def __init__(
        self,
        listening: asyncio.ReadTransport,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.listening = listening
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, told: int, telling: int) -> Pipes:
        """Those of two descriptors."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**24)
        listening, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(told, "rb")
        )
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(telling, "wb")
        )
        return cls(listening, reader, asyncio.StreamWriter(transport, protocol, None, loop))

    def close(self) -> None:
        """Neither is heard nor told anything more."""
        self.listening.close()
        self.writer.close()


@asynccontextmanager
async def editing(
    editor: Editor,
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    **capabilities: Any,
) -> AsyncIterator[Process]:
    """A process of `treadle acp` that has shaken hands with the editor."""
    asked, asking = os.pipe()
    told, telling = os.pipe()
    process = warm_process.start(("acp", *arguments), folder, environment, (asked, telling, 2))
    os.close(asked)
    os.close(telling)
    pipes = await Pipes.open(told, asking)
    connection = acp.connect_to_agent(
        editor, pipes.writer, pipes.reader, use_unstable_protocol=True
    )
    if editor.files is not None:
        files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
        capabilities["fs"] = files
    try:
        await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(**capabilities),
        )
        yield Process(connection, process, pipes)
    finally:
        await connection.close()
        process.kill()
        await asyncio.to_thread(process.wait)
        pipes.close()
