"""`treadle approve`: answer what a thread waits for, and go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from treadle.cli import options
from treadle.cli.json_output import print_json

if TYPE_CHECKING:
    from treadle.cli.setup import Setup
    from treadle.core.approval import Decision, Question


@click.command("approve")
@click.argument("thread", metavar="ID")
@click.argument("call", metavar="[CALL]", required=False)
@click.option("--yes", is_flag=True, help="Run it: all calls that wait, or CALL.")
@click.option("--no", "reason", metavar="REASON", help="Do not run it; the agent reads REASON.")
@click.option(
    "--args", "arguments", metavar="JSON", help="Run it with these arguments: a JSON object."
)
@click.option(
    "--always",
    is_flag=True,
    help="With --yes: and calls of its kinds, up to the same risk, for the rest of the thread.",
)
@click.option("--grants", is_flag=True, help="What is allowed for the rest of the thread.")
@click.option("--revoke", metavar="WHAT", help="Take back a kind, or all of a tool.")
@click.option("--json", "as_json", is_flag=True, help="What waits, as a JSON array; not answered.")
@options.model_option("Go on with another model.")
@options.folder_option
@options.mode_option("Go on with another mode: plan, ask, auto-edit, auto. Default: as before.")
@options.format_option
@options.limit_options("the rest of this turn")
@options.run_options
@click.pass_context
def command(ctx: click.Context, /, thread: str, call: str | None, **given: Any) -> None:
    """Show what a thread waits for; or answer it, and go on to the end as `treadle resume` does.

    \b
    treadle approve ID                    what waits, and how to answer
    treadle approve ID --yes              run all of it
    treadle approve ID --no "not now"     the agent is told, and goes on without
    treadle approve ID CALL --args '{"command": "make test"}'
    treadle approve ID CALL --yes --always
    treadle approve ID --grants           what is allowed for the rest of the thread
    treadle approve ID --revoke "git status"

    ID and CALL may be any unique beginning. Without CALL, --yes and --no answer all calls that
    wait. Other calls of the same answer run when all of them are answered. Without an answer
    nothing is changed. --always is for the kinds that a question names (`git status`, `src/`); a
    call without any can only be allowed by itself. Exit codes: 2 if nothing waits; 4 if something
    still does, or does again.
    """  # noqa: D301  click reads the backspace
    answers = [name for name in ("yes", "reason", "arguments") if given[name] not in (None, False)]
    if given["grants"] or given["revoke"] is not None:
        _grants(thread, call, answers, **given)
        return
    if len(answers) > 1:
        raise click.UsageError("--yes, --no and --args answer differently: give one of them")
    if given["always"] and answers != ["yes"]:
        raise click.UsageError("--always goes with --yes")
    if given["as_json"] and answers:
        raise click.UsageError("--json shows what waits; --output-format is for what follows")
    if not answers:
        _show(thread, call, as_json=given["as_json"])
        return
    ctx.exit(_answer(thread, call, **given))


def _grants(thread: str, call: str | None, answers: Sequence[str], **given: Any) -> None:
    """Show what is allowed for the rest of the thread, or take some of it back."""
    from treadle.cli.grants import revoke, show_grants

    if call is not None or answers or given["always"] or (given["grants"] and given["revoke"]):
        raise click.UsageError("--grants and --revoke answer nothing: give one of them, by itself")
    if given["revoke"] is None:
        show_grants(thread, as_json=given["as_json"])
    elif given["as_json"]:
        raise click.UsageError("--json goes with --grants, not with --revoke")
    else:
        revoke(thread, given["revoke"])


def _show(thread: str, call: str | None, *, as_json: bool) -> None:
    from treadle.cli.questions import show_waiting
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    store = LocalStore(Places.find())
    fold = store.load(store.resolve(thread)).fold
    questions = _chosen(fold.header.thread, fold.machine.questions, call)
    if as_json:
        print_json(questions)
    else:
        show_waiting(fold.header.thread, questions, err=False)
        if store.adopted.is_foreign(fold.header.thread):
            _show_mode(fold.header.thread)


def _show_mode(thread: str) -> None:
    """What is to be said besides a yes, in a thread that was gone on with on another machine."""
    from treadle.cli.adoption import to_be_left_out
    from treadle.cli.command_setup import make_setup
    from treadle.cli.setup import Choice

    mode, tool = to_be_left_out(make_setup(Choice(), thread=thread, is_for_fork=True))
    if tool:
        click.echo(f"a yes needs --approval-mode ask: the mode here, {mode}, leaves {tool} out")


def _answer(thread: str, call: str | None, **given: Any) -> int:
    from treadle.cli.busy_threads import or_watch
    from treadle.cli.command_setup import make_setup
    from treadle.cli.render import make_renderer
    from treadle.cli.setup import Choice
    from treadle.cli.threads import Opened, open_recorded
    from treadle.cli.work_loop import drive
    from treadle.runtime.outputs import TurnFinished

    setup = make_setup(
        Choice(
            given["model"],
            given["approval_mode"],
            record=given["record"],
            sandbox=given["sandbox"],
            network=given["network"],
        ),
        folder=given["cwd"],
        no_commit=given["no_commit"],
        thread=thread,
        before_owning=None if given["reason"] is not None else _refuse_to_be_left_out,
    )
    budget = options.budget_of(given["max_tokens"], given["max_cost"], given["time_limit"])
    if setup.is_task and budget is not None:
        raise click.UsageError("the limits of a task are those it was begun with")
    decisions, chosen = _decide(setup, call, **given)
    tools, kinds = _for_good(chosen) if given["always"] else ((), {})
    renderer = make_renderer(given["output_format"])

    async def work(opened: Opened) -> TurnFinished:
        return await opened.decide(decisions, grant=tools, kinds=kinds)

    def answer() -> int:
        return drive(
            setup, renderer, lambda: open_recorded(setup, renderer.show, budget=budget), work
        )

    return or_watch(setup.store, answer)


def _decide(
    setup: Setup, call: str | None, **given: Any
) -> tuple[dict[str, Decision], tuple[Question, ...]]:
    """What becomes of each call, and the questions about them."""
    from treadle.cli.questions import read_object
    from treadle.core.approval import Approved, Modified, Rejected
    from treadle.errors import UsageError

    assert setup.thread is not None
    waiting = setup.thread.machine.questions
    chosen = _chosen(setup.thread.header.thread, waiting, call)
    arguments = given["arguments"]
    if given["reason"] is not None:
        return {one.call.id: Rejected(given["reason"]) for one in chosen}, chosen
    _refuse_left_out(setup, chosen)
    if arguments is None:
        return {one.call.id: Approved() for one in chosen}, chosen
    if len(chosen) > 1:
        calls = ", ".join(one.call.id for one in chosen)
        raise UsageError("--args needs a CALL: several wait", hint=f"those that wait: {calls}")
    if read_object(arguments) is None:
        raise UsageError("--args takes a JSON object", hint="""--args '{"command": "ls"}'""")
    _refuse_misfit(chosen[0], arguments)
    return {chosen[0].call.id: Modified(arguments)}, chosen


def _for_good(
    chosen: Sequence[Question],
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The tools, and by call the kinds, that are allowed for the rest of the thread.

    Raises:
        UsageError: one of the calls can only be allowed by itself.
    """
    from treadle.cli.questions import cut_words, in_general, in_line
    from treadle.errors import UsageError

    for one in chosen:
        if not in_general(one):
            name, call = in_line(one.call.tool_name), in_line(one.call.id)
            why = "it is of no kind that a grant could name"
            if cut_words(one.call.arguments_json):
                why = "a question does not show all of it"
            raise UsageError(
                f"call {call} of {name} can only be allowed by itself: {why}; nothing was answered",
                hint="--yes without --always",
            )
    tools = dict.fromkeys(one.call.tool_name for one in chosen if not one.scope.kinds)
    return tuple(tools), {one.call.id: one.scope.kinds for one in chosen if one.scope.kinds}


