"""The border where foreign failures become ours."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from case_tables import for_every_row
from models.provider_errors import OTHERS
from models.too_long_errors import TOO_LONG
from treadle.core.llm import LlmErrorKind as Kind
from treadle.core.llm import LlmRequest, Usage
from treadle.core.retry import DELAY_S_FIRST, KIND_OF_STATUS
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.error_body import read_error
from treadle.models.failure_kinds import KIND_OF_CODE, PHRASES
from treadle.models.failures import (
    LONG_REQUEST,
    MESSAGE_LENGTH_MAX,
    WireError,
    make_llm_error,
    make_stream_llm_error,
    retry_after_s,
)
from treadle.models.openai.chat_stream import ChatAssembler
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.wire.sse import SseEvent
from treadle.models.wire.stream import StreamError

ROWS = (*TOO_LONG, *OTHERS)


class StatusError(Exception):
    """What both SDKs raise carries these."""

    def __init__(self, status: int, body: Any = None, **headers: str) -> None:
        super().__init__(f"Error code: {status} - {body}")
        self.status_code = status
        self.body = body
        self.response = httpx2.Response(
            status, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )


@for_every_row("status, kind", KIND_OF_STATUS.items())
def test_without_words_the_status_decides(status: int, kind: Kind) -> None:
    assert make_llm_error(StatusError(status), "x").kind is kind


@for_every_row(
    "status, kind",
    [
        (402, Kind.PERMISSION),
        (307, Kind.INVALID_RESPONSE),
        (418, Kind.BAD_REQUEST),
        (522, Kind.SERVER),
    ],
)
def test_a_status_nobody_listed_is_the_servers_from_500_on(status: int, kind: Kind) -> None:
    assert make_llm_error(StatusError(status), "x").kind is kind


@for_every_row("code, kind", KIND_OF_CODE.items())
def test_a_code_outranks_the_status_however_deep_it_is_wrapped(code: str, kind: Kind) -> None:
    for body in (
        {"type": code, "message": "why"},
        {"error": {"code": code, "message": "why"}},
        {"type": "error", "error": {"type": code, "message": "why"}},
        {"type": "response.failed", "error": {"error": {"code": code, "message": "why"}}},
        [{"error": {"code": code, "type": "whatever", "message": "why"}}],
    ):
        failure = make_llm_error(StatusError(400, body), "x")
        assert (failure.kind, failure.message) == (kind, "x: why (HTTP 400)")
        assert make_stream_llm_error(body, "x").kind is kind


def test_every_refusal_of_a_provider_is_known_and_told_in_its_words() -> None:
    misses = []
    for who, status, body, kind, words in ROWS:
        # the SDK takes off the outermost `error`; an endpoint may also send it under 200
        unwrapped = body.get("error", body) if isinstance(body, dict) else body
        for given in (body, unwrapped):
            failure = make_llm_error(StatusError(status, given), "x")
            if failure.kind is not kind or words not in failure.message:
                misses.append((who, failure.kind.value, failure.message))
    assert misses == []


def test_every_phrase_of_the_table_is_said_by_a_provider() -> None:
    said = [(read_error(body).words, kind) for _, _, body, kind, _ in ROWS]
    unheard = [
        pattern.pattern
        for phrase in PHRASES
        for pattern in phrase.words
        if not any(kind is phrase.kind and pattern.search(words) for words, kind in said)
    ]
    assert unheard == []


def test_what_a_person_was_flagged_for_is_not_repeated() -> None:
    flagged = next(body for who, _, body, _, _ in ROWS if who == "openrouter, moderation")
    assert "what the person said" not in make_llm_error(StatusError(403, flagged), "x").message


def test_a_long_request_that_is_refused_without_a_word_is_too_long() -> None:
    def kind(status: int, body: Any, length: int) -> Kind:
        return make_llm_error(StatusError(status, body), "x", request_length=length).kind

    for nothing in (None, "", {}):
        assert kind(400, nothing, LONG_REQUEST) is Kind.CONTEXT_TOO_LONG
        assert kind(400, nothing, LONG_REQUEST - 1) is Kind.BAD_REQUEST
        assert kind(404, nothing, LONG_REQUEST) is Kind.NOT_FOUND
    assert kind(400, {"message": "no such parameter"}, LONG_REQUEST) is Kind.BAD_REQUEST
    assert kind(400, {"type": "invalid_request_error"}, LONG_REQUEST) is Kind.BAD_REQUEST


def test_an_error_in_the_middle_of_a_stream_is_the_servers_unless_it_says() -> None:
    assert make_stream_llm_error({"message": "boom"}, "x").kind is Kind.SERVER
    assert (
        make_stream_llm_error({"error": {"code": 429, "message": "slow"}}, "x").kind
        is Kind.RATE_LIMITED
    )
    assert make_stream_llm_error({"error": "boom"}, "x").message == "x: boom"
    assert make_stream_llm_error("boom", "x").message == "x: boom"
    assert make_stream_llm_error(None, "x").message == "x: no reason given"
    assert (
        make_stream_llm_error({"error": {"message": {"deep": 1}}}, "x").message
        == "x: no reason given"
    )


def test_an_error_ends_a_stream_of_every_format_in_whatever_form_it_comes() -> None:
    """Passed over, it would be told as a cut stream, and its reason would be lost."""
    words = "insufficient balance"
    misses = []
    for body in (
        {"error": {"message": words}},
        {"error": words},
        {"message": words, "code": "x"},
        {"detail": words},
        {"code": 500, "msg": words, "success": False},
        {"base_resp": {"status_code": 1008, "status_msg": words}},
    ):
        for assembler in (
            AnthropicAssembler("x:m", 0, 10),
            ResponsesAssembler("x:m", salt=0, input_size=10),
            ChatAssembler(LlmRequest("x:m", ()), "x:m"),
        ):
            try:
                list(assembler.add_event(SseEvent("message", json.dumps(body).encode())))
                misses.append((type(assembler).__name__, body, "passed over"))
            except StreamError as error:
                failure = make_stream_llm_error(error.body, "x")
                if failure.kind is not Kind.PERMISSION or words not in failure.message:
                    misses.append((type(assembler).__name__, body, failure.message))
    assert misses == []
    well = {"choices": None, "usage": {}, "base_resp": {"status_code": 0, "status_msg": ""}}
    list(
        ChatAssembler(LlmRequest("x:m", ()), "x:m").add_event(
            SseEvent("", json.dumps(well).encode())
        )
    )


@for_every_row(
    "raised, before, after",
    [
        (httpx2.ConnectError("refused"), Kind.NETWORK, Kind.CUT_STREAM),
        (httpx2.RemoteProtocolError("closed"), Kind.NETWORK, Kind.CUT_STREAM),
        (httpx2.ReadError("reset"), Kind.NETWORK, Kind.CUT_STREAM),
        (httpx2.ReadTimeout("silent"), Kind.TIMEOUT, Kind.TIMEOUT),
        (httpx2.ConnectTimeout("silent"), Kind.TIMEOUT, Kind.TIMEOUT),
        (ConnectionResetError(104, "reset"), Kind.NETWORK, Kind.CUT_STREAM),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), *[Kind.INVALID_RESPONSE] * 2),
        (KeyError("choices"), *[Kind.INVALID_RESPONSE] * 2),
        (WireError(Kind.CUT_STREAM, "cut"), *[Kind.CUT_STREAM] * 2),
    ],
)
def test_a_lost_connection_is_the_network_before_the_answer_and_a_cut_stream_after(
    raised: Exception, before: Kind, after: Kind
) -> None:
    assert make_llm_error(raised, "x").kind is before
    assert make_llm_error(raised, "x", has_begun=True).kind is after


def test_what_lies_under_an_sdks_error_is_what_is_told() -> None:
    wrapped = Exception("Connection error.")
    wrapped.__cause__ = httpx2.ConnectError("[Errno 111] refused")
    failure = make_llm_error(wrapped, "here")
    assert (failure.kind, failure.message) == (Kind.NETWORK, "here: [Errno 111] refused")


def test_the_message_is_one_line_cut_to_size_with_the_request_named() -> None:
    body = {"error": {"message": "a\n\tb\u2028c \ud800" + "x" * 10_000}}
    failure = make_llm_error(StatusError(500, body, request_id="req_1"), "x")
    assert failure.message.startswith("x: a b c �xxx")
    assert failure.message.endswith("… (HTTP 500, request req_1)")
    assert len(failure.message) < MESSAGE_LENGTH_MAX + 130
    assert len(failure.message.splitlines()) == 1


def test_a_wait_that_is_too_long_for_anybody_is_told() -> None:
    far = make_llm_error(StatusError(429, None, retry_after="90000"), "x")
    assert far.message.endswith("(HTTP 429, to be asked again in 1,500 minutes)")
    near = make_llm_error(StatusError(429, None, retry_after="60"), "x")
    assert near.message.endswith("(HTTP 429)")


def test_a_failure_keeps_what_was_used_and_what_the_server_asks_for() -> None:
    failure = make_llm_error(StatusError(429, None, retry_after="7"), "x", usage=Usage(5))
    assert (failure.usage, failure.retry_after_s) == (Usage(5), 7.0)
    assert make_stream_llm_error({}, "x", Usage(5)).usage == Usage(5)


@for_every_row(
    "headers, seconds",
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1000000000"}, 1e9),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "0", "retry-after": "1"}, 1.0),
        ({"retry-after-ms": "2500", "retry-after": "1"}, 2.5),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None),
    ],
)
def test_what_a_server_asks_for_is_seconds_or_nothing(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers) == seconds


def test_a_wait_is_never_shorter_than_the_first_of_our_own() -> None:
    """Recorded from Azure: both headers, one of them zero, and four requests in 0.4 s."""
    for headers in ({"retry_after": "0"}, {"retry_after_ms": "0"}, {"retry_after": "-3"}):
        assert make_llm_error(StatusError(429, None, **headers), "x").retry_after_s == DELAY_S_FIRST
    both = StatusError(429, None, retry_after="1", retry_after_ms="0")
    assert make_llm_error(both, "x").retry_after_s == 1.0


def test_a_wait_that_stands_in_the_body_holds_too() -> None:
    """Gemini names it nowhere else, and its limits are those of a minute."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38.5s"}
    body = {"error": {"code": 429, "message": "slow", "details": [{"reason": "X"}, info]}}
    assert make_llm_error(StatusError(429, [body]), "x").retry_after_s == 38.5
    assert make_llm_error(StatusError(429, body, retry_after="50"), "x").retry_after_s == 50
    assert make_stream_llm_error(body, "x").retry_after_s == 38.5
    for nonsense in ("", "s", "soon", "nan", "infs"):
        assert make_stream_llm_error(
            {"error": {"details": [{"retryDelay": nonsense}]}}, "x"
        ) == make_stream_llm_error({"error": {}}, "x")


