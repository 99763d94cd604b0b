"""Calls that need a person's yes, shown to that person.

What is asked about was written by a model, maybe on behalf of a file it has read. It is shown as it
is, with a mark in the place of each character that would steer the terminal, hide, or rearrange
others, and every line of it stands behind a bar, so that it cannot pass for the question itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import click

from treadle.app.threads.call_diffs import name_diffed_argument, preview_diff
from treadle.cli.notices import print_line
from treadle.core.approval import Question
from treadle.core.tools import RiskLevel
from treadle.thread.question_text import (
    SHOWN_LENGTH_MAX,
    collapse_gaps,
    describe_cut,
    describe_reason,
    describe_unseen,
    escape_name,
    list_argument_texts,
    mark_unseen,
)

_BAR: Final = "  │ "
_SIGN_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def show_question(
    question: Question,
    diff: str | None = None,
    *,
    err: bool = True,
    is_whole: bool = False,
) -> None:
    """The call as it would run, all that may be wrong with it, and why it is asked about.

    Args:
        question: the question.
        diff: what the call would change, in the place of the argument that says so.
        err: whether it goes to stderr.
        is_whole: whether all of the call is shown, however long it is.
    """
    call = question.call
    name = escape_name(call.tool_name)
    risk = question.risk.name.lower()
    style = _find_colour(question)
    click.secho(f"{name} needs your approval · {risk} risk", fg=style, err=err)
    diffed = None if diff is None else name_diffed_argument(call)
    told = [collapse_gaps(text) for text in list_argument_texts(call.arguments_json, diffed)]
    shown: list[tuple[str, Callable[..., None]]] = [(text, print_with_bar) for text in told]
    if diff is not None:
        shown.append((diff, _print_diff))
    # The long ones first: what is printed last is what is in sight.
    for text, show in sorted(shown, key=lambda one: len(one[0]) <= SHOWN_LENGTH_MAX):
        kept = text if is_whole else text[:SHOWN_LENGTH_MAX]
        show(mark_unseen(kept), err=err)
        if more := len(text) - len(kept):
            click.secho(f"  ... {more} more characters", fg="yellow", err=err)
    cut = "" if is_whole else describe_cut(call.arguments_json)
    for words in filter(None, [cut, describe_unseen([*told, diff or ""])]):
        click.secho(f"  careful: {words}", fg=style, err=err)
    show_risk_details(question, describe_reason(question), err=err)


def _find_colour(question: Question) -> str:
    """Red is for what is critical alone: who sees it at each question sees it no more."""
    return "red" if question.risk >= RiskLevel.CRITICAL else "yellow"


def show_risk_details(question: Question, reason: str = "", *, err: bool = True) -> None:
    """What is dangerous about a call, a reason to ask, and what would hold it."""
    for why in question.scope.reasons:
        click.secho(f"  careful: {mark_unseen(why)}", fg=_find_colour(question), err=err)
    if reason:
        click.secho(f"  {mark_unseen(reason)}", dim=True, err=err)
    if question.scope.confined:
        click.secho(f"  confined: {mark_unseen(question.scope.confined)}", dim=True, err=err)


def print_with_bar(text: str, *, err: bool = True) -> None:
    """The text, every line of it behind a bar; it is the brightest of what is said of a call."""
    for line in text.split("\n"):
        click.secho(_BAR, fg="yellow", nl=False, err=err)
        click.secho(line, bold=True, err=err)


def _print_diff(diff: str, *, err: bool = True) -> None:
    """A diff behind the bar, in the colours of git's."""
    for line in diff.split("\n"):
        click.secho(_BAR, fg="yellow", nl=False, err=err)
        click.secho(line, fg=_SIGN_COLOURS.get(line[:1]), err=err)


def show_pending_questions(thread: str, questions: Sequence[Question], *, err: bool = True) -> None:
    """What a thread waits for, and the commands that answer."""
    for question in questions:
        show_question(question, preview_diff(question.call), err=err)
        click.secho(f"  call {escape_name(question.call.id)}", dim=True, err=err)
    is_one = len(questions) == 1
    if any(describe_cut(one.call.arguments_json) for one in questions):
        print_line(f"all of what is asked about:\n  treadle approve {thread} --json", err=err)
    what = "it" if is_one else "all of them (or one, by its CALL behind the thread)"
    click.echo(f"to answer {what}:", err=err)
    for answer in ("--yes", "--no REASON", "--args JSON" if is_one else "CALL --args JSON"):
        print_line(f"  treadle approve {thread} {answer}", err=err)
