"""The tools of servers beside those of the program: the runtime's `Tools` port.

Nothing is started, and nothing of the protocol is imported, before the tools are needed. Servers
start at the same time; one that does not is told of, and its tools are missing. Whatever a server
does, a call of its tool ends in an outcome.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    EffectClass,
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.errors import NotConfiguredError, UsageError
from treadle.mcp.failures import CallLost, CallRefused, ConnectionFailed
from treadle.mcp.offered_tools import READER, ServerOffer, offer_tools
from treadle.mcp.prompts import ServerPrompt, offer_prompts
from treadle.mcp.server import MCPServer
from treadle.server_questions import AnswerServer
from treadle.tool_failure import ToolFailure
from treadle.tools.background import BackgroundCommands
from treadle.tools.registry import Registry
from treadle.tools.tool_return import ToolReturn, make_success

if TYPE_CHECKING:
    from treadle.mcp.connection import ServerConnection
    from treadle.mcp.stdio import HoldProgram

MESSAGE_LENGTH_MAX: Final = 32_000
"""Characters of an answer that says that a call failed."""


def check_installed() -> None:
    """Raise `NotConfiguredError` where the protocol's library is missing."""
    if find_spec("mcp") is None:
        raise NotConfiguredError(
            "MCP servers need the package mcp", hint="pip install 'treadle[mcp]'"
        )


