"""A model is asked for a commit message, and whatever it does nobody waits for long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from case_tables import for_every_row
from runtime.desk import CONFIG, Model
from treadle.core.llm import Usage
from treadle.runtime.commit_message import (
    MESSAGE_TOKENS_MAX,
    SILENCE_S_MAX,
    SYSTEM_PROMPT,
    Composer,
)

DIFF = "-    return a - b\n+    return a + b\n"


async def test_the_model_sees_the_diff_and_its_answer_is_the_message() -> None:
    model = Model("fix: add instead of subtracting")
    assert await Composer(model, CONFIG.model_name)(DIFF) == "fix: add instead of subtracting"
    (request,) = model.requests
    (message,) = request.messages
    assert message.role == "user"
    assert DIFF in message.content
    assert (request.model, request.system) == (CONFIG.model_name, SYSTEM_PROMPT)
    assert (request.tools, request.max_tokens) == ((), MESSAGE_TOKENS_MAX)


async def test_the_same_diff_makes_the_same_request() -> None:
    model = Model("fix: it")
    compose = Composer(model, CONFIG.model_name)
    await compose(DIFF)
    await compose(DIFF)
    assert model.sent[0] == model.sent[1]


FAILURES: list[dict[str, Any]] = [
    {"error": {"kind": "rate_limited"}, "times": 0},
    {"error": {"kind": "authentication"}, "times": 0},
    {"text": "fix: half a mess", "cut": True, "times": 0},
]


@for_every_row("failure", FAILURES)
async def test_a_failure_is_an_empty_message_and_is_not_tried_again(failure: Any) -> None:
    model = Model(failure)
    assert await Composer(model, CONFIG.model_name)(DIFF) == ""
    assert len(model.requests) == 1


async def test_a_model_that_stays_silent_is_not_waited_for() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await Composer(Model({"hang": True, "times": 0}), "m")(DIFF) == ""
    assert loop.time() - began == pytest.approx(SILENCE_S_MAX)


async def test_a_model_that_asks_for_a_tool_instead_has_given_no_message() -> None:
    assert await Composer(Model({"calls": [{"tool": "bash"}]}), "m")(DIFF) == ""


async def test_what_was_used_is_told_once_failures_included() -> None:
    said = {"text": "fix: it", "usage": {"input_tokens": 5, "output_tokens": 2}}
    compose = Composer(Model(said), "m")
    assert compose.take_usage() == (None, "")
    await compose(DIFF)
    await compose(DIFF)
    assert compose.take_usage() == (Usage(10, 4), "m")
    assert compose.take_usage() == (None, "")
