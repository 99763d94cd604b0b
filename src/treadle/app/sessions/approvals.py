"""Answers to the calls that wait in a thread for a person's yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.sessions.adoption import find_excluded_tool
from treadle.app.sessions.host import Host
from treadle.app.sessions.open_threads import OnOutput, OpenThread, reopen_thread
from treadle.app.sessions.setup import RunChoice, Setup
from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
from treadle.app.sessions.thread_work import WorkResult, work_on_thread
from treadle.app.threads.changed_calls import check_changed_arguments
from treadle.core.approval import (
    NO_SCOPE,
    Approved,
    Decision,
    Modified,
    OnlyRead,
    Question,
    Rejected,
    Scope,
)
from treadle.core.tools import Access
from treadle.errors import UsageError
from treadle.outputs import TurnFinished
from treadle.store.local_store import LocalStore
from treadle.thread.question_text import (
    describe_cut,
    describe_possible_grant,
    escape_name,
)

_UNKNOWN_FOLDER: Final = "the folder it would run in is not here, so nobody can tell what it does"


class WaitingCalls(Struct, frozen=True):
    """The calls of a thread that wait; `refused_tool` needs another approval mode than `mode`."""

    thread: str
    questions: tuple[Question, ...]
    mode: str = ""
    refused_tool: str = ""


class ApprovalAnswer(Struct, frozen=True):
    """What a person says of the calls: no, with a reason; yes; or yes with other arguments.

    `always` goes with a yes: calls of the same kinds, up to the same risk, are allowed for the rest
    of the thread.
    """

    reason: str | None = None
    arguments_json: str | None = None
    always: bool = False


class CallDecisions(Struct, frozen=True):
    """What becomes of each call by its id; tools, and kinds by call, that are allowed for good."""

    decisions: Mapping[str, Decision]
    tools: tuple[str, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = {}


def read_waiting_calls(
    store: LocalStore,
    thread: str,
    *,
    call: str | None = None,
    host: Host = Host(),  # noqa: B008  it is frozen
) -> WaitingCalls:
    """The calls that wait, or the one whose id begins with `call`; nothing is changed.

    Raises:
        UsageError: nothing waits, or no one call is meant.
        StoreError: there is no one thread of that name, or it cannot be read.
    """
    fold = store.load(store.resolve(thread)).fold
    thread = fold.header.thread
    questions = _select_questions(thread, fold.machine.questions, call)
    is_foreign = store.adopted.is_foreign(thread)
    if not is_foreign and all(one.scope != NO_SCOPE for one in questions):
        return WaitingCalls(thread, questions)
    setup = make_setup(store, RunChoice(), ThreadTarget(thread=thread, is_for_fork=True), host)
    questions = _fill_scopes(setup, questions)
    mode, refused = find_excluded_tool(setup) if is_foreign else ("", "")
    return WaitingCalls(thread, questions, mode, refused)


def check_mode(setup: Setup) -> None:
    """Refuse a yes in a thread of another machine, before anything of it is changed here.

    Raises:
        UsageError: the approval mode of this machine leaves out a tool whose call waits.
    """
    mode, tool = find_excluded_tool(setup)
    if tool:
        raise UsageError(
            f"the approval mode of this machine, {mode}, leaves {tool} out; nothing was changed",
            hint=f"treadle approve {setup.thread_id} --yes --approval-mode ask",
        )


def decide_calls(setup: Setup, call: str | None, answer: ApprovalAnswer) -> CallDecisions:
    """What an answer means for each call that waits, or for the one whose id begins with `call`.

    Raises:
        UsageError: nothing waits; no one call is meant; the arguments do not fit; the thread's mode
            refuses the tool; or a call can only be allowed by itself.
    """
    assert setup.thread is not None
    chosen = _select_questions(setup.thread.header.thread, setup.thread.machine.questions, call)
    if answer.reason is not None:
        return CallDecisions({one.call.id: Rejected(answer.reason) for one in chosen})
    chosen = _fill_scopes(setup, chosen)
    _refuse_excluded_tools(setup, chosen)
    arguments = answer.arguments_json
    if arguments is None:
        tools, kinds = _list_lasting_grants(chosen) if answer.always else ((), {})
        return CallDecisions({one.call.id: Approved() for one in chosen}, tools, kinds)
    if len(chosen) > 1:
        calls = ", ".join(one.call.id for one in chosen)
        raise UsageError("--args needs a CALL: several wait", hint=f"those that wait: {calls}")
    check_changed_arguments(chosen[0], arguments)
    return CallDecisions({chosen[0].call.id: Modified(arguments)})


async def approve_calls(
    setup: Setup, answer: ApprovalAnswer, on_output: OnOutput, *, call: str | None = None
) -> WorkResult:
    """Answer the calls that wait, go on to the end of the turn, close: what `treadle approve` does.

    Args:
        setup: the thread, with its settings: of `make_setup`.
        answer: what a person says.
        on_output: gets every output, in order.
        call: the beginning of the id of the one call that is answered; `None` for all.

    Raises:
        UsageError: as `decide_calls`; nothing was changed.
        ThreadBusyError: another process has the thread open.
        TreadleError: no model has a key, or the disk refused.
    """
    calls = decide_calls(setup, call, answer)
    return await work_on_thread(
        setup,
        lambda: reopen_thread(setup, on_output),
        lambda opened: answer_calls(opened, calls),
    )


async def answer_calls(opened: OpenThread, calls: CallDecisions) -> TurnFinished:
    """Give the answer, and go on to the end of the turn."""
    return await opened.decide(calls.decisions, grant=calls.tools, kinds=calls.kinds)


def _fill_scopes(setup: Setup, questions: tuple[Question, ...]) -> tuple[Question, ...]:
    """The questions, with the scope of the calls that a fork has without one, as things are here.

    Without it a person would not see what is dangerous in a call, and a yes for the rest of the
    thread would be for all calls of its tool.
    """
    if all(one.scope != NO_SCOPE for one in questions):
        return questions
    try:
        folder = setup.workspace()
    except UsageError:  # the folder is gone: what waits can be read all the same
        unknown = Scope(reasons=(_UNKNOWN_FOLDER,), must_ask=True)
        return tuple(
            replace(one, scope=unknown) if one.scope == NO_SCOPE else one for one in questions
        )
    tools = setup.make_tools(folder, setup.make_sandbox(folder))
    return tuple(
        replace(one, scope=tools.scope_of(one.call) or NO_SCOPE) if one.scope == NO_SCOPE else one
        for one in questions
    )


def _list_lasting_grants(
    chosen: Sequence[Question],
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The tools, and by call the kinds, that are allowed for the rest of the thread.

    Raises:
        UsageError: one of the calls can only be allowed by itself.
    """
    for one in chosen:
        if not describe_possible_grant(one):
            name, call = escape_name(one.call.tool_name), escape_name(one.call.id)
            why = "it is of no kind that a grant could name"
            if describe_cut(one.call.arguments_json):
                why = "a question does not show all of it"
            raise UsageError(
                f"call {call} of {name} can only be allowed by itself: {why}; nothing was answered",
                hint="--yes without --always",
            )
    tools = dict.fromkeys(one.call.tool_name for one in chosen if not one.scope.kinds)
    return tuple(tools), {one.call.id: one.scope.kinds for one in chosen if one.scope.kinds}


