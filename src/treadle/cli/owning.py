"""Goes on with a thread that was made elsewhere: first it becomes this user's own.

Whoever sent it could have written anything into it: calls that nobody here has seen, a yes to all
of them, instructions to the model. What was said stays, what was allowed does not count.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from treadle.cli.setup import Setup
from treadle.core.chat.states import WaitingForUserInput
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import CancelRequested, Rewound
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import EffectClass
from treadle.errors import UsageError
from treadle.store.writer import ThreadWriter
from treadle.thread.facts import Configured
from treadle.tools.builtin import builtin_tools
from treadle.workspace.redact import Redactor, collect_secrets

REASON: Final = "the thread was taken in from elsewhere; what was open in it is not gone on with"


def make_own(setup: Setup) -> Setup:
    """The setup for the thread as it is when nothing in it counts that somebody else allowed.

    Calls and prompts that were open are given up; approval mode, limits and system prompt are those
    of a new thread here. All of that is durable before the thread counts as this user's own.

    Raises:
        UsageError: it is a task that is not over, or its folder is gone.
        StoreError: the thread is busy, damaged or newer, or the disk refused.
    """
    assert setup.thread is not None
    thread = setup.thread.header.thread
    machine = setup.thread.machine
    if isinstance(machine, TaskMachine):
        if not machine.is_over:
            raise UsageError(
                f"thread {thread} is a task that was begun elsewhere: what is open in it, and what "
                "was allowed for it, nobody here has said yes to",
                hint=f"`treadle show {thread}` tells it; `treadle run TASK` begins it anew",
            )
        return setup
    approval = setup.new_approval()
    settings = setup.loaded.settings
    config = AgentConfig(
        model_name=machine.config.model_name,
        system_prompt=setup.system_prompt(setup.workspace()),
        tools=tuple(
            tool.definition
            for tool in builtin_tools()
            if not approval.only_reads or tool.definition.effect is EffectClass.READ
        ),
        max_tokens=settings.max_tokens or 0,
        temperature=settings.temperature,
        reasoning=settings.reasoning,
        approval=approval.policy,
        context_tokens_max=machine.config.context_tokens_max,
    )
    writer = setup.store.open(thread)
    try:
        was_open = _give_up(writer)
        redact = Redactor(collect_secrets(os.environ, Path.home())).redact
        writer.stage(Configured(config, writer.fold.provider), redact)
        writer.commit()
        setup.store.adopted.make_own(thread, writer.head.seq)
    finally:
        writer.close()
    given_up = "what was open in it is given up, and " if was_open else ""
    text = (
        f"thread {thread} was taken in from elsewhere: {given_up}nothing that was allowed there "
        f"counts here; approval mode {approval.name}"
    )
    click.echo(text, err=True)
    return replace(setup, thread=setup.store.load(thread).fold)


def _give_up(writer: ThreadWriter) -> bool:
    """Bring the conversation to rest, with no prompt left to be delivered; whether there was one.

    The yes to a call is for its run and goes with it, as do those for the rest of the thread.
    """
    fold = writer.fold
    machine = fold.machine
    assert not isinstance(machine, TaskMachine)
    has_queued = bool(fold.queued)
    is_open = not isinstance(machine.state, WaitingForUserInput)
    if is_open:
        writer.stage(CancelRequested(reason=REASON, at=writer.now()))
    if has_queued:
        said = fold.conversation
        assert isinstance(said, Conversation)
        view = said.view
        writer.stage(Rewound(fold.version, view, writer.now()))
    return is_open or has_queued
