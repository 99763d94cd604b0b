"""Takes the pictures of docs/pictures from real sessions. `make pictures` runs it.

Each is what a terminal of 80 columns shows at one moment, as an SVG of text. Times and ids in them
differ from run to run, so no test holds the files to the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

import pyte
from wcwidth import wcwidth

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

from models.speakers import SPEAK  # noqa: E402 - it is run as a script
from sync.wire_server import Asked, WireServer, reply  # noqa: E402
from terminal.harness import ENTER, TAB, Screen  # noqa: E402
from treadle.terminal.early_prompt import PLACEHOLDER  # noqa: E402

FOLDER: Final = TESTS.parent / "docs" / "pictures"

COLUMN: Final = 8.4
ROW: Final = 18
MARGIN: Final = 14

COLOURS: Final = {
    "default": "#d5dae3",
    "black": "#3b4252",
    "red": "#e67c85",
    "green": "#9fca7f",
    "brown": "#e5c07b",
    "blue": "#7aa2f7",
    "magenta": "#c792ea",
    "cyan": "#6fc3d0",
    "white": "#d5dae3",
    "brightblack": "#7d8799",
    "brightred": "#f2939b",
    "brightgreen": "#b5dd96",
    "brightbrown": "#f0d399",
    "brightblue": "#9bb9fa",
    "brightmagenta": "#d7aef3",
    "brightcyan": "#92d8e2",
    "brightwhite": "#ffffff",
}
"""As pyte names them."""

GROUND: Final = "#1b1e25"

Reply: TypeAlias = tuple[str, tuple[tuple[str, str, dict[str, object]], ...]]
"""What the model says: a text, and calls with their ids, names and arguments."""


def run(command: str, text: str = "") -> Reply:
    """A command that writes."""
    return text, (("c", "bash", {"command": command, "access": "write"}),)


EDIT: Final = [{"old_str": "return a - b", "new_str": "return a + b"}]
FIX: Final[tuple[Reply, ...]] = (
    run("python3 -m unittest", "I run the tests first."),
    ("", (("c", "edit_file", {"path": "calc.py", "edits": EDIT}),)),
    run("python3 -m unittest"),
    (
        """
The sign was wrong, and the test is right:

- `add` subtracted; it **adds** now
- all tests pass

```python
assert add(2, 3) == 5
```
""",
        (),
    ),
)
PUBLISH: Final[tuple[Reply, ...]] = (
    run(
        "git add -A && git commit -qm 'fix: add' && git push --force origin main",
        "The branch has changed upstream; I overwrite it.",
    ),
)
MEASURE: Final[tuple[Reply, ...]] = (run("python3 measure.py", "I measure it."),)


def model(replies: Sequence[Reply]) -> WireServer:
    """Anthropic's API on this machine, which gives these replies, and subjects for commits."""
    left = iter(replies)

    def answer(asked: Asked) -> bytes:
        is_commit = "commit message" in str(json.loads(asked.plain).get("system", ""))
        text, calls = ("fix: add instead of subtracting", ()) if is_commit else next(left)
        return reply(200, SPEAK["anthropic-messages"](text, calls), "text/event-stream")

    return WireServer(answer)


FILES: Final = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": """\
import unittest

from calc import add


class Adding(unittest.TestCase):
    def test_two_numbers(self):
        self.assertEqual(add(2, 3), 5)
""",
    "measure.py": """\
import signal

for size in (1_000, 10_000, 100_000):
    print(f"{size:>7} additions  {size / 25_000:.2f} ms", flush=True)