def _refuse_to_be_left_out(setup: Setup) -> None:
    """The same for a thread of another machine, before anything of it is changed here."""
    from treadle.cli.adoption import to_be_left_out
    from treadle.errors import UsageError

    mode, tool = to_be_left_out(setup)
    if tool:
        raise UsageError(
            f"the approval mode of this machine, {mode}, leaves {tool} out; nothing was changed",
            hint=f"treadle approve {setup.thread_id} --yes --approval-mode ask",
        )


def _refuse_left_out(setup: Setup, chosen: Sequence[Question]) -> None:
    """A yes to a tool that the thread's mode refuses or leaves out would be used up for nothing."""
    from treadle.core.approval import OnlyRead
    from treadle.errors import UsageError

    assert setup.thread is not None
    mode = setup.choice.mode
    if mode not in (None, "plan"):
        return
    config = setup.thread.machine.config
    offered = {tool.name for tool in config.tools}
    only_reads = mode == "plan" or isinstance(config.approval, OnlyRead)
    for question in chosen:
        if only_reads or question.call.tool_name not in offered:
            raise UsageError(
                f"the approval mode of this thread refuses {question.call.tool_name}",
                hint=f"treadle approve {setup.thread_id} --yes --approval-mode ask",
            )


def _refuse_misfit(question: Question, arguments: str) -> None:
    """Arguments that the tool would not take are said to be wrong before the question is gone."""
    from treadle.errors import UsageError
    from treadle.tools.builtin import builtin_tools
    from treadle.tools.failure import ToolFailure

    for tool in builtin_tools():
        if tool.definition.name == question.call.tool_name:
            try:
                tool.signature.parse(arguments)
            except ToolFailure as failure:
                raise UsageError(
                    f"{question.call.tool_name} does not take these arguments: {failure.message}",
                    hint="nothing was answered; give the whole of them as a JSON object",
                ) from None


def _chosen(thread: str, questions: Sequence[Question], call: str | None) -> tuple[Question, ...]:
    """The questions that are meant: all, or the one whose call's id begins with `call`.

    Raises:
        UsageError: nothing waits, or no one call is meant.
    """
    from treadle.errors import UsageError

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
