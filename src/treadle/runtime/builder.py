"""Puts an agent together that works at a task: step by step, or by keyword arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from decimal import Decimal
from typing import Any, Self, Unpack

from msgspec.structs import replace

from treadle.core.approval import NeverAsk, Policy
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig, choose_model
from treadle.core.task.events import CustomState, Graph, TaskConfig, TaskGiven
from treadle.core.task.graph import check_graph
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import ToolDefinition
from treadle.errors import BuildError, UsageError
from treadle.outputs import Output
from treadle.runtime.agent_options import (
    AgentKeywords,
    check_limits,
    check_same_agent,
    check_text,
    check_unique_tools,
    make_registry,
)
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.approval_callback import ApprovalCallback, wrap_approval_callback
from treadle.runtime.engine import AgentEngine, TaskOptions
from treadle.runtime.handlers import Handler, get_handler_function
from treadle.runtime.options import DriverOptions, recall_tools
from treadle.runtime.output_modes import OutputChoice, check_output_choice, hold_answers
from treadle.runtime.ports import Provider, TextRedactor, ThreadStore, Tools, Workspace, Writer
from treadle.runtime.subagents import ParentCall, SubAgent, make_listener
from treadle.runtime.task_threads import NewTaskThread
from treadle.server_questions import AskPersonForServer
from treadle.store.port import Store
from treadle.store.threads import find_threads
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured
from treadle.thread.fold import ThreadFold


class AgentBuilder:
    """Describes an agent; `build` begins its thread.

    Each method returns the builder, so that calls can be chained::

        answer = await AgentBuilder("What is 2 + 3?").llm(provider).tool(add).build().run()

    Args:
        task: what the agent is to do.
        **options: any method of one value, by its name: `AgentBuilder("...", llm=provider)`.
    """

    def __init__(self, task: str, **options: Unpack[AgentKeywords]) -> None:
        self._task, self._task_type = task, "default"
        self._system_prompt, self._config = "", TaskConfig()
        self._budget: TokenBudget | None = None
        self._blacklist: frozenset[str] = frozenset()
        self._settings, self._graph = AgentConfig(max_tokens=0), Graph()
        self._policy: Policy | None = None
        self._llm: Provider | None = None
        self._tools: tuple[Any, ...] = ()
        self._registry: Tools | None = None
        self._store: ThreadStore | None = None
        self._workspace: Workspace | None = None
        self._redactor: TextRedactor | None = None
        self._decider: ApprovalCallback | None = None
        self._ask_for_server: AskPersonForServer | None = None
        self._on_output: Callable[[Output], None] | None = None
        self._form: AnswerForm[Any] | None = None
        self._choice: OutputChoice = "auto"
        self._handlers: dict[str, Handler] = {}
        self._children: tuple[tuple[str, str, AgentBuilder], ...] = ()
        for name, value in options.items():
            if name not in AgentKeywords.__annotations__:
                raise BuildError(f"an agent has no option {name!r}")
            getattr(self, name)(value)

    # ---- the task and its limits ---------------------------------------------------------------

    def task_type(self, name: str) -> Self:
        """The kind of task: chooses the model (`model_for`). Any name."""
        self._task_type = check_text("task_type", name)
        return self

    def system_prompt(self, text: str) -> Self:
        """What stands before everything in each request."""
        self._system_prompt = check_text("system_prompt", text)
        return self

    def config(self, config: TaskConfig) -> Self:
        """All limits at once; those that are set after it change it."""
        if not isinstance(config, TaskConfig):
            raise BuildError(
                f"config(...) takes the limits of a task, not {type(config).__qualname__}",
                hint="a TaskConfig; how requests are made: settings(...)",
            )
        self._config = config
        if self._form is not None:
            self._set_limits(output_schema=self._form.schema)
        return self

    def _set_limits(self, **changes: Any) -> Self:
        self._config = replace(self._config, **changes)
        return self

    def max_steps(self, count: int) -> Self:
        """Requests to the model, at most; 15 if not said. At least 1."""
        return self._set_limits(max_steps=count)

    def max_retries(self, count: int) -> Self:
        """Answers of low confidence that are sent back, at most; 3 if not said."""
        return self._set_limits(max_retries=count)

    def confidence_threshold(self, value: float) -> Self:
        """What counts as low confidence, 0.0 to 1.0; 0.4 if not said."""
        return self._set_limits(confidence_threshold=value)

    def reflect_every_n_steps(self, count: int) -> Self:
        """How often older history becomes a digest; 5 if not said, 0 for never."""
        return self._set_limits(reflect_every_n_steps=count)

    def min_answer_length(self, count: int) -> Self:
        """Characters a final answer needs; 20 if not said."""
        return self._set_limits(min_answer_length=count)

    def parallel_tools(self, value: bool) -> Self:
        """Whether the calls of one answer run side by side; if not, one after another."""
        return self._set_limits(parallel_tools=value)

    def budget(self, budget: TokenBudget) -> Self:
        """What the run may use."""
        if not isinstance(budget, TokenBudget):
            raise BuildError(f"budget takes a TokenBudget, not {budget!r}")
        self._budget = budget
        return self

    def _set_budget(self, **changes: Any) -> Self:
        self._budget = replace(self._budget or TokenBudget(), **changes)
        return self

    def max_tokens(self, count: int) -> Self:
        """Tokens of the whole run, in and out, at most."""
        return self._set_budget(max_total=count)

    def max_cost(self, usd: Decimal | float | str) -> Self:
        """US dollars of the whole run, at most."""
        try:
            return self._set_budget(max_cost_usd=Decimal(str(usd)))
        except ArithmeticError:
            raise BuildError(f"max_cost is a number of US dollars, not {usd!r}") from None

    def time_limit(self, seconds: float) -> Self:
        """Seconds of work, at most."""
        try:
            return self._set_budget(max_time_s=float(seconds))
        except ValueError:
            raise BuildError(f"time_limit is a number of seconds, not {seconds!r}") from None

    # ---- the model -----------------------------------------------------------------------------

    def llm(self, provider: Provider) -> Self:
        """Who answers: `AnthropicProvider()`, `ScriptedModel.of(...)`, ..."""
        if not hasattr(provider, "stream"):
            raise BuildError(f"{provider!r} is no provider", hint="llm(AnthropicProvider()), say")
        self._llm = provider
        return self

    def model(self, name: str) -> Self:
        """The model for every kind of task that has none of its own."""
        return self.model_for("default", name)

    def model_for(self, task_type: str, name: str) -> Self:
        """The model for a kind of task."""
        return self._set_limits(models={**self._config.models, task_type: name})

    def models(self, names: Mapping[str, str]) -> Self:
        """Models by kind of task; `default` serves the others."""
        return self._set_limits(models={**self._config.models, **names})

    def settings(self, settings: AgentConfig) -> Self:
        """Temperature, reasoning, time limits of requests and tools, retries of failed requests.

        A policy of `approval` stands whatever comes here.
        """
        for name in ("system_prompt", "max_steps", "tools"):
            if getattr(settings, name):
                raise BuildError(f"{name} is set by the builder's own method of that name")
        self._settings = settings
        return self

    def output(self, form: type[Any] | Mapping[str, Any] | AnswerForm[Any]) -> Self:
        """The form of the answer: a type (a `msgspec.Struct`, say), a JSON schema, or a form.

        Raises:
            UsageError: it is neither.
        """
        if isinstance(form, AnswerForm):
            self._form = form
        elif isinstance(form, Mapping):
            self._form = AnswerForm.of_schema(form)
        else:
            self._form = AnswerForm.of_type(form)
        return self._set_limits(output_schema=self._form.schema)

    def output_mode(self, choice: OutputChoice) -> Self:
        """How it is asked for: `auto` if not said, `native`, `prompted` (see `AgentOptions`)."""
        self._choice = check_output_choice(choice)
        return self

    # ---- tools and people ----------------------------------------------------------------------

    def tool(self, tool: Any) -> Self:
        """A tool the model may call: a function with the decorator `@tool`."""
        self._tools = (*self._tools, tool)
        return self

    def tools(self, tools: Iterable[Any] | Tools) -> Self:
        """Tools; or a registry of them, such as `Registry`, which then stands alone."""
        if isinstance(tools, Iterable):
            self._tools = (*self._tools, *tools)
        else:
            self._registry = tools
        return self

    def sub_agent(self, name: str, description: str, agent: AgentBuilder) -> Self:
        """A tool whose calls are worked on by an agent of its own, in a thread of its own.

        The task of `agent` is what the call says. Without a model or store of its own it has those
        of this agent; so too its policy of approval. What this agent may not call, it may not
        either, and it may use at most what this agent's budget has left.
        """
        if not isinstance(agent, AgentBuilder):
            raise BuildError(f"the sub-agent {name!r} is no AgentBuilder but {agent!r}")
        from treadle.tools.function_tool import is_tool_name

        if not is_tool_name(name):
            raise BuildError(f"{name!r} cannot be the name of a tool")
        self._children = (*self._children, (name, description, agent))
        return self

    def blacklist(self, names: Iterable[str]) -> Self:
        """Tools that may not be called, whatever the model says."""
        if isinstance(names, str):
            raise BuildError("blacklist takes names, not one text", hint=f"blacklist([{names!r}])")
        self._blacklist = self._blacklist | frozenset(names)
        return self

    def approval(self, policy: Policy) -> Self:
        """Which calls need a person's yes; none if not said."""
        self._policy = policy
        return self

    def on_approval(self, decide: ApprovalCallback) -> Self:
        """Who is asked; says a `Decision`, or a `Verdict` that grants. Else: `ApprovalNeeded`."""
        if not callable(decide):
            raise BuildError(f"on_approval takes a function, not {decide!r}")
        self._decider = decide
        return self

    def on_server_question(self, ask: AskPersonForServer) -> Self:
        """Who is asked what servers of tools ask back; without it they are told of nobody."""
        self._ask_for_server = ask
        return self

    def on_output(self, listener: Callable[[Output], None]) -> Self:
        """Gets everything that happens, as it happens."""
        self._on_output = listener
        return self

    def workspace(self, workspace: Workspace) -> Self:
        """Who knows the folder the agent works in; `GitWorkspace` commits what it changes."""
        self._workspace = workspace
        return self

    def redactor(self, redactor: TextRedactor) -> Self:
        """Who keeps known secrets out of records and requests.

        If not said, and the store is not either: the credentials of this user's environment and
        well-known files are kept out.
        """
        self._redactor = redactor
        return self

    def store(self, store: Store | ThreadStore) -> Self:
        """Where the thread is kept; this user's threads (`Places.find()`) if not said."""
        self._store = find_threads(store)
        return self

    # ---- a graph of one's own ------------------------------------------------------------------

    def state(self, name: str, handler: Any, owns: Iterable[str] = ()) -> Self:
        """A state of one's own, or another handler for a built-in one.

        Args:
            name: any; that of a built-in state but `Done` and `Error` replaces it.
            handler: see `treadle.runtime.handlers`.
            owns: the fields of memory it writes, beside `error` and `extra`.

        Raises:
            BuildError: the handler cannot be called.
        """
        if isinstance(owns, str):
            raise BuildError("owns takes names of fields, not one text", hint=f"owns=[{owns!r}]")
        self._handlers[name] = get_handler_function(name, handler)
        state = CustomState(name, tuple(dict.fromkeys((*owns, "error", "extra"))))
        others = (one for one in self._graph.states if one.name != name)
        self._graph = replace(self._graph, states=(*others, state))
        return self

    def transition(self, state: str, event: str, to: str) -> Self:
        """A row of the table; it replaces the default one for this state and event."""
        row = (str(state), str(event), str(to))
        self._graph = replace(self._graph, rows=(*self._graph.rows, row))
        return self

    def terminal_state(self, name: str) -> Self:
        """A state in which the run ends, as in `Done`."""
        self._graph = replace(self._graph, terminal=(*self._graph.terminal, name))
        return self

    @property
    def graph(self) -> Graph:
        """What is added to the default graph."""
        return self._graph

    # ---- building ------------------------------------------------------------------------------

    def build(self) -> AgentEngine:
        """Begin a thread for the task; nothing is sent before `run`.

        Raises:
            BuildError: it cannot be built like this; the message says what is wrong, and nothing
                was made.
            StoreError: the disk refused.
        """
        return self._begin_thread(None)

    def begin(self, key: str = "", *marks: Entry) -> ThreadFold:
        """Begin a thread and leave it, to be resumed; gives how it stands. Raises as `build`.

        One that has the `key` already is given as it is. `marks` are recorded with the task.
        """
        return self._plan_thread(None)[0].add(key, marks)

    def resume(self, thread_id: str) -> AgentEngine:
        """Go on with a thread that an agent like this one began.

        Limits, budget, blacklist and task are those of the thread; so is its policy of approval,
        unless this agent has one. Raises as `build`, and `UnknownThreadError`, `ThreadBusyError`
        where there is no such thread or another has it.
        """
        return self._reopen_thread(thread_id, None)

    def _begin_thread(self, origin: ParentCall | None) -> AgentEngine:
        thread, llm, tools, settings = self._plan_thread(origin)
        return self._make_engine(thread.begin(origin), llm, tools, settings, origin, is_new=True)

    def _plan_thread(
        self, origin: ParentCall | None
    ) -> tuple[NewTaskThread, Provider, Tools, AgentConfig]:
        llm, tools = self._check_options()
        budget = self._budget
        if origin is not None and origin.budget is not None:
            budget = origin.budget if budget is None else budget.restrict_to(origin.budget)
        for _, _, agent in self._children:
            self._make_child_builder(agent, "any")._check_options()
        check_unique_tools(offered := self._list_definitions(tools))
        store = self._open_store()
        given = TaskGiven(
            self._task,
            store.now(),
            self._task_type,
            self._system_prompt,
            self._config.with_digest(),
            budget,
            tuple(sorted(self._blacklist)),
            self._graph if self._graph != Graph() else None,
        )
        model = choose_model(self._config.models, self._task_type) or self._settings.model_name
        allowed = tuple(one for one in offered if one.name not in self._blacklist)
        settings = replace(self._settings, approval=self._approval, tools=allowed)
        settings = hold_answers(settings, self._config.output_schema, self._choice, llm, model)
        settings = settings.with_limits(llm.traits(model).context_tokens_max)
        first = (Configured(settings, llm.name), given)
        redact = None if (redactor := self._get_redactor()) is None else redactor.redact
        return NewTaskThread(store, first, redact), llm, tools, settings

    def _reopen_thread(self, thread_id: str, origin: ParentCall | None) -> AgentEngine:
        from treadle.runtime.defaults import open_own_thread

        return self.resume_opened(open_own_thread(self._open_store(), thread_id), origin)

    def resume_opened(self, writer: Writer, origin: ParentCall | None = None) -> AgentEngine:
        """`resume`, with a thread that is open, and is closed if this raises."""
        try:
            llm, tools = self._check_options(needs_task=False)
            machine = writer.fold.machine
            if not isinstance(machine, TaskMachine):
                raise UsageError(f"thread {writer.thread_id} is a conversation, not a task")
            recall_tools(tools, machine.config)
            offered = {one.name for one in self._list_definitions(tools)}
            check_same_agent(writer.thread_id, machine, self._graph, self._blacklist, offered)
            policy = self._policy
            settings = None if policy is None else replace(machine.config, approval=policy)
            return self._make_engine(writer, llm, tools, settings, origin, is_new=False)
        except BaseException:
            writer.close()
            raise

    def _make_engine(
        self,
        writer: Writer,
        llm: Provider,
        tools: Tools,
        settings: AgentConfig | None,
        origin: ParentCall | None,
        *,
        is_new: bool,
    ) -> AgentEngine:
        approve = None if self._decider is None else wrap_approval_callback(self._decider)
        options = DriverOptions(
            workspace=self._workspace,
            redactor=self._get_redactor(),
            approve=approve or (None if origin is None else origin.approve),
            answer_server=self._ask_for_server,
            sub_agents=self.make_sub_agents(),
            on_output=make_listener(self._on_output, origin),
        )
        task = TaskOptions(self._handlers, self._form, is_new)
        try:
            return AgentEngine(writer, llm, tools, settings, options, task)
        except BaseException:
            writer.close()
            raise

    @property
    def _approval(self) -> Policy:
        return self._settings.approval if self._policy is None else self._policy

    def _open_store(self) -> ThreadStore:
        from treadle.runtime.defaults import open_user_store

        return open_user_store() if self._store is None else self._store

    def _get_redactor(self) -> TextRedactor | None:
        if self._redactor is None and self._store is None:
            from treadle.runtime.defaults import make_user_redactor

            self._redactor = make_user_redactor()
        return self._redactor

    def make_sub_agents(self) -> tuple[SubAgent, ...]:
        """Its sub-agents, as a driver takes them."""
        return tuple(self._make_sub_agent(*one) for one in self._children)

    def _make_sub_agent(self, name: str, description: str, agent: AgentBuilder) -> SubAgent:
        def begin(task: str, origin: ParentCall) -> AgentEngine:
            return self._make_child_builder(agent, task)._begin_thread(origin)

        def reopen(thread_id: str, origin: ParentCall) -> AgentEngine:
            return self._make_child_builder(agent, "")._reopen_thread(thread_id, origin)

        return SubAgent(name, description, begin, reopen)

    def _list_definitions(self, tools: Tools) -> tuple[ToolDefinition, ...]:
        return (*tools.definitions(), *(one.definition for one in self.make_sub_agents()))

    def _make_child_builder(self, agent: AgentBuilder, task: str) -> AgentBuilder:
        """The sub-agent's builder with this one's model, store and redactor where it has none."""
        heir = copy(agent)
        heir._task = task
        if heir._llm is None:
            heir._llm = self._llm
            if not heir._config.models:
                heir._set_limits(models=self._config.models)
        if heir._approval == NeverAsk() and heir._policy is None:
            heir._policy = self._approval
        heir._blacklist = heir._blacklist | self._blacklist
        heir._redactor = heir._redactor or self._get_redactor()
        heir._store = heir._store or self._open_store()
        return heir

    def _check_options(self, *, needs_task: bool = True) -> tuple[Provider, Tools]:
        if needs_task and not check_text("task", self._task).strip():
            raise BuildError("the task is empty", hint="say what the agent is to do")
        if self._llm is None:
            raise BuildError("nobody answers", hint="choose a provider: .llm(...)")
        check_limits(self._config, self._budget, self._approval)
        check_graph(self._graph)
        if self._config.output_schema is not None:
            AnswerForm.of_schema(self._config.output_schema)
        if self._registry is not None and self._tools:
            raise BuildError("a registry stands alone", hint="put all tools into it")
        registry = self._registry
        return self._llm, make_registry(self._tools) if registry is None else registry
