"""A model that plays a script: no network, no key, the same answers every time.

Which reply a request gets is a function of the script and of that request, so a resumed process
needs nothing from the one that died. The one exception is a failure that happens `times` times:
a request that is tried again is the same request, so that count lives here, in memory.

The cost of a request grows with its turn, never with the conversation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from treadle.core.budget import estimate_tokens, estimate_usage
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import NOTE, Message, ToolCall
from treadle.models.scripted.script import (
    CALL_ID_PREFIX,
    Reply,
    Script,
    ScriptedCall,
    list_conditions,
    make_script,
)
from treadle.thread.situation import is_news

_EXCERPT_SIZE_MAX: Final = 80
_NEAREST_MAX: Final = 3

_T = TypeVar("_T")


class ScriptedModel:
    """A provider that plays a script; any number of streams may run at once.

    Args:
        script: what to play.
        sleep: waits for a number of seconds; called for delays above 0 only.

    Raises:
        ScriptError: the script is not valid.
    """

    def __init__(
        self, script: Script, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        script = make_script(script)
        self.name: Final = "scripted"
        self._sleep = sleep
        self._parts = tuple(
            _PreparedReply.of(index, reply, asks, script)
            for index, (reply, asks) in enumerate(
                zip(script.replies, list_conditions(script), strict=True)
            )
        )
        self._failures: dict[int, int] = {}
        """How often each failure was used, by its index; starts anew with the process."""

    @classmethod
    def of(
        cls,
        *replies: str | Reply | Mapping[str, Any],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> ScriptedModel:
        """A model without a file.

        Args:
            replies: a text, a `Reply`, or a table as it would stand in a file.
            sleep: as for the constructor.

        Raises:
            ScriptError: the replies make no valid script.
        """
        tables = [{"text": reply} if isinstance(reply, str) else reply for reply in replies]
        return cls(make_script({"replies": tables}), sleep=sleep)

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the reply that the script has for this request, or an error that says it has none.

        The script may also ask for a stream that is cut (no end) or hangs until it is cancelled.
        """
        shown = _RequestView.of(request)
        part = self._choose_reply(shown)
        if part is None:
            yield LlmEvent.Error(self._make_no_reply_error(shown))
            return
        calls = part.make_calls(len(request.messages))
        if part.first_delay_s:
            await self._sleep(part.first_delay_s)
        for index, delta in enumerate(part.make_deltas(calls)):
            if part.delay_s and index:
                await self._sleep(part.delay_s)
            yield delta
        if part.reply.hang:
            await asyncio.get_running_loop().create_future()
        elif part.error is not None:
            yield part.error
        elif not part.reply.cut:
            yield LlmEvent.Completed(part.make_response(calls, shown))

    def traits(self, model: str) -> ModelTraits:
        """A script has no limits."""
        return ModelTraits(sees_images=True, reads_pdf=True)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """An estimate by characters."""
        return estimate_tokens(_RequestView.of(request).input_size)

    async def aclose(self) -> None:
        """Nothing to free."""

    def _choose_reply(self, shown: _RequestView) -> _PreparedReply | None:
        for part in self._parts:
            if part.matches(shown) and self._use_reply(part):
                return part
        return None

    def _use_reply(self, part: _PreparedReply) -> bool:
        if part.times_max == 0:
            return True
        used = self._failures.get(part.index, 0)
        self._failures[part.index] = used + 1
        return used < part.times_max

    def _make_no_reply_error(self, shown: _RequestView) -> LlmError:
        near = sorted(self._parts, key=lambda part: len(part.list_unmet_conditions(shown)))
        nearest = "; ".join(
            f"replies[{part.index}] wants {' and '.join(wishes)}"
            if (wishes := part.list_unmet_conditions(shown))
            else f"replies[{part.index}] is used up"
            for part in near[:_NEAREST_MAX]
        )
        message = f"the script has no reply for {shown.text}. Nearest: {nearest}"
        return LlmError(LlmErrorKind.BAD_REQUEST, message)


class _RequestView(Struct, frozen=True, gc=False):
    """What the conditions look at: the request's turn, read from its end."""

    system: str
    turn: tuple[Message, ...]
    """Newest first, down to the latest prompt; notes to the agent are none. What has changed in the
    situation is no message that a script waits for: it may be told between any two others."""
    step: int

    @classmethod
    def of(cls, request: LlmRequest) -> _RequestView:
        turn: list[Message] = []
        step = 0
        for message in reversed(request.messages):
            turn.append(message)
            if message.role == "user" and message.name != NOTE:
                break
            if message.role == "assistant":
                step += 1
        return cls(request.system, tuple(turn), step)

    @property
    def last(self) -> Message | None:
        return next((one for one in self.turn if not is_news(one)), None)

    @property
    def user(self) -> str | None:
        prompts = (m.content for m in reversed(self.turn) if m.role == "user" and m.name != NOTE)
        return next(prompts, None)

    @property
    def text(self) -> str:
        """For people; one line."""
        said = [f"step {self.step} of this turn"]
        if self.system:
            said.append(f"system prompt {_make_excerpt(self.system)}")
        if self.user is not None:
            said.append(f"user message {_make_excerpt(self.user)}")
        if self.last is not None and self.last.role != "user":
            role = f"result of {self.last.name}" if self.last.role == "tool" else self.last.role
            said.append(f"last message ({role}) {_make_excerpt(self.last.content)}")
        return ", ".join(said)

    @property
    def input_size(self) -> int:
        """In characters, calls included."""
        size = len(self.system)
        for message in self.turn:
            size += len(message.content)
            for call in message.tool_calls:
                size += len(call.arguments_json)
        return size


