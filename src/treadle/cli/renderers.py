"""Outputs for people and programs: the answer on stdout, activity on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

import click
import msgspec

from treadle import outputs
from treadle.app.json_text import escape_json
from treadle.app.threads.call_text import describe_call, list_plan_lines, preview_output
from treadle.cli.notices import shorten_for_people
from treadle.cli.question_output import show_pending_questions
from treadle.core.approval import Question
from treadle.core.messages import ToolCall
from treadle.core.task.table import State
from treadle.core.tools import ToolExecutionOutcome, format_outcome
from treadle.models.prices.usage_text import describe_usage
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.thread.plan import read_plan_call
from treadle.thread.safe_text import sanitize_text

SCHEMA_VERSION: Final = 1
"""Of the records of `--output-format json` and `stream-json`."""


class Renderer(Protocol):
    """Shows a turn."""

    def begin(self, thread_id: str, model: str, notices: Sequence[str]) -> None:
        """Before anything happens."""
        ...

    def show(self, output: Output) -> None:
        """As it happens."""
        ...

    def end(
        self, finished: TurnFinished, questions: Sequence[Question] = (), *, is_over: bool = False
    ) -> None:
        """After the thread is closed.

        Args:
            finished: how it ended.
            questions: those that still wait for a person.
            is_over: whether it is a task that has ended, for ever.
        """
        ...


def make_renderer(output_format: str, *, is_quiet: bool = False) -> Renderer:
    """The renderer of `--output-format`; a quiet one tells people the end alone."""
    if output_format == "json":
        return JsonRenderer()
    if output_format == "stream-json":
        return StreamRenderer()
    return QuietRenderer() if is_quiet else TextRenderer()


class TextRenderer:
    """For people."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        """The round's calls; those of a finished round are forgotten when the next one begins."""
        self._open_count = 0

    def begin(self, thread_id: str, model: str, notices: Sequence[str]) -> None:
        """See `Renderer`."""
        for line in (f"thread {thread_id}, {model}", *notices):
            _print_activity(shorten_for_people(line, err=True), dim=True)

    def show(self, output: Output) -> None:
        """See `Renderer`."""
        if isinstance(output, outputs.TextDelta):
            self._text.append(output.text)
        elif isinstance(output, outputs.TurnStarted):
            self._flush_text()  # the answer of a turn that was left unfinished, and is finished now
        elif isinstance(output, outputs.ToolStarted):
            self._flush_text()
            if self._open_count == 0:
                self._calls.clear()
            self._open_count += 1
            self._calls[output.call.id] = output.call
            _print_call(output.call)
        elif isinstance(output, outputs.ToolFinished):
            call = self._calls.get(output.call_id)
            self._open_count -= call is not None
            if call is None or len(self._calls) > 1:
                name = output.tool_name if call is None else describe_call(call)
                _print_activity(f"  {name}:", dim=True)
            _print_tool_result(output)
        elif isinstance(output, outputs.HookFinished) and output.note:
            _print_activity(f"  {output.note}", fg="green" if output.action_taken else "yellow")
        elif isinstance(output, outputs.Retrying):
            self._text.clear()
            _print_activity(
                f"  {output.error.text}; trying again in {output.delay_s:.1f} s", fg="yellow"
            )
        elif isinstance(output, outputs.Notice):
            _print_activity(f"! {output.text}", fg="yellow")
        elif isinstance(output, outputs.ApprovalRequested):
            self._flush_text()  # who is asked wants to know what it is for
        elif isinstance(output, outputs.StateStarted):
            self._show_state(output.state)

    def _show_state(self, state: str) -> None:
        """Of a task's states only those are told that nothing else tells of."""
        if state == State.DONE:
            self._text.clear()  # that was the answer
        else:
            self._flush_text()
        if state == State.REFLECTING:
            _print_activity("· reflecting: what is older becomes a digest", dim=True)
        elif state not in set(State):
            _print_activity(f"· {state}", dim=True)

    def _flush_text(self) -> None:
        """Text before tool calls is activity, not the answer."""
        text = "".join(self._text).strip()
        self._text.clear()
        if text:
            _print_activity(text)

    def end(
        self, finished: TurnFinished, questions: Sequence[Question] = (), *, is_over: bool = False
    ) -> None:
        """See `Renderer`."""
        _print_end(finished)
        used = describe_usage(finished.turn_usage)
        if finished.usage != finished.turn_usage:
            used += f" (whole thread: {describe_usage(finished.usage)})"
        _print_activity(used, dim=True)
        thread = shorten_for_people(finished.thread, err=True)
        if finished.outcome is TurnOutcome.APPROVAL:
            show_pending_questions(finished.thread, questions)
        elif is_over:
            _print_activity(f"to look at it: treadle show {thread}", dim=True)
        else:
            _print_activity(f"to go on: treadle resume {thread}", dim=True)


