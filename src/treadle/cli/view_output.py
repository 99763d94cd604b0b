"""What `treadle show` prints of a thread, through the person's pager."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from treadle.cli.json_output import print_json
from treadle.cli.pager import paged
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.threads.thread_view import ThreadView, ViewRequest


def show_view(found: ThreadView | str, request: ViewRequest, *, is_paged: bool) -> None:
    """Print it; `is_paged` says whether a pager is wanted."""
    # A pager draws no pictures: a thread that has some is printed where they can be drawn.
    has_pictures = not isinstance(found, str) and any(
        message.attachments for message in found.fold.conversation
    )
    with paged(is_wanted=is_paged and not has_pictures):
        if isinstance(found, str):
            click.echo(sanitize_text(found) if sys.stdout.isatty() else found, nl=False)
        elif request.as_json:
            print_json(found.past.spent if request.wants_usage else found.document)
        else:
            from treadle.cli.transcript import print_thread, print_usage

            show = print_usage if request.wants_usage else print_thread
            show(found)
