"""Going back changes what a model is shown; no message is lost, and calls keep their results."""

from __future__ import annotations

from random import Random

from case_tables import for_every_row
from core.random_events import check_pairs, random_durable_event
from core.samples import CONFIG, TALK, answer, call, ended, machine, said
from treadle.core.actions import SendLlmRequest
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import WaitingForUserInput
from treadle.core.conversation import SUMMARY_HEAD, Compaction, Conversation, View
from treadle.core.events import CancelRequested, Rewound
from treadle.core.messages import Message

ROUND = (Message.assistant("", (call("a"),)), Message.tool(call("a"), "one"))
LONG = Conversation([Message.user("one"), *ROUND, Message.assistant("two"), Message.user("three")])


def shown(conversation: Conversation) -> list[str]:
    return [message.content for message in conversation.in_view]


def test_what_came_after_is_out_of_view_and_still_there() -> None:
    back = LONG.rewind(View(1))
    assert shown(back) == ["one"]
    assert list(back) == list(LONG)
    assert back.hidden == ((1, 5),)
    assert shown(LONG) == ["one", "", "one", "two", "three"]


def test_what_is_said_after_going_back_follows_what_is_in_view() -> None:
    back = LONG.rewind(View(1)).append(Message.user("again"))
    assert shown(back) == ["one", "again"]
    assert len(back) == 6


def test_going_back_twice_hides_both_and_going_back_to_before_it_shows_them_again() -> None:
    once = LONG.rewind(View(4)).append(Message.user("again"))
    assert shown(once) == ["one", "", "one", "two", "again"]
    twice = once.rewind(View(1))
    assert shown(twice) == ["one"]
    undone = twice.rewind(once.view)
    assert shown(undone) == shown(once)
    assert shown(undone.rewind(LONG.view)) == shown(LONG)


def test_going_back_to_before_a_compaction_shows_all_again_and_to_after_it_the_summary() -> None:
    summed_up = LONG.compact(Compaction(4, "it was long"))
    assert shown(summed_up) == [SUMMARY_HEAD + "it was long", "three"]
    assert shown(summed_up.rewind(LONG.view)) == shown(LONG)
    more = summed_up.append(Message.assistant("four"))
    assert shown(more.rewind(summed_up.view)) == shown(summed_up)
    both = more.rewind(View(3)).compact(Compaction(6, "all"))
    assert shown(both) == [SUMMARY_HEAD + "all"]


def test_a_view_without_a_gap_leaves_everything_in_view() -> None:
    assert shown(LONG.rewind(LONG.view)) == shown(LONG)
    assert LONG.rewind(LONG.view).hidden == ()


@for_every_row(
    "view, fits",
    [
        (View(0), True),
        (View(1), True),
        (View(2), False),  # the call without its result
        (View(3), True),
        (View(5), True),
        (View(6), False),
        (View(-1), False),
        (View(5, hidden=((1, 3),)), True),
        (View(5, hidden=((1, 2),)), False),
        (View(5, hidden=((2, 3),)), False),
        (View(5, hidden=((3, 1),)), False),
        (View(1, hidden=((1, 3),)), False),
        (View(5, Compaction(3, "")), True),
        (View(5, Compaction(2, "")), False),
        (View(5, Compaction(0, "")), False),
        (View(3, Compaction(4, "")), False),
    ],
)
def test_a_view_fits_where_calls_stay_beside_their_results(view: View, fits: bool) -> None:
    assert LONG.can_show(view) is fits
    agent = ConversationMachine(CONFIG).with_state(WaitingForUserInput(LONG))
    agent.handle_event(Rewound(1, view))
    assert (agent.conversation.view != LONG.view) is (fits and view != LONG.view)


def test_an_id_that_was_used_in_what_is_hidden_is_not_used_again() -> None:
    agent = machine(WaitingForUserInput(LONG))
    agent.handle_event(Rewound(1, View(0)))
    agent.handle_event(said("again"))
    agent.handle_event(answer("", call("a")))
    [asked] = agent.conversation[-1].tool_calls
    assert asked.id not in ("a", "")


def test_a_request_after_going_back_holds_what_is_in_view_alone() -> None:
    agent = machine(WaitingForUserInput(LONG))
    agent.handle_event(Rewound(1, View(1)))
    action = agent.handle_event(said("again"))
    assert isinstance(action, SendLlmRequest)
    assert [message.content for message in action.request.messages] == ["one", "again"]


def test_going_back_is_refused_while_something_is_open() -> None:
    agent = machine(WaitingForUserInput(TALK))
    agent.handle_event(said("go"))
    before = agent.state
    agent.handle_event(Rewound(1, View(0)))
    assert agent.state is before
    agent.handle_event(answer("", call("x")))
    before = agent.state
    agent.handle_event(Rewound(1, View(0)))
    assert agent.state is before
    agent.handle_event(ended("x"))


@for_every_row("seed", range(200))
def test_after_any_session_each_view_it_ever_had_can_be_had_again_with_whole_pairs(
    seed: int,
) -> None:
    random, agent = Random(seed), ConversationMachine(CONFIG)
    seen: list[tuple[View, list[Message]]] = []
    for clock in range(60):
        agent.handle_event(random_durable_event(random, agent.state, clock))
        if isinstance(agent.state, WaitingForUserInput):
            conversation = agent.conversation
            seen.append((conversation.view, list(conversation.in_view)))
    agent.handle_event(CancelRequested())
    assert isinstance(agent.state, WaitingForUserInput)
    for view, messages in seen:
        agent.handle_event(Rewound(1, view))
        assert list(agent.conversation.in_view) == messages
        check_pairs(messages)


def test_going_back_again_and_again_leaves_one_span_not_one_for_each_time() -> None:
    conversation = Conversation([Message.user("one"), Message.assistant("first")])
    place = conversation.view
    for _ in range(5):
        tried = conversation.append(Message.user("again")).append(Message.assistant("no"))
        conversation = tried.rewind(place)
        place = conversation.view
        assert shown(conversation) == ["one", "first"]
    assert conversation.hidden == ((2, 12),)


def test_what_a_model_has_read_is_not_known_after_going_back() -> None:
    assert LONG.with_tokens(900).rewind(View(1)).tokens == 0
