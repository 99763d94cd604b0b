"""The same call with the same result again and again is told beside the result."""

from __future__ import annotations

from treadle.core.conversation import Compaction, Conversation
from treadle.core.messages import Message, ToolCall
from treadle.core.repeated_calls import add_repeat_note, read_outcome
from treadle.core.tools import (
    Outcome,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)

_Success, _Error = ToolExecutionOutcome.Success, ToolExecutionOutcome.Error


def call(number: int, arguments: str = '{"path":"a"}', tool: str = "read_file") -> ToolCall:
    return ToolCall(f"c{number}", tool, arguments)


def said(*rounds: tuple[ToolCall, str]) -> Conversation:
    conversation = Conversation([Message.user("go")])
    for one, text in rounds:
        conversation = conversation.append(Message.assistant("so", (one,)))
        conversation = conversation.append(Message.tool(one, text))
    return conversation


def note_of(conversation: Conversation, now: ToolCall, outcome: Outcome) -> str:
    """What is added to an outcome."""
    conversation = conversation.append(Message.assistant("now", (now,)))
    after = add_repeat_note(conversation, now, outcome)
    text = read_outcome(outcome)
    assert read_outcome(after) == text, "the note is no part of the result"
    shown = after.output if isinstance(after, _Success) else f"ERROR: {after.error.text}"
    assert shown.startswith(text)
    return shown[len(text) :]


def test_from_the_third_time_on_it_is_told_and_how_often() -> None:
    conversation = said()
    for number in range(1, 7):
        now, outcome = call(number), _Success(f"c{number}", "same")
        note = note_of(conversation, now, outcome)
        assert bool(note) == (number >= 3)
        assert note.startswith(f"\n[this is time {number} in a row that") or number < 3
        conversation = conversation.append(Message.assistant("so", (now,)))
        conversation = conversation.append(Message.tool(now, f"same{note}"))


def test_what_breaks_the_row() -> None:
    twice = said((call(1), "same"), (call(2), "same"))
    same = _Success("c9", "same")
    assert note_of(twice, call(9), same)
    assert not note_of(twice, call(9), _Success("c9", "other"))
    assert not note_of(twice, call(9, '{"path":"b"}'), same)
    assert not note_of(twice, call(9, tool="list_files"), same)
    other = said((call(1), "same"), (call(2, '{"path":"b"}'), "same"), (call(3), "same"))
    assert not note_of(other, call(9), same)
    assert not note_of(twice.append(Message.user("try again")), call(9), same)
    assert note_of(twice.append(Message.note("committed")), call(9), same), "a note is no prompt"
    compacted = twice.compact(Compaction(len(twice), "what was"))
    assert not note_of(compacted, call(9), same), "the model does not see them any more"


def test_failures_count_with_their_words_and_get_the_note_at_their_end() -> None:
    error = ToolError(ToolErrorKind.FAILED, "no", "so far")
    text = f"ERROR: {error.text}"
    twice = said((call(1), text), (call(2), text))
    assert note_of(twice, call(9), _Error("c9", error))
    plain = ToolError(ToolErrorKind.FAILED, "no")
    assert not note_of(twice, call(9), _Error("c9", plain))


def test_calls_of_the_same_round_do_not_count() -> None:
    twice = said((call(1), "same"), (call(2), "same"))
    round_ = Message.assistant("", (call(7), call(8), call(9)))
    for one in round_.tool_calls:
        after = add_repeat_note(twice.append(round_), one, _Success(one.id, "same"))
        assert "this is time 3 in a row" in str(after)
    alone = said().append(round_)
    for one in round_.tool_calls:
        same = _Success(one.id, "same")
        assert add_repeat_note(alone, one, same) == same


def test_a_result_that_only_looks_like_the_note_is_left_alone() -> None:
    outcome = _Success("c1", "x\n[this is time seven in a row that this very call")
    assert read_outcome(outcome) == outcome.output
