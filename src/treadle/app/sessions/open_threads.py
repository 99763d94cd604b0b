"""Opens threads for work: conversations and tasks, new ones and those that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.sessions.initial_visibility import find_initial_visibility
from treadle.app.sessions.setup import DriverParts, Setup
from treadle.app.stores import CREATOR
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.llm import Usage
from treadle.core.messages import Attachment, SeenFile
from treadle.core.task.events import TaskConfig, TaskGiven
from treadle.core.tool_families import ToolKind, names_of
from treadle.errors import UsageError
from treadle.exchange.record_text import describe_record
from treadle.outputs import Output
from treadle.runtime.engine import AgentEngine, TaskOptions
from treadle.runtime.output_modes import hold_answers
from treadle.runtime.session import Session as Session  # which the faces hold
from treadle.runtime.session import SessionOptions, make_first_input
from treadle.store.local_store import utc_now
from treadle.thread.facts import Configured, Tagged
from treadle.thread.fold import TASK

OpenThread: TypeAlias = Session | AgentEngine
OnOutput: TypeAlias = Callable[[Output], None]


class TaskRequest(Struct, frozen=True):
    """A task to be begun; `schema` is the JSON schema its answer must fit: a valid one.

    `attachments` are shown with it; their bytes are kept already. `seen` are the files in it.
    `tags` are those of its thread, `home` where its repository stays, if it works in a worktree
    that does not: the states of its files are looked for there.
    """

    text: str
    max_steps: int
    budget: TokenBudget | None = None
    schema: dict[str, Any] | None = None
    attachments: tuple[Attachment, ...] = ()
    seen: tuple[SeenFile, ...] = ()
    tags: tuple[str, ...] = ()
    home: str | None = None


def open_conversation(
    setup: Setup,
    on_output: OnOutput,
    *,
    budget: TokenBudget | None = None,
    is_private: bool = False,
    prompt: str | None = None,
    attachments: tuple[Attachment, ...] = (),
    seen: tuple[SeenFile, ...] = (),
) -> Session:
    """A session on the conversation of the setup, or on a new one.

    A new thread is never on disk without its configuration, nor without its first prompt.

    Args:
        setup: what was chosen.
        on_output: gets every output.
        budget: what one turn may use.
        is_private: whether a new thread may never leave this machine.
        prompt: the first one of a new thread, which `resume` of the session answers.
        attachments: what is shown with it; its bytes are kept already.
        seen: the files that stand in it.

    Raises:
        NotConfiguredError: no model was chosen, nor is one recorded; or it has no key.
        UsageError: the thread's folder is gone, or there is no such model.
        StoreError: the thread is busy, damaged or newer, or the disk refused.
    """
    parts = setup.build_parts()
    _warn_of_unknown_price(setup, parts.config.model_name, budget)
    folder = parts.folder
    writer = (
        setup.store.create(
            CREATOR,
            workspace=folder,
            cwd=folder,
            is_private=is_private,
            first=[
                *find_initial_visibility(setup.store.places, is_private=is_private),
                _make_configuration(parts, parts.config),
                *([] if prompt is None else [make_first_input(prompt, attachments, seen)]),
            ],
            redact=parts.redactor.redact,
        )
        if setup.thread_id is None
        else setup.store.open(setup.thread_id)
    )
    session = Session(
        writer,
        parts.provider,
        parts.tools,
        parts.config,
        parts.make_options(writer.thread_id, setup.host.people, on_output),
        SessionOptions(
            budget,
            parts.titler,
            prompt if setup.thread_id is None else None,
            parts.situation.observe,
        ),
    )
    told = map(describe_record, session.unfinished_commands)
    setup.notices.extend(words.text for words in told if words is not None)
    return session


def begin_task(
    setup: Setup, task: TaskRequest, on_output: OnOutput, *, is_private: bool
) -> AgentEngine:
    """An engine on a new thread, whose first records are the task and all that bounds it.

    Raises:
        UsageError: there is no such model.
        NotConfiguredError: no model was chosen, or it has no key.
        StoreError: the disk refused.
    """
    parts = setup.build_parts()
    _warn_of_unknown_price(setup, parts.config.model_name, task.budget)
    prompt = parts.config.system_prompt
    # A task has its own, beside what it is to do.
    config = replace(parts.config, system_prompt="", max_steps=0)
    config = hold_answers(config, task.schema, "auto", parts.provider, config.model_name)
    configured = _make_configuration(parts, config)
    given = TaskGiven(
        task.text,
        utc_now(),
        setup.choice.task_type,
        prompt,
        TaskConfig(
            max_steps=task.max_steps,
            # Short answers are good ones on a command line; an empty one is none.
            min_answer_length=1,
            output_schema=task.schema,
        ).with_digest(),
        task.budget,
        attachments=task.attachments,
        seen=task.seen,
    )
    writer = setup.store.create(
        CREATOR,
        workspace=task.home or parts.folder,
        cwd=parts.folder,
        is_private=is_private,
        machine=TASK,
        first=[
            *find_initial_visibility(setup.store.places, is_private=is_private),
            *([Tagged(task.tags)] if task.tags else []),
            configured,
            given,
        ],
        redact=parts.redactor.redact,
    )
    options = parts.make_options(writer.thread_id, setup.host.people, on_output)
    return AgentEngine(
        writer,
        parts.provider,
        parts.tools,
        configured.config,
        options,
        TaskOptions(is_new=True, situation=parts.situation.observe),
    )


def _make_configuration(parts: DriverParts, config: AgentConfig) -> Configured:
    """What the driver would record before the first request: so it need not."""
    config = config.with_limits(parts.provider.traits(config.model_name).context_tokens_max)
    config = replace(config, tools=parts.definitions)
    return Configured(config, parts.provider.name)


def reopen_task(setup: Setup, on_output: OnOutput) -> AgentEngine:
    """An engine on the task of the setup; limits and budget are those it was begun with.

    Raises:
        NoHandlerForState: its graph has states that only the program has which began it.
        UsageError: it is a sub-agent's, its folder is gone, or there is no such model.
        NotConfiguredError: its model has no key.
        StoreError: the thread is busy, damaged or newer, or the disk refused.
    """
    assert setup.thread is not None
    header = setup.thread.header
    if header.parent is not None:
        raise UsageError(
            f"thread {header.thread} is a sub-agent's; it goes on with the thread it works for",
            hint=f"treadle show {header.parent}",
        )
    parts = setup.build_parts()
    writer = setup.store.open(header.thread)
    try:
        options = parts.make_options(writer.thread_id, setup.host.people, on_output)
        task = TaskOptions(situation=parts.situation.observe)
        return AgentEngine(writer, parts.provider, parts.tools, parts.config, options, task)
    except BaseException:
        writer.close()
        raise


def reopen_thread(
    setup: Setup, on_output: OnOutput, *, budget: TokenBudget | None = None
) -> OpenThread:
    """The thread of the setup, whatever it holds. Raises as `open_conversation`, `reopen_task`.

    What only the program can do that began the thread is refused before anything is recorded.
    """
    refuse_foreign_tools(setup)
    if setup.is_task:
        return reopen_task(setup, on_output)
    return open_conversation(setup, on_output, budget=budget)


def refuse_foreign_tools(setup: Setup) -> None:
    """Calls would end as "tool not found", a person's yes to them would be used up.

    Raises:
        UsageError: the thread of the setup needs tools that only the program has which began it.
    """
    assert setup.thread is not None
    machine, ours = setup.thread.machine, names_of(*ToolKind)
    if setup.is_task and not setup.thread.is_idle:
        needed = {tool.name for tool in machine.config.tools}
    else:
        needed = {question.call.tool_name for question in machine.questions}
    if foreign := sorted(one for one in needed - ours if not setup.servers.owns(one)):
        thread = setup.thread.header.thread
        raise UsageError(
            f"thread {thread} works with tools of the program that began it: {', '.join(foreign)}",
            hint=f"go on with it from that program: AgentBuilder(...).resume({thread!r})",
        )


def _warn_of_unknown_price(setup: Setup, model_name: str, budget: TokenBudget | None) -> None:
    """A limit of cost counts what is known to be spent, which is nothing then."""
    if budget is None or budget.max_cost_usd is None:
        return
    from treadle.models.prices.table import compute_price

    provider, _, model = model_name.partition(":")
    entry = setup.loaded.catalog.providers.get(provider)
    priced_as = (entry and entry.prices) or provider
    if compute_price(priced_as, model, Usage(1, 1)) is None:
        setup.notices.append(
            f"the price of {model_name} is not known: --max-tokens can stop it, --max-cost cannot"
        )
