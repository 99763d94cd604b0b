"""Vim's keys in the input: when they hold, in which mode they are, and what Esc does there."""

from __future__ import annotations

from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.vi_state import InputMode

_MODE_WORDS: Final = {
    InputMode.INSERT: "insert",
    InputMode.INSERT_MULTIPLE: "insert",
    InputMode.REPLACE: "replace",
    InputMode.REPLACE_SINGLE: "replace",
    InputMode.NAVIGATION: "normal",
}


def set_vim_keys(app: Application[None], *, are_wanted: bool) -> None:
    """Have vim's keys or the usual ones from now on; what is typed is inserted at first."""
    wanted = EditingMode.VI if are_wanted else EditingMode.EMACS
    if app.editing_mode is not wanted:
        app.editing_mode = wanted
        begin_insert(app)


def begin_insert(app: Application[None]) -> None:
    """What is typed is inserted: a new input, or a dialog, begins so."""
    app.vi_state.input_mode = InputMode.INSERT


def describe_mode(app: Application[None], buffer: Buffer) -> str:
    """`insert`, `normal`, `visual` or `replace`; empty without vim's keys."""
    if app.editing_mode is not EditingMode.VI:
        return ""
    return "visual" if buffer.selection_state else _MODE_WORDS[app.vi_state.input_mode]


def leave_insert(app: Application[None], buffer: Buffer) -> bool:
    """What Esc does in a text with vim's keys: to mode normal; false if it is not for vim.

    In an empty input, and in mode normal, Esc is the chat's.
    """
    mode = describe_mode(app, buffer)
    is_open = app.vi_state.operator_func is not None or app.vi_state.waiting_for_digraph
    if not buffer.text or (mode in ("", "normal") and not (mode and is_open)):
        return False
    if mode in ("insert", "replace"):
        buffer.cursor_position += buffer.document.get_cursor_left_position()
    if buffer.selection_state:
        buffer.exit_selection()
    app.vi_state.reset()
    app.vi_state.input_mode = InputMode.NAVIGATION
    return True
