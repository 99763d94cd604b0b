"""A transcript as it is looked through: what is open, what is on the screen, where one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from treadle.app.threads.transcript import Transcript
from treadle.terminal.ports import StyledLine
from treadle.terminal.transcript_parts import HEAD, TranscriptParts

_GAP: Final = -2


class Place(NamedTuple):
    """A row: the part, and the row of it; -1 is its head, -2 the empty line above."""

    part: int
    row: int


class TranscriptView:
    """The parts of a thread, one below the other; calls, thoughts and notes open and close.

    Args:
        transcript: what is shown; it has one part at least.
        width: columns.
        height: rows of the screen, at least one.

    `cursor` is the row that keys work on; it is on the screen always.
    """

    def __init__(self, transcript: Transcript, width: int, height: int) -> None:
        self.parts = TranscriptParts(transcript, width)
        self.width, self.height = width, height
        self.open: set[int] = set()
        self.cursor = self.top = self._first_of(0)
        newest = self.parts.find_newest_output()
        if newest is None:
            self.move_to_end()
        else:
            self.cursor = Place(newest, HEAD)
            self.fill()

    def resize(self, width: int, height: int) -> None:
        """The screen is another one; what is open stays open."""
        if width != self.width:
            self.width = width
            self.parts.resize(width)
            self.cursor = self._clamp(self.cursor)
        self.height = height
        self.top = self._clamp(self.top) if self.top < self.cursor else self.cursor
        self._show_cursor()

    def replace(self, transcript: Transcript) -> None:
        """The thread went on: what is open stays open, and whoever is at the end stays there."""
        is_at_end = self.after(self.cursor) is None
        kept = self.parts.replace(transcript)
        self.open = {at for at in self.open if at < kept}
        if is_at_end or self.cursor.part >= len(self.parts):
            self.move_to_end()
            return
        self.cursor, self.top = (self._find_near(one, kept) for one in (self.cursor, self.top))
        self._show_cursor()

    def _find_near(self, place: Place, kept: int) -> Place:
        """The same place, or the first of its part if that is closed or another one now."""
        if place.part >= kept or (place.row >= 0 and not self._has_body(place.part)):
            return self._first_of(place.part)
        return self._clamp(place)

    def _clamp(self, place: Place) -> Place:
        """The same place, if what stood there is laid out otherwise now."""
        if place.row < 0:
            return place
        rows = self.parts.rows_of(place.part)
        return Place(place.part, min(place.row, rows.last))

    # ---- rows ----------------------------------------------------------------------------------

    def _has_gap(self, at: int) -> bool:
        if not at:
            return False
        is_list = self.parts.is_folded(at) and self.parts.is_folded(at - 1)
        return not is_list or at - 1 in self.open

    def _has_body(self, at: int) -> bool:
        return at in self.open or not self.parts.is_folded(at)

    def _first_of(self, at: int) -> Place:
        if self._has_gap(at):
            return Place(at, _GAP)
        return Place(at, HEAD if self.parts.has_head(at) else self.parts.rows_of(at).first)

    def _last_of(self, at: int) -> Place:
        return Place(at, self.parts.rows_of(at).last if self._has_body(at) else HEAD)

    def after(self, place: Place) -> Place | None:
        """The row below; `None` below the last."""
        at, row = place
        if row == _GAP and self.parts.has_head(at):
            return Place(at, HEAD)
        if row < 0 and self._has_body(at):
            return Place(at, self.parts.rows_of(at).first)
        if row >= 0 and (following := self.parts.rows_of(at).after(row)) is not None:
            return Place(at, following)
        return self._first_of(at + 1) if at + 1 < len(self.parts) else None

    def before(self, place: Place) -> Place | None:
        """The row above; `None` above the first."""
        at, row = place
        if row >= 0:
            if (earlier := self.parts.rows_of(at).before(row)) is not None:
                return Place(at, earlier)
            if self.parts.has_head(at):
                return Place(at, HEAD)
        if row != _GAP and self._has_gap(at):
            return Place(at, _GAP)
        return self._last_of(at - 1) if at else None

    def line(self, place: Place) -> StyledLine:
        """The row as it is drawn."""
        if place.row == _GAP:
            return [("", "")]
        if place.row == HEAD:
            return self.parts.head_line(place.part, is_open=place.part in self.open)
        return self.parts.rows_of(place.part).line(place.row)

    def screen(self) -> Iterator[tuple[StyledLine, bool]]:
        """The rows that are seen, each with whether it is the cursor's."""
        for place in self._list_screen():
            yield self.line(place), place == self.cursor

    def _list_screen(self) -> Iterator[Place]:
        place: Place | None = self.top
        for _ in range(self.height):
            if place is None:
                return
            yield place
            place = self.after(place)

    # ---- moving --------------------------------------------------------------------------------

    def move(self, count: int) -> None:
        """Go so many rows down, or up."""
        for _ in range(abs(count)):
            going = self.after(self.cursor) if count > 0 else self.before(self.cursor)
            if going is None:
                break
            self.cursor = going
        self._show_cursor()

    def page(self, count: int) -> None:
        """Go so many screens down, or up."""
        rows = max(1, self.height - 1) * abs(count)
        for _ in range(rows):
            going = self.after(self.top) if count > 0 else self.before(self.top)
            if going is None:
                break
            self.top = going
        self.move(rows if count > 0 else -rows)
        self.fill(self.top)

    def fill(self, top: Place | None = None) -> None:
        """Have the screen begin there, or where one is, or higher, so that it is full."""
        least = self._step_up(self._last_of(len(self.parts) - 1))
        self.top = min(top or self.cursor, least)

    def _step_up(self, place: Place, count: int | None = None) -> Place:
        """So many rows higher; by default where the screen begins if this is its last row."""
        for _ in range(self.height - 1 if count is None else count):
            if (earlier := self.before(place)) is None:
                break
            place = earlier
        return place

    def move_to_start(self) -> None:
        """Go to the first row."""
        self.cursor = self.top = self._first_of(0)

    def move_to_end(self) -> None:
        """Go to the last row."""
        self.cursor = self._last_of(len(self.parts) - 1)
        self._show_cursor()

    def move_to_head(self, step: int) -> None:
        """Go to the next part that opens, or to the one before."""
        at = self.cursor.part
        if step < 0 and self.cursor.row >= 0 and self.parts.can_open(at):
            self._go_to(Place(at, HEAD))
            return
        at += step
        while 0 <= at < len(self.parts) and not self.parts.can_open(at):
            at += step
        if 0 <= at < len(self.parts):
            self._go_to(Place(at, HEAD))

    def _go_to(self, place: Place) -> None:
        """Go somewhere that may be far away: rows between are not counted."""
        self.cursor = place
        if place not in self._list_screen():
            self.top = place
            self._show_cursor()

    def _show_cursor(self) -> None:
        """Have the screen begin so that the cursor is on it, with as little change as possible."""
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor not in self._list_screen():
            self.top = self._step_up(self.cursor)

    # ---- opening and looking for words ---------------------------------------------------------

    def toggle(self, at: int) -> None:
        """Open what is closed, close what is open; what has to be read was read (`load`)."""
        if not self.parts.can_open(at):
            return
        if at in self.open:
            self.open.discard(at)
            self.parts.drop(at)
            head = Place(at, HEAD)
            if self.top.part == at and self.top > head:
                self.top = head
            self._go_to(head)
        else:
            self.open.add(at)
            self.parts.load(at)
            if self.cursor in [*self._list_screen()][self.height // 2 :]:  # it has to be seen
                self.fill()
            self._show_cursor()

    def find(self, words: str, stop: Callable[[], bool], *, is_back: bool = False) -> Place | None:
        """The next row with these words, behind the cursor or before it; closed parts count.

        May be called in a thread. Nothing moves; what was read to be searched is let go again.
        """
        step = -1 if is_back else 1
        at = self.cursor.part
        start: int | None = self.cursor.row
        last = -1 if is_back else len(self.parts)
        while at != last and not stop():
            found = self.parts.find_in(at, words, start, stop, is_back=is_back)
            if found is not None:
                return Place(at, found)
            at, start = at + step, None
        return None

    def reveal(self, place: Place) -> None:
        """Go to a row, and open what it is in."""
        if place.row >= 0 and self.parts.can_open(place.part):
            self.open.add(place.part)
            self.parts.load(place.part)
        if place not in self._list_screen():
            self.fill(self._step_up(place, self.height // 3))
        self._go_to(place)
