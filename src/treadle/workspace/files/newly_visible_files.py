"""Which files of a state only came into view: they were there before, and nobody made them. Pure.

Git does not tell of files that it is to ignore, nor of those in repositories within the repository.
Who changes the rules, or takes such a repository's `.git` away, uncovers them. They are other
people's, and are never removed as the work of the agent.
"""

from __future__ import annotations

from treadle.workspace.files.capture import Capture


def find_uncovered(earlier: Capture, now: Capture) -> set[bytes]:
    """The files that are new in a later look and were not made since the earlier one.

    The file system says when a file last changed, and nobody can set that; its clock ticks less
    often than a look takes, so what has the time of the earlier look was there before. A
    folder that is renamed takes its files along without a change: these are known by name and
    content. What lies where a repository was counts as uncovered even if it was written since: its
    content is not known.

    Args:
        earlier: the files before.
        now: the files after.
    """
    moved = {
        (_name(path), entry) for path, entry in earlier.entries.items() if path not in now.entries
    }
    closed = set(earlier.nested - now.nested)
    closed |= {
        path + b"/"
        for path, entry in earlier.entries.items()
        if not entry.is_kept and path not in earlier.changed_ns and path not in now.entries
    }
    return {
        path
        for path, entry in now.entries.items()
        if path not in earlier.entries
        and (
            _is_below(path, closed)
            or (
                now.changed_ns.get(path, earlier.at_ns + 1) <= earlier.at_ns
                and (_name(path), entry) not in moved
            )
        )
    }


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _is_below(path: bytes, folders: set[bytes]) -> bool:
    if not folders:
        return False
    return any(path[: at + 1] in folders for at, byte in enumerate(path) if byte == ord("/"))
