"""Each key of the table does what its words say, in a real terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from media_samples import png
from terminal.conftest import StartToy
from terminal.harness import (
    ALT_ENTER,
    BACKSPACE,
    DOWN,
    ENTER,
    ESC,
    SHIFT_TAB,
    TAB,
    UP,
    Screen,
    ctrl,
    pasted,
)
from treadle.terminal.keys import KEYS, KeyBinding


def _said(screen: Screen, text: str) -> None:
    """Send a line and wait until it was taken."""
    before = screen.text.count(f"submitted {text!r}")
    screen.type(text + ENTER)
    screen.wait_for(lambda s: s.text.count(f"submitted {text!r}") > before)


def _at_work(screen: Screen) -> None:
    screen.type("work" + ENTER)
    screen.wait_for("at work")


def enter_sends_and_at_work_steers(screen: Screen) -> None:
    _said(screen, "hello")
    _at_work(screen)
    screen.type("quicker" + ENTER)
    screen.wait_for("» quicker\n")


def tab_completes_and_at_work_queues_for_later(screen: Screen) -> None:
    screen.type("/he" + TAB)
    screen.wait_for_shown("> /help")
    screen.type(ENTER)
    screen.wait_for("submitted '/help'")
    _at_work(screen)
    screen.type("later" + TAB)
    screen.wait_for("» later  (after this turn)")


def new_lines_are_written_within_a_text(screen: Screen) -> None:
    screen.type("a" + ctrl("j") + "b" + ALT_ENTER + "c" + ENTER)
    screen.wait_for(r"submitted 'a\nb\nc'")


def up_goes_to_earlier_prompts_and_down_comes_back(screen: Screen) -> None:
    _said(screen, "first")
    _said(screen, "second")
    screen.type(UP + UP)
    screen.wait_for_shown("> first")
    screen.type(DOWN + "!" + ENTER)
    screen.wait_for("submitted 'second!'")
    _at_work(screen)
    screen.type("queued" + ENTER)
    screen.wait_for("» queued")
    screen.type(UP)
    screen.wait_until_gone("» queued")
    assert screen.lines[screen.cursor[0]] == "> queued"


def esc_interrupts_and_twice_rewinds(screen: Screen) -> None:
    _at_work(screen)
    screen.type("kept" + ESC)
    screen.wait_for("interrupt True")
    assert screen.lines[screen.cursor[0]] == "> kept"
    screen.type(BACKSPACE * 4 + ESC)
    screen.wait_for("Esc again: go back to an earlier prompt")
    screen.wait_until_gone("Esc again")
    screen.type(ESC + ESC)
    screen.wait_for("rewind")


def shift_tab_cycles_the_mode(screen: Screen) -> None:
    screen.type(SHIFT_TAB)
    screen.wait_for("cycle mode")


def ctrl_c_clears_then_interrupts_then_quits(screen: Screen) -> None:
    _at_work(screen)
    screen.type("draft" + ctrl("c"))
    screen.wait_until_gone("> draft")
    assert "interrupt" not in screen.text
    screen.type(ctrl("c"))
    screen.wait_for("interrupt True")
    screen.wait_for("Ctrl+C again: quit")
    screen.wait_until_gone("Ctrl+C again: quit")
    screen.type(ctrl("c") * 2)
    assert screen.wait_for_end() == 0
    assert "bye" in screen.text


def ctrl_d_quits_on_an_empty_input_only(screen: Screen) -> None:
    screen.type("ab" + "\x1b[D" + ctrl("d") + ENTER)
    screen.wait_for("submitted 'a'")
    screen.type(ctrl("d"))
    assert screen.wait_for_end() == 0


def ctrl_g_hands_the_input_to_the_editor(screen: Screen) -> None:
    screen.type("word" + ctrl("g"))
    screen.wait_for_shown("> word, edited")
    screen.type(ENTER)
    screen.wait_for("submitted 'word, edited'")


def ctrl_v_types_the_path_of_the_picture_on_the_clipboard(screen: Screen) -> None:
    screen.type("see")
    screen.type(ctrl("v"))
    screen.wait_for_shown("see /")
    screen.wait_for_shown(".png")
    screen.type("please" + ENTER)
    screen.wait_for(lambda s: ".pngplease'" in "".join(s.text.split()))


def ctrl_r_searches_earlier_prompts(screen: Screen) -> None:
    for text in ("the needle", "hay", "straw"):
        _said(screen, text)
    screen.type(ctrl("r"))
    screen.wait_for("earlier prompts")
    screen.type("NEED")
    screen.wait_until_gone("▸ straw")
    screen.wait_for_shown("▸ the needle")
    screen.type(ENTER)
    screen.wait_for_shown("> the needle")
    screen.type(" again" + ENTER)
    screen.wait_for("submitted 'the needle again'")


def ctrl_o_looks_through_all_and_comes_back(screen: Screen) -> None:
    screen.type("text" + ctrl("o"))
    screen.wait_for(lambda s: s.is_on_other and "what happened" in s.shown)
    screen.type("q")
    screen.wait_for(lambda s: not s.is_on_other and "> text" in s.shown)
    assert "what happened" not in screen.text


def ctrl_l_draws_anew(screen: Screen) -> None:
    screen.type("text")
    screen.wait_for("> text")
    at = len(screen.raw)
    screen.type(ctrl("l"))
    screen.wait_for(lambda s: b"> text" in s.raw[at:].partition(b"\x1b[2J")[2])
    assert screen.lines[0].strip() in ("", "> text")


def ctrl_z_suspends_and_fg_comes_back(screen: Screen) -> None:
    screen.type("text" + ctrl("z"))
    screen.wait_for("Stopped")
    assert "> text" not in screen.shown
    screen.type("fg" + ENTER)
    screen.wait_for_shown("> text")
    screen.type("!" + ENTER)
    screen.wait_for("submitted 'text!'")


DONE: dict[str, Callable[[Screen], None]] = {
    "send": enter_sends_and_at_work_steers,
    "complete": tab_completes_and_at_work_queues_for_later,
    "newline": new_lines_are_written_within_a_text,
    "up": up_goes_to_earlier_prompts_and_down_comes_back,
    "escape": esc_interrupts_and_twice_rewinds,
    "cycle_mode": shift_tab_cycles_the_mode,
    "clear": ctrl_c_clears_then_interrupts_then_quits,
    "leave": ctrl_d_quits_on_an_empty_input_only,
    "edit": ctrl_g_hands_the_input_to_the_editor,
    "paste_picture": ctrl_v_types_the_path_of_the_picture_on_the_clipboard,
    "search": ctrl_r_searches_earlier_prompts,
    "look_through": ctrl_o_looks_through_all_and_comes_back,
    "redraw": ctrl_l_draws_anew,
    "suspend": ctrl_z_suspends_and_fg_comes_back,
}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.does)
def test_a_key_does_what_the_table_says(key: KeyBinding, toy: StartToy, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s, edited" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    clipboard = tmp_path / "wl-paste"
    (tmp_path / "copied").write_bytes(png())
    clipboard.write_text(f"#!/bin/sh\nexec cat {tmp_path}/copied\n")
    clipboard.chmod(0o755)
    own = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "WAYLAND_DISPLAY": "w"}
    started = toy(in_shell=key.does == "suspend", VISUAL=str(editor), **own)
    DONE[key.does](started)


def test_a_paste_of_many_lines_is_one_text_and_the_screen_stays_bounded(toy: StartToy) -> None:
    screen = toy(rows=40)
    lines = [f"pasted line {number}" for number in range(300)]
    screen.type(pasted("\n".join(lines)))
    screen.wait_for_shown("pasted line 299")
    assert sum("pasted line" in line for line in screen.lines) <= 12
    screen.type(ENTER)
    screen.wait_for(lambda s: r"line299'" in "".join(s.text.split()))
    assert "".join(repr("\n".join(lines)).split()) in "".join(screen.text.split())


def test_pasted_lines_are_one_line_where_one_is_asked_for(toy: StartToy) -> None:
    screen = toy()
    screen.type("enter" + ENTER)
    screen.wait_for("A name")
    screen.type(pasted("Ada\nLovelace") + ENTER)
    screen.wait_for("entered 'Ada Lovelace'")
    screen.type("long" + ENTER)
    screen.wait_for("A text")
    screen.type(pasted("Ada\nLovelace") + ENTER)
    screen.wait_for(r"entered 'Ada\nLovelace'")


def test_a_text_is_edited_in_the_editor_where_one_is_asked_for(
    toy: StartToy, tmp_path: Path
) -> None:
    (tmp_path / "editor").write_text("#!/bin/sh\necho written > $1\n")
    (tmp_path / "editor").chmod(0o755)
    screen = toy(EDITOR=str(tmp_path / "editor"), VISUAL="")
    screen.type("long draft" + ENTER)
    screen.wait_for("A text")
    screen.type(ctrl("g"))
    screen.wait_for_shown("> written")
    screen.type(ENTER)
    screen.wait_for("entered 'written'")


def test_an_editor_that_is_not_there_is_said_and_the_text_stays(toy: StartToy) -> None:
    screen = toy(VISUAL="/nowhere/ed")
    screen.type("draft" + ctrl("g"))
    screen.wait_for("the editor /nowhere/ed cannot be started: No such file or directory")
    assert screen.lines[screen.cursor[0]] == "> draft"


def test_arrows_and_enter_choose_and_esc_takes_the_last_choice(toy: StartToy) -> None:
    screen = toy()
    screen.type("ask" + ENTER)
    screen.wait_for_shown("▸ y  yes")
    screen.type(DOWN)
    screen.wait_for_shown("▸ a  always")
    screen.answer(ENTER)
    screen.wait_for("chose a")
    screen.type("ask" + ENTER)
    screen.wait_for(lambda s: "y  yes" in s.shown[s.shown.rfind("chose") :])
    screen.type(ESC)
    screen.wait_for("chose n")
    screen.type("ask" + ENTER)
    screen.wait_for(lambda s: "y  yes" in s.shown[s.shown.rfind("chose") :])
    screen.type(ctrl("d"))
    screen.wait_for("nobody chose")


@pytest.mark.parametrize("letter", ["x", "f"])
def test_a_letter_right_behind_esc_is_not_lost(toy: StartToy, letter: str) -> None:
    screen = toy()
    _at_work(screen)
    screen.type(ESC + letter)
    screen.wait_for("interrupt True")
    screen.wait_for(lambda s: s.lines[s.cursor[0]] == f"> {letter}")


def test_a_menu_of_files_offers_what_git_would_show(toy: StartToy, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    screen = toy()
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".gitignore").write_text("*.log\n")
    for name in ("calc.py", "calc.log", "two words.txt"):
        (folder / name).write_text("")
    screen.type("see @cal")
    screen.wait_for_shown("  calc.py")
    assert "calc.log" not in screen.shown
    screen.type(TAB + "and @wor")
    screen.wait_for_shown("  two words.txt")
    screen.type(TAB + ENTER)
    screen.wait_for("""submitted 'see @calc.py and @"two words.txt"'""")


def test_the_history_is_there_in_the_next_session_but_not_that_of_a_private_one(
    toy: StartToy, tmp_path: Path
) -> None:
    secret = toy(PRIVATE="1")
    _said(secret, "unspeakable")
    secret.type(UP)
    secret.wait_for_shown("> unspeakable")
    open_one = toy()
    _said(open_one, "shared")
    later = toy()
    later.type(UP)
    later.wait_for_shown("> shared")
    assert b"unspeakable" not in (tmp_path / "history").read_bytes()
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
