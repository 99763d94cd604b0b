"""What a tool is, and how one call of it is run to its end.

A tool is a typed function with a docstring, which is what the model reads about it::

    @tool(effect=EffectClass.READ, risk=RiskLevel.LOW)
    def count_words(text: str) -> int:
        '''Count the words of a text.'''
        return len(text.split())

A call can be riskier than its tool usually is, and its arguments say so::

    def risk_of_delete(arguments: Arguments) -> RiskLevel:
        return RiskLevel.CRITICAL if arguments["path"] == "." else RiskLevel.MEDIUM

    @tool(effect=EffectClass.MUTATE, risk=RiskLevel.MEDIUM, risk_of=risk_of_delete)
    def delete(path: str) -> str: ...

Whatever a call does becomes an outcome: the arguments may be malformed, the tool unknown, its body
may raise anything. Only a cancellation passes through, and only if the tool lets it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from treadle import helper_programs
from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tool_families import OfferedTool
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
from treadle.risk.commits import UncommittedFile
from treadle.sandbox.box import Sandbox
from treadle.sandbox.path_rules import is_below
from treadle.sandbox.policy import Policy
from treadle.sandbox.thread_scratch import expand_variable, make_scratch
from treadle.tool_failure import ToolFailure
from treadle.tools.background import BackgroundCommands
from treadle.tools.paths import Root
from treadle.tools.signature import Signature
from treadle.tools.tool_return import ShownFile as ShownFile
from treadle.tools.tool_return import ToolReturn as ToolReturn
from treadle.tools.tool_return import clean_names, clean_text, make_success
from treadle.tools.tool_thread import TellProgress, run_in_thread

MESSAGE_SIZE_MAX: Final = 2000
"""Characters of an unexpected exception's text; some carry whole documents."""

P = ParamSpec("P")
R = TypeVar("R")

Arguments: TypeAlias = Mapping[str, Any]
"""The validated arguments of a call by parameter, with the defaults filled in."""
RiskOf: TypeAlias = (
    "Callable[[Arguments], RiskLevel] | Callable[[Arguments, ToolContext], RiskLevel]"
)
"""How risky a call with these arguments is. Pure: the same arguments there, the same risk."""
ScopeOf: TypeAlias = "Callable[[Arguments, ToolContext], Scope]"
"""What a yes to a call with these arguments covers, as things stand now."""
CheckCall: TypeAlias = "Callable[[Arguments, ToolContext], None]"
"""Raises `ToolFailure` if a call with these arguments would fail; does nothing."""

