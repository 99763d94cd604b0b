"""What an agent is made of, looked at once when it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from treadle.agent.handoffs import AgentFamily, explain_missing_handoffs, make_handoff_tools
from treadle.agent.type_variables import AgentDepsT
from treadle.core.approval import AskAbove, NeverAsk, Policy
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.task.events import TaskConfig
from treadle.core.tools import RiskLevel
from treadle.errors import BuildError, UsageError
from treadle.mcp.server import MCPServer
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.outputs import Output
from treadle.runtime.agent_options import check_limits, check_text
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.approval_callback import ApprovalCallback
from treadle.runtime.output_modes import OutputChoice, check_output_choice
from treadle.runtime.ports import Provider, TextRedactor
from treadle.server_questions import AskPersonForServer
from treadle.store.port import Store
from treadle.store.threads import AnyThreads, find_threads
from treadle.tools.context import AgentContext
from treadle.tools.function_tool import AnyTool, Tool, is_tool_name, tool
from treadle.tools.registry import Registry

if TYPE_CHECKING:  # who works in no repository loads nothing of it
    from treadle.agent.repositories import Checkout, Repositories

Instructions: TypeAlias = str | Callable[[AgentContext[AgentDepsT]], str | Awaitable[str]]
"""What stands before everything in each request; or a function of the context that says it."""

_POLICIES: Final[dict[str, Policy]] = {"auto": NeverAsk(), "ask": AskAbove(RiskLevel.MEDIUM)}


class AgentOptions(TypedDict, total=False):
    """What an agent can do without.

    `store`: where its threads are, a folder (`LocalStore`) or a `Store` of your own; those of this
    user if not said. `approval`: which calls need a
    person's yes: `"auto"` none, `"ask"` those of tools that may change something, or a policy.
    `on_approval`: who is asked; without it such a call waits, on disk, and raises `ApprovalNeeded`.
    `on_server_question`: is asked what MCP servers ask back in calls (a form, a visit, a model's
    answer); without it they are told that nobody is there.
    `budget`: what a task may use, or a turn of a conversation. `max_steps`: requests to the model
    in it, at most; 15 if not said. `settings`: how requests are made. `on_output`: is told
    everything that happens. `redactor`: keeps secrets out of records and requests; if neither it
    nor the store is said, those of this user's environment are kept out. `output_mode`: how answers
    of a type are asked for: `"prompted"` in words, `"native"` so that the provider holds the model
    to it besides, `"auto"` (if not said) so where it is known to. What cannot be held is asked for
    in words; `Result.output_mode` says which it was. `repositories`: its tasks of a fleet work in
    clones of repositories, for tools such as `builtin_tools()`.
    """

    store: Store
    approval: Literal["auto", "ask"] | Policy
    on_approval: ApprovalCallback
    on_server_question: AskPersonForServer
    budget: TokenBudget
    max_steps: int
    settings: AgentConfig
    on_output: Callable[[Output], None]
    redactor: TextRedactor
    output_mode: OutputChoice
    repositories: Repositories


class AgentTool:
    """An agent as a tool of another one. `Agent.as_tool` makes it."""

    def __init__(self, name: str, description: str, agent: AgentDefinition) -> None:
        self.name = name
        self.description = description
        self.agent = agent


class AgentDefinition:
    """All that was said of an agent.

    Args:
        name: what people know it by.
        model: the name of a model, or who answers.
        instructions: what it is told before everything.
        tools: functions with `@tool`, plain functions, other agents, MCP servers.
        deps: the type of what the program gives its tools; `None` for nothing.
        output: the type of its answers; `None` for text.
        options: see there.

    Raises:
        BuildError: it cannot be an agent like this.
        UsageError: a function cannot be a tool, or JSON cannot say a value of the output type.
        NotConfiguredError: it has MCP servers, and their protocol's library is not installed.
    """

    def __init__(
        self,
        name: str,
        model: str | Provider,
        instructions: Instructions[Any],
        tools: Iterable[AnyTool | Callable[..., Any] | AgentTool | MCPServer],
        deps: type | None,
        output: Any,
        options: AgentOptions,
    ) -> None:
        self.name: Final = check_text("name", name)
        for option in options.keys() - AgentOptions.__annotations__.keys():
            raise BuildError(f"an agent has no option {option!r}")
        given = [*tools]
        self.agents: Final = [one for one in given if isinstance(one, AgentTool)]
        self.servers: Final = [one for one in given if isinstance(one, MCPServer)]
        kinds = (AgentTool, MCPServer)
        self.tools: Final = [_make_tool(one) for one in given if not isinstance(one, kinds)]
        self.form: AnswerForm[Any] | None = None
        if output is not None and output is not str:
            self.form = AnswerForm.of_type(output)
        self.options = options
        self.policy: Final = _find_policy(options.get("approval", "auto"))
        self.output_choice: Final = check_output_choice(options.get("output_mode", "auto"))
        self._model = model
        self._opened: dict[str, tuple[Provider, str]] = {}
        self._instructions = instructions
        self._deps = deps
        self.membership: Any = None
        """Its place in a fleet, if it is in one: a `Membership`."""
        self._handoffs: dict[str, tuple[AgentDefinition, str]] = {}
        self._check()

    def _check(self) -> None:
        """Raise for what no task and no thread could be begun with."""
        self.make_tools(AgentContext())
        if "store" in self.options:
            find_threads(self.options["store"])
        for one in self.tools:
            wanted = one.signature.deps
            if isinstance(wanted, type) and not _is_subclass(self._deps or type(None), wanted):
                raise BuildError(
                    f"the tool {one.definition.name} takes deps of type {wanted.__qualname__}, "
                    f"which the agent {self.name!r} does not have",
                    hint=f"Agent(..., deps={wanted.__qualname__})",
                )
        if not isinstance(self._model, str) and not hasattr(self._model, "stream"):
            raise BuildError(f"{self._model!r} is no model", hint='"PROVIDER:MODEL", or a provider')
        check_limits(self.limits, self.options.get("budget"), self.policy)

    def vary(self, model: str = "", budget: TokenBudget | None = None) -> AgentDefinition:
        """This agent for one task: with another model, and no more than another budget.

        Models that were opened for one task are those of the next.

        Raises:
            BuildError: the budget is none.
        """
        check_limits(self.limits, budget, self.policy)
        other = copy(self)
        other._model = model or self._model
        if budget is not None:
            own = self.options.get("budget")
            narrow = budget if own is None else budget.restrict_to(own)
            other.options = {**self.options, "budget": narrow}
        return other

    def add_handoff(self, other: AgentDefinition, description: str) -> None:
        """Let this agent hand its conversations to another one.

        Raises:
            BuildError: the other one answers with another type, takes other deps, or its name
                cannot be that of a tool, or is taken.
        """
        faults = {
            "is itself": other is self,
            "answers with another type": _get_schema(other) != _get_schema(self),
            "takes other deps": not _is_subclass(self._deps or type(None), other._deps or object),
            "has the name of another one": other.name in (self.name, *self._handoffs),
            "has a name that cannot be that of a tool": not is_tool_name(f"hand_to_{other.name}"),
        }
        for fault, is_there in faults.items():
            if is_there:
                raise BuildError(f"{self.name!r} cannot hand over to {other.name!r}, which {fault}")
        self._handoffs[other.name] = (other, description)

    @property
    def handoff_descriptions(self) -> dict[str, str]:
        """What its model reads of the agents that it may hand over to, by their names."""
        return {name: description for name, (_, description) in self._handoffs.items()}

    def list_family(self) -> list[AgentDefinition]:
        """This agent, and all that a conversation of it may be handed to in the end."""
        found, due = {self.name: self}, [self]
        while due:
            for name, (other, _) in due.pop()._handoffs.items():
                if name not in found:
                    found[name] = other
                    due.append(other)
                elif found[name] is not other:
                    raise BuildError(f"two agents are called {name!r}, and one has to be found")
        return [*found.values()]

    @property
    def on_approval(self) -> ApprovalCallback | None:
        """Who is asked about calls that need a yes."""
        return self.options.get("on_approval")

    @property
    def limits(self) -> TaskConfig:
        """The limits of a task. Short answers are good ones; an empty one is none."""
        steps = self.options.get("max_steps", TaskConfig().max_steps)
        return TaskConfig(max_steps=steps, min_answer_length=1)

    @property
    def settings(self) -> AgentConfig:
        """How requests are made."""
        return self.options.get("settings", AgentConfig(max_tokens=0))

    def make_context(self, deps: Any, key: str = "") -> AgentContext[Any]:
        """What its tools and instructions are given; `UsageError` for deps of another type."""
        if self._deps is not None and not _is_instance(deps, self._deps):
            name = getattr(self._deps, "__qualname__", str(self._deps))
            raise UsageError(
                f"the agent {self.name!r} takes a {name} as deps, not {deps!r}",
                hint=f"deps={name}(...)",
            )
        return AgentContext(deps, key)

    def make_tools(
        self,
        context: AgentContext[Any],
        family: AgentFamily | None = None,
        checkout: Checkout | None = None,
    ) -> Registry | McpTools:
        """Who runs the calls; servers among them are to be ended by whoever asks for this.

        Args:
            context: what tools are given.
            family: the agents that a thread may be handed to, if it may be.
            checkout: the clone that tools work in, if they do in one.
        """
        handoffs: list[AnyTool] = []
        missing: Mapping[str, str] = {}
        if family is not None:
            handoffs = make_handoff_tools(self.handoff_descriptions, family)
            missing = explain_missing_handoffs(self.name, family.names)
        tools = [*self.tools, *handoffs]
        own = Registry(tools, context=context, unavailable=missing)
        if checkout is not None:
            sandbox = checkout.make_sandbox(has_network=self.options["repositories"].has_network)
            own = Registry(tools, workspace=checkout.folder, sandbox=sandbox, context=context)
        servers = [*map(ServerTools, self.servers)]
        return McpTools(own, servers) if servers else own

    async def find_instructions(self, context: AgentContext[Any]) -> str:
        """What it is told before everything in this context."""
        if isinstance(self._instructions, str):
            return self._instructions
        text = self._instructions(context)
        return check_text("instructions", await text if inspect.isawaitable(text) else text)

    def find_provider(self) -> tuple[Provider, str]:
        """Who answers, and by which name it is asked; empty is the provider's default.

        Raises:
            UsageError: there is no such model.
            NotConfiguredError: its provider has no key.
        """
        if not isinstance(self._model, str):
            return self._model, ""
        if self._model not in self._opened:
            from treadle.agent.models import open_model

            self._opened[self._model] = open_model(self._model)
        return self._opened[self._model]

    @property
    def provider_name(self) -> str:
        """Of a provider that the program has made; empty where the model has a name."""
        return "" if isinstance(self._model, str) else self._model.name

    def open_store(self) -> AnyThreads:
        """Where its threads are."""
        if "store" in self.options:
            return find_threads(self.options["store"])
        from treadle.runtime.defaults import open_user_store

        return open_user_store()

    def find_redactor(self) -> TextRedactor | None:
        """Who keeps secrets out of records and requests."""
        if "redactor" in self.options or "store" in self.options:
            return self.options.get("redactor")
        from treadle.runtime.defaults import make_user_redactor

        return make_user_redactor()


def _get_schema(agent: AgentDefinition) -> dict[str, Any] | None:
    return None if agent.form is None else agent.form.schema


def _make_tool(one: Any) -> AnyTool:
    if isinstance(one, Tool):
        return one
    if inspect.isfunction(one) or inspect.ismethod(one):
        return tool(one)
    raise BuildError(f"{one!r} is no tool", hint="a function with a docstring, or one with @tool")


def _find_policy(approval: str | Policy) -> Policy:
    if isinstance(approval, Policy):
        return approval
    if approval not in _POLICIES:
        raise BuildError(
            f"{approval!r} is no policy of approval",
            hint='"auto", "ask", or a policy such as AskAbove(RiskLevel.HIGH)',
        )
    return _POLICIES[approval]


def _is_instance(value: object, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol, a generic type: only a type checker can tell
        return True


def _is_subclass(kind: type, wanted: type) -> bool:
    try:
        return issubclass(kind, wanted)
    except TypeError:  # as above
        return True
