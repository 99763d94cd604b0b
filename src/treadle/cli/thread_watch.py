"""Shows a thread in a terminal or to a program, while another process works on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from treadle.app.threads.streaming_output import StreamingAnswer
from treadle.app.threads.thread_watch import (
    IdleNotice,
    WatchedRecord,
    WatchEvent,
    WatchNotice,
    follow_thread,
)
from treadle.cli.json_output import print_json
from treadle.cli.watch_text import WatchFormatter, WatchLine
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.stores import Store

_LINE_STYLES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "who": ("", {"bold": True}),
    "said": ("", {}),
    "call": ("● ", {"fg": "cyan"}),
    "result": ("  ", {"dim": True}),
    "failure": ("  ", {"fg": "red"}),
    "aside": ("  · ", {"dim": True}),
}
"""What stands before each line of a kind, and how it looks."""


def watch_thread(
    store: Store,
    thread_id: str,
    *,
    since: int | None = None,
    as_json: bool = False,
    is_kept: bool = False,
) -> None:
    """Show what `follow_thread` tells, in words or as a line of JSON for each record.

    Raises: as `follow_thread`.
    """
    speaks = not as_json
    screen = _WatchOutput(as_json=as_json)
    for event in follow_thread(store, thread_id, since, is_kept=is_kept, wants_speech=speaks):
        screen.show(event)


class _WatchOutput:
    """What was shown of a thread."""

    def __init__(self, *, as_json: bool) -> None:
        who = WatchLine("who", "assistant:")
        self._growing = StreamingAnswer(lambda: self._show_lines([who]), _write_text)
        self._narrator = WatchFormatter()
        self._as_json = as_json

    def show(self, event: WatchEvent) -> None:
        """Show what is new."""
        if isinstance(event, WatchedRecord):
            self._show_record(event)
        elif isinstance(event, IdleNotice):
            for text in (*self._narrator.unfinished_commands, event.text):
                _print_notice(text)
        elif isinstance(event, WatchNotice):
            if event.is_break:
                self._growing.interrupt()
            _print_notice(event.text)
        else:
            self._growing.update(event)

    def _show_record(self, watched: WatchedRecord) -> None:
        record = watched.record
        if self._as_json:
            line = {"seq": record.seq, "at": record.at, "type": watched.kind}
            print_json({**line, "event": record.event}, is_one_line=True)
            return
        lines = list(self._narrator.format_record(record))
        if watched.kind == "llm_completed" and self._growing.finish(watched.answer):
            lines = [line for line in lines if line.kind == "call"]
        if lines:
            self._growing.interrupt()
        self._show_lines(lines)

    def _show_lines(self, lines: list[WatchLine]) -> None:
        for piece in lines:
            mark, style = _LINE_STYLES[piece.kind]
            blank = " " * len(mark)
            for number, text in enumerate(sanitize_text(piece.text).splitlines()):
                before = blank if number and piece.kind == "call" else mark
                click.echo(click.style(before + text, **style))


def _write_text(text: str) -> None:
    click.echo(sanitize_text(text), nl=False)


def _print_notice(text: str) -> None:
    click.echo(click.style(sanitize_text(text), dim=True), err=True)
