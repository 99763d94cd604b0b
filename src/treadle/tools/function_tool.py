"""What a tool is.

A tool is a typed function with a docstring, which is what the model reads about it::

    @tool
    def order(ctx: ToolContext[Shop], number: int) -> Order:
        '''Look up an order.'''
        return ctx.deps.find(number)

It may be a method, and is given to an agent as that of an object then. What a call does to the
world is said beside it::

    @tool(effect=EffectClass.READ, risk=RiskLevel.LOW)
    def count_words(text: str) -> int:
        '''Count the words of a text.'''
        return len(text.split())

A call can be riskier than its tool usually is, and its arguments say so::

    def risk_of_delete(arguments: Arguments) -> RiskLevel:
        return RiskLevel.CRITICAL if arguments["path"] == "." else RiskLevel.MEDIUM

    @tool(effect=EffectClass.MUTATE, risk=RiskLevel.MEDIUM, risk_of=risk_of_delete)
    def delete(path: str) -> str: ...
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

from msgspec.structs import replace

from treadle.core.approval import Scope
from treadle.core.tool_families import OfferedTool
from treadle.core.tools import EffectClass, RiskLevel, ToolDefinition
from treadle.errors import UsageError
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.signature import Signature

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


class Tool(Generic[P, R]):
    """A function that a model may call; still a function to everybody else."""

    __slots__ = (
        *("_check", "_risk_of", "_scope_of", "definition", "function", "is_async"),
        *("needs_object", "shape", "signature"),
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
        for told, kind in ((effect, EffectClass), (risk, RiskLevel)):
            if not isinstance(told, kind):
                levels = ", ".join(f"{kind.__name__}.{one.name}" for one in kind)
                raise UsageError(f"the tool {name} cannot have {told!r}", hint=f"one of: {levels}")
        if inspect.iscoroutinefunction(risk_of):
            raise UsageError(f"the tool {name} needs a risk_of that is not async: it is pure")
        if inspect.iscoroutinefunction(scope_of):
            raise UsageError(f"the tool {name} needs a scope_of that is not async")
        self._risk_of: Final = None if risk_of is None else _with_context(risk_of)
        self._scope_of: Final = scope_of
        self._check: Final = check
        self.function = function
        self.shape: Final = shape
        self.signature: Final = Signature(function, ToolContext, shape)
        self.needs_object = self.signature.takes_self
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

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        """As a method of an object it is a tool of that object."""
        if instance is None or not self.needs_object:
            return self
        bound = copy(self)
        bound.function = self.function.__get__(instance)
        bound.needs_object = False
        return bound

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


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    effect: EffectClass = ...,
    risk: RiskLevel = ...,
    risk_of: RiskOf | None = ...,
    scope_of: ScopeOf | None = ...,
    check: CheckCall | None = ...,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    effect: EffectClass = EffectClass.MUTATE,
    risk: RiskLevel = RiskLevel.MEDIUM,
    risk_of: RiskOf | None = None,
    scope_of: ScopeOf | None = None,
    check: CheckCall | None = None,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a typed function, sync or async, to be a tool; its name is the tool's name.

    Written `@tool` alone, or `@tool(...)`. Arguments and result may be of any type that
    `treadle.tools.value_types` knows.

    A sync function runs in a thread of its own. It fails by raising `ToolFailure`, and returns
    text, a `ToolReturn`, or any value that JSON can say.

    Args:
        function: the function, where nothing else is said.
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
    if function is not None:
        return Tool(function, effect, risk)
    return lambda function: Tool(function, effect, risk, risk_of, scope_of, check=check)


def _with_context(risk_of: RiskOf) -> Callable[[Arguments, ToolContext], RiskLevel]:
    """The same, called with the context, which it gets if it cannot do without."""
    parameters = inspect.signature(risk_of).parameters.values()
    if sum(each.default is each.empty for each in parameters) > 1:
        return cast("Callable[[Arguments, ToolContext], RiskLevel]", risk_of)
    plain = cast("Callable[[Arguments], RiskLevel]", risk_of)
    return lambda arguments, context: plain(arguments)


AnyTool: TypeAlias = Tool[..., Any]