class ServerTools:
    """One server, what is known of its tools, and the connection while there is one.

    Args:
        server: where it is, and what is known of its tools.
        hold: what holds it, if it is started; by default nothing.
        logins: the folder of logins at servers; `None` where nobody has logged in.
    """

    def __init__(
        self, server: MCPServer, hold: HoldProgram = nullcontext, *, logins: Path | None = None
    ) -> None:
        self.server: Final = server
        self._hold = hold
        self._logins = logins
        self.offered = ServerOffer()
        self.prompts: tuple[ServerPrompt, ...] = ()
        """As far as they are known; it is asked for them together with its tools."""
        self.on_listed: Callable[[], None] = lambda: None
        """Called when tools and prompts are known, or others than before."""
        self.problem = ""
        """Why it is not there; empty while it is, or nobody has asked."""
        self._connection: ServerConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._was_listed = False

    @property
    def is_connected(self) -> bool:
        """Whether it can be called at once."""
        return self._connection is not None and not self._connection.is_over

    @property
    def is_due(self) -> bool:
        """Whether it has something to say before the next request.

        One that did not start is not tried again by itself, as each try takes its time: a call of a
        tool of its own does, which an earlier process knew.
        """
        connection = self._connection
        if connection is None or connection.is_over:
            return not self._was_listed and not self.problem
        return connection.is_stale

    def recall(self, recorded: Iterable[ToolDefinition]) -> None:
        """Offer what was offered in this thread, until the server says what it has now."""
        if not self._was_listed:
            own = tuple(one for one in recorded if one.name.startswith(self.server.prefix))
            self.offered = ServerOffer(own)

    async def refresh(self) -> list[str]:
        """Connect if need be, and ask for its tools; what people should know of it."""
        try:
            connection = await self.connect()
            if connection.is_stale:
                await self._list(connection)
        except ToolFailure as failure:
            return [failure.message]
        except ConnectionFailed as failed:
            return [f"the MCP server {self.server.name} does not say its new tools: {failed}"]
        if not (left_out := self.offered.left_out):
            return []
        shown = ", ".join(left_out[:5]) + (", ..." if len(left_out) > 5 else "")
        return [f"tools of the MCP server {self.server.name} that are not offered: {shown}"]

    async def connect(self) -> ServerConnection:
        """The connection, with its tools listed.

        Raises:
            ToolFailure: there is none; nothing was called.
        """
        if self._connection is None or self._connection.is_over:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open())
                self._opening.add_done_callback(self._note_opened)
            # Who waits may be cancelled: others wait too, and the next call finds it open.
            await asyncio.wait([self._opening])
        if self._connection is None or self._connection.is_over:
            raise ToolFailure(
                ToolErrorKind.FAILED,
                f"the MCP server {self.server.name} is not there: {self.problem}",
            )
        return self._connection

    def _note_opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled() and (error := opening.exception()) is not None:
            self.problem = f"{type(error).__name__}: {error}"

    async def _open(self) -> None:
        module = await asyncio.to_thread(import_module, "treadle.mcp.connection")
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        auth = module.make_auth(self.server, self._logins)
        connection = module.ServerConnection(self.server, self._hold, auth)
        try:
            await connection.open()
            await self._list(connection)
        except ConnectionFailed as error:
            self.problem = str(error)
            await connection.close()
            return
        except BaseException:
            await connection.close()
            raise
        self._connection, self.problem = connection, ""

    async def _list(self, connection: ServerConnection) -> None:
        listed = await connection.list_tools()
        lists = import_module("treadle.mcp.server_lists")  # the protocol is loaded by now
        offer = partial(offer_tools, has_resources=await lists.has_resources(connection))
        self.prompts = offer_prompts(self.server.name, await lists.list_prompts(connection))
        self.offered = await asyncio.to_thread(offer, self.server, listed)
        self._was_listed = True
        self.on_listed()

    async def call(
        self,
        call: ToolCall,
        arguments: dict[str, Any],
        tell: Callable[[ToolProgress], None],
        thread: str = "",
        answer: AnswerServer | None = None,
    ) -> ToolReturn:
        """What the server answers to a call of its tool; `ToolFailure` for all else.

        Args:
            call: of a tool that it offers.
            arguments: those of the call.
            tell: told how far it is.
            thread: in which it is called.
            answer: has answered what the server asks back; without it nobody is asked.
        """
        connection = await self.connect()
        tool = self.offered.names.get(call.tool_name)
        if call.tool_name == self.offered.reader:
            tool, work = READER, _read(connection, arguments)
        elif tool is not None:
            work = _call(connection, tool, arguments, tell)
        else:
            raise ToolFailure(
                ToolErrorKind.NOT_FOUND, f"{call.tool_name}: its server has it no more"
            )

        try:
            with connection.asked_back.answering(call, thread, answer):
                return await work
        except CallRefused as refused:
            raise ToolFailure(ToolErrorKind.FAILED, f"the server says: {refused}") from refused
        except CallLost as lost:
            await connection.close()  # the next call finds another one
            kind, words = _LOST[self.server.rule_of(tool).effect]
            why = f"the answer of the MCP server {self.server.name} is lost: {lost}\n{words}"
            raise ToolFailure(kind, why) from lost

    @property
    def present(self) -> ServerConnection | None:
        """The connection, if there is one that can be called at once."""
        return self._connection if self.is_connected else None

    async def reach(self) -> ServerConnection:
        """The connection, with what it lists as it is now; `UsageError` if there is none."""
        try:
            connection = await self.connect()
            if connection.is_stale:
                await self._list(connection)
        except (ToolFailure, ConnectionFailed) as failed:
            raise UsageError(getattr(failed, "message", str(failed))) from failed
        return connection

    async def close(self) -> None:
        """End it; it can be connected with again."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


_LOST: Final = {
    EffectClass.READ: (ToolErrorKind.FAILED, "It changes nothing, so it can be called again."),
    EffectClass.IDEMPOTENT: (ToolErrorKind.FAILED, "It is safe to call it again."),
    EffectClass.MUTATE: (
        ToolErrorKind.UNCERTAIN,
        "Nobody knows whether it happened. Look before you call it again.",
    ),
}
"""What a model is told of a call whose answer did not come, by what repeating it would do."""


async def _call(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    tell: Callable[[ToolProgress], None],
) -> ToolReturn:
    from treadle.mcp.results import read_result

    async def report(progress: float, total: float | None, message: str | None) -> None:
        tell(_make_progress(progress, total, message))

    result = await connection.call(tool, arguments, report)
    said = await asyncio.to_thread(read_result, result)
    if result.is_error:
        raise ToolFailure(ToolErrorKind.FAILED, said.output[:MESSAGE_LENGTH_MAX])
    return said


async def _read(connection: ServerConnection, arguments: dict[str, Any]) -> ToolReturn:
    from treadle.mcp import server_lists
    from treadle.mcp.results import list_resources, read_resource

    uri = arguments.get("uri") or ""
    if not isinstance(uri, str):
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "`uri` is no text")
    if uri:
        return await asyncio.to_thread(
            read_resource, await server_lists.read_resource(connection, uri)
        )
    return list_resources(*await server_lists.list_resources(connection))


def _make_progress(done: float, of: float | None, message: str | None) -> ToolProgress:
    fraction = min(max(done / of, 0.0), 1.0) if of and of > 0 else None
    text = None if message is None else message[:200]
    return ToolProgress(fraction, text, None if of else int(min(max(done, 0), 2**53)))


class McpTools:
    """The runtime's `Tools` port, `StartedTools` too: tools of a program, and those of servers.

    Args:
        own: the program's; one of them has its name, whatever a server calls its own.
        servers: whose tools come behind, in this order. Others may share them.

    Raises:
        UsageError: two servers have one name.
        NotConfiguredError: the protocol's library is not installed.
    """

    def __init__(self, own: Registry, servers: Sequence[ServerTools]) -> None:
        check_installed()
        names = [one.server.name for one in servers]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"two MCP servers are called {name}")
        self._own: Final = own
        self.servers: Final = tuple(servers)
        self._answers: dict[str, AnswerServer] = {}

    # ---- the servers ---------------------------------------------------------------------------

    def recall(self, recorded: Sequence[ToolDefinition]) -> None:
        """See `StartedTools`."""
        for one in self.servers:
            one.recall(recorded)

    def answer_with(self, thread: str, answer: AnswerServer) -> None:
        """See `AskingTools`."""
        self._answers[thread] = answer

    async def prepare(self) -> Sequence[str]:
        """See `StartedTools`."""
        due = [one.refresh() for one in self.servers if one.is_due]
        return [words for said in await asyncio.gather(*due) for words in said]

    async def aclose(self) -> None:
        """End the servers; they start again if they are needed again."""
        await asyncio.gather(*(one.close() for one in self.servers))

    # ---- the port ------------------------------------------------------------------------------

    def definitions(self) -> Sequence[ToolDefinition]:
        """What the model is told: the program's tools, then those of each server, by name."""
        own, theirs = self.list_parts()
        return (*own, *theirs)

    def list_parts(self) -> tuple[tuple[ToolDefinition, ...], tuple[ToolDefinition, ...]]:
        """The definitions of the program's tools, and those of the servers'."""
        own = self._own.definitions()
        taken = {one.name for one in own}
        theirs = (one for server in self.servers for one in server.offered.definitions)
        return own, tuple(one for one in theirs if one.name not in taken)

    def risk_of(self, call: ToolCall) -> RiskLevel | None:
        """See `Tools`; nothing is known of the arguments of a server's call."""
        return self._own.risk_of(call)

    def scope_of(self, call: ToolCall) -> Scope | None:
        """See `Tools`; nobody says what a server's call covers: a grant is for its tool."""
        if self._find_server(call.tool_name) is not None:
            return Scope(kinds=(call.tool_name,))
        return self._own.scope_of(call)

    def refusal_of(
        self, call: ToolCall, sightings: Sightings | None = None, *, explains: bool = False
    ) -> ToolExecutionOutcome.Error | None:
        """See `CheckedTools`."""
        return self._own.refusal_of(call, sightings, explains=explains)

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        """See `Tools`."""
        server = self._find_server(call.tool_name)
        if server is None:
            return await self._own.execute(
                call, key=key, progress=progress, sightings=sightings, background=background
            )
        try:
            arguments = parse_arguments(call)
            thread = key.partition(":")[0]
            answer = self._answers.get(thread)
            return make_success(call, await server.call(call, arguments, progress, thread, answer))
        except ToolFailure as failure:
            error = ToolError(failure.kind, failure.message, failure.output)
        except Exception as broken:  # noqa: BLE001  whatever a stranger's answer leads to is data
            error = ToolError(ToolErrorKind.INTERNAL, f"{type(broken).__name__}: {broken}"[:2000])
        return ToolExecutionOutcome.Error(call.id, error)

    def _find_server(self, name: str) -> ServerTools | None:
        if any(one.name == name for one in self._own.definitions()):
            return None
        return next((one for one in self.servers if name.startswith(one.server.prefix)), None)


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call; `ToolFailure` where they are none."""
    try:
        arguments = json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError) as error:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, f"they are no JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "they are no object")
    return arguments
