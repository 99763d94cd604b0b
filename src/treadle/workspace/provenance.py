"""Which threads stand behind commits: by the trailers in their messages.

Nothing in the repository changes, and no program that it or its configuration names is run: no
hook, no signing program, no transport.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.errors import TreadleError, UsageError
from treadle.process.result import Ran
from treadle.thread.ids import is_thread_id
from treadle.workspace.git import Absent, Layout, Repository

OUT_SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes of what git says that are read: some hundred thousand commits."""

# A clone without all objects would fetch them, with programs that its configuration names.
OFFLINE: Final = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""What keeps git from the network."""

LOG: Final = (
    *("log", "--no-show-signature", "--no-patch", "--no-color", "--no-decorate", "--no-notes"),
    *("--encoding=UTF-8", "-z", "--format=%H%x00%an%x00%aI%x00%ct%x00%P%x00%s%x00%B"),
)
"""Says of each commit what `read_log` reads."""

_FIELD_COUNT: Final = 7

# A squashed commit holds the messages of several, indented, with the trailers in their midst.
_TRAILER: Final = re.compile(
    r"^[ \t]*Treadle-Thread:[ \t]*(T-[0-9a-f-]+)(?:@([0-9]{1,18}))?[ \t\r]*$",
    re.IGNORECASE | re.MULTILINE,
)


class Reference(Struct, frozen=True):
    """What a trailer names: a thread, and its version when the commit was made."""

    thread: str
    version: int | None = None


class Commit(Struct, frozen=True):
    """A commit, and the threads that its trailers name.

    `hash` is whole, `at` when it was written (ISO 8601), `made_s` when it was committed in this
    form, in seconds since 1970.
    """

    hash: str
    author: str
    at: str
    made_s: int
    subject: str
    parents: tuple[str, ...] = ()
    threads: tuple[Reference, ...] = ()


async def list_commits(
    folder: str | Path, span: str | None, count_max: int
) -> tuple[list[Commit], bool]:
    """The newest commits of a range, and whether there are more.

    Args:
        folder: a folder of the repository.
        span: the range as git takes it (`main..`, `A..B`); by default all that HEAD reaches.
        count_max: how many, at most.

    Raises:
        UsageError: git knows no such range, or the folder is in no repository.
        TreadleError: git is not there, or failed.
    """
    repository = Repository(folder)
    present(await repository.layout())
    head = await repository.read("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if span is None and head.status != 0:
        return [], False
    wanted = "HEAD" if span is None else span
    # What begins like an option is none to git either, behind its mark; but no revision can.
    if wanted.startswith("-") or "\0" in wanted:
        raise UsageError(f"{wanted!r} is no range of commits", hint="such as `main..` or `A..B`")
    ran = await repository.read(
        *(*LOG, f"--max-count={count_max + 1}", "--end-of-options", wanted, "--"),
        out_size_max=OUT_SIZE_MAX,
        ends_when_full=True,
        environment=OFFLINE,
    )
    if ran.status == 128 and (b"revision" in ran.err or b"bad object" in ran.err):
        raise UsageError(
            f"git knows no range of commits {wanted!r}", hint="such as `main..` or `A..B`"
        )
    found = [commit for commit, _ in read_log(checked(ran, "log"))]
    return found[:count_max], len(found) > count_max


def named_threads(message: str) -> tuple[Reference, ...]:
    """The threads that the trailers of a commit message name, in order, each version once."""
    found = (
        Reference(thread.lower().replace("t-", "T-", 1), int(version) if version else None)
        for thread, version in _TRAILER.findall(message)
    )
    return tuple(dict.fromkeys(one for one in found if is_thread_id(one.thread)))


def read_log(out: bytes) -> list[tuple[Commit, str]]:
    """The commits that `LOG` tells of, with their messages."""
    # No field can hold the zero that ends it.
    parts = out.decode("utf-8", "replace").split("\0")[:-1]
    found = list[tuple[Commit, str]]()
    for at in range(0, len(parts), _FIELD_COUNT):
        name, author, when, made, parents, subject, message = parts[at : at + _FIELD_COUNT]
        above, threads = tuple(parents.split()), named_threads(message)
        commit = Commit(name, author, when, int(made), subject, above, threads)
        found.append((commit, message))
    return found


def present(layout: Layout | Absent) -> Layout:
    """Where the repository lies.

    Raises:
        UsageError: there is none.
    """
    if isinstance(layout, Absent):
        raise UsageError(layout.text, hint="provenance is read from a git repository")
    return layout


def checked(ran: Ran, step: str) -> bytes:
    """What git wrote.

    Args:
        ran: how it ended.
        step: the command, for people.

    Raises:
        TreadleError: it failed, or did not say all of it.
    """
    if ran.is_cut:
        raise TreadleError(f"git {step} said more than {OUT_SIZE_MAX >> 20} MiB; ask for less")
    if ran.was_ended:
        raise TreadleError(f"git {step} took too long", hint="ask for fewer lines, or commits")
    if ran.status != 0:
        said = ran.err.decode("utf-8", "replace").strip().partition("\n")[0]
        raise TreadleError(f"git {step} failed: {said or f'exit status {ran.status}'}")
    return ran.out
