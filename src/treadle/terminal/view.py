"""What a chat looks like: finished blocks go to the scrollback, the rest is drawn live.

Rich, the Markdown parser and the highlighter cost a quarter of a second to load: none of them is
imported before the first block is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treadle import outputs
from treadle.app.threads.call_changes import OriginalFiles, make_file_reader, read_originals
from treadle.app.threads.call_diffs import compute_diff, preview_diff
from treadle.core.messages import Message, ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import ToolExecutionOutcome
from treadle.outputs import Output
from treadle.terminal.attention import LONG_TURN_S
from treadle.terminal.block_renderer import BlockRenderer
from treadle.terminal.call_text import (
    RunningCall,
    describe_outcome,
    is_command,
    is_file_change,
)
from treadle.terminal.live_lines import (
    FRAME_S,
    announcement_lines,
    call_lines,
    spinner_frame,
    text_lines,
    thought_lines,
)
from treadle.terminal.live_markdown import LiveMarkdown
from treadle.terminal.markdown_splitter import MarkdownPiece, MarkdownSplitter
from treadle.terminal.plan_view import PlanView
from treadle.terminal.ports import StyledLine, Terminal
from treadle.terminal.read_group import EndedLook, is_look, look_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from treadle.core.approval import Question

LIVE_SIZE: Final = 2000
"""Characters of what is being written, or thought, that are drawn; at times some more."""


class ChatView:
    """Shows what a session tells.

    Args:
        terminal: where blocks are committed.
        now: the time in seconds, from any beginning; it never goes back.
        folder: the workspace, for diffs with line numbers; without it they have none.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        now: Callable[[], float],
        folder: Path | None = None,
    ) -> None:
        self._terminal = terminal
        self._now = now
        self._read = None if folder is None else make_file_reader(folder)
        self._blocks = BlockRenderer(terminal)
        self.plan = PlanView(is_plain=terminal.is_plain)
        self._text = MarkdownSplitter()
        self._live_markdown = LiveMarkdown()
        self._looks: list[EndedLook] = []
        """Calls that have only looked at files, and are not committed yet: more may follow."""
        self._links: dict[str, Any] = {}
        self._thought = ""
        self._has_answered = False
        """Whether text of the answer that is being written, or was last, has been shown."""
        self._running: dict[str, RunningCall] = {}
        self._before: dict[str, OriginalFiles] = {}
        self._calls: dict[str, ToolCall] = {}
        """Those of this turn; a call's id may come again in another."""
        self._asked: dict[str, str | None] = {}
        """The diffs that stand above with a question, by call."""
        self._is_below_change = False
        """Whether what was committed last is a call that may have changed files, and ended well."""
        self._turn_s: float | None = None
        self._retry_s: float | None = None
        self._error = ""
        self._waits_s: float | None = None
        """Since when the turn waits for a person, so that nothing moves."""
        self._drawing: asyncio.Task[None] | None = None

    # ---- what is committed ---------------------------------------------------------------------

    def show(self, output: Output) -> None:
        """Take what a session tells, as it happens."""
        handler = _HANDLERS.get(type(output))
        if handler is not None:
            handler(self, output)
        self._start_animation()
        self._terminal.refresh()

    def pause(self, *, is_waiting: bool) -> None:
        """The turn waits for a person from now on, or does not any more: that is no time of it."""
        now = self._now()
        if not is_waiting and self._waits_s is not None:
            waited = now - self._waits_s
            self._turn_s = None if self._turn_s is None else self._turn_s + waited
            for running in self._running.values():
                running.started_s += waited
        self._waits_s = now if is_waiting else None
        self._terminal.refresh()

    def preview_diff(self, question: Question) -> str | None:
        """What a call that needs a yes would change now; `None` if it changes no file."""
        diff = preview_diff(question.call, self._read)
        if self._terminal.is_plain:  # where the question stays on the screen
            self._asked[question.call.id] = diff
        return diff

    def history_blocks(self, messages: Sequence[Message]) -> list[RenderableType]:
        """The last turn of a conversation, as it looked; of a long one its end.

        Args:
            messages: the conversation, or its end; of a `Conversation` what a rewind has hidden is
                left out.
        """
        from treadle.terminal.earlier_turns import render_last_turn

        return list(render_last_turn(messages, self._blocks, self.plan))

    def close(self) -> None:
        """Commit what is unfinished as it is: the chat ends, or goes on with another thread."""
        self._end_text()
        self._commit_looks()
        self._running.clear()
        self._before.clear()
        self._calls.clear()
        self._asked.clear()
        self._turn_s = self._retry_s = None
        self.plan.clear()
        self._terminal.refresh()

    def _commit(self, *blocks: RenderableType, is_tight: bool = False) -> None:
        """Blocks with an empty line before them, unless they belong to what stands above."""
        from rich.text import Text

        from treadle.terminal.blocks.frames import TrimmedBlock

        self._is_below_change = is_tight and self._is_below_change
        self._commit_looks()
        self._terminal.commit(*(() if is_tight else (Text(""),)), *map(TrimmedBlock, blocks))

    def _commit_looks(self) -> None:
        """The calls that wait for another one of their kind: something else follows."""
        looks, self._looks = self._looks, []
        if looks:
            self._commit(self._blocks.render_looks(looks))

    def _commit_line(
        self, text: str, style: str = "dim", mark: str = "", *, is_tight: bool = False
    ) -> None:
        from treadle.terminal.blocks.notices import line_block

        mark = "" if self._terminal.is_plain else mark
        self._commit(line_block(text, style, mark), is_tight=is_tight)

    # ---- text ----------------------------------------------------------------------------------

    def _on_text(self, output: outputs.TextDelta) -> None:
        self._thought, self._retry_s = "", None
        self._has_answered = True
        if output.text.strip():
            self._commit_looks()
        self._commit_pieces(self._text.feed(output.text))

    def _on_thought(self, output: outputs.ThinkingDelta) -> None:
        self._retry_s = None
        self._thought += output.text
        if len(self._thought) > 2 * LIVE_SIZE:  # seldom, as all of it is wrapped anew then
            self._thought = self._thought[-LIVE_SIZE:]

    def _commit_pieces(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            block = self._blocks.render_markdown(piece, self._links)
            if block is not None:
                self._commit(block, is_tight=isinstance(piece, MarkdownPiece) and piece.goes_on)

    def _end_text(self) -> None:
        """The answer is over, or broke off: what is unfinished is all there will be."""
        self._commit_pieces(self._text.close())
        self._links = {}
        self._thought = ""

    # ---- turns ---------------------------------------------------------------------------------

    def _on_turn(self, output: outputs.TurnStarted) -> None:
        from treadle.terminal.blocks.notices import prompt_block

        self._end_text()
        self._begin_turn()
        self._calls.clear()
        self._asked.clear()
        if output.prompt:
            self._commit(prompt_block(output.prompt, output.attachments))

    def _begin_turn(self) -> None:
        if self._turn_s is None:
            self._turn_s = self._now()
            self._has_answered = False
            self._error = ""

    def _on_delivered_input(self, output: outputs.InputDelivered) -> None:
        from treadle.terminal.blocks.notices import prompt_block

        self._end_text()
        self._commit(prompt_block(output.text, output.attachments))

    def _on_end(self, output: outputs.TurnFinished) -> None:
        from msgspec.structs import replace

        from treadle.terminal.blocks.notices import turn_end_block

        self._end_text()
        is_told = self._has_answered or output.outcome is not outputs.TurnOutcome.DONE
        if output.answer and not is_told:
            self._commit_pieces([*self._text.feed(output.answer), *self._text.close()])
        for running in self._running.values():
            self._commit_line(f"not finished: {running.title}", "warn")
        if (plan := self.plan.end_turn()) is not None:
            self._commit(plan)
        took_s = None if self._turn_s is None else self._now() - self._turn_s
        if output.error == self._error:
            output = replace(output, error="")
        self._commit(turn_end_block(output, took_s, is_plain=self._terminal.is_plain))
        if took_s is not None and took_s >= LONG_TURN_S:
            self._terminal.call_person("done")
        self._running.clear()
        self._before.clear()
        self._turn_s = self._retry_s = None

    def _on_state(self, output: outputs.StateStarted) -> None:
        self._end_text()
        self._commit_line(output.state, mark="· ")

    def _on_approval_request(self, output: outputs.ApprovalRequested) -> None:
        self._end_text()
        self._commit_looks()

    def _on_retry(self, output: outputs.Retrying) -> None:
        from treadle.terminal.blocks.notices import retry_text

        is_begun = self._has_answered
        self._end_text()
        self._has_answered = False
        self._retry_s = self._now() + output.delay_s
        words = retry_text(output.error, output.delay_s, is_begun=is_begun)
        self._commit_line(words, "warn", "! ")

    def _on_hook(self, output: outputs.HookFinished) -> None:
        # Below another call it would be taken for that one's.
        if output.note:
            is_tight, style = self._is_below_change, "good" if output.action_taken else "warn"
            self._commit_line(output.note, style, "  " if is_tight else "", is_tight=is_tight)

    def _on_notice(self, output: outputs.Notice) -> None:
        self._commit_line(output.text, "warn", "! ")

    def _on_error(self, output: outputs.ErrorShown) -> None:
        self._end_text()
        self._error = output.text
        self._commit_line(output.text, "bad", "✗ ")

    # ---- calls ---------------------------------------------------------------------------------

    def _on_start(self, output: outputs.ToolStarted) -> None:
        self._end_text()
        self._has_answered = False
        call = output.call
        self._calls[call.id] = call
        if kind_of(call.tool_name) is ToolKind.PLAN:  # shown when it is told, which takes no time
            return
        if not is_look(call):
            self._commit_looks()
        running = RunningCall(call, self._now())
        self._running[call.id] = running
        before = read_originals(call, self._read)
        if before is not None:
            self._before[call.id] = before
        if self._terminal.is_plain:
            from treadle.terminal.blocks.tools import call_start_line

            self._commit(call_start_line(running.title))

    def _on_progress(self, output: outputs.ToolProgressed) -> None:
        if (running := self._running.get(output.call_id)) is not None:
            running.update_progress(output.progress)

    def _on_result(self, output: outputs.ToolFinished) -> None:
        running = self._running.pop(output.call_id, None)
        before = self._before.pop(output.call_id, None)
        named = output.call or ToolCall(output.call_id, output.tool_name)
        call = self._calls.get(output.call_id, named)
        how, outcome = describe_outcome(output.outcome), output.outcome
        if how.is_good and (told := self.plan.update(call)) is not None:
            if self._terminal.is_plain:
                self._commit_line(told)
            return
        is_done = isinstance(outcome, ToolExecutionOutcome.Success)
        diff = compute_diff(call, before, self._read) if is_done else None
        took_s = None if running is None else self._now() - running.started_s
        if how.is_good and is_look(call) and not self._terminal.is_plain:
            self._looks.append(EndedLook(call, how, took_s))
            self._is_below_change = False
            return
        is_known = diff is not None and diff == self._asked.pop(call.id, None)
        self._commit(self._blocks.render_result(call, how, took_s, diff=diff, is_known=is_known))
        self._is_below_change = how.is_good and (is_command(call) or is_file_change(call))

    # ---- what is live --------------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        """Whether what is live changes by itself, as time goes by."""
        return self._turn_s is not None or bool(self._running)

    def _start_animation(self) -> None:
        """Have what moves drawn again while it does, if there is a loop to do it on."""
        if self.is_moving and (self._drawing is None or self._drawing.done()):
            with suppress(RuntimeError):
                self._drawing = asyncio.get_running_loop().create_task(self._redraw_while_moving())

    async def _redraw_while_moving(self) -> None:
        while self.is_moving:
            await asyncio.sleep(FRAME_S)
            self._terminal.refresh()

    def live_lines(self, width: int) -> Sequence[StyledLine]:
        """See `View`. At most a screen's third; each line fits."""
        now, width = self._now(), max(2, width)
        if self._terminal.is_plain:
            return announcement_lines(self._running.values(), now, self._turn_s)
        lines: list[StyledLine] = []
        if self._text.has_rest:
            lines += self._live_text(now, width)
        elif self._thought:
            lines += thought_lines(self._thought, width)
        if self._looks:
            lines.append(look_line(self._looks, width))
        lines += call_lines(self._running.values(), now, width)
        if self._turn_s is not None and self._waits_s is None:
            lines += self.plan.live_lines(width)
        if not self._running and self._turn_s is not None and self._waits_s is None:
            lines.append(self._spinner_line(now, self._turn_s, width))
        return lines

    def _live_text(self, now: float, width: int) -> Sequence[StyledLine]:
        """The end of the block that is being written, laid out where that is possible."""
        beginning = self._text.beginning(LIVE_SIZE)
        if beginning is None:
            return text_lines(self._text.tail(LIVE_SIZE), width)
        return self._live_markdown.lines(beginning, width, now)

    def _spinner_line(self, now: float, since: float, width: int) -> StyledLine:
        from treadle.terminal.call_text import format_duration
        from treadle.terminal.live_lines import crop_text

        if self._retry_s is not None and self._retry_s > now:
            words = f"trying again in {format_duration(self._retry_s - now)}"
        else:
            words = f"working {format_duration(max(0.0, now - since))} (Esc interrupts)"
        return [("accent", f"{spinner_frame(now)} "), ("dim", crop_text(words, width - 2))]


_HANDLERS: Final[dict[type, Callable[[ChatView, Any], None]]] = {
    outputs.TurnStarted: ChatView._on_turn,
    outputs.InputDelivered: ChatView._on_delivered_input,
    outputs.TextDelta: ChatView._on_text,
    outputs.ThinkingDelta: ChatView._on_thought,
    outputs.ToolStarted: ChatView._on_start,
    outputs.ToolProgressed: ChatView._on_progress,
    outputs.ToolFinished: ChatView._on_result,
    outputs.ApprovalRequested: ChatView._on_approval_request,
    outputs.StateStarted: ChatView._on_state,
    outputs.HookFinished: ChatView._on_hook,
    outputs.Retrying: ChatView._on_retry,
    outputs.Notice: ChatView._on_notice,
    outputs.ErrorShown: ChatView._on_error,
    outputs.TurnFinished: ChatView._on_end,
}
