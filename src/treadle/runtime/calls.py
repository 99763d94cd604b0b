"""What the world is asked to do, each from its start to a value that says how it ended.

Nothing an adapter does wrong leaves here as an exception: it becomes data, and the turn goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Final, TypeAlias
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, PostToolsHookCompleted
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest
from treadle.core.messages import BlobRef, ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tool_families import find_shape
from treadle.core.tools import (
    CompletedToolInfo,
    Outcome,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.runtime.ports import Provider, Tools, Workspace
from treadle.thread.facts import GitObserved
from treadle.thread.record import replace_surrogates
from treadle.tools.background import BackgroundCommands

_log = logging.getLogger("treadle.runtime")

REDACTION_PREFIX: Final = "[REDACTED:"
"""How every mark begins that stands for a secret."""

_REDACTED_ARGUMENTS: Final = (
    "they hold a secret, or what looks like one, which was replaced by [REDACTED:...]. Nothing was "
    "done, because what would be written or run is not what was meant. Leave that part out, or "
    "name the variable it is in."
)

OUTPUT_LENGTH_MAX: Final = 32 * 1024
"""Characters of a result that a message keeps; what is beyond is cut out of the middle."""

_LIMIT_S_MAX: Final = 24 * 3600.0
_LIMIT_GRACE_S: Final = 30.0
"""What a tool gets besides, to end what is over its time."""

SLICE_SIZE: Final = 256
"""Characters of an answer that are told at a time: the loop, which hears keys, gets a turn then."""

STORED_LENGTH_MAX: Final = 16 * 1024 * 1024
"""Characters of a result that are kept beside the thread: at most 64 MiB, in any script."""


class StoredOutput(Struct, frozen=True):
    """Where the whole of a long output is: its blob, and how a reader of the message gets it.

    `describe` takes the line of the whole at which a message stops; `None` if it is not known.
    """

    blob: BlobRef
    describe: Callable[[int | None], str]


_ContentDelta = LlmEvent.TextDelta | LlmEvent.ThinkingDelta
Delta: TypeAlias = _ContentDelta | LlmEvent.ToolCallDelta
"""What arrives of an answer before its end."""


async def call_model(
    provider: Provider,
    request: LlmRequest,
    silence_s_max: float,
    on_delta: Callable[[Delta], None],
) -> LlmEvent.Completed | LlmEvent.Error:
    """Stream one response to its end. Whatever goes wrong is an `Error` event.

    Args:
        provider: who answers.
        request: what is asked.
        silence_s_max: seconds the provider may send nothing before it counts as timed out.
        on_delta: gets each delta as it arrives, a long one in slices.
    """
    loop = asyncio.get_running_loop()
    end: LlmEvent.Completed | LlmEvent.Error | None = None
    told_size = 0
    try:
        async with (
            asyncio.timeout(silence_s_max) as timer,
            aclosing(provider.stream(request)) as stream,
        ):
            async for event in stream:
                if isinstance(event, LlmEvent.Completed | LlmEvent.Error):
                    end = event
                    break
                for delta in _slice_delta(event):
                    on_delta(delta)
                    timer.reschedule(loop.time() + silence_s_max)
                    told_size += len(delta.content) if isinstance(delta, _ContentDelta) else 0
                    if told_size >= SLICE_SIZE:
                        told_size = 0
                        await asyncio.sleep(0)  # what a network brings at once may be a megabyte
    except BaseException as error:
        if not is_bug(error):
            raise
        if end is None and isinstance(error, TimeoutError) and timer.expired():
            end = _make_llm_error(LlmErrorKind.TIMEOUT, f"no answer within {silence_s_max:g} s")
        elif end is None:
            _log.exception("provider %s raised", provider.name)
            why = f"the provider {provider.name} failed: {type(error).__name__}: {error}"
            end = _make_llm_error(LlmErrorKind.INTERNAL, why)
    return end or _make_llm_error(
        LlmErrorKind.CUT_STREAM, "the stream ended before the answer was complete"
    )


def _slice_delta(event: Delta) -> Iterator[Delta]:
    """A delta as several, if it is long."""
    if not isinstance(event, _ContentDelta) or len(event.content) <= SLICE_SIZE:
        yield event
        return
    text = replace_surrogates(event.content)  # no half of a pair is left alone by this
    for start in range(0, len(text), SLICE_SIZE):
        yield type(event)(text[start : start + SLICE_SIZE])


def is_bug(error: BaseException) -> bool:
    """Whether the adapter is at fault; if not, this task is cancelled or the program ends."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return isinstance(error, Exception | SystemExit)


def _make_llm_error(kind: LlmErrorKind, message: str) -> LlmEvent.Error:
    return LlmEvent.Error(LlmError(kind, message))


