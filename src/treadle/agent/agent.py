"""An agent for programs: what it is told and may do, and how a program talks with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, Unpack, overload

from treadle.agent.type_variables import AgentDepsT, OutputT

if TYPE_CHECKING:  # what works is loaded when there is work: a program starts at once
    from typing_extensions import TypeForm

    from treadle.agent.agent_task import AgentTask
    from treadle.agent.agent_thread import AgentThread
    from treadle.agent.definition import AgentOptions, AgentTool, Instructions
    from treadle.agent.job_options import JobOptions
    from treadle.agent.result import Result
    from treadle.agent.submitted_task import SubmittedTask
    from treadle.mcp.server import MCPServer
    from treadle.runtime.ports import Provider
    from treadle.tools.function_tool import AnyTool

    AnyTools: TypeAlias = Iterable[AnyTool | Callable[..., Any] | AgentTool | MCPServer]

_NO_DEPS: Final[Any] = None


class Agent(Generic[AgentDepsT, OutputT]):
    """What an agent is told, what it may do, and what it answers with.

    It holds nothing of what it is at work on, so one serves any number of tasks and threads at
    once::

        support = Agent("support", model="anthropic:claude-sonnet-5", tools=[find_order])
        answer = await support.run("Where is order 7?")

        async with support.thread("customer-7") as thread:
            print((await thread.send("And order 8?")).output)

    Args:
        name: what people know it by, and what it is called as a tool.
        model: `PROVIDER:MODEL`, an alias, `scripted:FILE`, `recorded:FILE`; or who answers.
        instructions: what it is told before everything, or a function that says it.
        tools: functions with `@tool`, plain functions, other agents (`Agent.as_tool`), MCP servers
            (`MCPServer`).
        deps: the type of what the program gives its tools (`ToolContext.deps`).
        output: the type of its answers; without one they are text.
        **options: see `AgentOptions`.

    Raises:
        BuildError: it cannot be an agent like this; the message says what is wrong.
        UsageError: a function cannot be a tool, or JSON cannot say a value of the output type.
    """

    # One for classes, which every checker knows, and one for unions and the like (PEP 747).
    @overload
    def __init__(
        self,
        name: str,
        *,
        model: str | Provider,
        instructions: Instructions[AgentDepsT] = "",
        tools: AnyTools = (),
        deps: type[AgentDepsT] | None = None,
        output: type[OutputT] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        *,
        model: str | Provider,
        instructions: Instructions[AgentDepsT] = "",
        tools: AnyTools = (),
        deps: type[AgentDepsT] | None = None,
        output: TypeForm[OutputT],
        **options: Unpack[AgentOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        *,
        model: str | Provider,
        instructions: Instructions[AgentDepsT] = "",
        tools: AnyTools = (),
        deps: type[AgentDepsT] | None = None,
        output: TypeForm[OutputT] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        from treadle.agent.definition import AgentDefinition

        self._definition = AgentDefinition(name, model, instructions, tools, deps, output, options)

    @property
    def name(self) -> str:
        """What people know it by."""
        return self._definition.name

    # ---- tasks ---------------------------------------------------------------------------------

    async def run(self, prompt: str, *, deps: AgentDepsT = _NO_DEPS) -> Result[OutputT]:
        """Work at a task of its own, and give the answer.

        Args:
            prompt: the task.
            deps: what its tools are given.

        Raises:
            UsageError: the prompt is empty, or `deps` is not of the agent's type.
            BudgetExceeded: a limit of steps, tokens, cost or time is used up.
            AgentFailed: the task ended without an answer.
            ApprovalNeeded: a call waits for a person; `resume_task` goes on with its thread.
            AgentError: no model answers for now; `resume_task` goes on with its thread.
            StoreError: the disk refused.
        """
        async with self.task(prompt, deps=deps) as task:
            return await task.run()

    def run_sync(self, prompt: str, *, deps: AgentDepsT = _NO_DEPS) -> Result[OutputT]:
        """`run`, for programs that are not asynchronous. Raises as `run`."""
        import asyncio

        from treadle.errors import UsageError

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(prompt, deps=deps))
        raise UsageError("an event loop is running here", hint="await agent.run(...)")

    @asynccontextmanager
    async def task(
        self, prompt: str, *, deps: AgentDepsT = _NO_DEPS
    ) -> AsyncIterator[AgentTask[OutputT]]:
        """Begin a task, durably; nothing is sent before it runs. Raises as `run`.

        Leaving it stops what is running, which stays on disk to be gone on with.
        """
        from treadle.agent.agent_task import AgentTask
        from treadle.agent.builders import make_builder
        from treadle.agent.turn_telemetry import follow_turns
        from treadle.runtime.engine import AgentEngine
        from treadle.runtime.store_calls import call_store
        from treadle.store.threads import is_slow

        agent = self._definition
        async with AsyncExitStack() as stack:
            builder = await make_builder(agent, prompt, agent.make_context(deps), stack)
            store = agent.open_store()
            engine = await call_store(is_slow(store), builder.build, AgentEngine.abandon)
            follow_turns(engine, store)
            yield await stack.enter_async_context(AgentTask[OutputT](engine))

    @asynccontextmanager
    async def resume_task(
        self, thread_id: str, *, deps: AgentDepsT = _NO_DEPS
    ) -> AsyncIterator[AgentTask[OutputT]]:
        """Go on with a task that an agent like this one began, in this process or another.

        Raises:
            UnknownThreadError: there is no such thread.
            ThreadBusyError: another process works on it.
            BuildError: this agent is not like the one that began it.
            StoreError: the thread is damaged, or the disk refused.
        """
        from treadle.agent.agent_task import AgentTask
        from treadle.agent.builders import open_engine

        async with open_engine(self._definition, thread_id, deps) as engine:
            yield AgentTask[OutputT](engine)

    # ---- tasks of a fleet ------------------------------------------------------------------------

    async def submit(
        self, prompt: str, *, key: str = "", **job: Unpack[JobOptions]
    ) -> SubmittedTask[OutputT]:
        """Begin a task that a worker of the agent's fleet works at (`Fleet.add`).

        It is durable when this returns, and in the queue. If the process dies before that, it is
        neither or a worker finds it; submitted once more with its key it is the same task.

        Args:
            prompt: the task.
            key: the program's own name for it, such as `invoice-7`; 500 characters at most. One in
                the store: a task that has it already is what is given, whatever its prompt.
            **job: see `JobOptions`.

        Raises:
            UsageError: the prompt is empty, the agent is in no fleet, there is no such model, a
                limit of the budget cannot be, or the key is that of a conversation.
            NotConfiguredError: the model's provider has no key here.
            StoreError: the store or the queue refused. Submit it again, with a key.
        """
        from treadle.agent.submitted_task import submit_task

        return await submit_task(self._definition, prompt, job, key)

    def submitted(self, key: str = "", *, thread_id: str = "") -> SubmittedTask[OutputT]:
        """A task that was submitted, in this process or another.

        Args:
            key: the program's name for it.
            thread_id: or the id of its thread.

        Raises:
            UnknownThreadError: no thread has this key.
            UsageError: the agent is in no fleet.
        """
        from treadle.agent.submitted_task import SubmittedTask, find_submitted

        found = thread_id or find_submitted(self._definition, key)
        return SubmittedTask[OutputT](self._definition, found)

    # ---- conversations -------------------------------------------------------------------------

    @asynccontextmanager
    async def thread(
        self, key: str, *, deps: AgentDepsT = _NO_DEPS
    ) -> AsyncIterator[AgentThread[OutputT]]:
        """The conversation of this name, begun if there is none; it is free again behind it.

        Args:
            key: the program's own name for it, such as `customer-7`; 500 characters at most. It
                is one in the store, whichever agent it was begun with.
            deps: what the tools are given.

        Raises:
            UsageError: it cannot be a name, or `deps` is not of the agent's type.
            ThreadBusyError: another process has it open.
            StoreError: it is damaged or in the trash, or the disk refused.
        """
        from treadle.agent.agent_thread import AgentThread
        from treadle.agent.builders import make_session_opener

        agent = self._definition
        opener = await make_session_opener(agent, agent.make_context(deps, key))
        store, session = agent.open_store(), await opener.open("")
        async with AgentThread[OutputT](key, store, opener, session, agent.form) as thread:
            yield thread

    # ---- other agents ------------------------------------------------------------------------

    def as_tool(self, description: str, name: str = "") -> AgentTool:
        """This agent as a tool of another one: each call is a task of its own, in its own thread.

        It is given the other one's `deps`; what it may use is what the other one has left.

        Args:
            description: what the other one's model reads about it.
            name: of the tool; that of the agent if not said.
        """
        from treadle.agent.definition import AgentTool

        return AgentTool(name or self.name, description, self._definition)

    def add_handoff(self, other: Agent[Any, OutputT], description: str) -> None:
        """Let this agent hand its conversations to another one, who goes on in its place.

        The model gets a tool for it. The other one has the thread from then on, with its own
        instructions, tools and model, in whatever process, until it hands it over in turn.

        Args:
            other: one with the same type of answers, and no other deps.
            description: what this agent's model reads about it.

        Raises:
            BuildError: it cannot be handed over to.
        """
        self._definition.add_handoff(other._definition, description)
