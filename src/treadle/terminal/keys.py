"""The keys of the chat's input, in one table: what binds them, and what /help and the docs tell."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

REWIND_WITHIN_S: Final = 1.0
"""Between the two presses of Esc."""

QUIT_WITHIN_S: Final = 2.0
"""Between the two presses of Ctrl+C."""

SIGNAL_S: Final = 0.2
"""A Ctrl+C that ends a command is told to us, too, at about the time when the command is over."""


class KeyBinding(Struct, frozen=True):
    """One thing that keys do.

    `presses` are the keys as prompt_toolkit names them, each a sequence; `does` names the method
    of `Hands` (hands.py) that is called; `shown` and `words` are for people.
    """

    shown: str
    words: str
    does: str
    presses: tuple[tuple[str, ...], ...]


KEYS: Final = (
    KeyBinding(
        "Enter", "send; while the agent works: heard after this round of tools", "send", (("c-m",),)
    ),
    KeyBinding(
        "Tab",
        "complete; while the agent works: send, heard when the turn is over",
        "complete",
        (("c-i",),),
    ),
    KeyBinding("Ctrl+J, Alt+Enter", "a new line", "newline", (("c-j",), ("escape", "c-m"))),
    KeyBinding(
        "Up, Down",
        "earlier prompts; on an empty input Up takes back what is queued",
        "up",
        (("up",),),
    ),
    KeyBinding(
        "Esc",
        "interrupt; twice on an empty input: go back to an earlier prompt",
        "escape",
        (("escape",),),
    ),
    KeyBinding("Shift+Tab", "the next approval mode", "cycle_mode", (("s-tab",),)),
    KeyBinding("Ctrl+C", "clear the input, else interrupt; twice: quit", "clear", (("c-c",),)),
    KeyBinding("Ctrl+D", "quit, on an empty input", "leave", (("c-d",),)),
    KeyBinding("Ctrl+G", "write the input in your editor ($VISUAL, $EDITOR)", "edit", (("c-g",),)),
    KeyBinding("Ctrl+V", "paste the picture on the clipboard", "paste_picture", (("c-v",),)),
    KeyBinding("Ctrl+R", "search earlier prompts", "search", (("c-r",),)),
    KeyBinding(
        "Ctrl+O",
        "look through all that happened; in a question: the next page of it, as PgDn",
        "look_through",
        (("c-o",),),
    ),
    KeyBinding("Ctrl+L", "draw the screen anew", "redraw", (("c-l",),)),
    KeyBinding("Ctrl+Z", "suspend; `fg` comes back", "suspend", (("c-z",),)),
)

INPUT_PREFIXES: Final = (
    ("/", "a command of the chat"),
    ("!", "a command that you run yourself; the agent is shown its output"),
    ("@", "a file or a folder, completed: the agent gets it with your prompt"),
)
"""What a line may begin with (`@` anywhere), for /help and the docs."""