def _refuse_excluded_tools(setup: Setup, chosen: Sequence[Question]) -> None:
    """A yes to a tool that the thread's mode refuses or leaves out would be used up for nothing."""
    assert setup.thread is not None
    mode = setup.choice.mode
    if mode not in (None, "plan"):
        return
    config = setup.thread.machine.config
    offered = {tool.name for tool in config.tools}
    only_reads = mode == "plan" or isinstance(config.approval, OnlyRead)
    for question in chosen:
        writes = config.access_of(question.call, question.scope) is Access.WRITE
        if (only_reads and writes) or question.call.tool_name not in offered:
            raise UsageError(
                f"the approval mode of this thread refuses {question.call.tool_name}",
                hint=f"treadle approve {setup.thread_id} --yes --approval-mode ask",
            )


def _select_questions(
    thread: str, questions: Sequence[Question], call: str | None
) -> tuple[Question, ...]:
    """The questions that are meant: all, or the one whose call's id begins with `call`.

    Raises:
        UsageError: nothing waits, or no one call is meant.
    """
    if not questions:
        raise UsageError(
            f"thread {thread} waits for no approval",
            hint=f"treadle resume {thread} goes on with it",
        )
    if call is None:
        return tuple(questions)
    exact = tuple(one for one in questions if one.call.id == call)
    found = exact or tuple(one for one in questions if one.call.id.startswith(call))
    if len(found) == 1:
        return found
    calls = ", ".join(one.call.id for one in questions)
    how_many = "no call that waits begins" if not found else f"{len(found)} calls begin"
    raise UsageError(f"{how_many} with {call!r}", hint=f"those that wait: {calls}")
