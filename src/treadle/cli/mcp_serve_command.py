"""`treadle mcp serve`: this machine's threads, offered to other agents."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from treadle.cli.options import folder_option


@click.command("serve")
@folder_option
def serve(cwd: str | None) -> None:
    """Offer threads to another agent: MCP on standard input and output.

    \b
    claude mcp add treadle -- treadle mcp serve
    codex mcp add treadle -- treadle mcp serve

    The agent gets three tools: search_threads, show_thread and blame. They only read, secrets are
    replaced in what they tell, and a private thread is not offered. Names of files begin in the
    folder in which this runs.
    """  # noqa: D301  click reads the backspace
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "another agent starts this, and talks with it through a pipe; in a terminal: treadle"
        )
    import logging

    from treadle.cli.host import open_command_store
    from treadle.cli.log_redaction import configure_logging
    from treadle.cli.options import find_folder
    from treadle.mcp_server.server import serve as serve_threads

    configure_logging(logging.WARNING)
    serve_threads(open_command_store(), find_folder(cwd or str(Path())).resolve())
