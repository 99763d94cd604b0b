"""A set of tools, and how one call of them is run to its end.

Whatever a call does becomes an outcome: the arguments may be malformed, the tool unknown, its body
may raise anything. Only a cancellation passes through, and only if the tool lets it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

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
from treadle.errors import UsageError
from treadle.tool_failure import ToolFailure
from treadle.tools.context import AgentContext, ToolContext
from treadle.tools.function_tool import AnyTool, Tool
from treadle.tools.tool_return import ToolReturn, clean_names, clean_text, make_success
from treadle.tools.tool_thread import ThreadLink, run_in_thread

if TYPE_CHECKING:  # a set of tools without a folder needs none of it
    from treadle.risk.commits import UncommittedFile
    from treadle.sandbox.box import Sandbox
    from treadle.tools.background import BackgroundCommands
    from treadle.tools.paths import Root

MESSAGE_SIZE_MAX: Final = 2000
"""Characters of an unexpected exception's text; some carry whole documents."""

_log: Final = logging.getLogger("treadle.tools")


class Registry:
    """A set of tools with unique names; the runtime's `Tools` port.

    Args:
        tools: in the order in which the model is told of them.
        workspace: the folder that `ToolContext.workspace` gives to the tools; tools that do not
            ask for it need none.
        sandbox: what holds the commands that tools run; by default nothing.
        others_files: what is not committed and not the agent's, quick to say; by default nothing.
        unavailable: why tools are not there that a model may know, by their names.
        context: what the program says of the thread.

    Raises:
        UsageError: something is no tool, two have one name, or the workspace is no folder.
    """

    def __init__(
        self,
        tools: Iterable[AnyTool],
        *,
        workspace: str | os.PathLike[str] | Root | None = None,
        sandbox: Sandbox | None = None,
        others_files: Callable[[], Sequence[UncommittedFile]] = tuple,
        unavailable: Mapping[str, str] = MappingProxyType({}),
        context: AgentContext = AgentContext(),  # noqa: B008  it is frozen
    ) -> None:
        self.sandbox: Final = sandbox
        self._agent_context: Final = context
        self._others_files: Final = others_files
        self._unavailable: Final = unavailable
        self._tools: Final[dict[str, AnyTool]] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise UsageError(f"{tool!r} is no tool", hint="declare the function with @tool")
            if tool.needs_object:
                raise UsageError(
                    f"the tool {tool.definition.name} is a method, and nobody says of which object",
                    hint=f"give it as OBJECT.{tool.definition.name}",
                )
            if tool.definition.name in self._tools:
                raise UsageError(f"two tools are called {tool.definition.name}")
            self._tools[tool.definition.name] = tool
        self._root: Final = None if workspace is None else _open_root(workspace, sandbox)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told, in the order given; the same bytes in every run."""
        return tuple(tool.definition for tool in self._tools.values())

    def risk_of(self, call: ToolCall) -> RiskLevel | None:
        """The risk seen in the arguments of a call, if that is above the tool's own; else `None`.

        Never raises. `None` also for a call that cannot run, of an unknown tool or with malformed
        arguments. A tool that cannot tell, because its `risk_of` fails, counts as critical.
        """
        tool = self._tools.get(call.tool_name)
        return None if tool is None else tool.risk_of(call.arguments_json, self._context())

    def scope_of(self, call: ToolCall) -> Scope | None:
        """What a person's yes to a call covers, as things stand now; `None` if nobody says.

        Never raises. A tool that cannot tell has its calls asked about each time.
        """
        tool = self._tools.get(call.tool_name)
        return None if tool is None else tool.scope_of(call.arguments_json, self._context())

    def refusal_of(
        self, call: ToolCall, sightings: Sightings | None = None, *, explains: bool = False
    ) -> ToolExecutionOutcome.Error | None:
        """See `CheckedTools`; a call of which nobody can tell counts as one that may run.

        Args:
            call: as the model asked.
            sightings: which files the model has been told of; without them all may be written.
            explains: whether the model will read it: what helps it to go on may take time to find.
        """
        tool = self._tools.get(call.tool_name)
        if tool is None:
            return None
        context = self._make_context("", lambda progress: None, sightings, call.id)
        try:
            tool.check(call.arguments_json, replace(context, explains=explains))
        except ToolFailure as failure:
            return _make_failure(call, failure)
        except (Exception, SystemExit) as broken:  # noqa: BLE001  it is asked about, or runs
            _log.error("check of %s failed: %s", call.tool_name, type(broken).__name__)
        return None

    def _context(self) -> ToolContext:
        """That of a call which does not run yet."""
        return self._make_context("", lambda progress: None)

    def _make_context(
        self,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        call_id: str = "",
        background: BackgroundCommands | None = None,
    ) -> ToolContext:
        return ToolContext(
            key,
            progress,
            self._root,
            self.sandbox,
            "" if self.sandbox is None else self.sandbox.scratch,
            self._others_files,
            sightings,
            call_id,
            background,
            names=tuple(self._tools),
            deps=self._agent_context.deps,
            thread_key=self._agent_context.thread_key,
        )

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        """Run one call to its end; never raises for anything the call does.

        Args:
            call: as the model asked.
            key: the same for every run of the same call.
            progress: called from the event loop.
            sightings: which files the model has been told of; without them all may be written.
            background: who looks after commands that go on; without it none does.
        """
        try:
            context = self._make_context(key, progress, sightings, call.id, background)
            return make_success(call, await self._run(call, context))
        except ToolFailure as failure:
            return _make_failure(call, failure)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = ToolError(ToolErrorKind.CANCELLED, "the tool gave up by itself")
        except (Exception, SystemExit) as broken:  # noqa: BLE001  a tool's bug is data
            message = f"{type(broken).__name__}: {broken}"[:MESSAGE_SIZE_MAX]
            error = ToolError(ToolErrorKind.INTERNAL, clean_text(message))
        return ToolExecutionOutcome.Error(call.id, error)

    async def _run(self, call: ToolCall, context: ToolContext) -> Any:
        tool = self._tools.get(call.tool_name)
        if tool is None:
            if why := self._unavailable.get(call.tool_name):
                raise ToolFailure(ToolErrorKind.REJECTED, why)
            names = ", ".join(self._tools) or "none"
            raise ToolFailure(ToolErrorKind.NOT_FOUND, f"{call.tool_name}; there are: {names}")
        only_reads = tool.definition.effect is EffectClass.READ
        parsed = tool.signature.parse(call.arguments_json)
        root = context.root
        context = replace(context, shape=tool.shape, tool_name=tool.definition.name)
        context, arguments = context.place(parsed, only_reads=only_reads)
        if tool.is_async:
            first = (context,) if tool.signature.takes_context else ()
            value = await tool.function(*first, **arguments)
        else:
            value = await run_in_thread(
                tool.definition.name,
                partial(_call_sync, tool, context, arguments),
                context.progress,
            )
        if context.is_in_scratch and isinstance(value, ToolReturn):
            # Nothing of the workspace has changed, and none of these names means a file of it.
            place = context.workspace.path
            moved = (replace(one, name=str(place / one.name)) for one in value.rewritten)
            value = replace(value, changed=(), rewritten=tuple(moved))
        if context.root is not root and isinstance(value, ToolReturn):
            # By its name there, a file of the workspace would count as seen.
            value = replace(value, seen=())
        return value


def _open_root(workspace: str | os.PathLike[str] | Root, sandbox: Sandbox | None) -> Root:
    from treadle import helper_programs
    from treadle.sandbox.box import Sandbox
    from treadle.sandbox.policy import Policy
    from treadle.tools.paths import Root

    if not isinstance(workspace, Root):
        # Whatever holds commands, or nothing: what is hidden from them is from file tools.
        workspace = Root(workspace, rules=(sandbox or Sandbox(Policy(), workspace)).rules)
    helper_programs.exclude(workspace.path)
    return workspace


def _make_failure(call: ToolCall, failure: ToolFailure) -> ToolExecutionOutcome.Error:
    error = ToolError(failure.kind, clean_text(failure.message), clean_text(failure.output))
    return ToolExecutionOutcome.Error(call.id, error, seen=clean_names(failure.seen))


def _call_sync(
    tool: AnyTool, context: ToolContext, arguments: dict[str, Any], link: ThreadLink
) -> Any:
    if not tool.signature.takes_context:
        return tool.function(**arguments)
    own = replace(context, progress=link.progress, is_cancelled=link.is_cancelled)
    return tool.function(own, **arguments)
