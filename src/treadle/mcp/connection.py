"""One server, connected: it is started, asked for its tools, called, and ended.

The protocol's client has to be opened and closed by one task, so a connection has a task of its
own. Others call through it; what they wait for ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    CallToolResult,
    Implementation,
    PromptListChangedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from treadle.mcp.asked_back import AskedBack
from treadle.mcp.failures import CallLost, CallRefused, ConnectionFailed
from treadle.mcp.http import ANSWER_SIZE_MAX, make_client
from treadle.mcp.logins import LOGIN_S_MAX, Browser, NoLogin, make_auth, make_login
from treadle.mcp.offered_tools import TOOL_COUNT_MAX, ListedTool
from treadle.mcp.server import MCPServer
from treadle.mcp.stdio import HoldProgram, find_program, speak_with, start
from treadle.process.service import Service
from treadle.thread.safe_text import sanitize_text
from treadle.version import __version__

__all__ = ["ServerConnection", "log_in", "make_auth"]

_log: Final = logging.getLogger("treadle.mcp")
# What the client logs holds a stranger's words. It is for programs that listen to logs, and not for
# the terminal, where Python shows what nobody listens to.
logging.getLogger("mcp").addHandler(logging.NullHandler())

PAGE_COUNT_MAX: Final = 100
"""Pages of its list that a server is asked for."""
CLOSE_S_MAX: Final = 5.0
WORDS_LENGTH_MAX: Final = 2_000
"""Characters of what a server says of a failure."""


_AnswerT = TypeVar("_AnswerT")

_LOST: Final = {CONNECTION_CLOSED, PARSE_ERROR}
_NO_WORDS: Final = "Unexpected content type"
"""What the client says where somebody else than the server has answered."""
_SESSION_OVER: Final = "Session terminated"
"""What it says where the server knows nothing of us any more; it has not heard the call."""


class ServerConnection:
    """A server that runs, or is spoken with; opened once. To be closed.

    Args:
        server: where it is.
        hold: what holds it, if it is started; by default nothing.
        auth: who it is told that we are, over the network; by default nobody who has logged in.
    """

    def __init__(
        self,
        server: MCPServer,
        hold: HoldProgram = nullcontext,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self._auth = NoLogin(server) if auth is None else auth
        self._server = server
        self._hold = hold
        self.asked_back: Final = AskedBack(server)
        self._over = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._service: Service | None = None
        self._why_over = ""
        self.is_stale = False
        """Whether the server has said that its tools or its prompts are others now."""
        self._task = asyncio.ensure_future(self._serve())

    @property
    def is_over(self) -> bool:
        """Whether it can be called no more."""
        return self._over.is_set() or self._task.done()

    async def open(self) -> None:
        """Wait until it can be called.

        Raises:
            ConnectionFailed: it cannot, or not within the time of its server.
        """
        await asyncio.wait([self._opened], timeout=self._server.start_s_max)
        if self._opened.done():
            self._opened.result()
            return
        await self.close()
        raise ConnectionFailed(self._explain(f"no answer within {self._server.start_s_max:g} s"))

    async def list_tools(self) -> tuple[ListedTool, ...]:
        """Its tools, as it says them; a list without an end has one here.

        Raises:
            ConnectionFailed: it did not say.
        """
        self.is_stale = False
        try:
            async with asyncio.timeout(self._server.start_s_max):
                return await self._list_tools(self._opened.result())
        except TimeoutError:
            why = f"its list of tools took more than {self._server.start_s_max:g} s"
        except Exception as error:  # noqa: BLE001  whatever a stranger's answer makes of the client
            why = describe_error(error)
        raise ConnectionFailed(self._explain(why))

    async def _list_tools(self, client: Client) -> tuple[ListedTool, ...]:
        found: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(PAGE_COUNT_MAX):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            found += (
                ListedTool(
                    one.name,
                    one.description or one.title or "",
                    one.input_schema,
                    bool(one.annotations and one.annotations.destructive_hint),
                )
                for one in page.tools
            )
            cursor = page.next_cursor
            if not cursor or len(found) > TOOL_COUNT_MAX:
                break
        return tuple(found)

    async def call(
        self, tool: str, arguments: dict[str, Any], report: ProgressFnT
    ) -> CallToolResult:
        """Call a tool; a cancellation is told to the server.

        Raises:
            CallLost: the connection ended meanwhile.
            CallRefused: the server answered with an error.
        """
        client = self._opened.result()
        return await self.hear_answer(client.call_tool(tool, arguments, progress_callback=report))

    @property
    def server(self) -> MCPServer:
        """Where it is."""
        return self._server

    @property
    def client(self) -> Client:
        """Speaks with it; what it raises is for `hear_answer`."""
        return self._opened.result()

    async def hear_answer(self, asked: Awaitable[_AnswerT]) -> _AnswerT:
        """What it answers. Raises as `call`."""
        try:
            return await asked
        except MCPError as error:
            words = describe_error(error)
            if self.is_over or error.code in _LOST or words.startswith(_NO_WORDS):
                raise CallLost(self._explain(self._why_over or words)) from error
            if words == _SESSION_OVER:
                self._over.set()
            raise CallRefused(words) from error
        except Exception as error:
            raise CallLost(self._explain(describe_error(error))) from error

    async def close(self) -> None:
        """End it, and a server that was started with its process group; within 5 s."""
        self._over.set()
        if self._opened.done():
            await asyncio.wait([self._task], timeout=CLOSE_S_MAX)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_S_MAX)

    async def _serve(self) -> None:
        """Hold it open until it is to be closed, or has ended."""
        try:
            async with AsyncExitStack() as stack:
                streams = await self._reach(stack)
                client = await stack.enter_async_context(self._make_client(streams))
                self._opened.set_result(client)
                listening = asyncio.ensure_future(self._listen(client))
                try:
                    await self._over.wait()
                finally:
                    listening.cancel()
        except BaseException as error:
            if self._opened.done():
                self._why_over = self._why_over or describe_error(error)
            else:
                self._opened.set_exception(ConnectionFailed(self._explain(describe_error(error))))
                self._opened.exception()  # whoever opened it may have gone
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._over.set()

    async def _reach(self, stack: AsyncExitStack) -> Any:
        """What connects with the server: started, or over the network."""
        server = self._server
        if server.url:
            client = await stack.enter_async_context(make_client(server, self._auth))
            return streamable_http_client(
                server.url, http_client=client, max_sse_event_size=ANSWER_SIZE_MAX
            )
        held = self._hold(find_program(server))
        self._service = start(stack.enter_context(held))
        stack.push_async_callback(self._service.close)
        return speak_with(self._service, self._hear_end)

    def _make_client(self, streams: Any) -> Client:
        return Client(
            streams,
            message_handler=self._hear,
            elicitation_callback=self.asked_back.elicit,
            sampling_callback=self.asked_back.sample,
            client_info=Implementation(name="treadle", version=__version__),
            cache=None,
        )

    async def _listen(self, client: Client) -> None:
        """Be told of other lists by servers since 2026, which say it to who asks for it."""
        able = client.server_capabilities
        tools = able.tools is not None and bool(able.tools.list_changed)
        prompts = able.prompts is not None and bool(able.prompts.list_changed)
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools or prompts):
            return
        try:
            listening = client.listen(tools_list_changed=tools, prompts_list_changed=prompts)
            async with listening as changes:
                async for _ in changes:
                    self.is_stale = True
        except Exception as error:  # noqa: BLE001  its tools stay as they were listed
            _log.info("%s tells no changes: %s", self._server.name, describe_error(error))

    async def _hear(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            self.is_stale = True

    def _hear_end(self, why: str) -> None:
        self._why_over = why or "it ended"
        self._over.set()

    def _explain(self, why: str) -> str:
        """A failure, with the last words of a server that was started."""
        remark = "" if self._service is None else self._service.remark
        text = f"{why}\nits last words: {remark[-WORDS_LENGTH_MAX:]}" if remark else why
        return sanitize_text(text)


async def log_in(server: MCPServer, folder: Path, show: Callable[[str], None]) -> bool:
    """Have a person log in at a server in their browser, and keep the tokens.

    Args:
        server: one with a `url`.
        folder: where logins are kept.
        show: told the address at which the person says yes; to open it is a good idea.

    Returns:
        Whether there is a login now; if not, the server wants none.

    Raises:
        ConnectionFailed: it is not there, or the person or the server said no.
    """
    browser = Browser(show)
    try:
        kept, provider = await make_login(server, folder, browser)
        patient = replace(server, start_s_max=LOGIN_S_MAX + server.start_s_max)
        connection = ServerConnection(patient, auth=provider)
        try:
            await connection.open()
        finally:
            await connection.close()
        return kept.has_tokens
    finally:
        browser.close()


def describe_error(error: BaseException) -> str:
    """What went wrong, in the words of whoever knows."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, asyncio.CancelledError):
        return "it was stopped"
    text = str(error) or type(error).__name__
    return sanitize_text(text[:WORDS_LENGTH_MAX])
