"""`treadle approve`: answer what a thread waits for, and go on with it."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli import options


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
@options.budget_options("the rest of this turn")
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
        from treadle.cli.approval_output import handle_grants

        handle_grants(thread, call, answers, **given)
        return
    if len(answers) > 1:
        raise click.UsageError("--yes, --no and --args answer differently: give one of them")
    if given["always"] and answers != ["yes"]:
        raise click.UsageError("--always goes with --yes")
    if given["as_json"] and answers:
        raise click.UsageError("--json shows what waits; --output-format is for what follows")
    if not answers:
        from treadle.cli.approval_output import show_waiting_calls

        show_waiting_calls(thread, call, as_json=given["as_json"])
        return
    ctx.exit(_answer_calls(thread, call, **given))


def _answer_calls(thread: str, call: str | None, **given: Any) -> int:
    from treadle.app.sessions.approvals import (
        ApprovalAnswer,
        answer_calls,
        check_mode,
        decide_calls,
    )
    from treadle.app.sessions.open_threads import reopen_thread
    from treadle.app.sessions.setup import RunChoice
    from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
    from treadle.cli.busy_threads import run_or_watch
    from treadle.cli.host import make_host, open_command_store
    from treadle.cli.renderers import make_renderer
    from treadle.cli.thread_runner import run_thread

    def find_folder() -> str:
        return setup.workspace()

    setup = make_setup(
        open_command_store(),
        RunChoice(
            given["model"],
            given["approval_mode"],
            record=given["record"],
            sandbox=given["sandbox"],
            network=given["network"],
        ),
        ThreadTarget(given["cwd"], thread),
        make_host(find_folder),
        no_commit=given["no_commit"],
        before_owning=None if given["reason"] is not None else check_mode,
    )
    budget = options.make_budget(given["max_tokens"], given["max_cost"], given["time_limit"])
    if setup.is_task and budget is not None:
        raise click.UsageError("the limits of a task are those it was begun with")
    answer = ApprovalAnswer(given["reason"], given["arguments"], given["always"])
    calls = decide_calls(setup, call, answer)
    renderer = make_renderer(given["output_format"])
    return run_or_watch(
        setup.store,
        lambda: run_thread(
            setup,
            renderer,
            lambda: reopen_thread(setup, renderer.show, budget=budget),
            lambda opened: answer_calls(opened, calls),
        ),
    )