_log: Final = logging.getLogger("treadle.tools")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""What the model providers accept as a name."""


def is_tool_name(name: str) -> bool:
    """Whether the model providers accept this as the name of a tool."""
    return _NAME.match(name) is not None


class ToolContext(Struct, frozen=True):
    """What a call knows besides its arguments: the type of an optional first parameter.

    `key` is the same for every run of the same call: an idempotency key. `progress` may be called
    from the tool's own thread, as often as the tool likes. `root` is the folder of the registry,
    if it has one; `sandbox` holds the commands in it, `None` if nothing does. `scratch` is the
    path of the folder of the thread's own (`thread_scratch.py`), which a path can name instead;
    empty if it has none. `others_files` are those that are not committed and not the agent's, as
    far as somebody knows. `sightings` say which files the model has been told of in its thread;
    `None` if nobody knows. `call_id` names the call in its thread. `background` takes commands that
    go on when their call has returned; `None` where nobody could look after them. `shape` is
    that in which the tool is offered, if it is not its own, and `names` are those of all tools that
    are offered. `explains` is false where a call is looked at and nobody reads why it would fail:
    what takes time to find is left out then.
    """

    key: str
    progress: Callable[[ToolProgress], None]
    root: Root | None = None
    sandbox: Sandbox | None = None
    scratch: str = ""
    others_files: Callable[[], Sequence[UncommittedFile]] = tuple
    sightings: Sightings | None = None
    call_id: str = ""
    background: BackgroundCommands | None = None
    shape: OfferedTool | None = None
    names: tuple[str, ...] = ()
    explains: bool = True

    def argument(self, path: str) -> str:
        """What the model calls an argument of the tool, or a field of one (`LIST.FIELD`)."""
        return path.rpartition(".")[2] if self.shape is None else self.shape.name_of(path)

    @property
    def workspace(self) -> Root:
        """The folder to work in; `UsageError` if the registry was made without one."""
        if self.root is None:
            raise UsageError("this tool needs a registry with a workspace")
        return self.root

    def place(
        self, arguments: dict[str, Any], *, only_reads: bool = False
    ) -> tuple[ToolContext, dict[str, Any]]:
        """The context and the arguments of a call whose `path` may lie in another folder.

        If it does, that folder is the workspace of the call: a tool needs to know of no second one,
        and no path leads from one to the other. It is the scratch folder, or for a tool that
        `only_reads` that of a skill, which may lie anywhere. What the model has seen there is not
        kept: names are those in the workspace.
        """
        path = arguments.get("path")
        if not isinstance(path, str):
            return self, arguments
        skills = self.sandbox.policy.skills if only_reads and self.sandbox is not None else ()
        for folder in skills if path.startswith("/") else ():
            if is_below(os.path.normpath(path), folder):
                return replace(self, root=Root(folder), sightings=None), arguments
        if not self.scratch:
            return self, arguments
        path = expand_variable(path, self.scratch)
        is_there = path == self.scratch or path.startswith(f"{self.scratch}/")
        if not is_there or not make_scratch(self.scratch):
            return self, arguments
        return replace(self, root=Root(self.scratch), sightings=None), {**arguments, "path": path}

    @property
    def is_in_scratch(self) -> bool:
        """Whether the scratch folder is the workspace of this call."""
        return self.root is not None and str(self.root.path) == self.scratch


class Tool(Generic[P, R]):
    """A function that a model may call; still a function to everybody else."""

    __slots__ = (
        *(
            "_check",
            "_risk_of",
            "_scope_of",
            "definition",
            "function",
            "is_async",
            "shape",
            "signature",
        ),
    )

    def __init__(
        self,
        function: Callable[P, R],
        effect: EffectClass,
        risk: RiskLevel,
        risk_of: RiskOf | None = None,
        scope_of: ScopeOf | None = None,
        shape: OfferedTool | None = None,
        check: CheckCall | None = None,
    ) -> None:
        name = function.__name__ if shape is None else shape.name
        if not is_tool_name(name):
            raise UsageError(f"{name!r} cannot be the name of a tool")
        if inspect.iscoroutinefunction(risk_of):
            raise UsageError(f"the tool {name} needs a risk_of that is not async: it is pure")
        if inspect.iscoroutinefunction(scope_of):
            raise UsageError(f"the tool {name} needs a scope_of that is not async")
        self._risk_of: Final = None if risk_of is None else _with_context(risk_of)
        self._scope_of: Final = scope_of
        self._check: Final = check
        self.function: Final = function
        self.shape: Final = shape
        self.signature: Final = Signature(function, ToolContext, shape)
        self.is_async: Final = inspect.iscoroutinefunction(function)
        description = (shape and shape.description) or self.signature.description
        self.definition = ToolDefinition(name, description, self.signature.schema, effect, risk)

    def offered_as(self, shape: OfferedTool) -> Tool[P, R]:
        """The same tool in another shape: what it does, its risk and its scope stay."""
        told = self.definition
        own = (self.function, told.effect, told.risk)
        return Tool(*own, self._risk_of, self._scope_of, shape, self._check)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def without_argument(self, name: str) -> Tool[P, R]:
        """The same tool, which does not tell models of an argument that it takes all the same."""
        other = copy(self)
        other.definition = self.definition.without_argument(name)
        return other

    def risk_of(self, arguments_json: str, context: ToolContext) -> RiskLevel | None:
        """See `Registry.risk_of`."""
        if self._risk_of is None:
            return None
        try:
            context, arguments = context.place(self.signature.parse(arguments_json))
        except ToolFailure:  # the call will fail by itself
            return None
        try:
            found = RiskLevel(self._risk_of(arguments, context))
        except (Exception, SystemExit) as broken:  # noqa: BLE001  nobody knows, so the worst
            found = RiskLevel.CRITICAL
            # Neither the arguments nor the message, which may quote them, belong into a log.
            what = type(broken).__name__
            _log.error("risk_of of the tool %s failed: %s", self.definition.name, what)
        return found if found > self.definition.risk else None

    def scope_of(self, arguments_json: str, context: ToolContext) -> Scope | None:
        """See `Registry.scope_of`."""
        if self._scope_of is None:
            return None
        try:
            context, arguments = context.place(self.signature.parse(arguments_json))
            scope = self._scope_of(arguments, context)
            if context.is_in_scratch and scope.file:
                # Not a file of this name in the workspace, which the same round may write.
                scope = replace(scope, file=str(context.workspace.path / scope.file))
            return scope
        except ToolFailure:  # a yes to a call that will fail is for no other one
            return Scope(reasons=("it does not fit its tool, which will refuse it",))
        except (Exception, SystemExit) as broken:  # noqa: BLE001  nobody knows, so ask, each time
            what = type(broken).__name__
            _log.error("scope_of of the tool %s failed: %s", self.definition.name, what)
            return Scope(reasons=("nobody can tell what it does",), must_ask=True)

    def check(self, arguments_json: str, context: ToolContext) -> None:
        """Raise what the call would, as things stand, before it does anything.

        Raises:
            ToolFailure: the arguments do not fit, or the tool refuses them.
        """
        arguments = self.signature.parse(arguments_json)
        only_reads = self.definition.effect is EffectClass.READ
        context, arguments = context.place(arguments, only_reads=only_reads)
        if self._check is not None:
            self._check(arguments, replace(context, shape=self.shape))


def tool(
    *,
    effect: EffectClass = EffectClass.MUTATE,
    risk: RiskLevel = RiskLevel.MEDIUM,
    risk_of: RiskOf | None = None,
    scope_of: ScopeOf | None = None,
    check: CheckCall | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a typed function, sync or async, to be a tool; its name is the tool's name.

    A sync function runs in a thread of its own. It fails by raising `ToolFailure`, and returns
    text, a `ToolReturn`, or any value that JSON can say.

    Args:
        effect: what repeating a call would do.
        risk: how much harm a call can do.
        risk_of: a pure function from the arguments of a call, by parameter and with the defaults
            filled in, to the risk of this very call; with a second parameter it gets the
            context of the call too. It can only raise `risk`: a lower level counts as `risk`. One
            that raises, or returns no level, counts as critical.
        scope_of: a function from the same arguments, and the context of the call, to what a
            person's yes to it covers. One that raises has the call asked about each time.
        check: a function from the same two that raises `ToolFailure` where the call would fail as
            things stand, and does nothing: nobody is asked about such a call.

    Raises:
        UsageError: the function cannot be a tool; the message says what is missing.
    """
    return lambda function: Tool(function, effect, risk, risk_of, scope_of, check=check)


