"""What the model was told of files, and what of that still counts."""

from __future__ import annotations

from treadle.core.conversation import Compaction, Conversation, View
from treadle.core.events import ToolCompleted
from treadle.core.messages import Message, SeenFile, ToolCall
from treadle.core.sightings import (
    SIGHTING_COUNT_MAX,
    Sighting,
    Sightings,
    add_message_sightings,
    add_sightings,
)
from treadle.core.tools import (
    RewrittenFile,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)

OLD, NEW, OTHER = SeenFile("a", "1", 1, 9), SeenFile("a", "2"), SeenFile("b", "3")


def completed(call_id: str, *seen: SeenFile, writes: str = "") -> ToolCompleted:
    rewritten = (RewrittenFile(writes, "1", "2"),) if writes else ()
    outcome = ToolExecutionOutcome.Success(call_id, "", rewritten=rewritten, seen=seen)
    return ToolCompleted(call_id, outcome)


def asked(*ids: str) -> Conversation:
    """A conversation in which each of these calls had a round of its own."""
    conversation = Conversation([Message.user("go")])
    for call_id in ids:
        call = ToolCall(call_id, "look")
        conversation = conversation.append(Message.assistant("", (call,)))
        conversation = conversation.append(Message.tool(call, f"result of {call_id}"))
    return conversation


def test_an_outcome_tells_of_files_whether_it_is_good_or_bad() -> None:
    error = ToolError(ToolErrorKind.FAILED, "no")
    refused = ToolCompleted("c2", ToolExecutionOutcome.Error("c2", error, seen=(OTHER,)))
    found = add_sightings(add_sightings((), completed("c1", OLD)), refused)
    found = add_sightings(found, completed("c3", NEW, writes="a"))
    assert found == (Sighting("c1", OLD), Sighting("c2", OTHER), Sighting("c3", NEW, is_write=True))
    assert add_sightings(found, completed("c4")) is found


def test_only_so_many_are_kept_the_newest() -> None:
    found: tuple[Sighting, ...] = ()
    for number in range(SIGHTING_COUNT_MAX + 3):
        found = add_sightings(found, completed(f"c{number}", OLD))
    assert len(found) == SIGHTING_COUNT_MAX
    assert found[-1].call_id == f"c{SIGHTING_COUNT_MAX + 2}"


def ids(sightings: Sightings, name: str = "a") -> list[str]:
    return [one.call_id for one in sightings.of_file(name)]


FOUND = (Sighting("c1", OLD), Sighting("c2", NEW), Sighting("c3", OTHER))


def test_the_newest_stands_first_and_each_file_by_itself() -> None:
    sightings = Sightings(FOUND, asked("c1", "c2", "c3"), frozenset())
    assert ids(sightings) == ["c2", "c1"]
    assert [one.call_id for one in sightings.newest()] == ["c3", "c2", "c1"]
    assert ids(sightings, "c") == []


def test_what_a_rewind_has_hidden_was_never_said_and_is_said_again_when_that_is_undone() -> None:
    whole = asked("c1", "c2")
    back = whole.rewind(View(3))
    assert ids(Sightings(FOUND, back, frozenset())) == ["c1"]
    assert ids(Sightings(FOUND, back.rewind(whole.view), frozenset())) == ["c2", "c1"]


def test_of_calls_of_the_same_round_only_what_they_wrote_counts() -> None:
    found = (Sighting("c1", OLD), Sighting("c2", NEW, is_write=True))
    assert ids(Sightings(found, asked("c1", "c2"), frozenset({"c1", "c2"}))) == ["c2"]


def test_a_call_that_is_nowhere_in_the_conversation_told_nobody() -> None:
    assert ids(Sightings(FOUND, asked("c2"), frozenset())) == ["c2"]


def test_a_result_is_in_view_as_long_as_it_stands_there_as_it_was() -> None:
    whole = asked("c1", "c2")
    for conversation, in_view in [
        (whole, [True, True]),
        (whole.compact(Compaction(3, "summary")), [False, True]),
        (whole.compact(Compaction(5, "summary")), [False, False]),
        (whole.rewind(View(3)), [True, False]),
    ]:
        sightings = Sightings(FOUND, conversation, frozenset())
        assert [sightings.is_in_view(one) for one in FOUND[:2]] == in_view


def test_a_message_tells_of_the_files_that_stand_in_it() -> None:
    talk = Conversation([Message.user("go", seen=(OLD, OTHER)), Message.assistant("yes")])
    assert add_message_sightings((), talk, 1) == ()
    talk = talk.append(Message.user("and", seen=(NEW,)))
    found = (*add_message_sightings((), talk.rewind(View(1)), 2), Sighting("c1", OLD))
    assert found == (Sighting("", NEW, message=2), Sighting("c1", OLD))
    for conversation, told, in_view in [
        (talk, True, True),
        (talk.compact(Compaction(2, "summary")), True, True),
        (talk.compact(Compaction(3, "summary", 1000)), True, False),
        (talk.rewind(View(2)), False, False),
        (talk.rewind(View(2)).rewind(talk.view), True, True),
        (Conversation(talk[:2]), False, False),
    ]:
        sightings = Sightings(found, conversation, frozenset())
        assert (bool(list(sightings.newest())), sightings.is_in_view(found[0])) == (told, in_view)


def test_a_message_is_counted_in_the_number_that_is_kept() -> None:
    found = (Sighting("c1", OLD),) * SIGHTING_COUNT_MAX
    found = add_message_sightings(found, Conversation([Message.user("go", seen=(OLD, NEW))]), 0)
    assert (len(found), found[-1]) == (SIGHTING_COUNT_MAX, Sighting("", NEW, message=0))


def test_a_call_without_a_result_yet_is_not_in_view() -> None:
    open_call = asked("c1").append(Message.assistant("", (ToolCall("c2", "look"),)))
    assert not Sightings(FOUND, open_call, frozenset()).is_in_view(FOUND[1])
