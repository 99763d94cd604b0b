"""The sub-agents that a model can hand a job to: each an agent in a thread of its own.

One only reads, whatever the approval mode: it explores, and its reading fills its own context. The
other works as the agent itself does, and what it changes is committed with the round of the agent.
Neither has sub-agents of its own, so their number is what a model asks for in a round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.answers import Verdict
from treadle.app.stores import CREATOR
from treadle.app.threads.call_text import describe_call
from treadle.core.approval import OnlyRead, Question
from treadle.core.config import AgentConfig
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import TaskConfig, TaskGiven
from treadle.core.task.machine import TaskMachine
from treadle.core.tool_families import OWN_NAMES, ToolKind
from treadle.core.tools import EffectClass, Outcome, ToolProgress
from treadle.outputs import Output, ToolStarted
from treadle.runtime.conversation_rules import ObserveSituation
from treadle.runtime.engine import AgentEngine, TaskOptions
from treadle.runtime.options import DriverOptions
from treadle.runtime.ports import Provider, TextRedactor, Tools
from treadle.runtime.subagents import (
    CallWork,
    ChildEngine,
    ParentCall,
    SubAgent,
    work_directly,
)
from treadle.store.local_store import LocalStore, utc_now
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import Configured
from treadle.thread.fold import TASK
from treadle.thread.situation import append_news

STEPS_MAX: Final = 60
"""Requests of one job; more than that is no bounded job."""
TASK_TYPE: Final = "sub_agent"
"""The kind of task by which the settings choose a model for them."""
_TASK_LENGTH: Final = 60
"""Characters of a job that stand in a question to a person."""
_PROMPT: Final = (
    "You are a sub-agent: an agent has handed you the job below, and reads nothing of what you do "
    "but your last answer. Do this job and no more. Say in that answer what was asked for, with "
    "the files and lines it stands on, and what you could not find out. Commands that you leave in "
    "the background are stopped when you give it."
)
_READS: Final = "You only read: calls that would change something are refused."


class SubAgentKind(Struct, frozen=True):
    """One of the tools: its name, what its model is told, whether its agents only read."""

    name: str
    description: str
    only_reads: bool


KINDS: Final = (
    SubAgentKind(
        OWN_NAMES[ToolKind.EXPLORE],
        "Have a sub-agent find something out in the folder: it reads, searches and runs commands "
        "that change nothing, in a context of its own, and you get its answer alone. Use it where "
        "much has to be read for a short answer; several calls in one round work side by side. It "
        "knows nothing of this conversation: say in the task all that it needs.",
        only_reads=True,
    ),
    SubAgentKind(
        OWN_NAMES[ToolKind.DELEGATE],
        "Hand a bounded job to a sub-agent that has your tools and may change files as you may, in "
        "a context of its own; you get its last answer. Jobs that run side by side must not touch "
        "the same files. It knows nothing of this conversation: say in the task all that it needs, "
        "and how it can see that it is done.",
        only_reads=False,
    ),
)


class SubAgentParts(Struct, frozen=True):
    """What the sub-agents of one thread are made of.

    `system_prompt` is that of the agent, `situation` how things stand when a job is begun.
    `model_name` is the model that answers them; empty for that of the agent. `reading` are the
    tools of those who only read, `working` of the others. `around` is what happens around a call.
    """

    store: LocalStore
    folder: str
    system_prompt: str
    situation: ObserveSituation
    model_name: str
    open_provider: Callable[[str], Provider]
    reading: Tools
    working: Tools
    redactor: TextRedactor
    around: Callable[[ToolCall, CallWork], Awaitable[Outcome]] = work_directly


def make_sub_agents(parts: SubAgentParts) -> tuple[SubAgent, ...]:
    """The tools whose calls sub-agents work on."""
    return tuple(_make_sub_agent(parts, kind) for kind in KINDS)


def _make_sub_agent(parts: SubAgentParts, kind: SubAgentKind) -> SubAgent:
    tools = parts.reading if kind.only_reads else parts.working

    def begin(task: str, origin: ParentCall) -> AgentEngine:
        name = parts.model_name or origin.config.model_name
        provider = parts.open_provider(name)
        limit = provider.traits(name).context_tokens_max
        # Without what a person has allowed in the thread of the agent.
        config = replace(
            replace(origin.config, context_tokens_max=0).with_limits(limit),
            model_name=name,
            system_prompt="",
            max_steps=0,
            tools=tuple(tools.definitions()),
            granted={},
            grants=(),
        )
        writer = parts.store.create(
            CREATOR,
            workspace=parts.folder,
            cwd=parts.folder,
            is_private=origin.is_private,
            machine=TASK,
            parent=(origin.thread, origin.call, origin.depth),
            first=[
                Configured(config, provider.name),
                _give_task(parts, kind, task, origin),
            ],
            redact=parts.redactor.redact,
        )
        return make_engine(writer, origin, is_new=True)

    def reopen(thread_id: str, origin: ParentCall) -> AgentEngine:
        return make_engine(parts.store.open(thread_id), origin, is_new=False)

    def make_engine(writer: ThreadWriter, origin: ParentCall, *, is_new: bool) -> AgentEngine:
        machine = writer.fold.machine
        assert isinstance(machine, TaskMachine)
        policy = OnlyRead() if kind.only_reads else origin.config.approval
        options = DriverOptions(
            redactor=parts.redactor,
            approve=_name_asker(origin, machine.memory.task),
            on_output=_make_report(origin.progress),
        )
        return AgentEngine(
            writer,
            parts.open_provider(machine.config.model_name),
            tools,
            replace(machine.config, approval=policy),
            options,
            TaskOptions(
                is_new=is_new,
                # What only reads does so in every mode, and was told so.
                situation=None if kind.only_reads else parts.situation,
            ),
        )

    def follow(child: ChildEngine, config: AgentConfig) -> None:
        # Who chooses to plan now does not expect that files are changed any more.
        assert isinstance(child, AgentEngine)
        if not kind.only_reads and child.driver.config.approval != config.approval:
            child.driver.configure(replace(child.driver.config, approval=config.approval))

    effect = EffectClass.READ if kind.only_reads else EffectClass.IDEMPOTENT
    return SubAgent(kind.name, kind.description, begin, reopen, effect, follow, parts.around)


def _give_task(
    parts: SubAgentParts, kind: SubAgentKind, task: str, origin: ParentCall
) -> TaskGiven:
    own = f"{_PROMPT} {_READS}" if kind.only_reads else _PROMPT
    # What the agent was told when its thread began may be another fact by now: the mode above all.
    told = append_news(
        parts.situation(origin.config).changing_lines,
        parts.system_prompt,
        (),
        Message("system", parts.system_prompt),
    )
    return TaskGiven(
        task,
        utc_now(),
        TASK_TYPE,
        f"{told.content}\n\n{own}",
        TaskConfig(max_steps=STEPS_MAX, min_answer_length=1).with_digest(),
        origin.budget,
    )


def _name_asker(origin: ParentCall, task: str) -> Callable[[Question], Awaitable[Verdict]]:
    """Ask who is asked for the agent, and say whose call it is."""
    # On one line: a model wrote it, and a line of its own could pass for one of the question.
    line = " ".join(task.split())
    named = line if len(line) <= _TASK_LENGTH else f"{line[:_TASK_LENGTH]}…"

    async def approve(question: Question) -> Verdict:
        reason = f'{question.reason}; a sub-agent asks, whose job is: "{named}"'
        return await origin.approve(replace(question, reason=reason))

    return approve


def _make_report(progress: Callable[[ToolProgress], None]) -> Callable[[Output], None]:
    """Tell each call of a sub-agent as the progress of the call that it works on."""
    count = 0

    def report(output: Output) -> None:
        nonlocal count
        if isinstance(output, ToolStarted):
            count += 1
            progress(ToolProgress(message=describe_call(output.call), units_processed=count))

    return report
