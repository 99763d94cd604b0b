"""Prints threads of the server that others may have written."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import click

from treadle.app.stores import open_store
from treadle.app.sync.team_threads import TeamThread, open_team_thread
from treadle.app.threads.times import local_time
from treadle.cli.renderers import make_printable
from treadle.cli.transcript import show_message
from treadle.thread.document import Thread


@contextmanager
def open_server_thread(text: str, call: str | None) -> Generator[TeamThread, None, None]:
    """A thread of the server, as `open_team_thread` has it; says where it is from."""
    with open_team_thread(open_store(), text, call=call) as found:
        click.echo(f"from {found.url}; nothing of it is kept here", err=True)
        yield found


def print_document(document: Thread) -> None:
    """Print a thread of which there is no more than its document."""
    changed = f"{local_time(document.updated_at)} (created {local_time(document.created_at)})"
    for name, value in (
        ("thread", f"{document.id} at version {document.version}"),
        ("title", document.metadata.title),
        ("tags", " ".join(document.metadata.tags)),
        ("state", document.agent_state.kind.replace("_", " ")),
        ("changed", changed),
        ("folder", document.workspace_root),
        ("remote", document.git_remote_url),
        ("branch", document.git_branch),
        ("model", document.model),
    ):
        if value:
            click.echo(f"{name:<8} {make_printable(value)}")
    for message in document.conversation.messages:
        click.echo()
        show_message(message, message.role, {})