def find_call_limit(config: AgentConfig, call: ToolCall) -> float:
    """Seconds that a call may run: `tool_timeout_s`, or more if it names its own limit.

    It can where its tool has a parameter `timeout_s`, whatever a family calls it, which the tool
    itself holds it to.
    """
    definition, shape = config.definition_of(call.tool_name), find_shape(call.tool_name)
    properties = {} if definition is None else definition.input_schema.get("properties", {})
    shown = "timeout_s" if shape is None else shape.name_of("timeout_s")
    if shown not in properties and "timeout_s" not in properties:
        return config.tool_timeout_s
    from treadle.tools.argument_names import adapt_arguments

    schema = {"properties": {**properties, "timeout_s": properties.get(shown, {})}}
    try:
        given = json.loads(call.arguments_json)
        restored = given if shape is None else shape.restore(given)
        named = adapt_arguments(restored, schema).get("timeout_s")
    except (ValueError, AttributeError, RecursionError):  # the tool itself will say what is wrong
        return config.tool_timeout_s
    if isinstance(named, bool) or not isinstance(named, int | float):
        return config.tool_timeout_s
    return max(config.tool_timeout_s, min(named, _LIMIT_S_MAX) + _LIMIT_GRACE_S)


class CallLimit:
    """How long a call may take; not counted is the time in which it waits for a person.

    Args:
        seconds: of its own work.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._timer: asyncio.Timeout | None = None
        self._pause_count = 0
        self._left_s = seconds

    def begin(self) -> asyncio.Timeout:
        """It counts from here on."""
        self._timer = asyncio.timeout(self.seconds)
        return self._timer

    @contextmanager
    def pause(self) -> Iterator[None]:
        """It does not count in here."""
        timer, now = self._timer, asyncio.get_running_loop().time
        if timer is None or timer.expired():
            yield
            return
        if not self._pause_count and (until := timer.when()) is not None:
            self._left_s = until - now()
            timer.reschedule(None)
        self._pause_count += 1
        try:
            yield
        finally:
            self._pause_count -= 1
            if not self._pause_count:
                with suppress(RuntimeError):  # the call is over
                    timer.reschedule(now() + self._left_s)


async def run_call(
    tools: Tools,
    call: ToolCall,
    key: str,
    limit: CallLimit,
    on_progress: Callable[[ToolProgress], None],
    sightings: Sightings | None = None,
    background: BackgroundCommands | None = None,
) -> Outcome:
    """Run one tool call to its outcome.

    Raises:
        asyncio.CancelledError: the call was stopped from outside and could not say how far it got.
    """
    try:
        async with limit.begin() as timer:
            outcome = await tools.execute(
                call, key=key, progress=on_progress, sightings=sightings, background=background
            )
    except BaseException as error:
        if not is_bug(error):
            raise
        if isinstance(error, TimeoutError) and timer.expired():
            return _make_error(call, ToolErrorKind.TIMEOUT, f"after {limit.seconds:g} s")
        _log.exception("tool %s raised", call.tool_name)
        return _make_error(call, ToolErrorKind.INTERNAL, f"{type(error).__name__}: {error}")
    if not _is_outcome(outcome):
        return _make_error(call, ToolErrorKind.INTERNAL, f"it returned no outcome but {outcome!r}")
    if timer.expired() and isinstance(outcome, ToolExecutionOutcome.Error):
        return _make_error(
            call, ToolErrorKind.TIMEOUT, f"after {limit.seconds:g} s", outcome.error.output
        )
    return outcome


def _is_outcome(value: object) -> bool:
    if isinstance(value, ToolExecutionOutcome.Success):
        return isinstance(value.output, str)
    return isinstance(value, ToolExecutionOutcome.Error) and isinstance(value.error, ToolError)


def find_redaction_refusal(call: ToolCall, redact: Callable[[str], str] = str) -> Outcome | None:
    """Why a call that changes things must not run, if its arguments are not what was meant.

    A secret in them was replaced before they were stored, or the model repeats a mark it has read:
    running it would write the mark over the secret. With `redact` a secret counts too that is
    written with percent signs for some of its letters: who is asked over the network reads it.
    """
    given = call.arguments_json
    read = redact(unquote(given)) if "%" in given else ""
    if REDACTION_PREFIX not in given and REDACTION_PREFIX not in read:
        return None
    return _make_error(call, ToolErrorKind.INVALID_ARGUMENTS, _REDACTED_ARGUMENTS)


def reject_blacklisted(call: ToolCall) -> Outcome:
    """How a call ends that a handler makes of a tool that may not be called."""
    why = f"the tool {call.tool_name!r} is blacklisted in this task"
    return _make_error(call, ToolErrorKind.REJECTED, why)


def cancel_unstarted(call: ToolCall, why: str) -> Outcome:
    """How a call ends whose intent was recorded, and which then never ran."""
    return _make_error(call, ToolErrorKind.CANCELLED, f"{why}; it had not started")


def _make_error(call: ToolCall, kind: ToolErrorKind, message: str, output: str = "") -> Outcome:
    return ToolExecutionOutcome.Error(call.id, ToolError(kind, message, output))


async def _keep_nothing(_: str, __: bytes) -> StoredOutput | None:
    return None


async def prepare_outcome(
    outcome: Outcome,
    call_id: str,
    redact: Callable[[str], str],
    keep: Callable[[str, bytes], Awaitable[StoredOutput | None]] = _keep_nothing,
) -> Outcome:
    """The outcome as it may be stored and shown: made storable, secrets replaced, cut to size.

    In this order, because a secret that the cut runs through would not be recognised any more.

    Args:
        outcome: how the call ended.
        call_id: the call.
        redact: replaces known secrets.
        keep: given the call and what it said, keeps all of it before it is cut, and says where it
            is found then; `None` if it is not kept.
    """
    if isinstance(outcome, ToolExecutionOutcome.Success):
        text = redact(replace_surrogates(outcome.output))
        kept = await _store_output(call_id, keep, text)
        blob = kept.blob if kept else None
        output, seen = _cut_kept(text, kept), outcome.seen
        if output != text:
            seen = tuple(replace(one, first_line=0, last_line=0) for one in seen)
        if text != outcome.output:  # nothing is kept by which a short secret could be guessed
            seen = tuple(replace(one, lines="") for one in seen)
        return replace(outcome, call_id=call_id, output=output, blob=blob, seen=seen, contents={})
    error = outcome.error
    error = ToolError(
        error.kind,
        redact(replace_surrogates(error.message)),
        redact(replace_surrogates(error.output)),
    )
    kept = await _store_output(call_id, keep, error.message, error.output, whole=error.text)
    head = error.text.removesuffix(error.output)
    message = _cut_kept(error.message, kept, before=f"{error.kind.value}: ")
    error = ToolError(error.kind, message, _cut_kept(error.output, kept, before=head))
    return ToolExecutionOutcome.Error(call_id, error, kept.blob if kept else None, outcome.seen)


async def _store_output(
    call_id: str,
    keep: Callable[[str, bytes], Awaitable[StoredOutput | None]],
    *texts: str,
    whole: str = "",
) -> StoredOutput | None:
    """Where all of it is kept, if any of the texts is too long for a message."""
    if all(len(text) <= OUTPUT_LENGTH_MAX for text in texts):
        return None
    return await keep(call_id, cut_middle(whole or texts[0], length_max=STORED_LENGTH_MAX).encode())


def _cut_kept(text: str, kept: StoredOutput | None, before: str = "") -> str:
    """The text cut to size, with how to read on; `before` is what the kept whole begins with."""
    if kept is None:
        return cut_middle(text)
    shown = before + text[: OUTPUT_LENGTH_MAX // 2]
    # What is kept has lost its own middle where that is beyond what is ever kept.
    line = shown.count("\n") + 1 if len(shown) <= STORED_LENGTH_MAX // 2 else None
    return cut_middle(text, kept.describe(line))


def cut_middle(text: str, notice: str = "", length_max: int = OUTPUT_LENGTH_MAX) -> str:
    """The text, or its head and tail with the number of characters left out between them.

    Args:
        text: what may be too long.
        notice: what else is said where something is left out.
        length_max: characters that are kept.
    """
    if len(text) <= length_max:
        return text
    half = length_max // 2
    dropped = len(text) - 2 * half
    return f"{text[:half]}\n[... {dropped} characters left out{notice} ...]\n{text[-half:]}"


async def run_hook(
    workspace: Workspace,
    completed: Sequence[CompletedToolInfo],
    before: GitObserved | None,
    *,
    is_whole: bool,
    trailer: str,
) -> tuple[PostToolsHookCompleted, GitObserved | None]:
    """Run the post-tools hook to its end; one that raises has done nothing, and says why.

    Returns:
        What it did; and how it left the repository, if it knows.
    """
    try:
        made = await workspace.after_tools(completed, before, is_whole=is_whole, trailer=trailer)
        event = PostToolsHookCompleted(made.action_taken, made.note, commit=made.commit or "")
        return event, made.observed
    except BaseException as error:
        if not is_bug(error):
            raise
        _log.exception("the post-tools hook raised")
        why = f"the post-tools hook failed: {type(error).__name__}: {error}"
        return PostToolsHookCompleted(False, why), None


async def observe_workspace(workspace: Workspace) -> GitObserved | None:
    """How the repository stands; `None` if there is none, or if looking at it raised."""
    try:
        return await workspace.observe()
    except BaseException as error:
        if not is_bug(error):
            raise
        _log.exception("looking at the workspace raised")
        return None
