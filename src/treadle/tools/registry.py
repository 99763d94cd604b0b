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
import contextvars
import inspect
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from types import MappingProxyType
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from treadle import helper_programs
from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    EffectClass,
    Outcome,
    RiskLevel,
    SeenFile,
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

GRACE_S: Final = 5.0
"""So long a cancelled call in a thread may take to end; then it is left behind. A file tool needs
milliseconds, and its result is worth more than "nobody knows"."""
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
    go on when their call has returned; `None` where nobody could look after them.
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

    __slots__ = ("_risk_of", "_scope_of", "definition", "function", "is_async", "signature")

    def __init__(
        self,
        function: Callable[P, R],
        effect: EffectClass,
        risk: RiskLevel,
        risk_of: RiskOf | None = None,
        scope_of: ScopeOf | None = None,
    ) -> None:
        name = function.__name__
        if not is_tool_name(name):
            raise UsageError(f"{name!r} cannot be the name of a tool")
        if inspect.iscoroutinefunction(risk_of):
            raise UsageError(f"the tool {name} needs a risk_of that is not async: it is pure")
        if inspect.iscoroutinefunction(scope_of):
            raise UsageError(f"the tool {name} needs a scope_of that is not async")
        self._risk_of: Final = None if risk_of is None else _with_context(risk_of)
        self._scope_of: Final = scope_of
        self.function: Final = function
        self.signature: Final = Signature(function, ToolContext)
        self.is_async: Final = inspect.iscoroutinefunction(function)
        self.definition = ToolDefinition(
            name, self.signature.description, self.signature.schema, effect, risk
        )

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


def tool(
    *,
    effect: EffectClass = EffectClass.MUTATE,
    risk: RiskLevel = RiskLevel.MEDIUM,
    risk_of: RiskOf | None = None,
    scope_of: ScopeOf | None = None,
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

    Raises:
        UsageError: the function cannot be a tool; the message says what is missing.
    """
    return lambda function: Tool(function, effect, risk, risk_of, scope_of)


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
        seen: tuple[SeenFile, ...] = ()
        try:
            context = self._make_context(key, progress, sightings, call.id, background)
            return make_success(call, await self._run(call, context))
        except ToolFailure as failure:
            error = ToolError(failure.kind, clean_text(failure.message), clean_text(failure.output))
            seen = clean_names(failure.seen)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = ToolError(ToolErrorKind.CANCELLED, "the tool gave up by itself")
        except (Exception, SystemExit) as broken:  # noqa: BLE001  a tool's bug is data
            message = f"{type(broken).__name__}: {broken}"[:MESSAGE_SIZE_MAX]
            error = ToolError(ToolErrorKind.INTERNAL, clean_text(message))
        return ToolExecutionOutcome.Error(call.id, error, seen=seen)

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
        context, arguments = context.place(parsed, only_reads=only_reads)
        if tool.is_async:
            first = (context,) if tool.signature.takes_context else ()
            value = await tool.function(*first, **arguments)
        else:
            value = await _run_in_thread(tool, context, arguments)
        if context.is_in_scratch and isinstance(value, ToolReturn):
            # Nothing of the workspace has changed, and none of these names means a file of it.
            place = context.workspace.path
            moved = (replace(one, name=str(place / one.name)) for one in value.rewritten)
            value = replace(value, changed=(), rewritten=tuple(moved))
        if context.root is not root and isinstance(value, ToolReturn):
            # By its name there, a file of the workspace would count as seen.
            value = replace(value, seen=())
        return value


async def _run_in_thread(tool: AnyTool, context: ToolContext, arguments: dict[str, Any]) -> Any:
    """Run a sync tool in a daemon thread: one that hangs must not keep the program from exiting."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def post(callback: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed while the thread went on
            loop.call_soon_threadsafe(callback, *args)

    def settle(value: Any, error: BaseException | None = None) -> None:
        if not done.cancelled():
            done.set_result((value, error))

    def body() -> None:
        try:
            post(settle, tool.function(*first, **arguments))
        except BaseException as error:  # noqa: BLE001  carried over to the event loop
            post(settle, None, error)

    reports = replace(context, progress=lambda report: post(context.progress, report))
    first = (reports,) if tool.signature.takes_context else ()
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(body,), name=tool.definition.name, daemon=True).start()
    try:
        value, error = await asyncio.shield(done)
    except asyncio.CancelledError:
        # A thread cannot be stopped; most end at once, and then what they did is known.
        await asyncio.wait([done], timeout=GRACE_S)
        if not done.done():
            done.cancel()
            raise ToolFailure(
                ToolErrorKind.CANCELLED, "it does not stop and may still take effect"
            ) from None
        value, error = done.result()
    if error is not None:
        raise error
    return value
