"""A question as it stands above its choices: all of it, in a part that scrolls where it must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from treadle.terminal.block_text import render_lines
from treadle.terminal.styles import prompt_style

if TYPE_CHECKING:
    from rich.console import RenderableType

BODY_LINES_MIN: Final = 3
"""Lines of the body that are worth keeping head and foot in sight; with fewer all of it scrolls."""


class QuestionPane:
    """What is asked. It is laid out once for each width.

    Args:
        head: stays in sight, above.
        body: scrolls if there is too little room; `None` if all is in the head.
        foot: stays in sight, below.
    """

    def __init__(
        self,
        head: RenderableType,
        body: RenderableType | None,
        foot: RenderableType | None,
    ) -> None:
        self._parts = (head, body, foot)
        self._width = 0
        self._laid_out: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ())
        self._first = self._last_first = 0
        self._page = 1
        self._drawn: dict[str, StyleAndTextTuples] = {}

    def height(self, width: int) -> int:
        """The lines that all of it takes, and an empty one below."""
        self._lay_out(width)
        return sum(map(len, self._laid_out)) + 1

    def scroll(self, pages: int) -> None:
        """Down by so many pages, up if negative; not beyond the ends."""
        self._first += pages * self._page

    def scroll_around(self) -> None:
        """To the next page, behind the last one to the first."""
        before = self._first
        self.scroll(1)
        if before >= self._last_first:
            self._first = 0

    def lines(self, width: int, height: int) -> list[StyleAndTextTuples]:
        """Head, as much of the body as `height` takes, what is above and below that, foot."""
        self._lay_out(width)
        head, body, foot = self._laid_out
        is_cramped = height - len(head) - len(foot) <= BODY_LINES_MIN
        if is_cramped and self.height(width) - 1 > height:
            head, body, foot = (), [*head, *body, *foot], ()
        room = height - len(head) - len(foot)
        if len(body) <= room:
            self._first = self._last_first = 0
            return [*map(self._to_fragments, [*head, *body, *foot, ""])][: max(0, height)]
        room = max(1, room - 1)
        self._page, self._last_first = max(1, room - 1), len(body) - room
        self._first = max(0, min(self._first, self._last_first))
        last = self._first + room
        words = f"  lines {self._first + 1}-{last} of {len(body)} (PgUp, PgDn)"
        place: StyleAndTextTuples = [(prompt_style("accent"), words[:width])]
        shown = map(self._to_fragments, body[self._first : last])
        top, bottom = (map(self._to_fragments, part) for part in (head, foot))
        return [*top, *shown, place, *bottom][: max(0, height)]

    def _lay_out(self, width: int) -> None:
        if width == self._width:
            return
        self._width = width
        self._drawn.clear()
        head, body, foot = (() if one is None else render_lines(one, width) for one in self._parts)
        self._laid_out = (head, body, foot)

    def _to_fragments(self, line: str) -> StyleAndTextTuples:
        """The line in prompt_toolkit's way; it is drawn many times while a question stands."""
        if line not in self._drawn:
            self._drawn[line] = _join_fragments(to_formatted_text(ANSI(line)))
        return self._drawn[line]


def _join_fragments(fragments: StyleAndTextTuples) -> StyleAndTextTuples:
    """Pieces instead of characters, each of which has a style of its own in what was parsed."""
    found: StyleAndTextTuples = []
    for style, text, *_ in fragments:
        if found and found[-1][0] == style:
            found[-1] = (style, found[-1][1] + text)
        else:
            found.append((style, text))
    return found
