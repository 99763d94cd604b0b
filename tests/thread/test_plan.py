"""The plan of an agent is what its newest call of the tool says, in what is not gone back from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.core.conversation import Compaction, Conversation, View
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.thread.plan import (
    STEP_COUNT_MAX,
    STEP_LENGTH_MAX,
    AgentPlan,
    PlanStep,
    StepStatus,
    append_forgotten_plan,
    find_plan,
    find_proposed_plan,
    read_plan_call,
)
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

PENDING, DOING, DONE = StepStatus.PENDING, StepStatus.IN_PROGRESS, StepStatus.DONE


def plan(*steps: tuple[str, StepStatus]) -> AgentPlan:
    return AgentPlan(tuple(PlanStep(*one) for one in steps))


def plan_call(told: AgentPlan | str, call_id: str = "p") -> ToolCall:
    if isinstance(told, str):
        return ToolCall(call_id, "plan", told)
    steps = [{"step": one.step, "status": one.status.value} for one in told.steps]
    return ToolCall(call_id, "plan", json.dumps({"steps": steps}))


def round_of(*calls: ToolCall, result: str = "The person sees it.") -> list[Message]:
    return [Message.assistant("", calls), *(Message.tool(one, result) for one in calls)]


ONE, TWO = plan(("a", DOING), ("b", PENDING)), plan(("a", DONE), ("b", DOING))
FINISHED = plan(("a", DONE), ("b", DONE))


@for_every_row(
    "arguments, steps",
    [
        ('{"steps": []}', []),
        ('{"steps": [{"step": "a"}]}', [("a", PENDING)]),
        ('{"steps": [{"step": "a", "status": "completed"}]}', [("a", DONE)]),
        ('{"steps": [{"step": "a", "status": "In Progress"}]}', [("a", DOING)]),
        ('{"steps": [{"step": "a", "status": "todo"}]}', [("a", PENDING)]),
        ('{"steps": "[{\\"step\\": \\"a\\"}]"}', [("a", PENDING)]),
    ],
)
async def test_a_call_says_steps_and_how_far_each_is(
    arguments: str, steps: list[tuple[str, StepStatus]]
) -> None:
    """The tool and whoever reads the thread judge alike."""
    call = plan_call(arguments)
    assert read_plan_call(call) == plan(*steps)
    outcome = await Registry(builtin_tools()).execute(call, key="k", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Success)


@for_every_row(
    "arguments",
    [
        *("", "{", "[]", "{}", '{"steps": {}}', '{"steps": [1]}', '{"steps": [{"step": ""}]}'),
        '{"steps": [{"step": "a", "status": "lost"}]}',
        '{"steps": [{"step": "a", "status": 1}]}',
        '{"steps": [{"step": "\ud800"}]}',
        json.dumps({"steps": [{"step": "x" * (STEP_LENGTH_MAX + 1)}]}),
        json.dumps({"steps": [{"step": "x"}] * (STEP_COUNT_MAX + 1)}),
    ],
)
async def test_a_call_that_says_none_fails_and_changes_nothing(arguments: str) -> None:
    """The tool and whoever reads the thread judge alike."""
    call = plan_call(arguments)
    assert read_plan_call(call) is None
    outcome = await Registry(builtin_tools()).execute(call, key="k", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.INVALID_ARGUMENTS
    assert find_plan([*round_of(plan_call(ONE)), *round_of(call)]) == ONE


async def test_the_tool_says_how_far_it_is() -> None:
    outcome = await Registry(builtin_tools()).execute(
        plan_call(TWO), key="k", progress=lambda _: None
    )
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    assert outcome.output == "The person sees it: 1 of 2 done, now: b."


def test_the_newest_that_succeeded_holds() -> None:
    first, second = round_of(plan_call(ONE)), round_of(plan_call(TWO, "q"))
    assert find_plan([]) is None
    assert find_plan([Message.user("plan"), Message.assistant("no")]) is None
    assert find_plan([*first, *second]) == TWO
    assert find_plan([*first, *round_of(plan_call(TWO, "q"), result="ERROR: rejected")]) == ONE
    assert find_plan([*first, *round_of(plan_call(AgentPlan(()), "q"))]) is None
    both = round_of(plan_call(ONE), plan_call(TWO, "q"))
    assert find_plan(both) == TWO


def test_going_back_brings_back_the_plan_that_held_then_and_a_compaction_keeps_it() -> None:
    talk = Conversation([Message.user("one"), *round_of(plan_call(ONE)), Message.assistant("done")])
    then = talk.view
    for message in (Message.user("two"), *round_of(plan_call(TWO, "q")), Message.assistant("done")):
        talk = talk.append(message)
    assert find_plan(talk) == TWO
    assert find_plan(talk.compact(Compaction(len(talk), "much was said"))) == TWO
    back = talk.rewind(then)
    assert find_plan(back) == ONE
    assert find_proposed_plan(back) == ONE
    assert find_plan(back.rewind(View(0))) is None


def test_only_a_turn_that_has_ended_with_an_answer_proposes_its_plan() -> None:
    asked, told = Message.user("plan it"), round_of(plan_call(ONE))
    answer = Message.assistant("This is my plan.")

    def proposed(*messages: Message) -> AgentPlan | None:
        return find_proposed_plan(Conversation(messages))

    assert proposed() is None
    assert proposed(asked, *told, answer) == ONE
    assert proposed(asked, *told) is None
    assert proposed(asked, *told, Message("assistant", "This is", interrupted=True)) is None
    assert proposed(asked, *told, answer, Message.user("and now?")) is None
    assert proposed(asked, *told, answer, Message.user("and?"), Message.assistant("so")) is None
    assert proposed(asked, *told, Message.note("a hook says hello"), answer) == ONE
    assert proposed(asked, *round_of(plan_call(FINISHED)), answer) is None


@pytest.mark.parametrize(
    ("told", "words"), [(ONE, "0 of 2 done, now: a"), (FINISHED, "2 of 2 done")]
)
def test_a_plan_in_a_few_words(told: AgentPlan, words: str) -> None:
    assert told.summary == words


@given(st.text())
def test_no_text_of_arguments_raises(arguments: str) -> None:
    read_plan_call(plan_call(arguments))


def test_a_summary_keeps_the_plan_that_it_stands_for_unless_one_was_told_since() -> None:
    def told(*steps: tuple[str, StepStatus]) -> tuple[Message, Message]:
        call = plan_call(plan(*steps))
        asked = Message("assistant", "", tool_calls=(call,))
        return asked, Message("tool", "seen", tool_call_id=call.id)

    early = told(("read", DONE), ("mend it", DOING))
    talk = Conversation([Message.user("go"), *early, Message("assistant", "on")])
    kept = "so far\n\nThe plan, as it was told last:\n- done: read\n- in_progress: mend it"
    over = talk.extend(told(("mend", DONE)))
    wanted = {
        "told before the cut": (talk, 3, kept),
        "told behind it": (talk, 1, "so far"),
        "told anew since": (talk.extend(told(("mend", PENDING))), 3, "so far"),
        "all done": (over, len(over), "so far"),
        "none": (Conversation([Message.user("go")]), 1, "so far"),
    }
    found = {
        name: append_forgotten_plan(messages, through, "so far")
        for name, (messages, through, _) in wanted.items()
    }
    assert found == {name: text for name, (_, _, text) in wanted.items()}
