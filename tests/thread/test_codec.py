"""Entries cross one border on their way to disk, and the machine is fed what came back over it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from case_tables import for_every_row
from core.samples import CONFIG, answer, broken, call, decided, said
from thread.journals import ENTRY_KINDS, EVERY_ENTRY, FAILURES, NO_SAMPLE
from treadle.core.approval import Approved, Decision, Modified, Rejected
from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, ToolStarted, UserInput
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.core.messages import Message
from treadle.core.tools import RiskLevel, ToolDefinition
from treadle.errors import InternalError
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import Configured

texts = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=20)


def configured(schema: dict[str, Any]) -> Configured:
    return Configured(AgentConfig(tools=(ToolDefinition("t", "", schema),)))


@for_every_row("entry", EVERY_ENTRY)
def test_every_entry_comes_back_and_is_encoded_the_same_again(entry: Entry) -> None:
    fed, data = encode_entry(entry)
    assert fed == entry == decode_entry(data)
    assert encode_entry(fed) == (fed, data)
    assert b"\n" not in data


def test_the_samples_hold_every_event_and_every_fact_that_is_stored() -> None:
    kinds = {type(entry) for entry in EVERY_ENTRY} | {type(broken())}
    misses = [f"{kind.__qualname__}: {NO_SAMPLE}" for kind in ENTRY_KINDS if kind not in kinds]
    assert misses == [], "\n".join(misses)
    assert kinds == {*ENTRY_KINDS}


@for_every_row("kind", FAILURES)
def test_every_failure_of_a_model_comes_back(kind: LlmErrorKind) -> None:
    event = broken(kind, retry_after_s=1.5, jitter=0.25)
    assert encode_entry(event)[0] == event


def test_each_entry_says_what_it_is_under_a_name_of_its_own() -> None:
    tags = {type(e): json.loads(encode_entry(e)[1])["type"] for e in (*EVERY_ENTRY, broken())}
    assert sorted(tags.values()) == [
        *("annotated", "approval_decided", "approval_required", "background_ended"),
        "cancel_requested",
        *("child_started", "command_begun"),
        *("command_shown", "compacted", "compaction_failed", "compaction_requested", "configured"),
        *("context_observed", "extra_set", "files_not_saved", "files_saved", "foreign"),
        *("git_observed", "granted", "hook_completed", "imported", "input_queued"),
        *("input_withdrawn", "kind_granted", "llm_completed", "llm_error", "merged", "pinned"),
        *("privacy_set", "recovered", "renamed", "request_taken", "restored"),
        "results_masked",
        *("retry_timeout_fired", "revoked"),
        *(
            "rewound",
            "scrubbed",
            "server_answered",
            "server_asked",
            "shared",
            "state_completed",
            "state_failed",
            "steered",
            "tagged",
        ),
        *("taken_over", "task_ended", "task_given", "task_informed", "task_resumed"),
        "thread_created",
        *("time_ran_out", "tool_completed", "tool_started", "tool_uncertain", "trashed"),
        "user_input",
    ], "a new tag goes into this list, in alphabetical order; none ever leaves it"


@for_every_row(
    "decision, words",
    [
        (Approved(), '{"type":"approved"}'),
        (Rejected("no"), '{"type":"rejected","reason":"no"}'),
        (Modified("{}", RiskLevel.HIGH), '{"type":"modified","arguments_json":"{}","risk":3}'),
    ],
)
def test_what_a_person_decided_is_stored_in_words(decision: Decision, words: str) -> None:
    _, data = encode_entry(decided("a", decision))
    assert data.decode() == (
        f'{{"type":"approval_decided","call_id":"a","decision":{words},"at":"12:04"}}'
    )


def test_an_answer_brings_the_risks_of_its_calls_and_an_old_one_has_none() -> None:
    event = answer("", call("a", "edit"), risks=(RiskLevel.CRITICAL,))
    fed, data = encode_entry(event)
    assert (fed, b'"risks":[4]' in data) == (event, True)
    assert b"risks" not in encode_entry(answer("", call("a", "edit")))[1]


@given(texts)
def test_the_machine_is_fed_what_the_bytes_say_not_what_came_in(text: str) -> None:
    fed, data = encode_entry(said(text))
    assert fed == decode_entry(data)
    data.decode()  # it is UTF-8, whatever came in


@given(texts, texts)
def test_a_surrogate_anywhere_in_an_entry_is_no_obstacle(one: str, other: str) -> None:
    event = answer(one, call(other, one, other))
    fed, data = encode_entry(event)
    assert decode_entry(data) == fed
    assert encode_entry(configured({one: [other]}))[1].decode()


def test_secrets_are_replaced_before_anything_is_stored_or_fed() -> None:
    def redact(text: str) -> str:
        return text.replace("hunter2", "[REDACTED:password]")

    event = answer("it is hunter2", call("a", "edit", '{"key":"hunter2"}'))
    fed, data = encode_entry(event, redact)
    assert b"hunter2" not in data
    assert fed == decode_entry(data)
    assert isinstance(fed, LlmEvent.Completed)
    assert fed.response.message.content == "it is [REDACTED:password]"
    assert fed.response.tool_calls[0].arguments_json == '{"key":"[REDACTED:password]"}'


def test_redaction_never_changes_what_kind_of_entry_it_is() -> None:
    fed, _ = encode_entry(said("user_input"), lambda text: text.replace("user_input", "[X]"))
    assert fed == said("[X]")


def test_an_entry_without_a_secret_is_stored_byte_for_byte() -> None:
    event = answer("nothing here", call("a"))
    assert encode_entry(event, lambda text: text) == encode_entry(event)


@for_every_row(
    "entry",
    [
        UserInput(None),  # type: ignore[arg-type]
        UserInput(Message("user", 5)),  # type: ignore[arg-type]
        LlmEvent.Error(LlmError(LlmErrorKind.SERVER), jitter=float("nan")),
        configured({"x": object()}),
        configured({(1, 2): 3}),  # type: ignore[dict-item]
    ],
)
def test_what_json_cannot_hold_is_a_bug_told_as_one_and_not_stored(entry: Entry) -> None:
    with pytest.raises(InternalError, match="cannot be stored"):
        encode_entry(entry)


def test_nesting_without_end_is_told_as_a_bug_too() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"x": schema}
    with pytest.raises(InternalError, match="cannot be stored"):
        encode_entry(configured(schema))


@for_every_row(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"user_input"',
        b'{"type":"from_the_future","x":1}',
        b'{"type":5}',
        b'{"type":"text_delta","content":"transient"}',
        b'{"type":"shutdown_requested"}',
        b'{"type":"tool_started"}',
        b'{"type":"tool_started","call_id":5}',
        b'{"type":"tool_started","call_id":"\xff"}',
        b'{"type":"tool_started","call_id":"\\ud83d"}',
        b'{"type":"tool_started","call_id":"a"',
        b'{"type":"tool_started","call_id":"a"}}',
        b'{"type":"llm_error","error":{"kind":"a kind of failure to come"}}',
        b'{"type":"llm_error","error":{"kind":"server","retry_after_s":1e999}}',
        b'{"type":"user_input","message":' + b"[" * 100_000,
        b'{"type":"user_input","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"user_input","message":{"role":"user","content":"", "x":' + b'{"x":' * 100_000,
    ],
)
def test_what_this_version_does_not_know_is_said_to_be_unknown(data: bytes) -> None:
    with pytest.raises(UnknownEntryError, match="cannot read"):
        decode_entry(data)


def test_a_number_of_five_thousand_digits_is_unknown_and_not_computed() -> None:
    _, data = encode_entry(configured({"x": 12345}))
    with pytest.raises(UnknownEntryError):
        decode_entry(data.replace(b"12345", b"9" * 5000))


def test_fields_from_a_newer_version_are_passed_over() -> None:
    data = b'{"type":"tool_started","since":[{"deep":{}}],"call_id":"a","\\u0000":null}'
    assert decode_entry(data) == ToolStarted("a")


def test_of_a_field_that_stands_twice_the_last_counts() -> None:
    assert decode_entry(b'{"type":"tool_started","call_id":"a","call_id":"b"}') == ToolStarted("b")


def test_a_configuration_comes_back_with_its_tools_as_they_were() -> None:
    config = replace(CONFIG, temperature=0.5)
    fed, _ = encode_entry(Configured(config, "scripted"))
    assert fed == Configured(config, "scripted")
