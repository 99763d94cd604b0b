"""The parts of a transcript: which of them open, their heads, and rows of what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from treadle.app.threads.transcript import PartKind, Transcript, TranscriptPart
from treadle.terminal.call_text import parse_result_message, title_of, to_single_line
from treadle.terminal.live_lines import crop_text
from treadle.terminal.ports import StyledLine
from treadle.terminal.transcript_rows import FixedRows, Rows, TextRows, says

if TYPE_CHECKING:
    from rich.console import RenderableType

LAID_OUT_SIZE_MAX: Final = 20_000
"""Characters of an answer or a prompt that are laid out; a longer one is shown as written."""
DIFF_SIZE_MAX: Final = 100_000
"""Characters of a change that are laid out; of a larger one it is shown what the call said."""
INDENT: Final = 2
HEAD: Final = -1
"""Stands for the row of a head where a row is looked for."""
_FOLDED: Final = frozenset({PartKind.CALL, PartKind.THOUGHT, PartKind.NOTE})


class TranscriptParts:
    """The parts by their numbers; rows are made when they are asked for, and kept until dropped.

    Args:
        transcript: what they are parts of.
        width: columns.
    """

    def __init__(self, transcript: Transcript, width: int) -> None:
        self._parts = transcript.parts
        self._read = transcript.read
        self._width = width
        self._rows: dict[int, Rows] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def replace(self, transcript: Transcript) -> int:
        """Take a later state of the same thread: what has a result now is laid out anew.

        Returns:
            The parts that stand where they stood; none behind them is open any more.
        """
        pairs = [*zip(self._parts, transcript.parts, strict=False)]
        kept = next(
            (at for at, (old, new) in enumerate(pairs) if not _is_same(old, new)), len(pairs)
        )
        changed = {at for at, (old, new) in enumerate(pairs) if old != new}
        self._rows = {
            at: rows for at, rows in self._rows.items() if at < kept and at not in changed
        }
        self._parts, self._read = transcript.parts, transcript.read
        return kept

    @property
    def made_count(self) -> int:
        """Parts of which rows are kept."""
        return len(self._rows)

    def find_newest_output(self) -> int | None:
        """The last call; what a person has run counts, too."""
        kinds = (PartKind.CALL, PartKind.NOTE)
        found = (
            at for at, one in enumerate(self._parts) if one.kind in kinds and self._has_text(at)
        )
        return max(found, default=None)

    def _has_text(self, at: int) -> bool:
        part = self._parts[at]
        return part.kind is PartKind.CALL or bool(part.text)

    def can_open(self, at: int) -> bool:
        """Whether the part is shown by a line as long as it is closed."""
        return self._parts[at].kind in _FOLDED and self._has_text(at)

    def is_folded(self, at: int) -> bool:
        """Whether it is of a kind that shows a line as long as it is closed."""
        return self._parts[at].kind in _FOLDED

    def has_head(self, at: int) -> bool:
        """Whether a line stands above what it says."""
        part = self._parts[at]
        return part.kind in _FOLDED or bool(part.title) or part.is_hidden

    def needs_reading(self, at: int) -> bool:
        """Whether opening it takes so long that it is not done on the way of a key."""
        return at not in self._rows and self._parts[at].kept is not None

    def load(self, at: int) -> None:
        """Read all of a part; may be called in a thread.

        Raises:
            TreadleError: it cannot be read.
        """
        if at not in self._rows:
            self._rows[at] = self._make_rows(at)

    def drop(self, at: int) -> None:
        """Let go what was read: a hundred megabytes, maybe."""
        self._rows.pop(at, None)

    def resize(self, width: int) -> None:
        """The screen has another width; what was read stays read."""
        self._width = width
        read = {at: one for at, one in self._rows.items() if isinstance(one, TextRows)}
        for rows in read.values():
            rows.width = self._inner_width
        self._rows = {**read}

    @property
    def _inner_width(self) -> int:
        return max(2, self._width - INDENT)

    def rows_of(self, at: int) -> Rows:
        """The rows of what it says. Raises as `load`."""
        self.load(at)
        return self._rows[at]

    def _make_rows(self, at: int) -> Rows:
        part = self._parts[at]
        if part.kind in (PartKind.PROMPT, PartKind.ANSWER):
            if len(part.text) > LAID_OUT_SIZE_MAX:
                return TextRows(part.text.encode("utf-8", "replace"), self._width)
            return FixedRows(self._lay_out(part) or [[("dim", "(nothing)")]])
        style = "dim" if part.kind is PartKind.THOUGHT else ""
        if (diff := self._diff_of(part)) is not None:
            return FixedRows(diff)
        data, is_less = self._read(part)
        if is_less:
            data += "\n… only a part of it is here".encode()
        return TextRows(data, self._inner_width, style, INDENT)

    def _lay_out(self, part: TranscriptPart) -> list[StyledLine]:
        from treadle.terminal.blocks.markdown import MarkdownBlock
        from treadle.terminal.blocks.notices import prompt_block

        if part.kind is PartKind.PROMPT:
            return self._render(prompt_block(part.text, is_whole=True), self._width)
        return self._render(MarkdownBlock(part.text), self._width)

    def _render(self, block: RenderableType, width: int) -> list[StyledLine]:
        from treadle.terminal.styled_rows import render_rows

        return render_rows(block, width)

    def _diff_of(self, part: TranscriptPart) -> list[StyledLine] | None:
        """What a call has changed in files, in place of what it said."""
        from treadle.app.threads.call_diffs import preview_diff
        from treadle.terminal.blocks.diffs import diff_block

        if part.call is None or not parse_result_message(part.text).is_good:
            return None
        diff = preview_diff(part.call)
        if not diff or len(diff) > DIFF_SIZE_MAX:
            return None
        width = self._inner_width
        return [
            [("", " " * INDENT), *line]
            for line in self._render(diff_block(diff, width, lines_max=None), width)
        ]

    def head_line(self, at: int, *, is_open: bool) -> StyledLine:
        """Its name, how it ended, how much it says."""
        part = self._parts[at]
        mark = ("▾ " if is_open else "▸ ") if self.can_open(at) else "  "
        words, style = part.title, "dim"
        told = ["gone back from"] * part.is_hidden
        if part.call is not None:
            how = parse_result_message(part.text)
            words, style = title_of(part.call), "bold" if how.is_good else "bad"
            told += [how.how] * bool(how.how)
        if self.can_open(at) and (count := self._count_lines(at)) is not None:
            told.append("1 line" if count == 1 else f"{count:,} lines")
        rest = crop_text(f"  {', '.join(told)}" if told else "", self._width // 2)
        room = max(1, self._width - INDENT - len(rest))
        return [("accent", mark), (style, crop_text(to_single_line(words), room)), ("dim", rest)]

    def _count_lines(self, at: int) -> int | None:
        """Lines of what opens; `None` as long as nobody has read it."""
        rows, part = self._rows.get(at), self._parts[at]
        if isinstance(rows, TextRows):
            return rows.line_count
        return part.text.rstrip("\n").count("\n") + 1 if part.text and part.kept is None else None

    def find_in(
        self, at: int, words: str, start: int | None, stop: Callable[[], bool], *, is_back: bool
    ) -> int | None:
        """The row of a part with the next place of some words, `HEAD` among them; see `Rows.find`.

        Nothing is kept of what is read for that.
        """
        head = self.head_line(at, is_open=False) if self.has_head(at) else [("", "")]
        is_in_head = FixedRows([head]).find(words, None, stop, is_back=False) is not None
        if not is_back and is_in_head and (start is None or start < HEAD):
            return HEAD
        if is_back and start is not None and start < 0:
            return None
        if self._has_text(at) and self._may_say(at, words):
            rows = self._rows.get(at) or self._make_rows(at)
            begin = start if start is not None and start >= 0 else None
            if (row := rows.find(words, begin, stop, is_back=is_back)) is not None:
                return row
        return HEAD if is_back and is_in_head else None

    def _may_say(self, at: int, words: str) -> bool:
        """Whether it is worth laying the part out, as far as that is known without reading it."""
        part = self._parts[at]
        said = part.text if part.call is None else f"{part.text}\n{part.call.arguments_json}"
        return part.kept is not None or says(said, words)


def _is_same(old: TranscriptPart, new: TranscriptPart) -> bool:
    """Whether it is the same part, of which a call may have come to its end."""
    if old.call is None or new.call is None:
        return old == new
    # One whose output stands apart has to be read before it can be open.
    return old.call.id == new.call.id and (new.kept is None or old == new)
