"""A thread for people: what it is, then its messages with what happened between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click
from msgspec import Struct

from treadle.app.threads.call_text import describe_call, head
from treadle.app.threads.local_times import local_time
from treadle.app.threads.side_events import Aside, asides
from treadle.app.threads.thread_commits import made_commits
from treadle.cli.questions import show_question, show_waiting
from treadle.cli.render import printable
from treadle.core.budget import TokenBudget
from treadle.core.events import ToolCompleted
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.task.machine import TaskMachine
from treadle.models.prices.usage_text import describe_usage
from treadle.store.local import LocalStore
from treadle.thread.codec import decode_entry
from treadle.thread.facts import Base, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.history import Numbered, Turn, beginnings, joins
from treadle.thread.model import Thread
from treadle.thread.usage import Spent, by_turn, spending


class Past(Struct, frozen=True):
    """What a thread's records tell beyond its document; empty where they cannot be read.

    `entries` are its own records, `said` is what happened between the messages, by the index of the
    message it stands before, `spent` what each request used, `inherited` how many messages a fork
    has from its base. `begun` holds its own turns by the index of the message that began each,
    `joined` the machine whose messages joined, by the index of the first of them, `kept` the thread
    that has the whole output of a call, for calls whose message has only a part.
    """

    entries: Sequence[Numbered] = ()
    said: Mapping[int, list[Aside]] = {}
    spent: Sequence[Spent] = ()
    inherited: int = 0
    begun: Mapping[int, Turn] = {}
    joined: Mapping[int, str] = {}
    kept: Mapping[str, str] = {}


def tell(
    fold: ThreadFold, document: Thread, past: Past, synced: str = "", *, is_here: bool = True
) -> None:
    """Print a thread.

    Args:
        fold: the thread.
        document: its document.
        past: what its records tell.
        synced: how it stands with the server; empty if there is none.
        is_here: whether what it waits for can be answered on this machine.
    """
    for name, value in (*_facts(fold, document, past.entries), ("synced", synced)):
        if value:
            click.echo(f"{name:<8} {printable(value)}")
    _show_messages(fold, past)
    questions = fold.machine.questions
    asked = {one.call.id for one in questions}
    for call in document.agent_state.pending_tool_calls:
        if call.call_id not in asked:
            click.echo(f"\nnot finished: {printable(call.tool_name)} ({printable(call.call_id)})")
    if questions and is_here:
        click.echo()
        show_waiting(document.id, questions, err=False)
    elif questions:
        click.echo()
        for question in questions:
            show_question(question, err=False)


def read_past(store: LocalStore, thread_id: str, version: int, used: Usage) -> Past:
    """What a thread's records tell, up to a version: its own, and those of what it was forked from.

    Args:
        store: where it is.
        thread_id: the thread.
        version: up to where.
        used: what the thread has used by its document; nothing is told of requests if the records
            say otherwise, because then some are lost.

    Raises:
        TreadleError: they are damaged or missing, or a newer Treadle wrote one of them.
    """
    parts = [(thread_id, _entries(store, thread_id, version))]
    while (base := _base_of(parts[-1][1])) is not None:
        parts.append((base.thread, _entries(store, base.thread, base.version)))
    said: dict[int, list[Aside]] = {}
    joined: dict[int, str] = {}
    for part, entries in reversed(parts):
        for aside in asides(store.beginning(part), entries):
            said.setdefault(aside.index, []).append(aside)
        joined.update(joins(store.beginning(part), entries))
    kept = {call: part for part, entries in reversed(parts) for call in _kept(entries)}
    own, beginning = parts[0][1], store.beginning(thread_id)
    inherited = len(beginning.conversation)
    spent = list(spending(own))
    is_whole = sum((one.usage for one in spent), beginning.usage) == used
    begun = dict(beginnings(store.beginning(thread_id), own))
    return Past(own, said, spent if is_whole else (), inherited, begun, joined, kept)


def _kept(entries: Sequence[Numbered]) -> Iterator[str]:
    """The calls whose whole output stands beside the thread."""
    for _, _, entry in entries:
        if isinstance(entry, ToolCompleted) and entry.outcome.blob is not None:
            yield entry.call_id


def _entries(store: LocalStore, thread_id: str, version: int) -> list[Numbered]:
    records = store.scan(thread_id).records[:version]
    return [(record.seq, record.at, decode_entry(record.event)) for record in records]


def _base_of(entries: Sequence[Numbered]) -> Base | None:
    header = entries[0][2] if entries else None
    return header.base if isinstance(header, ThreadCreated) else None


def _facts(
    fold: ThreadFold, document: Thread, entries: Sequence[Numbered]
) -> list[tuple[str, str | None]]:
    """What a thread is, by name; what has no value is not shown."""
    header, base = fold.header, document.forked_from
    state = document.agent_state.kind.replace("_", " ")
    return [
        ("thread", f"{document.id} at version {document.version}"),
        *_task_facts(fold),
        ("title", document.metadata.title),
        ("tags", " ".join(document.metadata.tags)),
        ("state", "waits for approval" if fold.machine.questions else state),
        ("pending", _pending(fold, document)),
        ("trash", "yes: `treadle restore` brings it back" if document.is_trashed else None),
        ("pinned", "yes" if document.metadata.is_pinned else None),
        ("fork of", None if base is None else f"{base.thread} at version {base.version}"),
        ("from", document.imported_from),
        ("parent", None if header.parent is None else f"{header.parent} ({header.parent_call})"),
        ("children", ", ".join(f"{thread} ({call})" for call, thread in fold.children.items())),
        ("changed", _changed(document)),
        ("folder", document.workspace_root),
        ("project", document.project_name),
        ("remote", document.git_remote_url),
        ("branch", document.git_branch),
        ("seen", " ".join(sha[:10] for sha in document.git_commits)),
        *(("commit", _commit(*made)) for made in made_commits(entries)),
        ("model", document.model),
        ("used", describe_usage(document.usage)),
        ("private", "yes: never leaves this machine" if document.is_private else None),
    ]


def _changed(document: Thread) -> str:
    return f"{local_time(document.updated_at)} (created {local_time(document.created_at)})"


def _commit(sha: str, version: int, subject: str) -> str:
    return f"{sha[:10]} at version {version}: {subject}"


def _pending(fold: ThreadFold, document: Thread) -> str | None:
    """How much is not done, in words."""
    counted = [
        (len(fold.machine.questions), "waiting for a yes"),
        (len(document.agent_state.pending_tool_calls) - len(fold.machine.questions), "calls open"),
        (len(fold.queued), "prompts queued"),
    ]
    return ", ".join(f"{count} {what}" for count, what in counted if count > 0) or None


def _task_facts(fold: ThreadFold) -> list[tuple[str, str | None]]:
    """What only a task has."""
    machine = fold.machine
    if not isinstance(machine, TaskMachine):
        return []
    memory = machine.memory
    kind = "" if memory.task_type == "default" else f" ({memory.task_type})"
    return [
        ("task", f"{fold.title() or ''}{kind}"),
        ("step", f"{memory.step} of {memory.config.max_steps}"),
        ("limits", _limits(memory.budget)),
        ("stopped", f"by its limit of {memory.exceeded}" if memory.exceeded else None),
        ("error", memory.error if machine.gave_up is None else machine.gave_up.text),
    ]


def _limits(budget: TokenBudget | None) -> str | None:
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


def _show_messages(fold: ThreadFold, past: Past) -> None:
    """All of them, what happened between them, and which of them a model is not shown any more."""
    hidden, turns = dict(fold.conversation.hidden), by_turn(past.spent)
    machine = fold.machine
    is_done = isinstance(machine, TaskMachine) and machine.memory.final_answer is not None
    last = len(fold.conversation) - 1
    compaction = fold.conversation.compaction
    number = 0
    for index, message in enumerate(fold.conversation):
        if compaction is not None and index == compaction.through:
            _show_compaction(index)
        if index and index == past.inherited:
            _show_aside("here the fork begins")
        if (turn := past.begun.get(index)) is not None:
            _show_turn(number, turns)
            number = turn.number
            _show_head(turn)
        if (host := past.joined.get(index)) is not None:
            _show_turn(number, turns)
            number = 0  # what joined was said in turns of another machine
            _show_rule(f"from {host}, joined here")
        for aside in past.said.get(index, ()):
            _show_aside(aside.text)
        if index in hidden:
            _show_aside(f"the next {hidden[index] - index} messages are out of the model's view")
        click.echo()
        who = "answer" if is_done and index == last else message.role
        show_message(message, who, past.kept)
    if compaction is not None and compaction.through > last:
        _show_compaction(last + 1)
    if 0 <= last < past.inherited:
        _show_aside("here the fork begins")
    _show_turn(number, turns)
    for aside in past.said.get(last + 1, ()):
        _show_aside(aside.text)


def _show_aside(text: str) -> None:
    for line in text.splitlines():
        click.echo(click.style(f"  · {printable(line)}", dim=True))


def _show_compaction(count: int) -> None:
    words = f"(the {count} messages above are summarised for the model)"
    click.echo(click.style(f"\n  {words}", dim=True))


def _show_head(turn: Turn) -> None:
    """The numbers that other commands ask for."""
    _show_rule(f"turn {turn.number}, version {turn.version}, {local_time(turn.at)}")


def _show_rule(words: str) -> None:
    click.echo(click.style(f"\n── {printable(words)}", dim=True))


def _show_turn(turn: int, turns: Mapping[int, Usage]) -> None:
    if turn in turns:  # a turn that used nothing has none
        click.echo(click.style(f"  (turn {turn}: {describe_usage(turns[turn])})", dim=True))


def show_message(message: Message, who: str, kept: Mapping[str, str]) -> None:
    """Print a message.

    Args:
        message: the message.
        who: who has said it, unless it has a name.
        kept: the calls whose message is only a part, and the thread that has all of it.
    """
    if message.role == "tool":
        asked = message.tool_call_id or ""
        lines = head(message.content, is_whole=asked not in kept).splitlines() or ["(no output)"]
        if asked in kept:
            lines.append(f"(whole output: treadle show {kept[asked]} --output {asked})")
        for line in lines:
            click.echo(click.style(f"  {printable(line)}", dim=True))
        return
    mark = " (interrupted)" if message.interrupted else ""
    click.echo(click.style(f"{printable(message.name or who)}{mark}:", bold=True))
    if message.content:
        click.echo(printable(message.content))
    for call in message.tool_calls:
        click.echo(click.style(f"● {printable(describe_call(call))}", fg="cyan"))