def _format_condition(condition: str | range) -> str:
    if isinstance(condition, str):
        return f"= {condition!r}"
    return (
        f"= {condition.start}" if condition.stop == condition.start + 1 else f">= {condition.start}"
    )


def _make_excerpt(text: str) -> str:
    return repr(text if len(text) <= _EXCERPT_SIZE_MAX else f"{text[:_EXCERPT_SIZE_MAX]}…")


_Test: TypeAlias = Callable[[Any, _RequestView], bool]


def _matches(pattern: re.Pattern[str], text: str | None) -> bool:
    return text is not None and pattern.search(text) is not None


_TESTS: Final[Mapping[str, _Test]] = MappingProxyType(
    {
        "step": lambda steps, shown: shown.step in steps,
        "last_role": lambda role, shown: shown.last is not None and shown.last.role == role,
        "tool": lambda name, shown: (
            shown.last is not None and shown.last.role == "tool" and shown.last.name == name
        ),
        "last": lambda pattern, shown: (
            shown.last is not None and _matches(pattern, shown.last.content)
        ),
        "user": lambda pattern, shown: _matches(pattern, shown.user),
        "system": lambda pattern, shown: _matches(pattern, shown.system),
        "seen": lambda pattern, shown: any(_matches(pattern, each.content) for each in shown.turn),
    }
)
"""One test per condition, the cheap ones first."""

_EXACT: Final = frozenset({"step", "last_role", "tool"})


class _PreparedReply(Struct, frozen=True):
    """A reply made ready: patterns compiled, text cut into deltas."""

    index: int
    reply: Reply
    tests: tuple[tuple[_Test, Any], ...]
    asks: Mapping[str, Any]
    times_max: int
    text: str
    text_deltas: tuple[LlmEvent.TextDelta, ...]
    arguments: tuple[tuple[ScriptedCall, str, tuple[str, ...]], ...]
    """Of each call: how the script has it, its arguments, and those in pieces."""
    output_size: int
    first_delay_s: float
    delay_s: float
    error: LlmEvent.Error | None

    @classmethod
    def of(
        cls, index: int, reply: Reply, asks: Mapping[str, Any], script: Script
    ) -> _PreparedReply:
        size = _choose_default(reply.chunk_size, script.chunk_size)
        text = reply.text or "".join(reply.chunks)
        jsons = [_make_arguments_json(call) for call in reply.calls]
        failure = reply.error
        return cls(
            index=index,
            reply=reply,
            tests=tuple(
                (test, asks[name] if name in _EXACT else re.compile(asks[name]))
                for name, test in _TESTS.items()
                if name in asks
            ),
            asks=asks,
            times_max=reply.times_max,
            text=text,
            text_deltas=tuple(map(LlmEvent.TextDelta, reply.chunks or _split_text(text, size))),
            arguments=tuple(
                (call, json, tuple(_split_text(json, size)) or ("",))
                for call, json in zip(reply.calls, jsons, strict=True)
            ),
            output_size=len(text) + sum(map(len, jsons)),
            first_delay_s=_choose_default(reply.first_delay_s, script.first_delay_s),
            delay_s=_choose_default(reply.delay_s, script.delay_s),
            error=None
            if failure is None
            else LlmEvent.Error(LlmError(failure.kind, failure.message, failure.retry_after_s)),
        )

    def matches(self, shown: _RequestView) -> bool:
        return all(test(want, shown) for test, want in self.tests)

    def list_unmet_conditions(self, shown: _RequestView) -> list[str]:
        """The conditions that do not hold, for people."""
        names = [name for name in _TESTS if name in self.asks]
        return [
            f"{name} {_format_condition(self.asks[name])}"
            for name, (test, want) in zip(names, self.tests, strict=True)
            if not test(want, shown)
        ]

    def make_calls(self, length: int) -> tuple[ToolCall, ...]:
        """The calls of this reply to a conversation of `length` messages.

        Default ids carry that length, so they never recur while the conversation only grows.
        """
        return tuple(
            ToolCall(call.id or f"{CALL_ID_PREFIX}{length}-{index}", call.tool, json)
            for index, (call, json, _) in enumerate(self.arguments)
        )

    def make_deltas(self, calls: tuple[ToolCall, ...]) -> Iterator[ModelEvent]:
        if self.reply.thinking:
            yield LlmEvent.ThinkingDelta(self.reply.thinking)
        yield from self.text_deltas
        for call, (_, _, pieces) in zip(calls, self.arguments, strict=True):
            for piece in pieces:
                yield LlmEvent.ToolCallDelta(call.id, call.tool_name, piece)

    def make_response(self, calls: tuple[ToolCall, ...], shown: _RequestView) -> LlmResponse:
        tokens = self.reply.usage
        usage = (
            estimate_usage(shown.input_size, self.output_size)
            if tokens is None
            else Usage(tokens.input_tokens, tokens.output_tokens, cost_usd=tokens.cost_usd)
        )
        reason = _choose_default(self.reply.finish_reason, "tool_calls" if calls else "stop")
        said = Message.assistant(self.text, calls)
        return LlmResponse(said, usage, reason, self.reply.confidence)


def _choose_default(value: _T | None, default: _T) -> _T:
    return default if value is None else value


def _split_text(text: str, size: int) -> Iterator[str]:
    """The text in pieces of `size` characters; 0 is one piece. Nothing of an empty text."""
    step = size or max(1, len(text))
    return (text[start : start + step] for start in range(0, len(text), step))


def _make_arguments_json(call: ScriptedCall) -> str:
    if call.arguments_text is not None:
        return call.arguments_text
    return msgspec.json.encode(call.arguments or {}).decode()
