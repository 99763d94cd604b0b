"""What a person sees who looks through a thread, key by key, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.app.threads.transcript import PartKind, Transcript, TranscriptPart
from treadle.core.messages import BlobRef, ToolCall
from treadle.terminal.transcript_view import Place, TranscriptView

KEPT = BlobRef("0" * 64, 9)
RUN = ToolCall("c1", "bash", '{"command":"make test"}')
EDIT = ToolCall("c2", "write_file", '{"path":"a.py","content":"x = 1\\n"}')
PARTS = (
    TranscriptPart(PartKind.PROMPT, text="fix the\nbug"),
    TranscriptPart(PartKind.THOUGHT, "thinking", "let me\nsee"),
    TranscriptPart(PartKind.ANSWER, text="I **run** it."),
    TranscriptPart(PartKind.CALL, text="head\n[cut]\n[exit code 1]", call=RUN, kept=KEPT),
    TranscriptPart(PartKind.CALL, text="wrote a.py", call=EDIT),
    TranscriptPart(PartKind.NOTE, "a person allowed bash"),
    TranscriptPart(PartKind.CALL, text="never", call=RUN, is_hidden=True),
    TranscriptPart(PartKind.ANSWER, "interrupted", "Half an ans"),
)
EDITED = TranscriptPart(PartKind.CALL, text="wrote a.py", call=EDIT)
WHOLE = "".join(f"line {n}\n" for n in range(1, 101)).encode()


class Desk:
    """A transcript on a screen; `reads` counts what was read of kept outputs."""

    def __init__(
        self, parts: Sequence[TranscriptPart] = PARTS, width: int = 60, height: int = 20
    ) -> None:
        self.reads = 0
        self.view = TranscriptView(Transcript(parts, self.read), width, height)

    def read(self, part: TranscriptPart) -> tuple[bytes, bool]:
        self.reads += part.kept is not None
        return (WHOLE if part.kept else part.text.encode()), False

    @property
    def rows(self) -> list[str]:
        return ["".join(text for _, text in line).rstrip() for line, _ in self.view.screen()]

    @property
    def cursor(self) -> str:
        (found,) = [line for line, is_cursor in self.view.screen() if is_cursor]
        return "".join(text for _, text in found).strip()


def test_all_that_happened_is_seen_with_what_opens_closed() -> None:
    desk = Desk()
    desk.view.move_to_start()
    assert desk.rows == [
        *("> fix the", "> bug", "", "▸ thinking  2 lines", "", "I run it.", ""),
        *("▸ $ make test  exit code 1", "▸ write_file a.py  1 line", "  a person allowed bash"),
        *("▸ $ make test  gone back from, 1 line", "", "  interrupted", "Half an ans"),
    ]
    assert desk.reads == 0


def test_one_begins_at_the_newest_output_and_opens_and_closes_it() -> None:
    desk = Desk(PARTS[:4], height=10)
    assert desk.cursor == "▸ $ make test  exit code 1"
    desk.view.toggle(desk.view.cursor.part)
    assert desk.rows[:2] == ["▾ $ make test  exit code 1, 100 lines", "  line 1"]
    desk.view.page(1)
    assert "  line 10" in desk.rows
    desk.view.move_to_end()
    assert desk.rows[-1] == "  line 100"
    assert len(desk.rows) == 10
    desk.view.toggle(desk.view.cursor.part)
    assert desk.cursor == "▸ $ make test  exit code 1"
    assert desk.reads == 1
    desk.view.toggle(desk.view.cursor.part)
    assert desk.reads == 2  # nothing large is held that nobody looks at


def test_a_change_is_seen_as_its_diff_and_a_thought_as_its_text() -> None:
    desk = Desk()
    for at in (1, 4):
        desk.view.toggle(at)
    desk.view.move_to_start()
    assert desk.rows[3:6] == ["▾ thinking  2 lines", "  let me", "  see"]
    assert "  + x = 1" in desk.rows


def test_what_does_not_open_stays_and_heads_are_gone_to() -> None:
    desk = Desk()
    desk.view.toggle(0)
    assert desk.view.open == set()
    desk.view.move_to_start()
    heads = []
    for _ in range(5):
        desk.view.move_to_head(1)
        heads.append(desk.view.cursor.part)
    assert heads == [1, 3, 4, 6, 6]
    desk.view.toggle(3)
    desk.view.reveal(Place(3, 30))
    desk.view.move_to_head(-1)
    assert desk.view.cursor == Place(3, -1)


def test_words_are_found_in_what_is_closed_and_in_what_is_kept() -> None:
    desk = Desk()
    desk.view.move_to_start()

    def find(words: str, *, is_back: bool = False) -> str:
        found = desk.view.find(words, lambda: False, is_back=is_back)
        if found is None:
            return ""
        desk.view.reveal(found)
        return desk.cursor

    assert find("see") == "see"
    assert find("line 42") == "line 42"
    assert find("line 4") == "line 43"
    assert find("x = 1") == "+ x = 1"
    assert find("half an") == "Half an ans"
    assert find("half an") == ""
    assert find("line 9", is_back=True) == "line 99"
    assert find("make", is_back=True) == "▾ $ make test  exit code 1, 100 lines"
    assert find("bug", is_back=True) == "> bug"
    assert find("bug", is_back=True) == ""


def test_what_is_a_part_only_says_so() -> None:
    part = TranscriptPart(PartKind.CALL, text="head", call=RUN, kept=KEPT)
    view = TranscriptView(Transcript((part,), lambda _: (b"head", True)), 60, 20)
    view.toggle(0)
    lines = ["".join(text for _, text in line) for line, _ in view.screen()]
    assert lines[1:] == ["  head", "  … only a part of it is here"]


KEYS = {
    "down": lambda view: view.move(1),
    "up": lambda view: view.move(-3),
    "page down": lambda view: view.page(1),
    "page up": lambda view: view.page(-1),
    "start": lambda view: view.move_to_start(),
    "end": lambda view: view.move_to_end(),
    "next": lambda view: view.move_to_head(1),
    "previous": lambda view: view.move_to_head(-1),
    "toggle": lambda view: view.toggle(view.cursor.part),
    "narrow": lambda view: view.resize(20, 5),
    "wide": lambda view: view.resize(70, 12),
    "one row": lambda view: view.resize(30, 1),
}


def test_while_the_thread_goes_on_what_is_open_stays_and_the_end_is_followed() -> None:
    runs = TranscriptPart(PartKind.CALL, text="(it has not ended)", call=RUN)
    ended = TranscriptPart(PartKind.CALL, text="built\n[exit code 0]", call=RUN)
    told = TranscriptPart(PartKind.ANSWER, text="It is built.")
    desk = Desk((PARTS[0], EDITED, runs))
    desk.view.toggle(2)
    desk.view.toggle(1)
    desk.view.replace(Transcript((PARTS[0], EDITED, ended, told), desk.read))
    assert (desk.view.open, desk.cursor) == ({1, 2}, "▾ $ make test  exit code 0, 2 lines")
    assert desk.rows[-4:] == ["  built", "  [exit code 0]", "", "It is built."]
    desk.view.move_to_end()
    more = (PARTS[0], EDITED, ended, told, TranscriptPart(PartKind.PROMPT, text="and now?"))
    desk.view.replace(Transcript(more, desk.read))
    assert desk.cursor == "> and now?"
    desk.view.replace(Transcript(PARTS[:1], desk.read))  # another thread's, in its place
    assert (desk.view.open, desk.rows) == (set(), ["> fix the", "> bug"])
    long = Desk((PARTS[0], runs))
    long.view.toggle(1)
    long.view.replace(Transcript((PARTS[0], PARTS[3]), long.read))
    assert (long.view.open, long.reads) == (set(), 0)  # it has to be read, beside the keys


@given(st.lists(st.sampled_from(sorted(KEYS)), max_size=25))
@settings(max_examples=150, deadline=None)
def test_whatever_is_pressed_the_cursor_is_on_the_screen_and_rows_have_an_order(
    pressed: list[str],
) -> None:
    desk = Desk()
    for key in pressed:
        KEYS[key](desk.view)
        assert desk.cursor is not None
        assert len(desk.rows) <= desk.view.height
        assert all(len(row) <= desk.view.width for row in desk.rows)
    place: Place | None = desk.view._first_of(0)
    while place is not None:
        following = desk.view.after(place)
        assert following is None or desk.view.before(following) == place
        place = following


@pytest.mark.parametrize("count", [1, 2000])
def test_a_long_thread_is_not_laid_out_before_it_is_seen(count: int) -> None:
    answers = [TranscriptPart(PartKind.ANSWER, text="*word* " * 100)] * count
    desk = Desk([*answers, *PARTS])
    assert desk.view.parts.made_count <= 20
    assert desk.view.find("nowhere", lambda: False, is_back=True) is None
    assert desk.view.parts.made_count <= 20