signal.pause()
""",
    ".gitignore": "__pycache__/\n",
}


def fixes(screen: Screen) -> None:
    """A bug is found, mended and tested."""
    screen.type("fix the failing test" + ENTER)
    screen.wait_for("assert add(2, 3) == 5")
    screen.wait_for("tip: ")
    screen.wait_for_shown(f"> {PLACEHOLDER}")


def asks(screen: Screen) -> None:
    """A command that does harm is asked about."""
    screen.type("publish it" + ENTER)
    screen.wait_for_shown("▸ ")


def queues(screen: Screen) -> None:
    """A person talks while a command runs."""
    screen.type("how fast is it?" + ENTER)
    screen.wait_for("100000 additions")
    screen.type("ten million additions are enough" + ENTER)
    screen.wait_for("» ten million")
    screen.type("then commit it" + TAB)
    screen.wait_for("(after this turn)")
    screen.type("and tell me what you")
    screen.wait_for_shown("tell me what you")


PICTURES: Final[dict[str, tuple[Callable[[Screen], None], str, tuple[Reply, ...]]]] = {
    "session": (fixes, "auto", FIX),
    "approval": (asks, "ask", PUBLISH),
    "queue": (queues, "auto", MEASURE),
}
"""Each with its approval mode, and what the model says."""


def svg(screen: Screen) -> str:
    """The screen as a picture, without the empty lines above and below."""
    filled = [number for number, line in enumerate(screen.lines) if line]
    first, last = filled[0], filled[-1]
    width = round(screen.columns * COLUMN + 2 * MARGIN)
    height = (last - first + 1) * ROW + 2 * MARGIN
    rows = [
        piece
        for number in range(first, last + 1)
        for piece in _row(screen, number, MARGIN + (number - first) * ROW)
    ]
    y, x = screen.cursor
    cursor = _box(x, MARGIN + (y - first) * ROW, 1, COLOURS["default"], opacity=0.6)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}">',
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
            ' font-size="14">',
            *rows,
            *([cursor] if screen.is_cursor_visible else []),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _row(screen: Screen, number: int, top: int) -> Iterator[str]:
    """Words of the same look, each as wide as its columns whatever the font.

    No piece begins or ends with a blank, or has two in a row: browsers keep none of these, or not
    all of them, whatever an element around says.
    """
    cells = [(column, screen.style_at(number, column)) for column in range(screen.columns)]
    for look, group in groupby(cells, key=lambda cell: _look(cell[1])):
        pieces = list(group)
        colour, ground, weight = look
        column, length = pieces[0][0], len(pieces)
        if ground != GROUND:
            yield _box(column, top, length, ground)
        for first, words in _split_words([char.data for _, char in pieces]):
            size = sum(map(wcwidth, words))
            yield (
                f'<text x="{MARGIN + (column + first) * COLUMN:g}" y="{top + 13}" fill="{colour}"'
                f'{weight} textLength="{size * COLUMN:g}">{escape(words)}</text>'
            )


def _split_words(cells: Sequence[str]) -> Iterator[tuple[int, str]]:
    """What stands between two blanks or more, with its first cell; a wide letter has two cells."""
    text, at = "", 0
    for number, cell in enumerate([*cells, " ", " "]):
        if cell == " " and text.endswith(" "):
            if text.strip():
                yield at, text.strip()
            text = ""
        elif text or cell.strip():
            at = at if text else number
            text += cell


def _look(char: pyte.screens.Char) -> tuple[str, str, str]:
    colour = COLOURS.get(char.fg, f"#{char.fg}")
    ground = GROUND if char.bg == "default" else COLOURS.get(char.bg, f"#{char.bg}")
    if char.reverse:
        colour, ground = ground, colour
    return colour, ground, ' font-weight="bold"' if char.bold else ""


def _box(column: int, top: int, length: int, colour: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{MARGIN + column * COLUMN:g}" y="{top}" width="{length * COLUMN:g}"'
        f' height="{ROW}" fill="{colour}" opacity="{opacity:g}"/>'
    )


def take(name: str) -> str:
    """One picture, from a session in a fresh repository of a fresh user."""
    act, mode, replies = PICTURES[name]
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder, model(replies) as server:
        root = Path(folder)
        repository = root / "calculator"
        repository.mkdir()
        for path, text in FILES.items():
            (repository / path).write_text(text)
        (root / "gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(root / "user"),
            "TREADLE_HOME": str(root / "home"),
            "GIT_CONFIG_GLOBAL": str(root / "gitconfig"),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "ANTHROPIC_API_KEY": "sk-ant-of-nobody",
            "ANTHROPIC_BASE_URL": server.url,
        }
        (root / "user").mkdir()
        for arguments in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "feat: add"]):
            subprocess.run(["git", *arguments], cwd=repository, env=environment, check=True)
        command = [sys.executable, "-m", "treadle", "--approval-mode", mode]
        with Screen(command, cwd=repository, env=environment, rows=34) as screen:
            screen.wait_for("a new thread in")
            act(screen)
            return svg(screen)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for wanted in PICTURES:
        (FOLDER / f"{wanted}.svg").write_text(take(wanted), encoding="utf-8")
