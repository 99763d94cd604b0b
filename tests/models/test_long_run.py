"""Two hundred rounds over the wire: what is sent, what a cache holds, what stays in view."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from models.loopback import Answer, Loopback, Seen, stream
from models.speakers import SPEAK
from models.test_prompt_cache import LOOK_BACK, MARKS_MAX, blocks_of
from runtime.desk import CONFIG, Desk, Run, Toolbox, imbalance, mutate, read
from treadle.core.compaction import SUMMARY_INSTRUCTION, SUMMARY_SYSTEM_PROMPT
from treadle.core.config import AgentConfig
from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import is_by_person
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.openai.chat import OpenAiChatProvider
from treadle.models.openai.responses import OpenAiResponsesProvider
from treadle.outputs import TurnOutcome
from treadle.runtime.ports import Provider

KEY: Final = "sk-test-key-0123456789abcdef"
TURNS: Final = 8
ROUNDS: Final = 25
"""Of each turn; then it is answered."""
LIMIT: Final = 50_000
RESULT_SIZES: Final = (2_000, 12_000, 400, 30_000, 6_000)
REASON: Final = "The shuttle sticks where the warp crosses the weft, so I look there. " * 20
GRAIN: Final = 128
"""Tokens: what OpenAI's cache holds of a prefix is a multiple of this, and 1,024 at least."""


class Watched:
    """A provider of which every request is kept."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self.name = inner.name
        self.requests: list[LlmRequest] = []

    def traits(self, model: str) -> ModelTraits:
        return self._inner.traits(model)

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        async for event in self._inner.stream(request):
            yield event


class Script:
    """The server's side: a model that calls tools, answers, and writes summaries as it is asked."""

    def __init__(self, form: str) -> None:
        self._speak: Callable[..., bytes] = SPEAK[form]
        self.rounds = self._since_answer = 0

    def answer(self, seen: Seen) -> Answer:
        tokens = len(seen.body) // 4
        if is_summary_request(seen.body):
            return stream(self._speak("They want the loom mended.", cached=tokens))
        if self._since_answer == ROUNDS:
            self._since_answer = 0
            return stream(self._speak("The loom is mended so far.", cached=tokens))
        self._since_answer += 1
        self.rounds += 1
        number = self.rounds
        calls = [(f"call_{number}_0", "read_file", {"path": f"src/loom_{number}.py"})]
        if number % 3 == 0:
            calls.append((f"call_{number}_1", "bash", {"command": f"make test-{number}"}))
        return stream(self._speak(f"Reason {number}: {REASON}", tuple(calls), cached=tokens))


def is_summary_request(body: bytes) -> bool:
    asked = (json.dumps(SUMMARY_INSTRUCTION)[1:60], json.dumps(SUMMARY_SYSTEM_PROMPT)[1:60])
    return any(text.encode() in body for text in asked)


class Measured(Struct):
    """One request: its tokens, those that the cache gave, and what the one before had sent."""

    tokens: int
    cached: int
    before: int
    is_summary: bool


class AnthropicCache:
    """Prefixes are written at marks and looked for at some blocks before each mark."""

    def __init__(self) -> None:
        self._written: set[int] = set()

    def read(self, body: dict[str, Any]) -> int:
        """How many bytes of the request stand in the cache; then what it marks stands there too."""
        blocks = blocks_of(body)
        marks = [place for place, (_, is_marked) in enumerate(blocks) if is_marked]
        assert len(marks) <= MARKS_MAX
        head = json.dumps(body.get("tools"))
        prefixes, sizes, prefix, size = list[int](), list[int](), hash(head), len(head)
        for block, _ in blocks:
            prefix, size = hash((prefix, block)), size + len(block)
            prefixes.append(prefix)
            sizes.append(size)
        looked_at = [end for mark in marks for end in range(mark, max(-1, mark - LOOK_BACK), -1)]
        found = max((sizes[end] for end in looked_at if prefixes[end] in self._written), default=0)
        self._written |= {prefixes[mark] for mark in marks}
        return found


