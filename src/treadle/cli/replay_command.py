"""`treadle replay`: fold a thread again from nothing and compare."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.json_output import print_json
from treadle.thread.safe_text import sanitize_text


@click.command("replay")
@click.argument("thread", metavar="ID")
@click.option("-q", "--quiet", is_flag=True, help="Only the verdict.")
@click.option("--json", "as_json", is_flag=True, help="The transitions, as a JSON array.")
@click.pass_context
def command(ctx: click.Context, /, thread: str, quiet: bool, as_json: bool) -> None:
    """Fold a thread's journal again from record 1, printing each transition.

    \b
    treadle replay 7c1e93f0           each transition, from the first record on
    treadle replay 7c1e93f0 --quiet   only whether it comes out the same

    Nothing is run and nothing is changed. Fails if the snapshot says anything else than the fold.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.upkeep.verification import replay_thread
    from treadle.core.events import name_of

    verdict, steps = None, list[dict[str, Any]]()
    for step in replay_thread(open_store(), thread):
        verdict = step.verdict or verdict
        if step.verdict or quiet:
            continue
        name = "" if step.action is None else name_of(type(step.action))
        if as_json:
            fields = {"seq": step.seq, "at": step.at, "event": step.name}
            steps.append({**fields, "before": step.before, "after": step.after, "action": name})
            continue
        action = f" / {name}" if name else ""
        move = step.before if step.before == step.after else f"{step.before} -> {step.after}"
        click.echo(f"{step.seq:>5}  {step.at}  {step.name:<24}  {sanitize_text(move)}{action}")
    assert verdict is not None
    if as_json:
        print_json(steps)
    click.echo(sanitize_text(verdict.text), err=as_json)
    ctx.exit(0 if verdict.is_good else 1)
