"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treadle.core.budget import TokenBudget
    from treadle.core.llm import Usage
    from treadle.core.messages import Message
    from treadle.store.local import LocalStore
    from treadle.thread.fold import ThreadFold
    from treadle.thread.ledger import Spent
    from treadle.thread.model import Thread


@click.command("show")
@click.argument("thread", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="As it stood at this version.")
@click.option("--usage", "wants_usage", is_flag=True, help="What each request used, and its cost.")
@click.option("--json", "as_json", is_flag=True, help="The thread document, or the list of uses.")
def command(thread: str, version: int | None, wants_usage: bool, as_json: bool) -> None:
    """Show a thread. Needs neither its folder, nor a model, nor the thread to be free."""
    from treadle.store.local import LocalStore
    from treadle.store.places import Places
    from treadle.thread.ledger import by_turn

    store = LocalStore(Places.find())
    loaded = store.load(store.resolve(thread), version)
    document = loaded.fold.document()
    if loaded.problem:
        click.echo(f"treadle: {loaded.problem}", err=True)
    if as_json and not wants_usage:
        _print_json(document)
        return
    spent = _spent(store, document)
    if as_json:
        _print_json(spent)
    elif wants_usage:
        _show_usage(document, spent)
    else:
        _show(loaded.fold, document, by_turn(spent))


def _print_json(value: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _spent(store: LocalStore, document: Thread) -> list[Spent]:
    """Up to the version that is shown: what comes after it may be of a newer program.

    What a damaged journal has lost is not told turn by turn.
    """
    from treadle.core.llm import Usage
    from treadle.errors import TreadleError
    from treadle.thread.codec import decode_entry
    from treadle.thread.ledger import spending

    try:
        records = [r for r in store.scan(document.id).records if r.seq <= document.version]
        spent = list(spending((r.seq, r.at, decode_entry(r.event)) for r in records))
    except TreadleError:
        spent = []
    if sum((one.usage for one in spent), Usage()) != document.usage:
        text = "what each turn used is not known: its records are damaged or missing"
        click.echo(f"treadle: {text}", err=True)
        return []
    return spent


def _show_usage(document: Thread, spent: list[Spent]) -> None:
    from treadle.models.prices.words import describe_usage

    for one in spent:
        where = f"{one.seq:>5}  turn {one.turn:<3}  {one.purpose:<14}  {one.model}"
        click.echo(f"{where}  {describe_usage(one.usage)}")
    click.echo(f"in all: {describe_usage(document.usage)}")


def _show(fold: ThreadFold, document: Thread, turns: Mapping[int, Usage]) -> None:
    from treadle.cli.questions import show_waiting
    from treadle.cli.render import printable

    for name, value in _facts(fold, document):
        if value:
            click.echo(f"{name:<8} {printable(value)}")
    _show_messages(fold, turns)
    questions = fold.machine.questions
    asked = {one.call.id for one in questions}
    for call in document.agent_state.pending_tool_calls:
        if call.call_id not in asked:
            click.echo(f"\nnot finished: {call.tool_name} ({call.call_id})")
    if questions:
        click.echo()
        show_waiting(document.id, questions, err=False)


def _facts(fold: ThreadFold, document: Thread) -> list[tuple[str, str | None]]:
    """What a thread is, by name; what has no value is not shown."""
    from treadle.models.prices.words import describe_usage

    header, state = fold.header, document.agent_state.kind.replace("_", " ")
    return [
        ("thread", f"{document.id} at version {document.version}"),
        *_task_facts(fold),
        ("state", "waits for approval" if fold.machine.questions else state),
        ("parent", None if header.parent is None else f"{header.parent} ({header.parent_call})"),
        ("children", ", ".join(f"{thread} ({call})" for call, thread in fold.children.items())),
        ("changed", f"{document.updated_at} (created {document.created_at})"),
        ("folder", document.workspace_root),
        ("branch", document.git_branch),
        ("commits", " ".join(sha[:10] for sha in document.git_commits)),
        ("model", document.model),
        ("used", describe_usage(document.usage)),
        ("private", "yes: never leaves this machine" if document.is_private else None),
    ]


def _task_facts(fold: ThreadFold) -> list[tuple[str, str | None]]:
    """What only a task has."""
    from treadle.core.task.machine import TaskMachine

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


def _show_messages(fold: ThreadFold, turns: Mapping[int, Usage]) -> None:
    """All of them, where turns end, and how many of them a model is not shown any more."""
    from treadle.core.messages import NOTE
    from treadle.core.task.machine import TaskMachine

    machine = fold.machine
    is_done = isinstance(machine, TaskMachine) and machine.memory.final_answer is not None
    last = len(fold.conversation) - 1
    compaction = fold.conversation.compaction
    turn = 0
    for index, message in enumerate(fold.conversation):
        if compaction is not None and index == compaction.through:
            _show_compaction(index)
        if message.role == "user" and message.name != NOTE:
            _show_turn(turn, turns)
            turn += 1
        click.echo()
        _show_message(message, "answer" if is_done and index == last else message.role)
    if compaction is not None and compaction.through > last:
        _show_compaction(last + 1)
    _show_turn(turn, turns)


def _show_compaction(count: int) -> None:
    words = f"(the {count} messages above are summarised for the model)"
    click.echo(click.style(f"\n  {words}", dim=True))


def _show_turn(turn: int, turns: Mapping[int, Usage]) -> None:
    from treadle.models.prices.words import describe_usage

    if turn in turns:
        click.echo(click.style(f"  (turn {turn}: {describe_usage(turns[turn])})", dim=True))


def _show_message(message: Message, who: str) -> None:
    from treadle.cli.render import describe_call, head, printable

    if message.role == "tool":
        for line in head(message.content).splitlines() or ["(no output)"]:
            click.echo(click.style(f"  {printable(line)}", dim=True))
        return
    mark = " (interrupted)" if message.interrupted else ""
    click.echo(click.style(f"{message.name or who}{mark}:", bold=True))
    if message.content:
        click.echo(printable(message.content))
    for call in message.tool_calls:
        click.echo(click.style(f"● {printable(describe_call(call))}", fg="cyan"))
