"""`treadle replay`: fold a thread again from nothing and compare."""

from __future__ import annotations

import click


@click.command("replay")
@click.argument("thread", metavar="ID")
@click.option("-q", "--quiet", is_flag=True, help="Only the verdict.")
@click.pass_context
def command(ctx: click.Context, /, thread: str, quiet: bool) -> None:
    """Fold a thread's journal again from record 1, printing each transition.

    Nothing is run and nothing is changed. Fails if the snapshot says anything else than the fold.
    """
    from treadle.core.events import name_of
    from treadle.store.local import LocalStore
    from treadle.store.places import Places
    from treadle.store.replay import replay

    store = LocalStore(Places.find())
    verdict = None
    for step in replay(store, store.resolve(thread)):
        verdict = step.verdict or verdict
        if step.verdict or quiet:
            continue
        action = f" / {name_of(type(step.action))}" if step.action is not None else ""
        move = step.before if step.before == step.after else f"{step.before} -> {step.after}"
        click.echo(f"{step.seq:>5}  {step.at}  {step.name:<24}  {move}{action}")
    assert verdict is not None
    click.echo(verdict.text)
    ctx.exit(0 if verdict.is_good else 1)
