"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.core.messages import Message
    from treadle.thread.model import Thread


@click.command("show")
@click.argument("thread", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="As it stood at this version.")
@click.option("--json", "as_json", is_flag=True, help="The thread document.")
def command(thread: str, version: int | None, as_json: bool) -> None:
    """Show a thread. Needs neither its folder, nor a model, nor the thread to be free."""
    from treadle.store.local import LocalStore
    from treadle.store.places import Places

    store = LocalStore(Places.find())
    loaded = store.load(store.resolve(thread), version)
    document = loaded.fold.document()
    if loaded.problem:
        click.echo(f"treadle: {loaded.problem}", err=True)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
        return
    _show(document)


def _show(document: Thread) -> None:
    facts = [
        ("thread", f"{document.id} at version {document.version}"),
        ("state", document.agent_state.kind.replace("_", " ")),
        ("changed", f"{document.updated_at} (created {document.created_at})"),
        ("folder", document.workspace_root),
        ("branch", document.git_branch),
        ("commits", " ".join(sha[:10] for sha in document.git_commits)),
        ("model", document.model),
        ("tokens", f"{document.usage.input_tokens} in, {document.usage.output_tokens} out"),
        ("private", "yes: never leaves this machine" if document.is_private else None),
    ]
    for name, value in facts:
        if value:
            click.echo(f"{name:<8} {value}")
    for message in document.conversation.messages:
        click.echo()
        _show_message(message)
    for call in document.agent_state.pending_tool_calls:
        click.echo(f"\nnot finished: {call.tool_name} ({call.call_id})")


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
