"""A turn as it was recorded: what was said, what the model called then, and how the files stood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.evaluation.values import Divergence
from treadle.app.threads.call_arguments import read_arguments
from treadle.app.threads.call_text import describe_call
from treadle.core.approval import OnlyRead
from treadle.core.events import LlmEvent, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import TaskGiven
from treadle.core.tool_families import ToolKind, kind_of, names_of
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore
from treadle.thread.codec import decode_entry, get_usage
from treadle.thread.facts import FilesNotSaved, FilesSaved, GitObserved
from treadle.thread.fold import ThreadFold
from treadle.thread.history import NumberedEntry, list_turns
from treadle.thread.typed_words import SITUATION_HEAD


class NotRunError(UsageError):
    """A case cannot be run as it was recorded; the message says why."""


class RecordedTurn(Struct, frozen=True):
    """A turn, and all that it takes to run it again.

    `version` is where its thread was forked before it, `workspace` the folder it ran in. `files` is
    the state of the files before the agent changed any; `None` if they were those of `commit`. A
    `task` begins anew, with nothing before it.
    """

    thread: str
    number: int
    version: int
    message: Message
    calls: tuple[ToolCall, ...]
    usage: Usage
    workspace: str | None
    files: FilesSaved | None
    commit: str
    was_plan: bool
    model_name: str = ""
    task: TaskGiven | None = None


def list_cases(store: LocalStore, name: str) -> list[str]:
    """The turns that a name means, each as `ID:TURN`; those of the base of a fork are not its own.

    Args:
        store: the threads.
        name: the beginning or the end of an id, and perhaps `:TURN`.

    Raises:
        UsageError: there is no such turn, or the thread has none.
        StoreError: the thread cannot be read.
    """
    beginning, colon, number = name.partition(":")
    thread = store.resolve(beginning)
    known = [str(turn.number) for turn in list_turns(_read_entries(store, thread))]
    if not known:
        raise UsageError(f"thread {thread} has no turn that could be run again")
    if colon and number not in known:
        raise UsageError(f"thread {thread} has turns 1 to {known[-1]}, not {number!r}")
    return [f"{thread}:{one}" for one in ([number] if colon else known)]


def read_turn(store: LocalStore, case: str) -> RecordedTurn:
    """The turn of a case.

    Raises:
        NotRunError: nobody knows how the files stood, or only another program can run it.
        StoreError: the thread cannot be read.
    """
    thread, _, number = case.partition(":")
    entries = _read_entries(store, thread)
    turns = list(list_turns(entries))
    begin = turns[int(number) - 1].version
    end = turns[int(number)].version if int(number) < len(turns) else len(entries) + 1
    first = entries[begin - 1][2]
    assert isinstance(first, UserInput | TaskGiven)
    before = store.load(thread, begin - 1).fold
    files, commit = _find_files(entries, begin, end, before)
    of_turn = entries[begin - 1 : end - 1]
    return RecordedTurn(
        thread,
        int(number),
        begin - 1,
        _find_message(first),
        tuple(_list_calls(of_turn)),
        sum((used for _, _, one in of_turn if (used := get_usage(one)) is not None), Usage()),
        before.workspace,
        files,
        commit,
        isinstance(before.machine.config.approval, OnlyRead),
        before.machine.config.model_name,
        _find_task(before, first),
    )


def _find_message(first: UserInput | TaskGiven) -> Message:
    if isinstance(first, UserInput):
        return first.message
    return Message.user(first.task, first.attachments, first.seen)


def _find_task(before: ThreadFold, first: UserInput | TaskGiven) -> TaskGiven | None:
    """The task that a thread is, if it is one.

    Raises:
        NotRunError: only the program that began it has what it takes.
    """
    if isinstance(first, UserInput):
        return None
    if before.header.parent is not None:
        raise NotRunError("it is a sub-agent's, which runs with the thread it works for")
    tools = {tool.name for tool in before.machine.config.tools}
    if first.graph is not None or not tools <= names_of(*ToolKind):
        raise NotRunError("it has a graph of a program's own, or tools that are not built in")
    return first


def read_calls(store: LocalStore, thread_id: str) -> tuple[ToolCall, ...]:
    """What the model has called in a thread's own records. Raises `StoreError`."""
    return tuple(_list_calls(_read_entries(store, thread_id)))


def find_divergence(
    recorded: Sequence[ToolCall], now: Sequence[ToolCall], folders: Sequence[str]
) -> Divergence | None:
    """The first call in which two runs differ; `None` if none does.

    Tools of the same kind are the same under whatever name, and so are arguments. Each run had a
    folder of its own, which makes no difference.

    Args:
        recorded: the calls of the one, in order.
        now: those of the other.
        folders: the folders in which they ran.
    """
    for number, (old, new) in enumerate(zip_longest(recorded, now), 1):
        if old is None or new is None:
            lines = ("" if one is None else describe_call(one) for one in (old, new))
            return Divergence(number, *lines)
        (old_kind, old_arguments), (new_kind, new_arguments) = (
            _read(old, folders),
            _read(new, folders),
        )
        if (old_kind, old_arguments) != (new_kind, new_arguments):
            before, after = describe_call(old), describe_call(new)
            names = old_arguments.keys() | new_arguments.keys()
            others = sorted(
                name for name in names if old_arguments.get(name) != new_arguments.get(name)
            )
            what = f" with other {', '.join(others)}" if before == after else ""
            return Divergence(number, before, after + what)
    return None


def make_prompt(message: Message) -> str:
    """What was said, with the files and commands that it told of; without news of the situation.

    The run has news of its own.
    """
    return message.content.partition(SITUATION_HEAD)[0]


def _read(call: ToolCall, folders: Sequence[str]) -> tuple[object, dict[str, Any]]:
    """What a call comes to: its tool, by kind, and its arguments, in whatever order they were."""
    text = call.arguments_json
    for folder in folders:
        text = text.replace(folder, ".")
    arguments = read_arguments(replace(call, arguments_json=text))
    return kind_of(call.tool_name) or call.tool_name, (
        {"arguments": text} if arguments is None else arguments
    )


def _read_entries(store: LocalStore, thread_id: str) -> list[NumberedEntry]:
    records = store.scan(thread_id).records
    return [(one.seq, one.at, decode_entry(one.event)) for one in records]


def _list_calls(entries: Sequence[NumberedEntry]) -> Iterator[ToolCall]:
    for _, _, one in entries:
        if isinstance(one, LlmEvent.Completed):
            yield from one.response.message.tool_calls


def _find_files(
    entries: Sequence[NumberedEntry], begin: int, end: int, before: ThreadFold
) -> tuple[FilesSaved | None, str]:
    """How the files stood before the agent changed any in a turn, and what was checked out then.

    What a person had changed since the last state is in the one before the first round. Where none
    was kept in the turn, because nothing in it could change files, it is the last one, or a commit
    to which nothing was to be added.

    Raises:
        NotRunError: nobody knows.
    """
    files, git = before.files, before.observed
    for _, _, one in entries[begin - 1 : end - 1]:
        if isinstance(one, GitObserved):
            git = one
        elif isinstance(one, FilesNotSaved):
            raise NotRunError(f"the files were not kept before it: {one.why}")
        elif isinstance(one, FilesSaved):
            files = one if one.moment == "before" else files
            break
    head = "" if git is None or git.head is None else git.head
    if files is None and (git is None or git.dirty or not head):
        raise NotRunError("nobody knows how the files stood: no state of them is recorded")
    return files, head
