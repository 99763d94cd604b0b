"""Failures that can pass are retried, as often and after as long as the design says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from case_tables import for_every_row
from core.samples import RETRYABLE_IN_WORDS, TALK, broken, machine, said
from treadle.core.actions import DisplayError, SendLlmRequest, WaitForInput
from treadle.core.chat.states import CallingLlm, Error, ErrorOrigin, WaitingForUserInput
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent, RetryTimeoutFired
from treadle.core.llm import ADVICE, LlmError, LlmErrorKind
from treadle.core.messages import Message
from treadle.core.retry import KIND_OF_STATUS, RETRY_AFTER_S_MAX, is_retryable, retry_delay_s

NETWORK = LlmError(LlmErrorKind.NETWORK)
numbers = st.floats(allow_nan=True, allow_infinity=True)


@for_every_row("max_retries", [0, 1, 3, 5])
def test_max_retries_counts_the_retries_after_the_first_attempt(max_retries: int) -> None:
    agent = machine(config=AgentConfig(max_retries=max_retries))
    assert isinstance(agent.handle_event(said()), SendLlmRequest)
    retries = 0
    while agent.handle_event(broken()) == WaitForInput():
        assert isinstance(agent.handle_event(RetryTimeoutFired()), SendLlmRequest)
        retries += 1
    assert retries == max_retries
    assert isinstance(agent.state, WaitingForUserInput)


def test_three_retries_are_the_default() -> None:
    assert AgentConfig().max_retries == 3


def test_an_answer_makes_the_next_request_begin_with_no_retries() -> None:
    agent = machine(CallingLlm(TALK, 2))
    agent.handle_event(LlmEvent.TextDelta("x"))
    assert agent.state == CallingLlm(TALK, 2)
    agent.handle_event(broken(LlmErrorKind.AUTHENTICATION))
    agent.handle_event(said())
    assert isinstance(agent.state, CallingLlm)
    assert agent.state.retries == 0


@for_every_row("kind", list(LlmErrorKind))
def test_only_failures_that_can_pass_are_retried(kind: LlmErrorKind) -> None:
    """Of one message, nothing can be compacted."""
    talk = Conversation([Message.user("go")])
    agent = machine(CallingLlm(talk))
    action = agent.handle_event(broken(kind))
    if kind.value in RETRYABLE_IN_WORDS:
        assert action == WaitForInput()
        assert isinstance(agent.state, Error)
    else:
        words = kind.value.replace("_", " ")
        assert action == DisplayError(f"LLM error: {words}: so it goes; {ADVICE[kind]}")
        assert agent.state == WaitingForUserInput(talk)


def test_the_statuses_that_the_design_retries_are_the_ones_that_are_retried() -> None:
    retried = {status for status, kind in KIND_OF_STATUS.items() if is_retryable(LlmError(kind))}
    assert retried == {408, 409, 429, 500, 502, 503, 504, 529}


def test_the_error_state_holds_the_failure_the_count_its_origin_and_the_delay() -> None:
    agent = machine(CallingLlm(TALK, 1))
    event = broken(LlmErrorKind.OVERLOADED)
    agent.handle_event(event)
    assert agent.state == Error(TALK, event.error, 2, ErrorOrigin.LLM, 1.0)


def test_without_jitter_the_delays_double_from_half_a_second_up_to_thirty() -> None:
    delays = [retry_delay_s(NETWORK, retries, 1.0) for retries in range(9)]
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_count_of_retries_without_bound_still_gives_a_delay() -> None:
    assert retry_delay_s(NETWORK, 10**9, 1.0) == 30


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_jitter_takes_off_at_most_one_half(retries: int, jitter: float) -> None:
    whole = retry_delay_s(NETWORK, retries, 1.0)
    assert whole / 2 <= retry_delay_s(NETWORK, retries, jitter) <= whole


def test_jitter_spreads_the_delay_over_its_whole_range() -> None:
    assert retry_delay_s(NETWORK, 1, 0.0) == 0.5
    assert retry_delay_s(NETWORK, 1, 0.5) == 0.75
    assert retry_delay_s(NETWORK, 1, 1.0) == 1.0


@given(st.integers(0, 100), numbers)
def test_whatever_the_jitter_is_the_delay_stays_within_its_bounds(
    retries: int, jitter: float
) -> None:
    assert 0.25 <= retry_delay_s(NETWORK, retries, jitter) <= 30


@given(st.floats(0, RETRY_AFTER_S_MAX), st.integers(0, 9), st.floats(0, 1))
def test_the_servers_retry_after_wins_over_the_own_delay(
    asked: float, retries: int, jitter: float
) -> None:
    assert retry_delay_s(replace(NETWORK, retry_after_s=asked), retries, jitter) == asked


def test_a_retry_after_in_the_past_means_now() -> None:
    assert retry_delay_s(replace(NETWORK, retry_after_s=-5.0), 0, 1.0) == 0


def test_a_server_that_asks_for_more_than_ten_minutes_is_not_waited_for() -> None:
    assert is_retryable(replace(NETWORK, retry_after_s=600.0))
    assert not is_retryable(replace(NETWORK, retry_after_s=600.5))


@given(numbers, numbers)
def test_no_number_in_a_failure_makes_the_machine_raise_or_wait_for_ever(
    retry_after_s: float, jitter: float
) -> None:
    agent = machine(CallingLlm(TALK))
    error = LlmError(LlmErrorKind.SERVER, retry_after_s=retry_after_s)
    agent.handle_event(LlmEvent.Error(error, jitter))
    if isinstance(agent.state, Error):
        assert 0 <= agent.state.delay_s <= RETRY_AFTER_S_MAX


def test_a_retry_sends_the_same_request_again() -> None:
    agent = machine()
    first = agent.handle_event(said())
    agent.handle_event(broken())
    assert agent.handle_event(RetryTimeoutFired()) == first
