"""The same call with the same result again and again is told beside the result."""

from __future__ import annotations

from treadle.core.conversation import Compaction, Conversation
from treadle.core.messages import Message, ToolCall
from treadle.core.repeated_calls import add_repeat_note, read_outcome
from treadle.core.tools import (
    Outcome,
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

_Success, _Error = ToolExecutionOutcome.Success, ToolExecutionOutcome.Error


def call(number: int, arguments: str = '{"path":"a"}', tool: str = "read_file") -> ToolCall:
    return ToolCall(f"c{number}", tool, arguments)


def said(*rounds: tuple[ToolCall, str], first: int = 1) -> Conversation:
    conversation = Conversation([Message.user("go")])
    for one, text in rounds:
        conversation = conversation.append(Message.assistant("so", (one,)))
        conversation = conversation.append(Message.tool(one, text))
    return conversation


def note_of(
    conversation: Conversation,
    now: ToolCall,
    outcome: Outcome,
    round_: tuple[tuple[ToolCall, Status], ...] = (),
) -> str:
    """What is added to an outcome."""
    conversation = conversation.append(Message.assistant("now", (now,)))
    after = add_repeat_note(conversation, round_, now, outcome)
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


def test_calls_of_the_same_round_count_in_request_order_once_they_have_ended() -> None:
    first, second, third = call(1), call(2), call(3)
    done = [
        ToolExecutionStatus.Completed(one.id, one.tool_name, "", "", _Success(one.id, "same"))
        for one in (first, second)
    ]
    running = ToolExecutionStatus.Running(third.id, "read_file", "")
    round_ = ((first, done[0]), (second, done[1]), (third, running))
    conversation = Conversation([Message.user("go")])
    conversation = conversation.append(Message.assistant("", (first, second, third)))
    same = _Success("c3", "same")
    assert read_outcome(add_repeat_note(conversation, round_, third, same)) == "same"
    assert add_repeat_note(conversation, round_, third, same) != same
    still = ToolExecutionStatus.Running(second.id, "read_file", "")
    open_round = ((first, done[0]), (second, still), (third, running))
    assert add_repeat_note(conversation, open_round, third, same) == same


def test_a_result_that_only_looks_like_the_note_is_left_alone() -> None:
    outcome = _Success("c1", "x\n[this is time seven in a row that this very call")
    assert read_outcome(outcome) == outcome.output