class OpenAiCache:
    """The longest prefix that any earlier request had, in whole grains."""

    def __init__(self) -> None:
        self._earlier: list[list[str]] = []

    def read(self, body: dict[str, Any]) -> int:
        """How many bytes of the request stand in the cache; then all of it does."""
        said = body.get("messages") or body["input"]
        texts = [json.dumps([body.get("tools"), body.get("instructions")])]
        texts += [json.dumps(one) for one in said]
        shared = 0
        for earlier in self._earlier:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(texts, earlier, strict=False))
            shared = max(shared, sum(len(one) for one, _ in same))
        self._earlier.append(texts)
        tokens = shared // 4 // GRAIN * GRAIN
        return tokens * 4 if tokens >= 1_024 else 0


PROVIDERS: Final[dict[str, tuple[Callable[[str], Any], Callable[[], Any]]]] = {
    "anthropic-messages": (lambda url: AnthropicProvider(KEY, base_url=url), AnthropicCache),
    "openai-chat": (lambda url: OpenAiChatProvider(KEY, base_url=f"{url}/v1"), OpenAiCache),
    "openai-responses": (
        lambda url: OpenAiResponsesProvider(KEY, base_url=f"{url}/v1"),
        OpenAiCache,
    ),
}


class LongRun(Struct):
    """What came of it."""

    requests: list[LlmRequest]
    measured: list[Measured]
    events: list[str]
    prompts: list[str]
    rounds: int


async def make_result(run: Run) -> str:
    """Of a size that its round says, and like no other."""
    size = RESULT_SIZES[int(run.call.id.split("_")[1]) % len(RESULT_SIZES)]
    line = f"{run.call.id}: the warp and the weft of {run.call.arguments_json}\n"
    return (line * (size // len(line) + 1))[:size]


async def work(folder: Path, form: str, limit: int, window: int) -> LongRun:
    """Eight turns of twenty-five rounds, over the wire."""
    make_provider, make_cache = PROVIDERS[form]
    script, desk = Script(form), Desk(folder)
    tools = Toolbox(read_file=read(make_result), bash=mutate(make_result))
    config = AgentConfig(
        f"{form.partition('-')[0]}:test",
        CONFIG.system_prompt,
        context_tokens_max=window,
        compact_at_tokens=limit,
    )
    prompts = [
        f"Wish {turn}: mend part {turn} of the loom, and leave its name." for turn in range(TURNS)
    ]
    async with Loopback(script.answer) as server:
        inner = make_provider(server.url)
        provider = Watched(inner)
        session = desk.new(provider, tools, config)
        for prompt in prompts:
            finished = await session.turn(prompt)
            assert finished.outcome is TurnOutcome.DONE, finished.error
        desk.check(session)
        await inner.aclose()
    cache, measured, before = make_cache(), list[Measured](), 0
    for seen in server.requests:
        tokens = len(seen.body) // 4
        found = cache.read(seen.json) // 4
        measured.append(Measured(tokens, found, before, is_summary_request(seen.body)))
        before = tokens
    kinds = desk.kinds(session.thread_id)
    return LongRun(provider.requests, measured, kinds, prompts, script.rounds)


def list_fresh_requests(run: LongRun) -> set[int]:
    """The requests whose beginning changed: the first, and those after room was made."""
    fresh, sent = {0}, -1
    for kind in run.events:
        if kind in ("llm_completed", "compacted"):
            sent += 1
        if kind in ("compacted", "results_masked"):
            fresh.add(sent + 1)
    return fresh


@pytest.mark.parametrize("form", PROVIDERS)
async def test_in_two_hundred_rounds_the_cache_holds_until_room_is_made_and_words_stay(
    tmp_path: Path, form: str
) -> None:
    run = await work(tmp_path, form, LIMIT, 1_000_000)
    masked, summed_up = run.events.count("results_masked"), run.events.count("compacted")
    assert run.rounds == TURNS * ROUNDS
    assert masked >= 3
    assert summed_up >= 3
    said = 0
    for request in run.requests:
        assert imbalance(request.messages) == ""
        told = [one.content for one in request.messages if is_by_person(one)]
        said = max(said, len(told))
        assert told == run.prompts[:said], "every word of the person, in order, in every request"
    fresh = list_fresh_requests(run)
    for place, one in enumerate(run.measured):
        if place not in fresh:
            slack = one.before // 100 + 2 * GRAIN  # what is asked for besides messages
            assert one.cached >= one.before - slack, (place, one)
    assert max(one.tokens for one in run.measured) < LIMIT + 25_000
    assert len(run.measured) == TURNS * (ROUNDS + 1) + summed_up
