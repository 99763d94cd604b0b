"""The last turn of a conversation, shown again when a chat goes on with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from treadle.app.threads.call_diffs import preview_diff
from treadle.core.conversation import Conversation
from treadle.core.messages import NOTE, Message, ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.terminal.block_renderer import BlockRenderer
from treadle.terminal.blocks.frames import TrimmedBlock
from treadle.terminal.blocks.notices import line_block, prompt_block
from treadle.terminal.call_text import parse_result_message
from treadle.terminal.markdown_splitter import MarkdownSplitter
from treadle.terminal.plan_view import PlanView
from treadle.terminal.read_group import EndedLook, is_look
from treadle.thread.typed_words import strip_additions
from treadle.thread.web_searches import describe_web_search, list_web_searches

MESSAGES_MAX: Final = 30
TEXT_MAX: Final = 20_000
"""Characters of one earlier answer that are shown again."""


def render_last_turn(
    messages: Sequence[Message], blocks: BlockRenderer, plan: PlanView
) -> Iterator[RenderableType]:
    """The last turn, as it looked; of a long one its beginning and its end.

    Args:
        messages: the conversation, or its end; of a `Conversation` what a rewind has hidden is left
            out.
        blocks: makes the blocks.
        plan: is given the plan that holds, and shows it.
    """
    spans = messages.hidden if isinstance(messages, Conversation) else ()
    hidden = {at for start, end in spans for at in range(start, end)}
    messages = [one for at, one in enumerate(messages) if at not in hidden]
    first = max((i for i, one in enumerate(messages) if _is_prompt(one)), default=0)
    shown = max(first, len(messages) - MESSAGES_MAX)
    if earlier := sum(map(_is_prompt, messages[:first])):
        turns = "1 earlier turn" if earlier == 1 else f"{earlier} earlier turns"
        yield line_block(f"{turns} (Ctrl+O)")
    calls = {call.id: call for one in messages[first:] for call in one.tool_calls}
    said = [messages[first]] if first < shown else []
    looks: list[EndedLook] = []
    for message in [*said, *messages[shown:]]:
        if (look := _find_look(message, calls)) is not None:
            looks.append(look)
            continue
        rendered = [*_render_message(message, calls, blocks)]
        if looks and rendered:
            rendered.insert(0, blocks.render_looks(looks))
            looks = []
        for block in rendered:
            yield Text("")
            yield TrimmedBlock(block)
        if message in said:
            yield line_block(f"… {shown - first - 1} messages")
    if looks:
        yield from (Text(""), TrimmedBlock(blocks.render_looks(looks)))
    if (shown_plan := plan.restore(messages)) is not None:
        yield from (Text(""), shown_plan)


def _render_message(
    message: Message, calls: dict[str, ToolCall], blocks: BlockRenderer
) -> Iterator[RenderableType]:
    text = message.content
    if message.role == "user":
        said = prompt_block(strip_additions(text), message.attachments)
        yield line_block(text) if message.name == NOTE else said
    elif message.role == "assistant":
        splitter, links = MarkdownSplitter(), dict[str, Any]()
        if len(text) > TEXT_MAX:
            yield line_block(f"… {len(text) - TEXT_MAX} characters")
        for piece in [*splitter.feed(text[-TEXT_MAX:]), *splitter.close()]:
            if (block := blocks.render_markdown(piece, links)) is not None:
                yield block
        for search in list_web_searches(message):
            yield line_block(describe_web_search(search))
        if message.interrupted:
            yield line_block("interrupted", "warn")
    elif message.role == "tool":
        named = ToolCall(message.tool_call_id or "", message.name or "")
        call = calls.get(named.id, named)
        how = parse_result_message(text)
        if how.is_good and kind_of(call.tool_name) is ToolKind.PLAN:
            return  # the newest plan stands below all messages
        diff = preview_diff(call) if how.is_good else None
        yield blocks.render_result(call, how, None, diff=diff)


def _find_look(message: Message, calls: dict[str, ToolCall]) -> EndedLook | None:
    """A call that only looked at files, and has ended well; those in a row are one line."""
    call = calls.get(message.tool_call_id or "")
    if message.role != "tool" or call is None or not is_look(call):
        return None
    how = parse_result_message(message.content)
    return EndedLook(call, how, None) if how.is_good else None


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and message.name != NOTE