def test_a_server_may_name_a_moment_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    asked = retry_after_s({"retry-after": then})
    assert asked is not None
    assert 500 < asked <= 600
    assert retry_after_s({"retry-after": "Sat, 01 Jan 2000 00:00:00 GMT"}) == 0.0
    try:  # a moment without a zone is one of GMT, wherever this process runs
        with monkeypatch.context() as there:
            there.setenv("TZ", "UTC+9")
            time.tzset()
            bare = retry_after_s({"retry-after": then.removesuffix(" GMT")})
    finally:
        time.tzset()
    assert bare is not None
    assert 500 < bare <= 600


def test_a_body_that_refers_to_itself_or_is_deep_ends() -> None:
    deep: Any = {"message": "end"}
    for _ in range(50):
        deep = {"error": deep}
    assert make_stream_llm_error(deep, "x").kind is Kind.SERVER
    assert json.dumps(make_stream_llm_error([], "x").message) == '"x: no reason given"'


def test_before_the_request_is_made_an_unknown_error_is_our_own() -> None:
    for error in (KeyError("model"), TypeError("no"), AssertionError()):
        assert make_llm_error(error, "x", is_asked=False).kind is Kind.INTERNAL
    refused = WireError(Kind.AUTHENTICATION, "no key")
    assert make_llm_error(refused, "x", is_asked=False).kind is Kind.AUTHENTICATION


def test_a_module_that_is_missing_is_never_the_servers_fault() -> None:
    wrapped = Exception("Connection error.")
    wrapped.__cause__ = ModuleNotFoundError("no socksio")
    for error in (ImportError("no"), wrapped):
        assert make_llm_error(error, "x", has_begun=True).kind is Kind.INTERNAL
