"""A question with its choices, and which keys answer it.

A question comes up when it wants to, in the middle of a word or of a held key, and its answer may
run a command. So a key that was not meant for it must not answer it: no key is taken before the
question could be read and the keyboard was quiet; none that comes in a row with others; and where
somebody is seen to write, a letter only marks its choice, which Enter takes.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from treadle.terminal.columns import text_width
from treadle.terminal.live_lines import wrap_text
from treadle.terminal.ports import DialogChoice, StyledLine

if TYPE_CHECKING:
    from treadle.terminal.question_pane import QuestionPane

VISIBLE_S_MIN: Final = 0.7
"""A question takes no key before it has been on the screen for so long."""

QUIET_S: Final = 0.5
"""Nor before no key came for so long; letters that come faster are a word."""

QUIET_WRITER_S: Final = 1.0
"""The same where somebody was writing when the question came up, who may be slow at it."""

BURST_S: Final = 0.05
"""Nobody presses a letter and Enter within so little: they were pasted, or a key is held."""

KEY_PAUSE_S: Final = 0.2
"""An answer is taken when no other key has followed for so long."""

MARGIN: Final = 5
"""Columns before the words of a choice, for mark and key."""


class ChoiceDialog:
    """What keys do to one question. It knows no clock: `now` is of any that never goes back.

    Args:
        choices: not empty; the last is the one that does nothing.
        answer: where the key of the choice goes.
        has_draft: whether somebody was writing when the question came up.
        pane: what is asked, drawn above the choices.
    """

    def __init__(
        self,
        choices: Sequence[DialogChoice],
        answer: Future[str],
        *,
        has_draft: bool,
        pane: QuestionPane | None = None,
    ) -> None:
        assert choices, "a question without an answer"
        self.pane = pane
        self.choices = choices
        self.answer = answer
        self.is_open = False
        """Whether keys are taken; only then a choice is marked."""
        self._quiet_s = QUIET_WRITER_S if has_draft else QUIET_S
        self.is_careful = has_draft
        """Whether only Enter takes what is marked."""
        self.pending: int | None = None
        """What is taken if no other key follows."""
        self.hint = "what you were writing comes back; Enter takes what is marked" * has_draft
        self.index = self._last_index if has_draft or choices[0].needs_enter else 0
        self._shown_at: float | None = None
        self._pressed_at = self._typed_at = self._dropped_at = -1e9
        self._begun: frozenset[int] = frozenset()
        self._whole: frozenset[int] = frozenset()

    @property
    def _last_index(self) -> int:
        return len(self.choices) - 1

    # opening

    def mark_visible(self, now: float) -> bool:
        """It is on the screen now; true if it was not before."""
        is_new, self._shown_at = self._shown_at is None, self._shown_at or now
        return is_new

    def mark_hidden(self) -> None:
        """It was off the screen: it takes no key until it has stood there again."""
        self.is_open, self._shown_at, self.pending = False, None, None

    def wait_s(self, pressed_at: float, now: float) -> float:
        """How long it still takes no key, if none comes; `pressed_at` is when the last one did."""
        if self._shown_at is None:
            return VISIBLE_S_MIN
        return max(self._shown_at + VISIBLE_S_MIN, pressed_at + self._quiet_s) - now

    # keys

    def press(self, key: str, now: float) -> None:
        """Take a key: `up`, `down`, `enter`, or what it writes."""
        gap, self._pressed_at = now - self._pressed_at, now
        self.pending = None
        if not self.is_open:
            self._reject_key(now, "keys before this question were not taken")
        elif key in ("up", "down"):
            self.index = (self.index + (1 if key == "down" else -1)) % len(self.choices)
        elif key == "enter":
            if gap < BURST_S or now - self._dropped_at < self._quiet_s:
                self._reject_key(now, "keys in a row were not taken")
            else:
                self._press_enter()
        else:
            is_word = gap < BURST_S or now - self._typed_at < self._quiet_s
            self._typed_at = now
            if is_word:
                self._reject_key(now, "keys in a row were not taken")
            else:
                self._press_letter(key, now)

    def scroll(self, move: Callable[[QuestionPane], None]) -> None:
        """See another part of what is asked; what was about to be taken is not, then."""
        self.pending = None
        if self.pane is not None:
            move(self.pane)

    def _press_letter(self, key: str, now: float) -> None:
        found = self._find_choice(key)
        if found is None:
            self._reject_key(now, "that is none of the choices")
            return
        self.index = found
        if not self.is_careful and not self.choices[found].needs_enter and found in self._begun:
            self.pending = found

    def _press_enter(self) -> None:
        needed = self._whole if self.choices[self.index].needs_enter else self._begun
        if self.index in needed:
            self.pending = self.index
        else:
            self.hint = "there is too little room to show what it covers"

    def _find_choice(self, key: str) -> int | None:
        """The choice with this key; capitals only matter if two differ by them."""
        keys = [choice.key for choice in self.choices]
        if key in keys:
            return keys.index(key)
        lower = [one.lower() for one in keys]
        return lower.index(key.lower()) if key.lower() in lower else None

    def _reject_key(self, now: float, why: str) -> None:
        self._dropped_at, self.is_careful, self.index = now, True, self._last_index
        self.hint = f"{why}; Enter takes what is marked"

    def settle(self, key: str) -> None:
        """The answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(key)

    # drawing

    def height(self, width: int) -> int:
        """The lines that all choices take."""
        return sum(len(self._choice_lines(at, one, width)) for at, one in enumerate(self.choices))

    def lines(self, width: int, height: int) -> list[StyledLine]:
        """The choices, wrapped, as many around the marked one as `height` takes."""
        rows = [
            (at, line)
            for at, choice in enumerate(self.choices)
            for line in self._choice_lines(at, choice, width)
        ]
        if len(rows) <= height:
            self._begun = self._whole = frozenset(range(len(self.choices)))
            return [line for _, line in rows]
        room = max(1, height - 1)
        marked = [number for number, (at, _) in enumerate(rows) if at == self.index]
        before = max(0, room - len(marked)) // 2
        first = max(0, min(marked[0] - before, len(rows) - room))
        window = rows[first : first + room]
        self._note_visible_choices(rows, first, first + room)
        found: list[StyledLine] = [line for _, line in window]
        if window[-1][0] not in self._whole:
            found[-1] = _add_ellipsis(found[-1], width)
        if more := len(self.choices) - len(self._begun):
            found.append([("dim", f"  {more} more, Up, Down")])
        elif first + room < len(rows):
            found.append([("dim", "  …")])
        return found[:height]

    def _note_visible_choices(
        self, rows: Sequence[tuple[int, StyledLine]], first: int, end: int
    ) -> None:
        numbers: dict[int, list[int]] = {}
        for number, (at, _) in enumerate(rows):
            numbers.setdefault(at, []).append(number)
        self._begun = frozenset(at for at, of in numbers.items() if first <= of[0] < end)
        self._whole = frozenset(at for at in self._begun if numbers[at][-1] < end)

    def _choice_lines(self, at: int, choice: DialogChoice, width: int) -> list[StyledLine]:
        is_marked = self.is_open and at == self.index
        style = "accent" if is_marked else "" if self.is_open else "dim"
        first, *others = wrap_text(choice.words, width - MARGIN)
        return [
            [(style, "▸ " if is_marked else "  "), ("bold", choice.key), (style, f"  {first}")],
            *([(style, " " * MARGIN + other)] for other in others),
        ]


def _add_ellipsis(line: StyledLine, width: int) -> StyledLine:
    """The line with an ellipsis at its end, within `width`."""
    *others, (style, text) = line
    room = width - sum(text_width(piece) for _, piece in others) - 1
    while text and text_width(text) > room:
        text = text[:-1]
    return [*others, (style, f"{text}…")]
