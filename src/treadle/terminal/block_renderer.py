"""What a chat shows of answers and calls, as blocks that fit its terminal.

What is imported here is loaded when the first block is made: see `view`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treadle.terminal.call_text import CallResultText, preview_lines, title_of
from treadle.terminal.ports import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from treadle.core.messages import ToolCall
    from treadle.terminal.read_group import EndedLook


class BlockRenderer:
    """Makes blocks.

    Args:
        terminal: where they are shown.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def render_markdown(self, markup: str, links: dict[str, Any]) -> RenderableType | None:
        """A piece of an answer as it is shown; `None` if nothing is.

        A plain terminal gets it as it was written: it may be read aloud.
        """
        if self._terminal.is_plain:
            from treadle.terminal.blocks.notices import line_block

            text = markup.strip("\n")
            return line_block(text, "") if text else None
        from treadle.terminal.blocks.markdown import MarkdownBlock

        block = MarkdownBlock(markup, links)
        return None if block.is_empty else block

    def render_result(
        self,
        call: ToolCall,
        how: CallResultText,
        took_s: float | None,
        *,
        diff: str | None,
        is_known: bool = False,
    ) -> RenderableType:
        """A call that has ended; see `blocks.tools.result_block`."""
        from treadle.terminal.blocks.tools import result_block

        plain = self._terminal.is_plain
        return result_block(
            title_of(call),
            how,
            took_s,
            shown=preview_lines(call, how, self._terminal.height, is_plain=plain),
            diff=diff,
            is_known=is_known,
            is_plain=plain,
        )

    def render_looks(self, looks: Sequence[EndedLook]) -> RenderableType:
        """Calls that only looked at files; what a single one has said is shown too."""
        from treadle.terminal.blocks.tools import looks_block
        from treadle.terminal.read_group import describe_looks

        if len(looks) == 1:
            (one,) = looks
            return self.render_result(one.call, one.how, one.took_s, diff=None)
        return looks_block(*describe_looks(looks))
