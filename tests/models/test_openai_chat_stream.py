"""What the chunks of every dialect of Chat Completions come to, whole, cut, bent and broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from case_tables import for_every_row
from models.conformance import arguments_of, text_of
from models.conformance import request as make_request
from models.loopback import sse
from models.openai_chat_streams import STREAMS, calls, chunk, piece, used
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind, LlmResponse, Usage
from treadle.models.failures import WireError
from treadle.models.openai.chat_stream import ChatAssembler
from treadle.models.wire.sse import SseDecoder
from treadle.models.wire.stream import StreamError

SOURCE = "openai:m"


def play(data: bytes) -> list[Any]:
    """What comes of these bytes; the last is an `LlmResponse`, or the error that was raised."""
    assembler = ChatAssembler(make_request("hi"), SOURCE)
    events: list[Any] = []
    try:
        for event in SseDecoder().feed(data):
            events += assembler.add_event(event)
            if assembler.is_done:
                break
        events += assembler.end()
    except (WireError, StreamError) as error:
        return [*events, error]
    assert isinstance(events[-1], LlmEvent.Completed)
    return [*events[:-1], events[-1].response]


def answer(*events: Any, done: bool = True) -> LlmResponse:
    response = play(sse(*events, done=done))[-1]
    assert isinstance(response, LlmResponse), response
    return response


def wrong(*events: Any, done: bool = True) -> WireError:
    error = play(sse(*events, done=done))[-1]
    assert isinstance(error, WireError), error
    return error


def said(response: LlmResponse) -> list[tuple[str, str]]:
    return [(call.tool_name, call.arguments_json) for call in response.tool_calls]


TOOLS = [
    ("read_file", '{"path":"a.py"}'),
    ("list_files", "{}"),
    ("bash", '{"command": "ls \\"ü\\""}'),
]

ANSWERS: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    "openai text": ("Grüße, 世界! 🎉", [], "stop"),
    "openai tools": ("", TOOLS, "tool_calls"),
    "openai both": ("I look.", [("bash", '{"command":"ls"}')], "tool_calls"),
    "openai refusal": ("I cannot help with that.", [], "refusal"),
    "openai length": ("", [("write_file", '{"path":"b.py","content":"def f')], "length"),
    "azure": ("Yes.", [], "stop"),
    "deepseek": ("Let me see.", [("date", '{"zone": "UTC"}')], "tool_calls"),
    "openrouter": ("391", [], "stop"),
    "groq": ("", [("list_files", '{"path":"."}'), ("head", '{"n":1}')], "tool_calls"),
    "mistral": ("Hello!", [], "stop"),
    "mistral tools": ("", [("ls", '{"a": 1}'), ("ls", '{"a": 2}')], "tool_calls"),
    "xai": ("101", [], "stop"),
    "ollama": (
        "",
        [("write_file", '{"path":"hello.py"}'), ("write_file", '{"path":"world.py"}')],
        "tool_calls",
    ),
    "ollama native": (
        "",
        [("write_file", '{"path": "a", "text": "é"}'), ("list_files", "{}")],
        "tool_calls",
    ),
    "vllm": ("Ja.", [], "stop"),
    "llama.cpp": ("", [("grep", '{"pattern":"x"}')], "tool_calls"),
    "lm studio": ("", [("get_date", '{"d":1}')], "tool_calls"),
    "gemini": ("", [("add", '{"a":1}'), ("add", '{"a":2}')], "tool_calls"),
    "proxy": ("All well", [], "stop"),
    "legacy": ("", [("f", '{"x":1}')], "tool_calls"),
}

USAGES = {
    "openai text": Usage(1200, 9, cache_read_tokens=1024, reasoning_tokens=4),
    "deepseek": Usage(300, 40, cache_read_tokens=256, reasoning_tokens=21),
    "openrouter": Usage(20, 30, cache_read_tokens=4, cache_write_tokens=10, reasoning_tokens=12),
    "groq": Usage(70, 20),
    "xai": Usage(32, 103, reasoning_tokens=94),
    "vllm": Usage(23, 4),
    "llama.cpp": Usage(40, 12),
    "gemini": Usage(5, 33),
    "proxy": Usage(1, 2, estimated=True),
}

THOUGHTS = {
    "deepseek": "The user wants the date.",
    "openrouter": "Let me compute.",
    "groq": "Need the files.",
    "mistral": "Okay, hello.",
    "xai": "Sum. ",
    "ollama": "Two files.",
    "vllm": "Hm.",
}


@for_every_row("name", ANSWERS)
def test_each_dialect_comes_to_the_same_kind_of_answer(name: str) -> None:
    *deltas, response = play(STREAMS[name])
    assert isinstance(response, LlmResponse)
    text, said_calls, reason = ANSWERS[name]
    assert (response.message.content, said(response)) == (text, said_calls)
    assert response.finish_reason == reason
    assert text_of(deltas) == text
    assert [*arguments_of(deltas).items()] == [
        ((call.id, call.tool_name), call.arguments_json) for call in response.tool_calls
    ]
    thought = [one.content for one in deltas if isinstance(one, LlmEvent.ThinkingDelta)]
    assert "".join(thought) == THOUGHTS.get(name, "")


@for_every_row("name", USAGES)
def test_each_dialect_tells_its_usage_in_its_own_way(name: str) -> None:
    assert play(STREAMS[name])[-1].usage == USAGES[name]


@for_every_row(
    "name, words",
    [
        ("openrouter error", "Provider disconnected"),
        ("groq error", "Failed to call a function."),
        ("vllm error", "maximum context length"),
    ],
)
def test_an_error_in_the_stream_is_no_answer(name: str, words: str) -> None:
    error = play(STREAMS[name])[-1]
    assert isinstance(error, StreamError)
    assert words in str(error.body)


def test_what_a_filter_stopped_never_enters_the_history() -> None:
    error = play(STREAMS["openai filtered"])[-1]
    assert isinstance(error, WireError)
    assert error.kind is LlmErrorKind.CONTENT_FILTERED


@for_every_row("name", STREAMS)
def test_a_stream_cut_at_any_byte_is_whole_or_an_error(name: str) -> None:
    data = STREAMS[name]
    whole = play(data)[-1]
    for cut in range(len(data)):
        end = play(data[:cut])[-1]
        if isinstance(end, LlmResponse):
            assert isinstance(whole, LlmResponse)
            assert end.message == whole.message
            assert end.finish_reason == whole.finish_reason
        else:
            assert isinstance(end, WireError | StreamError)


# --- which call a piece belongs to


PATH = '{"path":"a"}'
TWO = [("one", PATH), ("two", PATH)]


def entry(arguments: Any = "", name: Any = None, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": arguments}}


@for_every_row(
    "pieces",
    [
        [entry(PATH, "one", id="a"), entry(PATH, "two", id="b")],
        [entry(PATH, "one"), entry(PATH, "two")],
        [entry(PATH, "one", index=0, id=""), entry(PATH, "two", index=0, id="")],
        [entry(PATH, "one", index=0), entry(PATH, "two", index=0, id="b")],
        [
            entry("", "one", index=0, id="a"),
            entry(PATH[:4], index=0),
            entry(PATH[4:], index=0),
            entry("", "two", index=0, id="b"),
            entry(PATH[:4], index=0),
            entry(PATH[4:], index=0),
        ],
        [
            entry(PATH[:4], "one", index=0, id="a"),
            entry(PATH[:4], "two", index=0, id="b"),
            entry(PATH[4:], "one", index=0, id="a"),
            entry(PATH[4:], "two", index=0, id="b"),
        ],
        [
            entry(PATH[:4], "one", id="a"),
            entry(PATH[4:], id="a"),
            entry(PATH[:4], "two", id="b"),
            entry(PATH[4:]),
        ],
        [
            entry("", "one", index=0, id="a"),
            entry("", "two", index=1, id="b"),
            entry(PATH[:4], index=1),
            entry(PATH, index=0),
            entry(PATH[4:], index=1),
        ],
        [entry(PATH, "one", index=3, id="a"), entry(PATH, "two", index=9, id="a")],
        [
            entry("", "on", index=0),
            entry("", "e", index=0),
            entry(PATH, index=0),
            entry(PATH, index=1),
            entry("", "t", index=1),
            entry("", "wo", index=1),
        ],
        [entry({"path": "a"}, "one", index=0), entry({"path": "a"}, "two", index=1)],
        [
            entry(PATH[:3], "one", index=0, id="a"),
            entry(PATH[3:], index=1, id="a"),
            entry(PATH, "two", index=2, id="b"),
        ],
    ],
)
def test_every_piece_finds_its_call(pieces: list[Any]) -> None:
    chunks = [chunk(calls(one)) for one in pieces]
    expect_two(answer(*chunks, chunk({}, "tool_calls")))


def test_pieces_without_index_and_id_belong_to_the_calls_at_their_places() -> None:
    begun = chunk(calls(entry("", "one"), entry(PATH[:4], "two")))
    ended = chunk(calls(entry(PATH), entry(PATH[4:])))
    expect_two(answer(begun, ended, chunk({}, "tool_calls")))
    expect_two(answer(chunk(calls(entry(PATH, "one"), entry(PATH, "two")), "tool_calls")))


def expect_two(response: LlmResponse) -> None:
    assert [(name, json.loads(text)) for name, text in said(response)] == [
        (name, json.loads(text)) for name, text in TWO
    ]
    ids = [call.id for call in response.tool_calls]
    assert all(ids)
    assert len(set(ids)) == 2


def test_arguments_that_go_on_after_their_end_stay_with_their_call_and_are_malformed() -> None:
    response = answer(
        chunk(calls(piece(0, PATH, "a", "one"))), chunk(calls(piece(0, PATH, "a", "one")))
    )
    assert said(response) == [("one", PATH * 2)]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert said(answer(chunk(calls(piece(0, "", "a", "one"))), chunk({}, "stop"))) == [
        ("one", "{}")
    ]


def test_a_call_that_was_cut_before_its_arguments_stays_malformed() -> None:
    response = answer(chunk(calls(piece(0, "", "a", "one"))), chunk({}, "length"))
    assert said(response) == [("one", "")]


@pytest.mark.parametrize("before", [{"reasoning_content": "hm"}, {"content": "I look."}])
def test_what_came_before_a_cut_call_does_not_mend_it(before: dict[str, Any]) -> None:
    cut = {**piece(0, "", "a", "one"), "extra_content": {"google": {}}}
    response = answer(chunk(before), chunk(calls(cut)), chunk({}, "length"))
    assert said(response) == [("one", "")]


def test_a_call_that_was_cut_before_its_name_is_left_out() -> None:
    response = answer(chunk(calls(piece(0, "", "a"))), chunk({}, "length"))
    assert (response.tool_calls, response.finish_reason) == ((), "length")


@for_every_row(
    "pieces",
    [
        [piece(0, PATH, "a", "one"), piece(0, "x", "a", "two")],
        [piece(0, PATH)],
        [{"index": "0", "function": {"name": "one"}}],
        [{"index": 0, "id": 7, "function": {"name": "one"}}],
        [{"index": 0, "id": "a", "function": {"name": "one", "arguments": 3}}],
        [{"index": 0, "id": "a", "function": "one"}],
        ["one"],
    ],
)
def test_a_piece_that_fits_no_call_is_an_error(pieces: list[Any]) -> None:
    error = wrong(chunk(calls(*pieces)), chunk({}, "tool_calls"))
    assert error.kind is LlmErrorKind.INVALID_RESPONSE


# --- when an answer is complete


def test_an_answer_is_complete_with_a_reason_or_with_the_end_marker() -> None:
    text = chunk({"content": "a"})
    assert answer(text, chunk({}, "stop"), done=False).finish_reason == "stop"
    assert answer(text, done=True).finish_reason == "stop"
    assert wrong(text, done=False).kind is LlmErrorKind.CUT_STREAM


def test_a_reason_before_the_last_text_does_not_complete_it() -> None:
    chunks = (chunk({"content": "a"}, "stop"), chunk({"content": "b"}))
    assert wrong(*chunks, done=False).kind is LlmErrorKind.CUT_STREAM
    assert answer(*chunks, done=True).message.content == "ab"


def test_an_end_marker_after_nothing_is_a_cut_stream() -> None:
    assert wrong(done=True).kind is LlmErrorKind.CUT_STREAM
    assert wrong(chunk({"role": "assistant"}), done=True).kind is LlmErrorKind.CUT_STREAM


def test_an_answer_without_a_word_is_an_answer_if_the_endpoint_says_so() -> None:
    response = answer(chunk({"role": "assistant"}), chunk({}, "stop"))
    assert (response.message.content, response.finish_reason) == ("", "stop")


@for_every_row(
    "reason, kind",
    [
        ("abort", LlmErrorKind.CUT_STREAM),
        ("insufficient_system_resource", LlmErrorKind.OVERLOADED),
        ("content_filter", LlmErrorKind.CONTENT_FILTERED),
    ],
)
def test_a_reason_that_is_a_failure_is_no_answer(reason: str, kind: LlmErrorKind) -> None:
    assert wrong(chunk({"content": "a"}), chunk({}, reason)).kind is kind


@for_every_row(
    "reason, ours",
    [("stop", "stop"), ("model_length", "length"), ("eos", "eos"), ("function_call", "stop")],
)
def test_other_reasons_are_told_in_our_words_where_we_have_some(reason: str, ours: str) -> None:
    assert answer(chunk({"content": "a"}), chunk({}, reason)).finish_reason == ours


def test_only_the_first_choice_counts() -> None:
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}
    first = chunk({"content": "yes"}, "stop")
    response = answer({**first, "choices": [other, *first["choices"], other]})
    assert (response.message.content, response.finish_reason) == ("yes", "stop")


def test_halves_of_a_surrogate_pair_meet_again_or_are_replaced() -> None:
    halves = [json.dumps(chunk({"content": half})) for half in ("\ud83d", "\ude00", "!\ud83d")]
    response = answer(*halves, chunk({}, "stop"))
    assert response.message.content == "😀!�"


def test_half_of_a_surrogate_pair_does_not_cross_into_the_next_part() -> None:
    thinking = {"type": "thinking", "thinking": "hm"}
    half = json.dumps(chunk({"content": "a\ud83d"}))
    *deltas, response = play(
        sse(half, chunk({"content": [thinking]}), chunk({"content": "b"}, "stop"), done=True)
    )
    assert text_of(deltas) == response.message.content == "a�b"


# --- usage


NO_COUNTS = (None, True, -1, "3", 2.5, 2**53 + 1, float("nan"), 10**30)


@for_every_row("count", NO_COUNTS)
def test_a_count_that_makes_no_sense_is_guessed_instead(count: Any) -> None:
    guess = Usage(1, 3, estimated=True)
    for told in (count, {"prompt_tokens": count, "completion_tokens": 1}, used(0, 0), {}):
        end = chunk({}, "stop", usage=told)
        assert answer(chunk({"content": "four more"}), end).usage == guess


def test_details_that_make_no_sense_are_left_out() -> None:
    told = used(
        10,
        5,
        prompt_tokens_details={"cached_tokens": 11, "cache_write_tokens": -2},
        completion_tokens_details={"reasoning_tokens": "5"},
    )
    assert answer(chunk({"content": "a"}), chunk({}, "stop", usage=told)).usage == Usage(10, 5)


def test_the_latest_usage_counts_even_if_nothing_follows() -> None:
    chunks = (chunk({"content": "a"}, usage=used(4, 1)), chunk({}, "stop", usage=used(4, 2)))
    assert answer(*chunks, chunk(), done=False).usage == Usage(4, 2)


# --- garbage


@for_every_row(
    "event",
    [
        "garbage",
        "[1]",
        "{",
        "[" * 100_000,
        '{"choices": {}}',
        '{"choices": [1]}',
        '{"choices": [{"delta": "x"}]}',
        '{"choices": [{"delta": {"content": 5}}]}',
        '{"choices": [{"delta": {"content": [5]}}]}',
        '{"choices": [{"delta": {"tool_calls": {}}}]}',
        '{"choices": [{"delta": {"reasoning_content": {}}}]}',
        '{"choices": [{"delta": {"reasoning_details": [{"type": 1}]}}]}',
        '{"choices": [{"delta": {}, "finish_reason": 7}]}',
    ],
)
def test_garbage_is_an_error_in_one_line_whatever_else_came(event: str) -> None:
    error = wrong(chunk({"content": "a"}), event, chunk({}, "stop"))
    assert error.kind is LlmErrorKind.INVALID_RESPONSE
    assert "\n" not in error.message
    assert len(error.message) < 300


@for_every_row(
    "event", ["", " ", "null", "{}", '{"choices": null}', '{"type": "ping"}', '{"error": null}']
)
def test_a_chunk_that_says_nothing_changes_nothing(event: str) -> None:
    assert answer(chunk({"content": "a"}), event, chunk({}, "stop")).message.content == "a"


@for_every_row(
    "event",
    [
        {"error": "overloaded"},
        {"error": {"message": "overloaded"}},
        ("error", {"message": "overloaded"}),
        chunk({}, "stop", x_groq={"error": "overloaded"}),
        {"choices": [{"index": 0, "delta": {}, "error": {"message": "overloaded"}}]},
    ],
)
def test_an_error_is_found_wherever_it_stands(event: Any) -> None:
    error = play(sse(chunk({"content": "a"}), event, chunk({}, "stop"), done=True))[-1]
    assert isinstance(error, StreamError)
    assert "overloaded" in str(error.body)


def test_many_pieces_cost_no_more_than_their_sum() -> None:
    """Twenty thousand pieces in each field: seconds if any of them were put together each time."""
    detail = {"type": "reasoning.text", "text": "x" * 40, "index": 0}
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "y" * 40}]}
    one = chunk(
        {
            "content": [thought],
            "reasoning": "z" * 40,
            "reasoning_details": [detail],
            "tool_calls": [entry("w" * 40, "one", index=0)],
        }
    )
    response = answer(*[json.dumps(one)] * 20_000, chunk({}, "stop"))
    assert len(response.tool_calls[0].arguments_json) == 800_000
