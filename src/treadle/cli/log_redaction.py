"""What is said on stderr about a failure, and into logs: it may hold what a user keeps secret."""

from __future__ import annotations

import logging
import sys
from functools import cache
from traceback import format_exception
from types import TracebackType
from typing import TYPE_CHECKING

import click

from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.secrets.redaction import Redactor


@cache
def _redactor() -> Redactor:
    from treadle.app.stores import user_redactor

    return user_redactor()


def redact_for_log(text: str) -> str:
    """The text without secrets: those that this machine knows, and what looks like one."""
    try:
        return _redactor().redact(text)
    except OSError:  # there is no home folder, or it cannot be read
        from treadle.secrets.redaction import Redactor

        return Redactor({}).redact(text)


class _Formatter(logging.Formatter):
    """Lines of a log, with their tracebacks, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return redact_for_log(super().format(record))


def configure_logging(level: int) -> None:
    """Log to stderr from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


def report_exception(
    kind: type[BaseException], error: BaseException, at: TracebackType | None
) -> None:
    """The last words of a program that failed for a reason nobody thought of: `sys.excepthook`."""
    text = redact_for_log("".join(format_exception(kind, error, at)))
    click.echo("\n".join(map(sanitize_text, text.splitlines())), err=True)
