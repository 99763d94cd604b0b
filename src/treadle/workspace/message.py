"""Commit messages: what the model is shown, what of its answer is taken, and the plain one."""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from treadle.scratch_folders import scratch_folder
from treadle.workspace.git import Layout, Repository
from treadle.workspace.git_durability import DURABLE
from treadle.workspace.status import Status, StatusEntry

_log = logging.getLogger("treadle.workspace")

Compose = Callable[[str], Awaitable[str]]
"""From a diff to a commit message."""

DIFF_SIZE_MAX: Final = 32 * 1024
"""Bytes of a diff that the model is shown."""

_DIFF_READ_MAX: Final = 8 * DIFF_SIZE_MAX
"""Bytes of a diff that are looked at: redacting may shorten it."""

COMPOSE_S_MAX: Final = 45.0
"""Seconds to wait for a message; whoever composes it should give up before."""

SUBJECT_LENGTH_MAX: Final = 72
LINE_COUNT_MAX: Final = 20
LINE_LENGTH_MAX: Final = 500

_FENCE: Final = re.compile(r"^\s*(?:```|~~~)\w*\s*$")
_TRAILER: Final = re.compile(r"^\s*(?:treadle-thread|[a-z-]+-by)\s*:", re.IGNORECASE)
"""Claims that only the program (which thread) or a person (who signed, who reviewed) may make."""


async def make_message(
    repository: Repository,
    status: Status,
    mine: Sequence[StatusEntry],
    compose: Compose | None,
    redact: Callable[[str], str],
    timeout_s: float = COMPOSE_S_MAX,
) -> str:
    """A commit message, without a trailer. Never fails, and takes at most `timeout_s` to compose.

    Args:
        repository: where the changes are.
        status: how it stands.
        mine: the changes to be committed.
        compose: gets the redacted diff; without it, and when its answer is no message, the plain
            one is taken.
        redact: keeps known secrets out of what `compose` sees, and of what it says.
        timeout_s: seconds to wait for `compose`.
    """
    if compose is None:
        return plain_message(mine)
    try:
        diff = await make_diff(repository, status, mine, redact)
        async with asyncio.timeout(timeout_s):
            answer = await compose(diff) if diff else ""
    except Exception:  # noqa: BLE001  whoever composes, the commit is made
        _log.exception("no commit message was composed")
        answer = ""
    return accept(redact(answer)) or plain_message(mine)


async def make_diff(
    repository: Repository,
    status: Status,
    mine: Sequence[StatusEntry],
    redact: Callable[[str], str],
) -> str:
    """What the commit will change: a summary, then the patch, redacted and cut to size.

    Made in an index of its own, so that the person's index is not touched while somebody thinks.
    Empty if git refuses.
    """
    layout = await repository.layout()
    if not isinstance(layout, Layout):
        return ""
    with scratch_folder() as folder:
        environment = {"GIT_INDEX_FILE": str(Path(folder) / "index")}

        async def git(*arguments: str, data: bytes | None = None) -> tuple[bytes, int] | None:
            ran = await repository.read(
                *DURABLE,  # the commit finds the contents, and does not sync them itself
                *arguments,
                folder=layout.root,
                data=data,
                out_size_max=_DIFF_READ_MAX,
                environment=environment,
            )
            return (ran.out, ran.out_size) if ran.status == 0 else None

        if status.head is not None and await git("read-tree", "HEAD") is None:
            return ""
        paths = b"".join(os.fsencode(change.path) + b"\0" for change in mine)
        update = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        if await git(*update, data=paths) is None:
            return ""
        plainly = ("--no-color", "--no-ext-diff", "--no-textconv")
        diff = await git("diff", "--cached", "--patch-with-stat", *plainly)
    if diff is None:
        return ""
    out, size = diff
    return cut_diff(redact(out.decode("utf-8", "replace")), size)


def cut_diff(diff: str, size: int) -> str:
    """At most `DIFF_SIZE_MAX` bytes of a diff, in whole lines, with a notice if there is more.

    Args:
        diff: its beginning, redacted.
        size: bytes of all of it.
    """
    data = diff.encode()
    if len(data) <= DIFF_SIZE_MAX and size <= _DIFF_READ_MAX:
        return diff
    shown = data[:DIFF_SIZE_MAX]
    shown = shown[: shown.rfind(b"\n") + 1] or shown
    text = shown.decode("utf-8", "ignore")
    return f"{text}[the diff is cut: {len(shown)} of {size} bytes are shown]\n"


def accept(answer: str) -> str:
    """The commit message in a model's answer, made tidy; empty if there is none.

    A subject of at most `SUBJECT_LENGTH_MAX` characters, a blank line, a body of a few lines;
    without code fences, quotes around it, control characters, and trailers.
    """
    lines = ["".join(filter(_is_text, line)).rstrip() for line in answer.splitlines()]
    lines = [line for line in lines if not _FENCE.match(line) and not _TRAILER.match(line)]
    subject, _, body = _unquoted("\n".join(lines)).partition("\n")
    subject = _unquoted(subject)
    if not any(map(str.isalnum, subject)) or len(subject) > SUBJECT_LENGTH_MAX:
        return ""
    kept = [line[:LINE_LENGTH_MAX] for line in body.strip("\n").split("\n")][: LINE_COUNT_MAX - 2]
    return "\n".join([subject, "", *kept]).strip()


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        return text[1:-1].strip()
    return text


def _is_text(character: str) -> bool:
    return character.isprintable() or character == "\t"


def plain_message(mine: Sequence[StatusEntry]) -> str:
    """What changed, in Conventional Commits form: `chore: update a.py and b.py`."""
    verb = "update"
    if all(change.is_untracked or change.letters[0] == "A" for change in mine):
        verb = "add"
    elif all("D" in change.letters for change in mine):
        verb = "remove"
    for names in ([c.name for c in mine], [posixpath.basename(c.name) for c in mine]):
        subject = f"chore: {verb} {' and '.join(names)}"
        if len(mine) <= 2 and subject.isprintable() and len(subject) <= SUBJECT_LENGTH_MAX:
            return subject
    return f"chore: {verb} {count_files(len(mine))}"


def count_files(count: int) -> str:
    """`1 file`, `2 files`."""
    return f"{count} file" if count == 1 else f"{count} files"
