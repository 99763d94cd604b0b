"""`AgentMemory.build_messages`: the whole array of messages, in both styles."""

from __future__ import annotations

import pytest

from core.task.tasks import agent, asks, call, does, fine, texts
from treadle.core.messages import Message

CALLED = 'Called tool look with args {"x":"1"}'


def test_the_native_style_is_system_then_task_then_calls_with_their_results() -> None:
    machine = agent("count", system_prompt="be exact")
    does(machine, asks(), fine("a", "three"))
    asked = Message.assistant("", (call(),))
    assert machine.memory.build_messages() == [
        Message("system", "be exact"),
        Message.user("count"),
        asked,
        Message.tool(call(), "three"),
    ]


def test_the_text_style_is_system_then_history_in_words_then_the_task() -> None:
    machine = agent("count", system_prompt="be exact", history_style="text")
    does(machine, asks(), fine("a", "three"))
    assert texts(machine.memory.build_messages()) == [
        ("system", "be exact"),
        ("user", "Task: count"),
        ("assistant", CALLED),
        ("user", "Tool result: three"),
        ("user", "count"),
    ]


@pytest.mark.parametrize("style", ["native", "text"])
def test_without_history_there_is_the_task_and_no_empty_system_message(style: str) -> None:
    machine = agent("count", history_style=style)
    assert machine.memory.build_messages() == [Message.user("count")]


@pytest.mark.parametrize("style", ["native", "text"])
def test_the_request_carries_the_same_messages_and_the_system_text_beside_them(style: str) -> None:
    machine = agent("count", system_prompt="be exact", history_style=style)
    request = does(machine, asks(), fine("a", "three")).request
    assert request.system == "be exact"
    assert [*request.messages] == machine.memory.build_messages()[1:]
