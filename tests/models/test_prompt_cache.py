"""Where the marks of Anthropic's prompt cache stand, against a cache that works as its does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.compaction import SUMMARY_INSTRUCTION
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolDefinition
from treadle.models.anthropic.request import make_message_parameters
from treadle.models.openai.chat_request import OPENROUTER, find_dialect, make_parameters

TOOLS = (ToolDefinition("bash", "Runs.", {"type": "object"}),)
MARKS_MAX = 4
LOOK_BACK = 20
"""Both as the API documents them, and not as the code has them."""


def requests_of(rounds: list[int]) -> Iterator[LlmRequest]:
    """The requests of a conversation: after each prompt or round of so many calls, one."""
    said = [Message.user("Begin.")]
    yield LlmRequest("claude-x", Conversation(said), TOOLS, "Be brief.")
    for turn, count in enumerate(rounds):
        calls = tuple(ToolCall(f"c{turn}_{index}", "bash", "{}") for index in range(count))
        said.append(Message.assistant(f"Answer {turn}.", calls))
        said += [Message("tool", f"result {call.id}", (), call.id) for call in calls]
        if not calls:
            said.append(Message.user(f"Prompt {turn}."))
        yield LlmRequest("claude-x", Conversation(said), TOOLS, "Be brief.")


def summary_after(request: LlmRequest, answer: str) -> LlmRequest:
    """What asks for a summary: in a turn of what was asked last, else of its answer too."""
    said = [*request.messages, *([Message.assistant(answer)] if answer else [])]
    asked = Conversation([*said, Message.note(SUMMARY_INSTRUCTION + " Above all, keep this: x")])
    return msgspec.structs.replace(request, messages=asked)


def blocks_of(body: dict[str, Any]) -> list[tuple[bytes, bool]]:
    """Every block as the cache compares it, and whether it is marked."""
    system = body.get("system", [])
    content = [
        {"role": message["role"], **block}
        for message in body["messages"]
        for block in _parts(message)
    ]
    blocks = [(dict(block), "cache_control" in block) for block in (*system, *content)]
    told = [
        (msgspec.json.encode({**block, "cache_control": None}, order="sorted"), is_marked)
        for block, is_marked in blocks
    ]
    if "cache_control" in body:
        told[-1] = (told[-1][0], True)
    return told


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """As a gateway makes blocks of a message of Chat Completions."""
    content = message["content"]
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    calls = [{"call": call["id"]} for call in message.get("tool_calls", ())]
    return [*texts, *calls]


def asked_of_anthropic(request: LlmRequest) -> dict[str, Any]:
    return make_message_parameters(request, "anthropic", ModelTraits())


def asked_of_openrouter(request: LlmRequest) -> dict[str, Any]:
    return make_parameters(request, "openrouter", ModelTraits(), OPENROUTER)


@pytest.mark.parametrize("ask", [asked_of_anthropic, asked_of_openrouter])
@given(rounds=st.lists(st.integers(0, 60), max_size=6))
def test_every_request_reads_all_that_the_one_before_has_written(ask: Any, rounds: list[int]):
    written: set[tuple[bytes, ...]] = set()
    before = 0
    for request in requests_of(rounds):
        blocks = blocks_of(ask(request))
        marks = [place for place, (_, is_marked) in enumerate(blocks) if is_marked]
        prefixes = [tuple(block for block, _ in blocks[: end + 1]) for end in range(len(blocks))]
        assert len(marks) <= MARKS_MAX
        assert marks[-1] == len(blocks) - 1
        looked_at = [end for mark in marks for end in range(mark, max(-1, mark - LOOK_BACK), -1)]
        read = max((end + 1 for end in looked_at if prefixes[end] in written), default=0)
        assert read == before
        written |= {prefixes[mark] for mark in marks}
        before = len(blocks)
        for answer in ("", "Done."):
            summary = blocks_of(ask(summary_after(request, answer)))
            marked = [end for end, (_, is_marked) in enumerate(summary) if is_marked]
            ends = [tuple(block for block, _ in summary[: end + 1]) for end in marked]
            assert len(ends) <= MARKS_MAX
            assert set(ends) <= written, "what nobody reads again is written"
            assert marked[-1] + 1 == before


def test_what_no_later_request_begins_with_is_not_marked() -> None:
    alone = LlmRequest("claude-x", Conversation([Message.user("A title?")]), system="Name it.")
    for ask in (asked_of_anthropic, asked_of_openrouter):
        assert b"cache_control" not in msgspec.json.encode(ask(alone))


def test_an_hour_is_said_at_every_mark() -> None:
    *_, request = requests_of([30, 30])
    hour = {"type": "ephemeral", "ttl": "1h"}
    for body, count in (
        (make_message_parameters(request, "anthropic", ModelTraits(), "1h"), 3),
        (make_parameters(request, "openrouter", ModelTraits(), OPENROUTER, "1h"), 3),
    ):
        said = msgspec.json.encode(body)
        assert said.count(msgspec.json.encode(hour)) == said.count(b"cache_control") == count


def test_only_claude_over_a_gateway_is_marked_in_chat_completions() -> None:
    *_, request = requests_of([3])
    other = msgspec.structs.replace(request, model="gpt-5")
    for url in ("https://openrouter.ai/api/v1", "https://ai-gateway.vercel.sh/v1"):
        assert find_dialect(url) is OPENROUTER
    for body in (
        make_parameters(other, "openrouter", ModelTraits(), OPENROUTER),
        make_parameters(request, "x", ModelTraits(), find_dialect("https://x.example/v1")),
    ):
        assert b"cache_control" not in msgspec.json.encode(body)
