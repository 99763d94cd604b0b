"""What stands around blocks: bars, and no blanks at the ends of lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

BAR: Final = "  │ "
PLAIN_BAR: Final = "  | "
_WIDTH_MIN: Final = 4


class TrimmedBlock(Struct, frozen=True):
    """A block without the blanks that fill its lines.

    A terminal that is made narrower would wrap them, and whoever copies the text would get them.
    """

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The lines of the block; where lines are not to be broken, however long they are."""
        if options.no_wrap:  # `render_lines` would cut them at the width
            lines = Segment.split_lines(console.render(self.inner, options))
        else:
            lines = iter(console.render_lines(self.inner, options, pad=False))
        for line in lines:
            yield from _strip_trailing_blanks(line)
            yield Segment.line()


class PrefixedBlock(Struct, frozen=True):
    """A block, every line of it behind a bar, also those that a narrow screen makes of one.

    So its lines are broken even where others are not.
    """

    inner: RenderableType
    bar: str = BAR
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The lines of the block, and the bars."""
        width = max(_WIDTH_MIN, options.max_width - len(self.bar))
        style = Style.parse(self.style)
        inside = options.update(width=width, no_wrap=False, overflow=None)
        for line in console.render_lines(self.inner, inside, pad=False):
            yield Segment(self.bar, style)
            yield from _strip_trailing_blanks(line)
            yield Segment.line()


def _strip_trailing_blanks(line: list[Segment]) -> Iterator[Segment]:
    count = len(line)
    while count and not line[count - 1].text.strip(" ") and not line[count - 1].control:
        count -= 1
    yield from line[: max(0, count - 1)]
    if count:
        last = line[count - 1]
        yield Segment(last.text.rstrip(" "), last.style, last.control)