def _with_context(risk_of: RiskOf) -> Callable[[Arguments, ToolContext], RiskLevel]:
    """The same, called with the context, which it gets if it cannot do without."""
    parameters = inspect.signature(risk_of).parameters.values()
    if sum(each.default is each.empty for each in parameters) > 1:
        return cast("Callable[[Arguments, ToolContext], RiskLevel]", risk_of)
    plain = cast("Callable[[Arguments], RiskLevel]", risk_of)
    return lambda arguments, context: plain(arguments)


AnyTool: TypeAlias = Tool[..., Any]


class Registry:
    """A set of tools with unique names; the runtime's `Tools` port.

    Args:
        tools: in the order in which the model is told of them.
        workspace: the folder that `ToolContext.workspace` gives to the tools; tools that do not
            ask for it need none.
        sandbox: what holds the commands that tools run; by default nothing.
        others_files: what is not committed and not the agent's, quick to say; by default nothing.
        unavailable: why tools are not there that a model may know, by their names.

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
    ) -> None:
        self.sandbox: Final = sandbox
        self._others_files: Final = others_files
        self._unavailable: Final = unavailable
        self._tools: Final[dict[str, AnyTool]] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise UsageError(f"{tool!r} is no tool", hint="declare the function with @tool()")
            if tool.definition.name in self._tools:
                raise UsageError(f"two tools are called {tool.definition.name}")
            self._tools[tool.definition.name] = tool
        if workspace is not None and not isinstance(workspace, Root):
            # Whatever holds commands, or nothing: what is hidden from them is from file tools.
            rules = (sandbox or Sandbox(Policy(), workspace)).rules
            workspace = Root(workspace, rules=rules)
        self._root: Final = workspace
        if workspace is not None:
            helper_programs.exclude(workspace.path)

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
        root, context = context.root, replace(context, shape=tool.shape)
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


def _make_failure(call: ToolCall, failure: ToolFailure) -> ToolExecutionOutcome.Error:
    error = ToolError(failure.kind, clean_text(failure.message), clean_text(failure.output))
    return ToolExecutionOutcome.Error(call.id, error, seen=clean_names(failure.seen))


def _call_sync(
    tool: AnyTool, context: ToolContext, arguments: dict[str, Any], progress: TellProgress
) -> Any:
    first = (replace(context, progress=progress),) if tool.signature.takes_context else ()
    return tool.function(*first, **arguments)
