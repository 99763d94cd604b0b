"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treadle.core.llm import Usage
    from treadle.core.messages import Message
    from treadle.store.local import LocalStore
    from treadle.thread.ledger import Spent
    from treadle.thread.model import Thread


@click.command("show")
@click.argument("thread", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="As it stood at this version.")
@click.option("--usage", "wants_usage", is_flag=True, help="What each request used, and its cost.")
@click.option("--json", "as_json", is_flag=True, help="The thread document, or the list of uses.")
def command(thread: str, version: int | None, wants_usage: bool, as_json: bool) -> None:
    """Show a thread. Needs neither its folder, nor a model, nor the thread to be free."""
    from treadle.store.local import LocalStore
    from treadle.store.places import Places
    from treadle.thread.ledger import by_turn

    store = LocalStore(Places.find())
    loaded = store.load(store.resolve(thread), version)
    document = loaded.fold.document()
    if loaded.problem:
        click.echo(f"treadle: {loaded.problem}", err=True)
    if as_json and not wants_usage:
        _print_json(document)
        return
    spent = _spent(store, document)
    if as_json:
        _print_json(spent)
    elif wants_usage:
        _show_usage(document, spent)
    else:
        _show(document, by_turn(spent))


def _print_json(value: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _spent(store: LocalStore, document: Thread) -> list[Spent]:
    """Up to the version that is shown: what comes after it may be of a newer program.

    What a damaged journal has lost is not told turn by turn.
    """
    from treadle.core.llm import Usage
    from treadle.errors import TreadleError
    from treadle.thread.codec import decode_entry
    from treadle.thread.ledger import spending

    try:
        records = [r for r in store.scan(document.id).records if r.seq <= document.version]
        spent = list(spending((r.seq, r.at, decode_entry(r.event)) for r in records))
    except TreadleError:
        spent = []
    if sum((one.usage for one in spent), Usage()) != document.usage:
        text = "what each turn used is not known: its records are damaged or missing"
        click.echo(f"treadle: {text}", err=True)
        return []
    return spent


def _show_usage(document: Thread, spent: list[Spent]) -> None:
    from treadle.models.prices.words import describe_usage

    for one in spent:
        where = f"{one.seq:>5}  turn {one.turn:<3}  {one.purpose:<14}  {one.model}"
        click.echo(f"{where}  {describe_usage(one.usage)}")
    click.echo(f"in all: {describe_usage(document.usage)}")


def _show(document: Thread, turns: Mapping[int, Usage]) -> None:
    from treadle.models.prices.words import describe_usage

    facts = [
        ("thread", f"{document.id} at version {document.version}"),
        ("state", document.agent_state.kind.replace("_", " ")),
        ("changed", f"{document.updated_at} (created {document.created_at})"),
        ("folder", document.workspace_root),
        ("branch", document.git_branch),
        ("commits", " ".join(sha[:10] for sha in document.git_commits)),
        ("model", document.model),
        ("used", describe_usage(document.usage)),
        ("private", "yes: never leaves this machine" if document.is_private else None),
    ]
    for name, value in facts:
        if value:
            click.echo(f"{name:<8} {value}")
    turn = 0
    for message in document.conversation.messages:
        if message.role == "user":
            _show_turn(turn, turns)
            turn += 1
        click.echo()
        _show_message(message)
    _show_turn(turn, turns)
    for call in document.agent_state.pending_tool_calls:
        click.echo(f"\nnot finished: {call.tool_name} ({call.call_id})")


def _show_turn(turn: int, turns: Mapping[int, Usage]) -> None:
    from treadle.models.prices.words import describe_usage

    if turn in turns:
        click.echo(click.style(f"  (turn {turn}: {describe_usage(turns[turn])})", dim=True))


def _show_message(message: Message) -> None:
    from treadle.cli.render import describe_call, head, printable

    if message.role == "tool":
        for line in head(message.content).splitlines() or ["(no output)"]:
            click.echo(click.style(f"  {printable(line)}", dim=True))
        return
    mark = " (interrupted)" if message.interrupted else ""
    click.echo(click.style(f"{message.role}{mark}:", bold=True))
    if message.content:
        click.echo(printable(message.content))
    for call in message.tool_calls:
        click.echo(click.style(f"● {printable(describe_call(call))}", fg="cyan"))
