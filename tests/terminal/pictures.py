"""Takes the pictures of docs/pictures from real sessions. `make pictures` runs it.

Each is what a terminal shows at one moment, as an SVG of text: in three widths, on dark ground and
on light. Times and ids in them differ from run to run, so no test holds the files to the
program. Names of scenes behind it take only those.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

from models.speakers import SPEAK  # noqa: E402 - it is run as a script
from sync.wire_server import Asked, WireServer, reply  # noqa: E402
from terminal.harness import ENTER, TAB, Screen, ctrl, is_empty_input  # noqa: E402
from terminal.screen_picture import COLOURS, draw  # noqa: E402

FOLDER: Final = TESTS.parent / "docs" / "pictures"
PAGE: Final = FOLDER.parent / "screens.md"
SHOWN_WIDTH: Final = 80
SIZES: Final = tuple(product((60, SHOWN_WIDTH, 120), COLOURS))

Act: TypeAlias = Callable[[Screen], None]
"""What a person does before the picture is taken."""

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
STEPS: Final = [
    {"step": "run the tests", "status": "pending"},
    {"step": "mend the sign in add", "status": "pending"},
    {"step": "run the tests again", "status": "pending"},
]
PLAN: Final[tuple[Reply, ...]] = (
    ("", (("c", "plan", {"steps": STEPS}),)),
    ("`add` subtracts: the sign is wrong. One line is to be changed.", ()),
)


SERVED: Final = ("claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-5-5")


def model(replies: Sequence[Reply]) -> WireServer:
    """Anthropic's API on this machine, which gives these replies, and subjects for commits."""
    left = iter(replies)

    def answer(asked: Asked) -> bytes:
        if asked.method == "GET":
            return reply(200, {"data": [{"type": "model", "id": one} for one in SERVED]})
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


def waits_for_words(screen: Screen) -> bool:
    """Whether the input is there, with nothing in it; the hint in it is for wide screens."""
    return any(map(is_empty_input, screen.lines))


def welcomes(screen: Screen) -> None:
    """The first thing that is seen."""
    screen.wait_for(waits_for_words)


def chooses(screen: Screen) -> None:
    """There is no key: who is to answer?"""
    screen.wait_for_shown("▸ ")


def fixes(screen: Screen) -> None:
    """A bug is found, mended and tested."""
    screen.type("fix the failing test" + ENTER)
    screen.wait_for("assert add(2, 3) == 5")
    screen.wait_for("tip: ")
    screen.wait_for(waits_for_words)


def asks(prompt: str) -> Act:
    """Something is asked about."""

    def act(screen: Screen) -> None:
        screen.type(prompt + ENTER)
        screen.wait_for_shown("▸ ")

    return act


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


def opens(command: str) -> Act:
    """Behind a turn, a command of the chat that shows a list to choose from."""

    def act(screen: Screen) -> None:
        fixes(screen)
        screen.type(command + ENTER)
        screen.wait_for_shown("▸ ")

    return act


def looks_through(screen: Screen) -> None:
    """All that happened, with a call opened."""
    fixes(screen)
    screen.type(ctrl("o"))
    screen.wait_for_shown("▾ ")


def reads(screen: Screen) -> None:
    """What the keys and commands are."""
    screen.type("/help" + ENTER)
    screen.wait_for_shown("▸ ")


class Scene(NamedTuple):
    """What is seen, what a person does, in which approval mode, and what the model says."""

    title: str
    act: Act
    mode: str = "auto"
    replies: tuple[Reply, ...] = ()
    has_key: bool = True


SCENES: Final[Mapping[str, Scene]] = MappingProxyType(
    {
        "welcome": Scene("The first screen", welcomes),
        "providers": Scene("Without a key", chooses, has_key=False),
        "session": Scene("A turn", fixes, "auto", FIX),
        "approval": Scene("A question about a command", asks("publish it"), "ask", PUBLISH),
        "change": Scene(
            "A question about a change of a file", asks("fix the failing test"), "ask", FIX[1:]
        ),
        "plan": Scene(
            "A plan, before anything is changed", asks("why does the test fail?"), "plan", PLAN
        ),
        "queue": Scene("Messages that wait while a command runs", queues, "auto", MEASURE),
        "threads": Scene("Threads to go on with", opens("/resume"), "auto", FIX),
        "models": Scene("Models", opens("/model"), "auto", FIX),
        "transcript": Scene("All of a thread, calls folded", looks_through, "auto", FIX),
        "rewind": Scene("Going back", opens("/rewind"), "auto", FIX),
        "help": Scene("Help", reads),
    }
)


def take(scene: Scene, columns: int, ground: str) -> str:
    """One picture, from a session in a fresh repository of a fresh user."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder, model(scene.replies) as server:
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
            "COLORFGBG": "0;15" if ground == "light" else "15;0",
        }
        if scene.has_key:
            environment["ANTHROPIC_API_KEY"] = "sk-ant-of-nobody"
            environment["ANTHROPIC_BASE_URL"] = server.url
        (root / "user").mkdir()
        for arguments in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "feat: add"]):
            subprocess.run(["git", *arguments], cwd=repository, env=environment, check=True)
        command = [sys.executable, "-m", "treadle", "--approval-mode", scene.mode]
        size = {"columns": columns, "rows": 34}
        with Screen(command, cwd=repository, env=environment, **size) as screen:
            if scene.has_key:
                screen.wait_for("a new thread in")
            scene.act(screen)
            return draw(screen, ground)


def make_page() -> str:
    """docs/screens.md: each picture as the reader's browser wants it, light or dark."""
    parts = [
        "# Screens\n\nWhat the chat shows, from real sessions with a scripted model. "
        "`make pictures` takes them.\n"
    ]
    for name, scene in SCENES.items():
        files = {(width, one): f"pictures/{name}-{width}-{one}.svg" for width, one in SIZES}
        light, dark = files[SHOWN_WIDTH, "light"], files[SHOWN_WIDTH, "dark"]
        others = ", ".join(
            f"[{width} columns, {one}]({file})"
            for (width, one), file in files.items()
            if width != SHOWN_WIDTH
        )
        parts.append(
            f"\n## {scene.title}\n\n<picture>\n"
            f'<source media="(prefers-color-scheme: light)" srcset="{light}">\n'
            f'<img alt="{scene.title}" src="{dark}">\n</picture>\n\n'
            f"Also: {others}.\n"
        )
    return "".join(parts)


def main(names: Sequence[str]) -> None:
    """Take those that are named, or all; write the page."""
    FOLDER.mkdir(exist_ok=True)
    for name, (columns, ground) in product(names or SCENES, SIZES):
        path = FOLDER / f"{name}-{columns}-{ground}.svg"
        path.write_text(take(SCENES[name], columns, ground), encoding="utf-8")
    PAGE.write_text(make_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
