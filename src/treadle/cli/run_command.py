"""`treadle run`: a task that the agent brings to an end by itself."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli import options


@click.command("run")
@click.argument("task")
@options.model_option(
    "provider:model, an alias, scripted:FILE or recorded:FILE. By default that of --task-type."
)
@click.option(
    "--task-type",
    metavar="KIND",
    default="default",
    help="The kind of task: the settings' table [models] says which model it gets.",
)
@options.folder_option
@options.worktree_option
@options.mode_option(
    "plan: tools that only read. ask: asks before it changes a file or runs a command. auto-edit: "
    "asks before it runs a command. auto: asks nothing. Default: what the settings say, else ask."
)
@click.option(
    "--max-steps",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help=f"Requests to the model. Default: what the settings say, else {options.STEPS_MAX}.",
)
@options.budget_options("the whole task")
@click.option(
    "--output-schema",
    metavar="FILE",
    type=click.Path(),
    help="A JSON schema: the answer is one JSON document that fits it.",
)
@options.format_option
@click.option("--trace", "wants_trace", is_flag=True, help="Print the trace to stderr at the end.")
@click.option("--private", is_flag=True, help="The thread never leaves this machine.")
@options.run_options
@options.quiet_option
@click.pass_context
def command(ctx: click.Context, /, task: str, **given: Any) -> None:
    """Work on TASK until it is done, has failed, or a limit stops it; print the answer.

    \b
    treadle run "make the test suite pass" --approval-mode auto --max-cost 2
    git diff | treadle run "list the risks of this change" --output-schema risks.json
    treadle run - < task.md

    Piped input is appended to TASK; `-` stands for piped input alone. A call that needs a yes is
    asked about in a terminal; elsewhere the task waits for it (exit code 4), and `treadle approve`
    goes on. What is stopped or killed goes on with `treadle resume`. Exit codes: 0 done, 1 failed,
    3 stopped by a limit, 4 a call waits for approval, 5 not configured, 75 try again later.
    """  # noqa: D301  click reads the backspace
    ctx.exit(_run_task(task, **given))


def _run_task(text: str, **given: Any) -> int:
    import asyncio

    from treadle.app.sessions.answer_schema import read_answer_schema
    from treadle.app.sessions.open_threads import OpenThread, TaskRequest, begin_task
    from treadle.app.sessions.prompt_text import prepare_task_prompt
    from treadle.app.sessions.setup import RunChoice
    from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
    from treadle.app.sessions.thread_work import finish_task
    from treadle.cli.host import make_host, open_command_store
    from treadle.cli.prompt import read_prompt
    from treadle.cli.renderers import make_renderer
    from treadle.cli.thread_runner import run_thread

    given["cwd"] = options.find_work_folder(given["cwd"], given["worktree"])
    path = given["output_schema"]
    schema = None if path is None else read_answer_schema(path)
    typed, piped = read_prompt(text)

    def find_folder() -> str:
        return setup.workspace()

    setup = make_setup(
        open_command_store(),
        RunChoice(
            given["model"],
            given["approval_mode"],
            "ask",
            record=given["record"],
            task_type=given["task_type"],
            sandbox=given["sandbox"],
            network=given["network"],
        ),
        ThreadTarget(given["cwd"]),
        make_host(find_folder),
        no_commit=given["no_commit"],
    )
    said = asyncio.run(prepare_task_prompt(setup, typed, piped))
    task = TaskRequest(
        said.text,
        given["max_steps"] or setup.loaded.settings.max_steps or options.STEPS_MAX,
        options.make_budget(given["max_tokens"], given["max_cost"], given["time_limit"]),
        schema,
        said.attachments,
        said.seen,
    )
    renderer = make_renderer(given["output_format"], is_quiet=given["quiet"])

    def begin() -> OpenThread:
        return begin_task(setup, task, renderer.show, is_private=given["private"])

    return run_thread(setup, renderer, begin, finish_task, wants_trace=given["wants_trace"])
