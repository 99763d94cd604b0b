"""One model request and one tool call, each from its start to an event that says how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolExecutionOutcome, ToolProgress
from treadle.runtime.ports import Provider, Tools

_log = logging.getLogger("treadle.runtime")

OUTPUT_LENGTH_MAX: Final = 32 * 1024
"""Characters of a result that a message keeps; what is beyond is cut out of the middle."""

_Delta = LlmEvent.TextDelta | LlmEvent.ToolCallDelta


async def call_model(
    provider: Provider,
    request: LlmRequest,
    silence_s_max: float,
    on_delta: Callable[[_Delta], None],
) -> LlmEvent.Completed | LlmEvent.Error:
    """Stream one response to its end. Whatever goes wrong is an `Error` event.

    Args:
        provider: who answers.
        request: what is asked.
        silence_s_max: seconds the provider may send nothing before it counts as timed out.
        on_delta: gets each delta as it arrives.
    """
    loop = asyncio.get_running_loop()
    try:
        async with (
            asyncio.timeout(silence_s_max) as timer,
            aclosing(provider.stream(request)) as stream,
        ):
            async for event in stream:
                if isinstance(event, LlmEvent.Completed | LlmEvent.Error):
                    return event
                on_delta(event)
                timer.reschedule(loop.time() + silence_s_max)
    except TimeoutError:
        return _failed(LlmErrorKind.TIMEOUT, f"no answer within {silence_s_max:g} s")
    except Exception as error:  # noqa: BLE001  a bug of the provider ends the turn, not the driver
        _log.exception("provider %s raised", provider.name)
        return _failed(
            LlmErrorKind.INTERNAL,
            f"the provider {provider.name} failed: {type(error).__name__}: {error}",
        )
    return _failed(LlmErrorKind.CUT_STREAM, "the stream ended before the answer was complete")


def _failed(kind: LlmErrorKind, message: str) -> LlmEvent.Error:
    return LlmEvent.Error(LlmError(kind, message))


async def run_call(
    tools: Tools,
    call: ToolCall,
    key: str,
    limit_s: float,
    on_progress: Callable[[ToolProgress], None],
) -> Outcome:
    """Run one tool call to its outcome.

    Raises:
        asyncio.CancelledError: the call was stopped from outside and could not say how far it got.
    """
    try:
        async with asyncio.timeout(limit_s) as timer:
            outcome = await tools.execute(call, key=key, progress=on_progress)
    except TimeoutError:
        return _error(call, ToolErrorKind.TIMEOUT, f"after {limit_s:g} s")
    except Exception as error:  # noqa: BLE001  a bug of a tool is data for the model
        _log.exception("tool %s raised", call.tool_name)
        return _error(call, ToolErrorKind.INTERNAL, f"{type(error).__name__}: {error}")
    if timer.expired() and isinstance(outcome, ToolExecutionOutcome.Error):
        return _error(call, ToolErrorKind.TIMEOUT, f"after {limit_s:g} s", outcome.error.output)
    return outcome


def _error(call: ToolCall, kind: ToolErrorKind, message: str, output: str = "") -> Outcome:
    return ToolExecutionOutcome.Error(call.id, ToolError(kind, message, output))


def presentable(outcome: Outcome, call_id: str, redact: Callable[[str], str]) -> Outcome:
    """The outcome as it may be stored and shown: secrets replaced, then cut to size.

    In this order, because a secret that the cut runs through would not be recognised any more.
    """
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return ToolExecutionOutcome.Success(call_id, cut(redact(outcome.output)), outcome.changed)
    error = outcome.error
    return ToolExecutionOutcome.Error(
        call_id, ToolError(error.kind, cut(redact(error.message)), cut(redact(error.output)))
    )


def cut(text: str) -> str:
    """The text, or its head and tail with the number of characters left out between them."""
    if len(text) <= OUTPUT_LENGTH_MAX:
        return text
    half = OUTPUT_LENGTH_MAX // 2
    dropped = len(text) - 2 * half
    return f"{text[:half]}\n[... {dropped} characters left out ...]\n{text[-half:]}"
