"""Whether a model makes the same call again and again, and what it is told then. Pure.

It is seen from the conversation alone, so whoever goes on with the thread sees it
too. The note is part of the result as that is recorded: a replay needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec.structs import replace

from treadle.core.conversation import Conversation
from treadle.core.messages import ToolCall, is_by_person
from treadle.core.tools import Outcome, ToolExecutionOutcome, format_outcome

REPEATS_MIN: Final = 3
"""From the how manieth time in a row on it is said."""

_NOTE_HEAD: Final = "\n[this is time "
_NOTE_TAIL: Final = (
    " in a row that this very call ends with this very result: once more will not change it; do "
    "something else, or say what is in the way]"
)


def add_repeat_note(conversation: Conversation, call: ToolCall, outcome: Outcome) -> Outcome:
    """The outcome of a call, with a note if the calls before it were the same and ended the same.

    What a person has said in between begins the count anew, and so does a compaction. Calls of the
    same round do not count yet: nobody has read how they ended when this one was asked for.

    Args:
        conversation: what was said up to the round of the call.
        call: the one that has ended, with the arguments that it ran with.
        outcome: how, as it is to be recorded.
    """
    text = read_outcome(outcome)
    wanted = (call.tool_name, call.arguments_json, text)
    count = 1
    for earlier in _list_backwards(conversation):
        if earlier != wanted:
            break
        count += 1
    if count < REPEATS_MIN:
        return outcome
    return append_note(outcome, f"{_NOTE_HEAD}{count}{_NOTE_TAIL}")


def read_outcome(outcome: Outcome) -> str:
    """What the model reads of an outcome, without a note of this module."""
    return _remove_note(format_outcome(outcome))


def _remove_note(text: str) -> str:
    if not text.endswith(_NOTE_TAIL):
        return text
    start = text.rfind(_NOTE_HEAD)
    is_note = text[start:].removeprefix(_NOTE_HEAD).removesuffix(_NOTE_TAIL).isdecimal()
    return text[:start] if start >= 0 and is_note else text


def _list_backwards(conversation: Conversation) -> Iterator[_Ended]:
    """The calls that have a result, the latest first."""
    results: dict[str, str] = {}
    # The view and not all messages: what was gone back from, and what a summary stands for, the
    # model does not see.
    for message in reversed(conversation.in_view):
        if is_by_person(message):
            return
        if message.role == "tool" and message.tool_call_id is not None:
            results[message.tool_call_id] = message.content
        for one in reversed(message.tool_calls):
            if one.id in results:  # else it is of the round
                yield one.tool_name, one.arguments_json, _remove_note(results[one.id])


_Ended: TypeAlias = tuple[str, str, str]
"""The tool of a call that has ended, its arguments, and what the model read of it."""


def append_note(outcome: Outcome, note: str) -> Outcome:
    """The outcome with a note at the end of what the model reads."""
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return replace(outcome, output=f"{outcome.output}{note}")
    error = outcome.error
    if error.output:
        return replace(outcome, error=replace(error, output=f"{error.output}{note}"))
    return replace(outcome, error=replace(error, message=f"{error.message}{note}"))
