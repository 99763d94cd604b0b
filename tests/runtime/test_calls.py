"""One request, one call, one hook, one look: whatever an adapter does, a value comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from case_tables import for_every_row
from runtime.clock import tick
from runtime.desk import Failure, Folder, Hooked, Run, Success, Toolbox, for_ever, ignore, mutate
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent, ModelEvent, PostToolsHookCompleted
from treadle.core.llm import LlmErrorKind, LlmRequest, LlmResponse, ModelTraits
from treadle.core.messages import Message, SeenFile, ToolCall
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolProgress
from treadle.models.scripted.provider import ScriptedModel
from treadle.runtime.calls import (
    OUTPUT_LENGTH_MAX,
    SLICE_SIZE,
    CallLimit,
    call_model,
    cut_middle,
    observe_workspace,
    prepare_outcome,
    run_call,
    run_hook,
)

REQUEST = LlmRequest("model-1", Conversation([Message.user("go")]))
ANSWER = LlmEvent.Completed(LlmResponse(Message.assistant("done")))
CALL = ToolCall("c1", "work")


class Stream:
    """A provider that does what a function does, and knows whether its stream was closed."""

    name = "test"

    def __init__(self, play: Callable[[], AsyncGenerator[ModelEvent, None]]) -> None:
        self._play = play
        self.is_closed = False

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits()

    async def stream(self, _: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            async for event in self._play():
                yield event
        finally:
            self.is_closed = True


async def test_the_end_of_a_stream_is_what_comes_back_and_deltas_are_told() -> None:
    told: list[Any] = []
    model = ScriptedModel.of({"chunks": ["do", "ne"], "calls": [{"tool": "a"}]})
    event = await call_model(model, REQUEST, 5.0, told.append)
    assert isinstance(event, LlmEvent.Completed)
    assert event.response.message.content == "done"
    assert [type(delta).__name__ for delta in told] == ["TextDelta", "TextDelta", "ToolCallDelta"]


@pytest.mark.parametrize("kind", [LlmEvent.TextDelta, LlmEvent.ThinkingDelta])
@pytest.mark.parametrize("size", [1, SLICE_SIZE, 100 * SLICE_SIZE])
async def test_others_get_their_turn_while_an_answer_comes_at_once(
    kind: Callable[[str], ModelEvent], size: int
) -> None:
    text = "".join(chr(ord("a") + place % 26) for place in range(100 * SLICE_SIZE))
    turns = 0
    told: list[str] = []
    """What was told since the last turn."""
    whole: list[str] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            assert sum(map(len, told)) < 2 * SLICE_SIZE
            whole.extend(told)
            told.clear()
            await asyncio.sleep(0)

    async def play() -> AsyncGenerator[ModelEvent, None]:
        for place in range(0, len(text), size):
            yield kind(text[place : place + size])
        yield ANSWER

    beside = asyncio.ensure_future(others())
    await call_model(Stream(play), REQUEST, 5.0, lambda delta: told.append(delta.content))  # type: ignore[union-attr]
    assert not beside.done()
    beside.cancel()
    assert "".join([*whole, *told]) == text
    assert turns >= 100


async def test_what_stops_a_request_need_not_wait_for_the_end_of_a_long_delta() -> None:
    told: list[Any] = []

    async def play() -> AsyncGenerator[ModelEvent, None]:
        yield LlmEvent.TextDelta("x" * 100 * SLICE_SIZE)
        yield ANSWER

    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(call_model(Stream(play), REQUEST, 5.0, told.append))
    loop.call_soon(loop.call_soon, work.cancel)
    await asyncio.wait({work})
    assert work.cancelled()
    assert 0 < len(told) < 5


async def test_a_pair_of_halves_that_a_slice_would_part_stays_one_character() -> None:
    told: list[Any] = []

    async def play() -> AsyncGenerator[ModelEvent, None]:
        yield LlmEvent.TextDelta("x" * (SLICE_SIZE - 1) + "\ud83d\ude00" + "y")
        yield ANSWER

    await call_model(Stream(play), REQUEST, 5.0, told.append)
    assert "".join(delta.content for delta in told).endswith("x\N{GRINNING FACE}y")


async def test_the_stream_is_closed_when_its_end_has_come() -> None:
    async def play() -> AsyncGenerator[ModelEvent, None]:
        yield ANSWER
        raise AssertionError("nobody asks for more")

    provider = Stream(play)
    assert await call_model(provider, REQUEST, 5.0, ignore) == ANSWER
    assert provider.is_closed


async def test_the_stream_is_closed_when_the_request_is_cancelled() -> None:
    async def play() -> AsyncGenerator[ModelEvent, None]:
        yield LlmEvent.TextDelta("a")
        await asyncio.Event().wait()

    provider = Stream(play)
    task = asyncio.ensure_future(call_model(provider, REQUEST, 5.0, ignore))
    await tick(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.is_closed


async def test_silence_is_measured_from_the_last_event() -> None:
    model = ScriptedModel.of({"chunks": ["a", "b", "c"], "delay_s": 4, "hang": True})
    loop = asyncio.get_running_loop()
    began = loop.time()
    event = await call_model(model, REQUEST, 5.0, ignore)
    assert isinstance(event, LlmEvent.Error)
    assert event.error.kind is LlmErrorKind.TIMEOUT
    assert loop.time() - began == pytest.approx(2 * 4 + 5)


async def run(does: Callable[[Run], Awaitable[Any]], limit_s: float = 5.0) -> Outcome:
    return await run_call(Toolbox(work=mutate(does)), CALL, "key", CallLimit(limit_s), ignore)


async def test_a_call_gets_its_key_and_may_report() -> None:
    told: list[ToolProgress] = []

    async def work(run: Run) -> str:
        run.progress(ToolProgress(0.5))
        return run.key

    outcome = await run_call(
        Toolbox(work=mutate(work)), CALL, "the key", CallLimit(5.0), told.append
    )
    assert outcome == Success("c1", "the key")
    assert told == [ToolProgress(0.5)]


async def test_a_call_that_is_stopped_from_outside_lets_the_stop_through() -> None:
    task = asyncio.ensure_future(run(for_ever))
    await tick(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stop_from_outside_is_told_from_a_limit_that_passes_at_the_same_time() -> None:
    task = asyncio.ensure_future(run(for_ever, limit_s=5.0))
    asyncio.get_running_loop().call_later(5.0, task.cancel)
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(result, asyncio.CancelledError | Failure)


async def test_a_bug_of_a_tool_names_itself() -> None:
    async def fail(_: Run) -> str:
        raise KeyError("missing")

    outcome = await run(fail)
    assert isinstance(outcome, Failure)
    assert outcome.error == ToolError(ToolErrorKind.INTERNAL, "KeyError: 'missing'")


async def test_an_outcome_is_shown_under_the_id_of_its_call_with_the_files_it_changed() -> None:
    outcome = Success("other", "text", ("a.py",))
    assert await prepare_outcome(outcome, "c1", str.upper) == Success("c1", "TEXT", ("a.py",))
    error = ToolError(ToolErrorKind.IO, "message", "output")
    shown = await prepare_outcome(Failure("other", error), "c1", str.upper)
    assert shown == Failure("c1", ToolError(ToolErrorKind.IO, "MESSAGE", "OUTPUT"))


async def test_a_cut_result_shows_no_lines_and_one_with_a_secret_leaves_no_digest() -> None:
    seen = SeenFile("a.py", "digest", 1, 9, "0.AABB")
    whole = Success("c1", "text", seen=(seen,))
    assert await prepare_outcome(whole, "c1", str) == whole
    long = Success("c1", "x" * (OUTPUT_LENGTH_MAX + 1), seen=(seen,))
    cut = await prepare_outcome(long, "c1", str)
    assert cut.seen == (SeenFile("a.py", "digest", lines="0.AABB"),)
    redacted = await prepare_outcome(whole, "c1", str.upper)
    assert redacted.seen == (SeenFile("a.py", "digest", 1, 9),)
    failed = Failure("c1", ToolError(ToolErrorKind.FAILED, "no"), seen=(seen,))
    assert (await prepare_outcome(failed, "c1", str.upper)).seen == (seen,)


@pytest.mark.parametrize("extra", [-1, 0])
def test_what_fits_is_not_cut(extra: int) -> None:
    text = "é" * (OUTPUT_LENGTH_MAX + extra)
    assert cut_middle(text) is text


@for_every_row("extra", [1, 2, 3, 100_000])
def test_what_is_cut_says_how_much(extra: int) -> None:
    text = "".join(chr(ord("a") + place % 26) for place in range(OUTPUT_LENGTH_MAX + extra))
    head, said, tail = cut_middle(text).split("\n")
    assert said == f"[... {extra} characters left out ...]"
    assert len(head) + len(tail) + extra == len(text)
    assert text.startswith(head)
    assert text.endswith(tail)


async def test_a_hook_tells_what_it_did() -> None:
    folder = Folder()
    event, _ = await run_hook(folder, (), None, is_whole=True, trailer="T")
    assert event == PostToolsHookCompleted(True, "committed")
    assert folder.rounds[0].trailer == "T"


async def test_a_hook_names_the_commit_that_it_made() -> None:
    class Committing(Folder):
        async def after_tools(self, *_: Any, **__: Any) -> Hooked:
            return Hooked(commit="c0ffee" * 6)

    event, _ = await run_hook(Committing(), (), None, is_whole=True, trailer="T")
    assert event == PostToolsHookCompleted(True, "committed", commit="c0ffee" * 6)


@for_every_row("error", [RuntimeError("oh"), TimeoutError(), SystemExit(3)])
async def test_a_hook_that_raises_has_done_nothing_and_says_why(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    event, _ = await run_hook(Folder(fail), (), None, is_whole=True, trailer="T")
    assert not event.action_taken
    assert type(error).__name__ in event.note


async def test_a_hook_that_returns_nonsense_has_done_nothing() -> None:
    class Odd(Folder):
        async def after_tools(self, *_: Any, **__: Any) -> Any:
            return None

    event, _ = await run_hook(Odd(), (), None, is_whole=True, trailer="T")
    assert not event.action_taken
    assert "AttributeError" in event.note


async def test_a_hook_that_is_stopped_lets_the_stop_through() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(run_hook(Folder(wait), (), None, is_whole=True, trailer="T"))
    await tick(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_folder_that_raises_stands_in_no_known_way() -> None:
    folder = Folder()
    assert await observe_workspace(folder) is not None

    async def fail() -> None:
        raise OSError(13, "no")

    folder.on_look = fail
    assert await observe_workspace(folder) is None
