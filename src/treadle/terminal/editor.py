"""A text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from prompt_toolkit.buffer import Buffer

from treadle.errors import UsageError
from treadle.terminal.external_programs import run_program


def find_editor(environment: Mapping[str, str]) -> list[str]:
    """`$VISUAL`, else `$EDITOR`, else `vi`, as words.

    Raises:
        UsageError: the variable has an open quote.
    """
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(name, ""))
        except ValueError as error:
            message = f"{name} is no command: {error}"
            raise UsageError(message, hint=f"set {name} to an editor") from error
        if words:
            return words
    return ["vi"]


def edit_text(text: str) -> str:
    """What the person leaves in the editor; the terminal is the editor's while it runs.

    An editor that ends with a failure (`:cq`), or without the file, leaves the text as it was.

    Raises:
        UsageError: the editor cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = Path(folder) / "prompt.md"
        path.write_text(text, encoding="utf-8", errors="replace")
        command = find_editor(os.environ)
        try:
            exit_code = run_program([*command, str(path)])
        except OSError as error:
            message = f"the editor {command[0]} cannot be started: {error.strerror}"
            raise UsageError(message, hint="set VISUAL or EDITOR to an editor") from error
        if exit_code != 0 or not path.is_file():
            return text
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")


async def edit_buffer(
    buffer: Buffer,
    run_in_terminal: Callable[[Callable[[], str]], Awaitable[str]],
    tell: Callable[[str], None],
) -> None:
    """Have the person write a text of the chat in their editor; `tell` takes why they cannot."""
    text = buffer.text
    try:
        edited = await run_in_terminal(lambda: edit_text(text))
    except UsageError as error:
        tell(f"{error}")
        return
    buffer.text = edited
    buffer.cursor_position = len(edited)
