"""Old results are left out of what a model is shown, where they are half of it; they stay whole."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from case_tables import for_every_row
from core.samples import answer, call, ended, machine, success
from core.test_compaction import FULL_USAGE, TOO_LONG, asked, sent
from treadle.core.actions import MaskResults, Summarize, WaitForInput
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import CallingLlm, Compacting, WaitingForUserInput
from treadle.core.compaction import RESULT_SIZE_MAX, RESULTS_TOKENS_KEPT, find_mask_end
from treadle.core.conversation import Conversation, Masking, View
from treadle.core.events import AgentEvent, Compacted, CompactionRequested, ResultsMasked
from treadle.core.llm import Usage
from treadle.core.messages import Message

LONG: Final = "wool " * 2_000


def rounds(*results: str) -> Conversation:
    """One turn so far, of a call for each of the results."""
    talk = Conversation([Message.user("count the wool")])
    for place, result in enumerate(results):
        wish = call(f"r{place}")
        talk = talk.extend([Message.assistant("I look.", (wish,)), Message.tool(wish, result)])
    return talk


def masked(agent: ConversationMachine, event: AgentEvent) -> MaskResults:
    action = agent.handle_event(event)
    assert isinstance(action, MaskResults)
    assert isinstance(agent.state, Compacting)
    assert agent.obligations() == action
    return action


def leave_out(action: MaskResults, reader: str = "read_file") -> ResultsMasked:
    return ResultsMasked(Masking(action.through, action.size, reader))


STUB: Final = (
    '[The result of look was left out to make room: 10000 bytes; read_file("output:r0") has it]'
)


def test_near_the_limit_old_results_are_left_out_before_anything_is_summed_up() -> None:
    agent = machine(CallingLlm(rounds(LONG, LONG, "short", "wool " * 900).with_tokens(700)))
    agent.handle_event(answer("", call("n"), usage=FULL_USAGE))
    action = masked(agent, ended("n", success("n", LONG)))
    before = list(agent.conversation)
    messages = sent(agent, leave_out(action))
    assert list(agent.conversation) == before
    assert [one.content for one in messages if one.role == "tool"] == [
        STUB,
        STUB.replace("r0", "r1"),
        "short",
        "wool " * 900,
        LONG,
    ]
    assert [replace(one, content="") for one in messages] == [
        replace(one, content="") for one in before
    ], "each call has its result, and everything else stays as it was"
    assert agent.conversation.tokens == 0


def test_what_is_left_out_stays_the_same_bytes_in_every_later_request() -> None:
    agent = machine(CallingLlm(rounds(LONG, LONG, LONG, "short")))
    first = sent(agent, leave_out(masked(agent, TOO_LONG)))
    agent.handle_event(answer("", call("n"), usage=Usage(300, 1)))
    second = sent(agent, ended("n", success("n", LONG)))
    assert second[: len(first)] == first
    assert agent.conversation.rewind(agent.conversation.view).in_view == agent.conversation.in_view


@for_every_row(
    "results, through",
    [
        ([], 0),
        ([LONG], 0),
        ([LONG, "short"], 3),
        ([LONG, LONG], 0),
        ([LONG, LONG, LONG], 5),
        ([LONG, LONG + LONG], 0),
        (["wool " * 200] * 9, 0),
        (["wool " * 201] * 9, 15),
        ([LONG] * 6, 9),
        ([LONG] * 7, 11),
    ],
)
def test_results_are_left_out_only_where_that_takes_half_of_the_conversation(
    results: list[str], through: int
) -> None:
    assert find_mask_end(rounds(*results)) == through


def test_the_newest_results_stay_and_what_was_left_out_does_not_count_again() -> None:
    talk = rounds(*["wool " * 16_000] * 20)
    through = find_mask_end(talk)
    whole = [at for at in range(through, len(talk)) if talk[at].role == "tool"]
    assert len(whole) == 1 + RESULTS_TOKENS_KEPT * 4 // 80_000
    talk = rounds(*[LONG] * 7)
    assert find_mask_end(talk.mask(Masking(find_mask_end(talk), RESULT_SIZE_MAX))) == 0


def test_a_person_who_asks_has_a_summary_written_whatever_the_results_are() -> None:
    agent = machine(WaitingForUserInput(rounds(LONG, "short").append(Message.assistant("ten"))))
    asked(agent, CompactionRequested())
    assert isinstance(agent.obligations(), Summarize)
    state = agent.state
    assert agent.handle_event(ResultsMasked(Masking(3, 1_000))) == WaitForInput()
    assert agent.state is state


def test_a_request_that_is_too_long_without_the_results_too_is_summed_up_then() -> None:
    agent = machine(CallingLlm(rounds(LONG, "short")))
    sent(agent, leave_out(masked(agent, TOO_LONG)))
    action = asked(agent, TOO_LONG)
    assert STUB in action.request.messages[0].content
    assert len(sent(agent, Compacted(action.through, "sum", words=action.words))) == 4


def test_a_journal_of_before_results_were_left_out_folds_as_it_did() -> None:
    """There a summary was written where now a line would stand: the record decides."""
    agent = machine(CallingLlm(rounds(LONG, "short")))
    masked(agent, TOO_LONG)
    assert [one.role for one in sent(agent, Compacted(3, "sum"))] == ["user", "assistant", "tool"]


def test_without_a_tool_that_reads_results_the_model_is_told_so() -> None:
    agent = machine(CallingLlm(rounds(LONG, "short")))
    messages = sent(agent, leave_out(masked(agent, TOO_LONG), reader=""))
    assert messages[2].content.endswith("10000 bytes; it cannot be shown again]")


def test_going_back_to_before_it_shows_the_results_again() -> None:
    talk = rounds(LONG, "short")
    left_out = talk.mask(Masking(3, 1_000))
    assert left_out.rewind(talk.view).in_view[:] == talk[:]
    assert not talk.can_show(View(4, masking=Masking(5, 1_000)))
    assert not talk.can_show(View(4, masking=Masking(0, 1_000)))
