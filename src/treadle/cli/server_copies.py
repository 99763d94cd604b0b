"""Tells what became of the server's copies before and after a scrub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from treadle.app.sync.server_copies import ForkCopy, fetch_before_scrub, replace_copies
from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle import LocalStore

_RETRY_HINT: Final = "the server's copy may hold it still; `treadle sync` replaces it"


def fetch_from_server(store: LocalStore, thread_ids: Sequence[str]) -> bool:
    """Take in what other machines have sent of these threads, and say what failed.

    Returns:
        Whether this machine has a server that has, or may have, a copy of one of them.
    """
    done = fetch_before_scrub(store, thread_ids)
    for line in done.problems:
        _warn(line)
    return done.has_copies


def replace_on_server(store: LocalStore, thread_ids: Sequence[str]) -> bool:
    """Have the server's copies replaced by what the threads are now, and say what was done.

    Returns:
        Whether no server is known to hold what was taken out.
    """
    done = replace_copies(store, thread_ids)
    for base in dict.fromkeys(one.base for one in done.forks):
        _print_forks([one for one in done.forks if one.base == base])
    if done.failure:
        _warn(f"{done.failure}: {_RETRY_HINT}")
    for thread_id in done.replaced:
        print_line(f"{thread_id}  the server's copy is replaced")
    for line in done.problems:
        _warn(line)
    if done.left:
        _warn(f"of {', '.join(done.left)}: {_RETRY_HINT}")
    return done.is_complete


def _print_forks(forks: Sequence[ForkCopy]) -> None:
    for one in forks:
        if one.problem:
            _warn(f"thread {one.thread_id}: {one.problem}")
            continue
        print_line(
            f"{one.thread_id}  the server's copy is removed: it had its history from {one.base}, "
            f"which is not there any more; `treadle sync {one.base} {one.thread_id}` sends both "
            "again"
        )
    for one in forks:
        if one.problem:
            _warn(
                f"of {one.thread_id}: the server's copy may hold it still; "
                f"`treadle private {one.thread_id}` removes it there"
            )


def _warn(text: str) -> None:
    print_line(f"treadle: {sanitize_text(text)}", err=True)
