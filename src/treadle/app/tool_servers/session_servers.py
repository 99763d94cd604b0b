"""The servers of tools of one session: started when a request needs them, ended with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from treadle.app.tool_servers.configured import ToolServer, list_secrets, list_tool_servers
from treadle.config.loader import LoadedSettings
from treadle.config.settings import SandboxLevel
from treadle.errors import UsageError
from treadle.runtime.ports import Tools
from treadle.store.paths import Places
from treadle.tools.registry import Registry

if TYPE_CHECKING:
    from treadle.core.tools import ToolDefinition
    from treadle.mcp.prompts import ServerPrompt
    from treadle.mcp.tool_set import ServerTools
    from treadle.tools.tool_return import ToolReturn

_CALL: Final = re.compile(r"/([^\s/:]+):(\S+)(?:\s+(.*))?\Z", re.DOTALL)

NOT_INSTALLED: Final = (
    "servers of tools are not used: the package mcp is not installed; in a clone of Treadle, "
    'pip install ".[mcp]"'
)


class ServerReport(Struct, frozen=True):
    """How a server stands, in `words`, and its tools and prompts as far as they are known."""

    server: ToolServer
    words: str
    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()


class SessionServers:
    """The servers that a session may use; who shares a setup shares them.

    `secrets` are the values that are kept out of all texts, `notices` lines for the person.

    Args:
        listed: all that the settings name.
        started: those that are used, by name.
        notices: what the person should know of the others.
        held_by: all that says how they are started.
    """

    def __init__(
        self,
        listed: tuple[ToolServer, ...] = (),
        started: Mapping[str, ServerTools] = MappingProxyType({}),
        notices: Sequence[str] = (),
        held_by: object = None,
    ) -> None:
        self.listed: Final = listed
        self._held_by: Final = held_by
        self.secrets: Final = list_secrets(listed)
        self.notices: Final = tuple(notices)
        self._started: Final = started
        self.window = 0
        """How many tokens the model at hand reads; 0 if that is not known."""

    def join(self, own: Registry) -> Tools:
        """The tools of a session, and behind them those of the servers."""
        if not self._started:
            return own
        from treadle.mcp.tool_search import SearchedTools
        from treadle.mcp.tool_set import McpTools

        return SearchedTools(McpTools(own, [*self._started.values()]), self.window)

    def owns(self, tool: str) -> bool:
        """Whether a tool of this name is one of a server's, as far as its name says."""
        if not self._started:
            return False
        from treadle.mcp.tool_search import CALL, SEARCH

        prefixes = tuple(one.server.prefix for one in self._started.values())
        return tool in (SEARCH, CALL) or tool.startswith(prefixes)

    def report(self) -> tuple[ServerReport, ...]:
        """How each server stands now; nothing is started for it."""
        return tuple(self._report(one) for one in self.listed)

    def _report(self, one: ToolServer) -> ServerReport:
        started = self._started.get(one.name)
        if started is None:
            return ServerReport(one, "off" if one.state == "off" else one.problem or "not used")
        tools = tuple(started.offered.definitions)
        if started.problem:
            return ServerReport(one, started.problem, tools)
        if not started.is_connected:
            return ServerReport(one, "starts with the next prompt", tools)
        prompts = started.prompts
        words = f"{len(tools)} tool{'s' * (len(tools) != 1)}"
        words += f", {len(prompts)} prompt{'s' * (len(prompts) != 1)}" if prompts else ""
        return ServerReport(one, words, tools, prompts)

    # ---- prompts -------------------------------------------------------------------------------

    @property
    def prompts(self) -> tuple[ServerPrompt, ...]:
        """The prompts of the servers that have said theirs, by server."""
        return tuple(prompt for one in self._started.values() for prompt in one.prompts)

    def watch(self, on_listed: Callable[[], None]) -> None:
        """Have somebody told when a server has said its tools and prompts."""
        for one in self._started.values():
            one.on_listed = on_listed

    async def start(self, name: str) -> None:
        """Start a server now, so that it is known what it offers; `report` says how it stands."""
        if name in self._started:
            await self._started[name].refresh()

    async def say_prompt(self, text: str) -> tuple[str, ToolReturn] | None:
        """What is said for `/SERVER:PROMPT ARGUMENTS`, and shown with it, behind its title.

        `None` for a text that calls none of these servers.

        Raises:
            UsageError: the server is not used, has no such prompt, or its arguments do not fit.
        """
        call = _CALL.match(text)
        listed = {one.name: one for one in self.listed}
        if call is None or call[1] not in listed:
            return None
        if (server := self._started.get(call[1])) is None:
            why = listed[call[1]].problem or "its settings turn it off"
            raise UsageError(f"the server of tools {call[1]} is not used: {why}")
        from treadle.mcp.prompt_calls import find_prompt, say_prompt
        from treadle.mcp.prompts import read_arguments

        prompt = await find_prompt(server, call[2])
        arguments = read_arguments(prompt, (call[3] or "").strip())
        return prompt.title, await say_prompt(server, prompt, arguments)

    async def complete_argument(self, prompt: ServerPrompt, typed: str) -> tuple[str, list[str]]:
        """What is typed of an argument at the end, and what it may become. Never raises."""
        from treadle.mcp.prompt_calls import complete_argument

        return await complete_argument(self._started[prompt.server], prompt, typed)

    def find_same(self, server: ToolServer, held_by: object) -> ServerTools | None:
        """The server as it was started, if nothing that holds for it has changed, and it works."""
        started = self._started.get(server.name)
        is_same = server in self.listed and held_by == self._held_by
        return started if is_same and started is not None and not started.problem else None

    async def take_over(self, earlier: SessionServers | None) -> SessionServers:
        """These, when those of `earlier` are ended that are not among them."""
        gone = [] if earlier is None else [*earlier._started.values()]
        kept = [*self._started.values()]
        await asyncio.gather(*(one.close() for one in gone if one not in kept))
        return self

    async def aclose(self) -> None:
        """End what was started; it is started again when it is needed again."""
        await asyncio.gather(*(one.close() for one in self._started.values()))


def make_session_servers(
    loaded: LoadedSettings,
    environ: Mapping[str, str],
    places: Places,
    folder: str,
    sandbox: SandboxLevel | None = None,
    earlier: SessionServers | None = None,
) -> SessionServers:
    """The servers of a folder's settings; nothing is started for it.

    Args:
        loaded: the settings that hold there.
        environ: the environment of the process, of whose variables servers get those named.
        places: the folders of the user.
        folder: where the agent works.
        sandbox: what was chosen for this run; by default what is set.
        earlier: those of the thread before this one; what is the same among them goes on.
    """
    if not loaded.settings.mcp:
        return SessionServers()
    listed = list_tool_servers(loaded, environ)
    used = [one for one in listed if one.state == "used"]
    notices = [
        f"the server of tools {one.name} is not used: {one.problem}"
        for one in listed
        if one.state == "refused"
    ]
    if used and find_spec("mcp") is None:
        return SessionServers(listed, notices=[*notices, NOT_INSTALLED])
    from treadle.app.tool_servers.confined_start import make_server_tools

    level = sandbox or loaded.settings.sandbox
    held_by = (loaded.settings, folder, level)
    kept = earlier or SessionServers()
    started = {
        one.name: kept.find_same(one, held_by)
        or make_server_tools(one, loaded.settings, places, folder, level)
        for one in used
    }
    return SessionServers(listed, started, notices, held_by)
