"""Every move leaves one line in the log, every refusal a warning; what was said stays out."""

from __future__ import annotations

import logging

import pytest

from core.samples import CONFIG, TALK, answer, broken, machine, said
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import CallingLlm
from treadle.core.events import LlmEvent, RetryTimeoutFired


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_a_transition_is_one_line_with_thread_state_event_state_and_action(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="treadle.chat")
    agent = machine()
    agent.handle_event(said("my secret"))
    agent.handle_event(broken())
    agent.handle_event(RetryTimeoutFired())
    agent.handle_event(answer("done"))
    assert lines(caplog) == [
        (logging.INFO, "T-1: WaitingForUserInput --UserInput--> CallingLlm / SendLlmRequest"),
        (logging.INFO, "T-1: CallingLlm --LlmEvent.Error--> Error / WaitForInput"),
        (logging.INFO, "T-1: Error --RetryTimeoutFired--> CallingLlm / SendLlmRequest"),
        (
            logging.INFO,
            "T-1: CallingLlm --LlmEvent.Completed--> WaitingForUserInput / WaitForInput",
        ),
    ]


def test_what_people_and_models_say_is_in_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="treadle.chat")
    agent = machine()
    agent.handle_event(said("my secret"))
    agent.handle_event(LlmEvent.TextDelta("your secret"))
    agent.handle_event(said("our secret"))
    assert len(caplog.records) == 3
    assert "secret" not in caplog.text


def test_a_refusal_is_a_warning_that_names_thread_state_and_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine(CallingLlm(TALK)).handle_event(said())
    assert lines(caplog) == [
        (logging.WARNING, "T-1: CallingLlm refuses UserInput; nothing changed")
    ]


def test_events_that_stay_in_their_state_are_logged_for_debugging_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="treadle.chat")
    machine(CallingLlm(TALK)).handle_event(LlmEvent.TextDelta("x"))
    assert lines(caplog) == []
    caplog.set_level(logging.DEBUG, logger="treadle.chat")
    machine(CallingLlm(TALK)).handle_event(LlmEvent.TextDelta("x"))
    text = "T-1: CallingLlm --LlmEvent.TextDelta--> CallingLlm / DisplayMessage"
    assert lines(caplog) == [(logging.DEBUG, text)]


def test_a_machine_without_a_thread_still_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="treadle.chat")
    ConversationMachine(CONFIG).handle_event(said())
    assert lines(caplog)[0][1].startswith("-: WaitingForUserInput --")
