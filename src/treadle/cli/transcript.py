"""A thread for people: what it is, then its messages with what happened between them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from treadle.app.threads.call_diffs import preview_diff
from treadle.app.threads.call_text import describe_call, list_plan_lines, preview_output
from treadle.app.threads.picture_protocols import PictureDrawer, draw_nothing, make_picture_drawer
from treadle.app.threads.thread_view import ThreadView, ThreadViewHistory
from treadle.app.threads.times import local_time
from treadle.cli.device_attributes import announces_sixel
from treadle.cli.question_output import show_pending_questions, show_question
from treadle.cli.rendered_answer import render_answer
from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.core.messages import Message, describe_attachment
from treadle.core.task.machine import TaskMachine
from treadle.models.prices.usage_text import describe_usage
from treadle.thread.commits import read_commit
from treadle.thread.document import Thread
from treadle.thread.fold import ThreadFold
from treadle.thread.history import NumberedEntry, Turn
from treadle.thread.plan import find_plan
from treadle.thread.safe_text import sanitize_text
from treadle.thread.thoughts import list_thoughts
from treadle.thread.usage import sum_usage_by_turn
from treadle.thread.web_searches import describe_web_search, list_web_searches


def print_thread(view: ThreadView) -> None:
    """Print a thread; its pictures too, in a terminal that draws them."""
    draw = make_picture_drawer(os.environ, announces_sixel, is_terminal=sys.stdout.isatty())
    fold, document, past = view.fold, view.document, view.past
    for name, value in (*_list_fields(fold, document, past.entries), ("synced", view.synced)):
        if value:
            click.echo(f"{name:<8} {sanitize_text(value)}")
    _show_messages(fold, past, draw)
    questions = fold.machine.questions
    asked = {one.call.id for one in questions}
    for call in document.agent_state.pending_tool_calls:
        if call.call_id not in asked:
            click.echo(
                f"\nnot finished: {sanitize_text(call.tool_name)} ({sanitize_text(call.call_id)})"
            )
    if questions and view.is_here:
        click.echo()
        show_pending_questions(document.id, questions, err=False)
    elif questions:
        click.echo()
        for question in questions:
            show_question(question, preview_diff(question.call), err=False)


def print_usage(view: ThreadView) -> None:
    """Print what each request of a thread used, and all of them together."""
    for one in view.past.spent:
        where = f"{one.seq:>5}  turn {one.turn:<3}  {one.purpose:<14}  {one.model}"
        click.echo(f"{sanitize_text(where)}  {describe_usage(one.usage)}")
    click.echo(f"in all: {describe_usage(view.document.usage)}")


def _list_fields(
    fold: ThreadFold, document: Thread, entries: Sequence[NumberedEntry]
) -> list[tuple[str, str | None]]:
    """What a thread is, by name; what has no value is not shown."""
    header, base = fold.header, document.forked_from
    state = document.agent_state.kind.replace("_", " ")
    return [
        ("thread", f"{document.id} at version {document.version}"),
        *_list_task_fields(fold),
        ("title", document.metadata.title),
        ("tags", " ".join(document.metadata.tags)),
        ("state", "waits for approval" if fold.machine.questions else state),
        ("pending", _describe_pending(fold, document)),
        ("plan", _describe_plan(fold)),
        ("trash", "yes: `treadle restore` brings it back" if document.is_trashed else None),
        ("pinned", "yes" if document.metadata.is_pinned else None),
        ("fork of", None if base is None else f"{base.thread} at version {base.version}"),
        ("from", document.imported_from),
        ("parent", None if header.parent is None else f"{header.parent} ({header.parent_call})"),
        ("children", ", ".join(f"{thread} ({call})" for call, thread in fold.children.items())),
        ("changed", _describe_times(document)),
        ("folder", document.workspace_root),
        ("project", document.project_name),
        ("remote", document.git_remote_url),
        ("branch", document.git_branch),
        ("seen", " ".join(sha[:10] for sha in document.git_commits)),
        *(("commit", told) for told in _describe_commits(entries)),
        ("model", document.model),
        ("used", describe_usage(document.usage)),
        ("private", "yes: never leaves this machine" if document.is_private else None),
    ]


def _describe_plan(fold: ThreadFold) -> str | None:
    plan = find_plan(fold.conversation)
    if plan is None:
        return None
    return "\n         ".join((plan.summary, *list_plan_lines(plan)))


def _describe_times(document: Thread) -> str:
    return f"{local_time(document.updated_at)} (created {local_time(document.created_at)})"


def _describe_commits(entries: Sequence[NumberedEntry]) -> Iterator[str]:
    for version, _, entry in entries:
        if (made := read_commit(entry)) is not None:
            yield f"{made.hash[:10]} at version {version}: {made.subject}"


def _describe_pending(fold: ThreadFold, document: Thread) -> str | None:
    """How much is not done, in words."""
    counted = [
        (len(fold.machine.questions), "waiting for a yes"),
        (len(document.agent_state.pending_tool_calls) - len(fold.machine.questions), "calls open"),
        (len(fold.queued), "prompts queued"),
    ]
    return ", ".join(f"{count} {what}" for count, what in counted if count > 0) or None


def _list_task_fields(fold: ThreadFold) -> list[tuple[str, str | None]]:
    """What only a task has."""
    machine = fold.machine
    if not isinstance(machine, TaskMachine):
        return []
    memory = machine.memory
    kind = "" if memory.task_type == "default" else f" ({memory.task_type})"
    return [
        ("task", f"{fold.title() or ''}{kind}"),
        ("step", f"{memory.step} of {memory.config.max_steps}"),
        ("limits", _describe_limits(memory.budget)),
        ("stopped", f"by its limit of {memory.exceeded}" if memory.exceeded else None),
        (
            "error",
            memory.error if machine.suspension_error is None else machine.suspension_error.text,
        ),
    ]


def _describe_limits(budget: TokenBudget | None) -> str | None:
    if budget is None:
        return None
    named = [
        (budget.max_total, "{:,} tokens"),
        (budget.max_input, "{:,} tokens read"),
        (budget.max_output, "{:,} tokens written"),
        (budget.max_cost_usd, "${}"),
        (budget.max_time_s, "{:g} s"),
    ]
    return ", ".join(words.format(limit) for limit, words in named if limit is not None)


def _show_messages(fold: ThreadFold, past: ThreadViewHistory, draw: PictureDrawer) -> None:
    """All of them, what happened between them, and which of them a model is not shown any more."""
    hidden, turns = dict(fold.conversation.hidden), sum_usage_by_turn(past.spent)
    machine = fold.machine
    is_done = isinstance(machine, TaskMachine) and machine.memory.final_answer is not None
    last = len(fold.conversation) - 1
    compaction = fold.conversation.compaction
    number = 0
    for index, message in enumerate(fold.conversation):
        if compaction is not None and index == compaction.through:
            _show_compaction(index)
        if index and index == past.inherited:
            _show_remark("here the fork begins")
        if (turn := past.begun.get(index)) is not None:
            _show_turn_usage(number, turns)
            number = turn.number
            _show_turn_heading(turn)
        if (host := past.joined.get(index)) is not None:
            _show_turn_usage(number, turns)
            number = 0  # what joined was said in turns of another machine
            _show_heading(f"from {host}, joined here")
        for aside in past.said.get(index, ()):
            _show_remark(aside.text)
        if index in hidden:
            _show_remark(f"the next {hidden[index] - index} messages are out of the model's view")
        click.echo()
        who = "answer" if is_done and index == last else message.role
        show_message(message, who, past.kept, draw)
    if compaction is not None and compaction.through > last:
        _show_compaction(last + 1)
    if 0 <= last < past.inherited:
        _show_remark("here the fork begins")
    _show_turn_usage(number, turns)
    for aside in past.said.get(last + 1, ()):
        _show_remark(aside.text)


def _show_remark(text: str) -> None:
    for line in text.splitlines():
        click.echo(click.style(f"  · {sanitize_text(line)}", dim=True))


def _show_thought(text: str) -> None:
    for number, line in enumerate(text.splitlines()):
        mark = " " if number else "∴"
        click.echo(click.style(f"  {mark} {sanitize_text(line)}".rstrip(), dim=True))


def _show_compaction(count: int) -> None:
    words = f"(the {count} messages above are summarised for the model)"
    click.echo(click.style(f"\n  {words}", dim=True))


def _show_turn_heading(turn: Turn) -> None:
    """The numbers that other commands ask for."""
    _show_heading(f"turn {turn.number}, version {turn.version}, {local_time(turn.at)}")


def _show_heading(words: str) -> None:
    click.echo(click.style(f"\n── {sanitize_text(words)}", dim=True))


def _show_turn_usage(turn: int, turns: Mapping[int, Usage]) -> None:
    if turn in turns:  # a turn that used nothing has none
        click.echo(click.style(f"  (turn {turn}: {describe_usage(turns[turn])})", dim=True))


def show_message(
    message: Message, who: str, kept: Mapping[str, str], draw: PictureDrawer = draw_nothing
) -> None:
    """Print a message.

    Args:
        message: the message.
        who: who has said it, unless it has a name.
        kept: the calls whose message is only a part, and the thread that has all of it.
        draw: draws its pictures.
    """
    for attachment in message.attachments:
        _show_remark(describe_attachment(attachment))
        drawn = draw(attachment)
        if drawn.why:
            _show_remark(drawn.why)
        click.echo(drawn.escapes, nl=False)
    if message.role == "tool":
        asked = message.tool_call_id or ""
        said = preview_output(message.content, message.name or "", is_whole=asked not in kept)
        lines = said.splitlines() or ["(no output)"]
        if asked in kept:
            lines.append(f"(whole output: treadle show {kept[asked]} --output {asked})")
        for line in lines:
            click.echo(click.style(f"  {sanitize_text(line)}", dim=True))
        return
    mark = " (interrupted)" if message.interrupted else ""
    click.echo(click.style(f"{sanitize_text(message.name or who)}{mark}:", bold=True))
    for thought in list_thoughts(message):
        _show_thought(thought)
    for search in list_web_searches(message):
        _show_remark(describe_web_search(search))
    if message.content:
        is_answer = message.role == "assistant"
        click.echo((render_answer if is_answer else sanitize_text)(message.content))
    for call in message.tool_calls:
        click.echo(click.style(f"● {sanitize_text(describe_call(call))}", fg="cyan"))
