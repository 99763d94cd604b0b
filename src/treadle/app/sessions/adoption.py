"""Goes on with a thread that was made elsewhere: first it becomes this user's own.

Whoever sent it could have written anything into it: calls that nobody here has seen, a yes to all
of them, instructions to the model. What was said stays, what was allowed does not count.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from treadle.app.sessions.approval_modes import Approval
from treadle.app.sessions.setup import Setup
from treadle.app.sessions.system_prompt import make_system_prompt
from treadle.core.chat.states import WaitingForUserInput
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import CancelRequested, Rewound
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import EffectClass, ToolDefinition
from treadle.errors import UsageError
from treadle.runtime.defaults import make_user_redactor
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import Configured, TakenOver
from treadle.tools.builtin import builtin_tools

CANCEL_REASON: Final = (
    "the thread was taken in from elsewhere; what was open in it is not gone on with"
)


def adopt_thread(setup: Setup) -> Setup:
    """The setup for the thread as it is when nothing in it counts that somebody else allowed.

    Approval mode, limits and system prompt are those of a new thread here. What was open in it is
    given up. In a thread that was this user's own on another machine only calls that had begun are;
    questions and prompts stay, and a task goes on, without any yes. All of that is durable before
    the thread counts as this user's own.

    Raises:
        UsageError: it is somebody else's task that is not over, or its folder is gone.
        StoreError: the thread is busy, damaged or newer, or the disk refused.
    """
    assert setup.thread is not None
    thread = setup.thread.header.thread
    machine = setup.thread.machine
    is_mine = setup.store.adopted.is_mine(thread)
    if isinstance(machine, TaskMachine):
        if machine.is_over:
            return setup
        if not is_mine:
            raise UsageError(
                f"thread {thread} is a task that was begun elsewhere: what is open in it, and what "
                "was allowed for it, nobody here has said yes to",
                hint=f"`treadle show {thread}` tells it; `treadle run TASK` begins it anew",
            )
    approval = setup.choose_new_approval()
    if isinstance(machine, TaskMachine) and machine.round and approval.asks_nothing:
        raise UsageError(
            f"thread {thread} is a task that has calls open which were made on another machine",
            hint="--approval-mode ask goes on with it, and asks before any of them runs here",
        )
    config = _build_config(setup, approval)
    folder = setup.workspace()
    writer = setup.store.open(thread)
    try:
        was_open = _take_over(writer) if is_mine else _abandon_open_work(writer)
        redact = make_user_redactor().redact
        writer.stage(Configured(config, writer.fold.provider), redact)
        writer.commit()
        setup.store.adopted.mark_own(thread, writer.head.seq)
    finally:
        writer.close()
    given_up = "what was open in it is given up, and " if was_open else ""
    origin = "was gone on with on another machine" if is_mine else "was taken in from elsewhere"
    text = (
        f"thread {thread} {origin}: {given_up}nothing that was allowed there counts here; "
        f"approval mode {approval.name}; it works in {folder}"
    )
    setup.host.notify(text)
    return replace(setup, thread=setup.store.load(thread).fold)


def _build_config(setup: Setup, approval: Approval) -> AgentConfig:
    """As a new thread here would have it; a task keeps what it was told first, and its tools."""
    assert setup.thread is not None
    machine, settings = setup.thread.machine, setup.loaded.settings
    is_task, folder = isinstance(machine, TaskMachine), setup.workspace()
    tools = _select_tools(setup)
    if is_task:
        return replace(machine.config, tools=tools, approval=approval.policy).without_grants()
    observer = setup.make_observer(folder, setup.make_sandbox(folder))
    begun = observer.observe_beginning(approval.name)
    family = setup.choose_family()
    return AgentConfig(
        model_name=machine.config.model_name,
        system_prompt=make_system_prompt(begun, setup.store.places, family, setup.notices),
        tools=tools,
        max_tokens=settings.max_tokens or 0,
        temperature=settings.temperature,
        reasoning=settings.reasoning,
        web_search=settings.web_search,
        approval=approval.policy,
        context_tokens_max=machine.config.context_tokens_max,
        compact_at_tokens=settings.compact_at,
        family=family,
    )


def _select_tools(setup: Setup) -> tuple[ToolDefinition, ...]:
    assert setup.thread is not None
    machine = setup.thread.machine
    offered = {tool.name for tool in machine.config.tools}
    return tuple(
        tool.definition
        for tool in builtin_tools(setup.choose_family())
        if not isinstance(machine, TaskMachine) or tool.definition.name in offered
    )


def find_excluded_tool(setup: Setup) -> tuple[str, str]:
    """The mode the thread will have when it becomes this user's own, and a tool that it refuses.

    Of the tools whose calls wait; empty if there is none. Nothing waits any more in a thread that
    somebody else has made.
    """
    assert setup.thread is not None
    approval = setup.choose_new_approval()
    if not setup.store.adopted.is_mine(setup.thread.header.thread):
        return approval.name, ""
    offered = {
        tool.name
        for tool in _select_tools(setup)
        if not approval.only_reads or tool.effect is EffectClass.READ
    }
    waiting = (one.call.tool_name for one in setup.thread.machine.questions)
    return approval.name, next((name for name in waiting if name not in offered), "")


def _take_over(writer: ThreadWriter) -> bool:
    """No yes counts any more, and no call begun elsewhere is open; whether there was one."""
    writer.stage(TakenOver())
    machine = writer.fold.machine
    is_open = not isinstance(machine, TaskMachine) and bool(machine.round)
    if is_open:
        writer.stage(CancelRequested(reason=CANCEL_REASON, at=writer.now()))
    return is_open


def _abandon_open_work(writer: ThreadWriter) -> bool:
    """Bring the conversation to rest, with no prompt left to be delivered; whether there was one.

    The yes to a call is for its run and goes with it, as do those for the rest of the thread.
    """
    fold = writer.fold
    machine = fold.machine
    assert not isinstance(machine, TaskMachine)
    has_queued = bool(fold.queued)
    is_open = not isinstance(machine.state, WaitingForUserInput)
    if is_open:
        writer.stage(CancelRequested(reason=CANCEL_REASON, at=writer.now()))
    if has_queued:
        said = fold.conversation
        assert isinstance(said, Conversation)
        view = said.view
        writer.stage(Rewound(fold.version, view, writer.now()))
    return is_open or has_queued
