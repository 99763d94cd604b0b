"""Sentences beside the output of a command, on standard error."""

from __future__ import annotations

import click

from treadle.thread.safe_text import sanitize_text


def print_notice(text: str) -> None:
    """Print a sentence that says who speaks."""
    click.echo(f"treadle: {sanitize_text(text)}", err=True)
