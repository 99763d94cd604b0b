"""Sentences of a command for people."""

from __future__ import annotations

import sys
from functools import cache

import click

from treadle.thread.ids import ShortIds, find_ids
from treadle.thread.safe_text import sanitize_text


def print_notice(text: str) -> None:
    """Print a sentence that says who speaks."""
    print_line(f"treadle: {sanitize_text(text)}", err=True)


def print_line(text: str, *, err: bool = False) -> None:
    """Print a line of our own words; on a terminal, the ids of threads in it are short."""
    click.echo(shorten_for_people(text, err=err), err=err)


def shorten_for_people(text: str, *, err: bool = False) -> str:
    """The same text with short ids if the stream is a terminal; a pipe gets whole ones."""
    if not (sys.stderr if err else sys.stdout).isatty() or not find_ids(text):
        return text
    return list_ids_once().shorten_in(text)


@cache
def list_ids_once() -> ShortIds:
    """How the ids of this machine are shown, listed once in the life of a command."""
    from treadle.app.stores import open_store
    from treadle.app.threads.short_ids import list_short_ids

    return list_short_ids(open_store())
