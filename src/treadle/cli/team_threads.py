"""Prints threads of the server that others may have written."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from treadle.app.stores import open_store
from treadle.app.sync.team_threads import TeamThread, open_team_thread
from treadle.app.threads.times import TimeTextError, local_time
from treadle.cli.json_output import print_json
from treadle.cli.notices import print_notice
from treadle.cli.pager import paged
from treadle.cli.renderers import make_printable
from treadle.cli.thread_filters import convert_to_bad_parameter
from treadle.cli.transcript import show_message
from treadle.cli.view_output import show_view
from treadle.errors import UsageError
from treadle.thread.document import Thread

if TYPE_CHECKING:
    from treadle.app.threads.thread_view import ViewRequest


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


def show_team_thread(thread: str, request: ViewRequest, *, is_paged: bool) -> None:
    """Show a thread that the server has: meanwhile no file of it is left here.

    Raises:
        UsageError: the server has it as one document, which cannot tell what is asked for.
    """
    from treadle.app.sync.team_threads import fetch_team_document
    from treadle.app.threads.thread_view import read_thread

    found = None
    with open_server_thread(thread, request.call) as team:
        if team.store is not None:
            with convert_to_bad_parameter(TimeTextError):
                found = read_thread(
                    team.store, team.thread_id, request, notify=print_notice, is_here=False
                )
    if found is not None:
        show_view(found, request, is_paged=is_paged)
        return
    if request.needs_records:
        raise UsageError(
            f"the server shows thread {team.thread_id} as one document, without its records",
            hint="--version and --json are what it can be asked for",
        )
    show = print_json if request.as_json else print_document
    with paged(is_wanted=is_paged):
        show(fetch_team_document(open_store(), team.name, request.selector.version))