class QuietRenderer:
    """For people who want the answer, and to know why there is none."""

    def begin(self, thread_id: str, model: str, notices: Sequence[str]) -> None:
        """See `Renderer`."""

    def show(self, output: Output) -> None:
        """See `Renderer`."""

    def end(
        self, finished: TurnFinished, questions: Sequence[Question] = (), *, is_over: bool = False
    ) -> None:
        """See `Renderer`."""
        _print_end(finished)
        if finished.outcome is TurnOutcome.APPROVAL:
            show_pending_questions(finished.thread, questions)


class JsonRenderer:
    """One object at the end, for programs."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def begin(self, thread_id: str, model: str, notices: Sequence[str]) -> None:
        """See `Renderer`."""

    def show(self, output: Output) -> None:
        """See `Renderer`."""

    def end(
        self, finished: TurnFinished, questions: Sequence[Question] = (), *, is_over: bool = False
    ) -> None:
        """See `Renderer`."""
        _print_json(self.make_result(finished, questions))

    def make_result(self, finished: TurnFinished, questions: Sequence[Question]) -> dict[str, Any]:
        """The last record of every format for programs."""
        fields: dict[str, Any] = msgspec.to_builtins(finished)
        if questions:
            fields["questions"] = msgspec.to_builtins(questions)
        fields["type"] = "result"
        fields["schema"] = SCHEMA_VERSION
        fields["duration_s"] = round(time.monotonic() - self._started_s, 3)
        return fields


class StreamRenderer(JsonRenderer):
    """Every output as a line of JSON, as it happens; the first names thread and schema."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: tuple[Question, ...] = ()

    def begin(self, thread_id: str, model: str, notices: Sequence[str]) -> None:
        """See `Renderer`."""
        head = {"type": "thread", "thread": thread_id, "model": model, "schema": SCHEMA_VERSION}
        _print_json(head)
        for notice in notices:
            self.show(outputs.Notice(notice))

    def show(self, output: Output) -> None:
        """See `Renderer`."""
        if isinstance(output, outputs.ApprovalRequested):
            self._asked = output.questions
        _print_json(msgspec.to_builtins(output))

    def end(
        self, finished: TurnFinished, questions: Sequence[Question] = (), *, is_over: bool = False
    ) -> None:
        """See `Renderer`. What was asked in an earlier process is asked here too."""
        if questions and tuple(questions) != self._asked:
            self.show(outputs.ApprovalRequested(finished.thread, tuple(questions)))
        super().end(finished, questions)


def _print_end(finished: TurnFinished) -> None:
    """The answer, and why it is not one."""
    if finished.answer:
        is_seen = sys.stdout is not None and sys.stdout.isatty()
        click.echo(make_printable(finished.answer) if is_seen else finished.answer, color=True)
    if finished.outcome is TurnOutcome.INTERRUPTED:
        _print_activity("stopped before it was finished; it is safe on disk", fg="yellow")
    elif finished.outcome not in (TurnOutcome.DONE, TurnOutcome.APPROVAL):
        _print_activity(f"treadle: {finished.error}", fg="red")


def _print_json(value: object) -> None:
    try:
        sys.stdout.write(escape_json(json.dumps(value, ensure_ascii=False)) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads any more; the turn goes on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_activity(text: str, **style: Any) -> None:
    click.echo(click.style(make_printable(text), **style), err=True)


def make_printable(text: str) -> str:
    """The text as a terminal may get it. See `treadle.thread.safe_text`."""
    return sanitize_text(text)


def _print_call(call: ToolCall) -> None:
    _print_activity(f"● {describe_call(call)}", fg="cyan")
    if (plan := read_plan_call(call)) is not None:
        for line in list_plan_lines(plan):
            _print_activity(f"  {line}", dim=True)


def _print_tool_result(output: outputs.ToolFinished) -> None:
    outcome = output.outcome
    is_good = isinstance(outcome, ToolExecutionOutcome.Success)
    text = format_outcome(outcome)
    shown = preview_output(text, output.tool_name, is_whole=outcome.blob is None)
    for line in shown.splitlines() or ["(no output)"]:
        _print_activity(f"  {line}", fg=None if is_good else "red", dim=is_good)
