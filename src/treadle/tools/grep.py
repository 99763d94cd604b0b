"""Searches files for a regular expression, in a process of its own.

A regular expression can run for longer than the universe, and Python cannot be interrupted in it;
a process can be killed. Started by `search_files` with a `Request` as its argument; writes lines of
the form `path:line: text`.

Where ripgrep is installed, it is asked which files to look into. What is shown is still found by
Python's regular expressions in files opened beneath the root, so the answer is the same with
ripgrep and without, only sooner (but for the few patterns that both understand, and differently:
`.` and a carriage return within a line, `[[:alpha:]]`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import msgspec
from msgspec import Struct

from treadle.sandbox.path_rules import NO_RULES, PathRules
from treadle.tool_failure import ToolFailure
from treadle.tools.globs import make_filter
from treadle.tools.paths import Root
from treadle.tools.walk import in_repository, walk

MATCH_COUNT_MAX: Final = 200
"""Lines in one answer; a model that needs more should ask more precisely."""
OUTPUT_SIZE_MAX: Final = 30_000
"""Bytes in one answer; below the 32 KiB above which a thread stores output apart."""
LINE_SIZE_MAX: Final = 300
"""Characters shown of a line, from shortly before the match; minified files are one line."""
BEFORE_SIZE: Final = 100
FILE_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a file that is searched; larger ones are data."""
SNIFF_SIZE: Final = 8 * 1024
"""Bytes looked at to tell text from binary, as in `read_file`."""
EXIT_BAD_PATTERN: Final = 2


class Request(Struct, frozen=True):
    """What to search: `start` is a file or a folder relative to `root`, `rg` names ripgrep.

    `rules` say which places are hidden: a process of its own has to be told.
    """

    root: str
    pattern: str
    start: str = "."
    is_file: bool = False
    glob: str = "**"
    rg: str | None = None
    rules: PathRules = NO_RULES


def find_lines(request: Request, pattern: re.Pattern[str]) -> Iterator[str]:
    """The lines of the answer, a remark on its limits included.

    Raises:
        ToolFailure: `start` vanished, or the glob is none.
    """
    root = Root(request.root, rules=request.rules)
    count, room = 0, OUTPUT_SIZE_MAX
    for path in _candidates(root, request):
        for number, text in _search(root, path, pattern):
            line = f"{path}:{number}: {text}"
            room -= len(line.encode(errors="replace")) + 1
            if count == MATCH_COUNT_MAX or room < 0:
                yield f"[stopped after {count} lines: there are more]"
                return
            yield line
            count += 1


def _candidates(root: Root, request: Request) -> Iterator[str]:
    if request.is_file:
        yield request.start
        return
    fits = make_filter(request.start, request.glob)
    nominated = _nominate(root, request)
    folders = nominated and {str(above) for path in nominated for above in PurePath(path).parents}
    # Before version 14, ripgrep takes the rules of folders above `start` for paths below it: what
    # it finds is looked at once more by our own.
    for entry in walk(root, request.start, only_in=folders):
        is_candidate = nominated is None or entry.path in nominated
        if entry.is_regular and is_candidate and fits(entry.path):
            yield entry.path


def _nominate(root: Root, request: Request) -> frozenset[str] | None:
    """The files that ripgrep finds; `None` if there is no ripgrep, or it does not understand."""
    if request.rg is None or "\0" in request.pattern:
        return None
    argv = [request.rg, "--no-config", "--files-with-matches", "--null", "--text", "--crlf"]
    # What counts as ignored must be what it is for `walk`.
    argv += ["--hidden", "--glob=!.git", "--no-ignore-dot", "--no-ignore-exclude"]
    argv += ["--no-ignore-global"]
    if not in_repository(root.path):
        argv += ["--no-require-git", "--no-ignore-parent"]
    argv += ["--no-messages", "--regexp", request.pattern, "--", request.start]
    # Not by `run_command`: that would give it a session of its own, and it has to stay in the group
    # of this process, which `search_files` ends when the time of the search is over.
    ended = subprocess.run(
        argv, check=False, cwd=root.path, stdin=subprocess.DEVNULL, capture_output=True
    )
    if ended.returncode not in (0, 1):
        return None
    names = os.fsdecode(ended.stdout).split("\0")[:-1]
    return frozenset(name.removeprefix("./") for name in names)


def _search(root: Root, path: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        fd = root.open_file(path)
    except ToolFailure:  # it vanished, or may not be read
        return
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_size > FILE_SIZE_MAX or b"\0" in file.read(SNIFF_SIZE):
            return
        file.seek(0)
        text = file.read(FILE_SIZE_MAX).decode(errors="replace")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        line = line.removesuffix("\r")
        found = pattern.search(line)
        if found:
            begin = max(0, found.start() - BEFORE_SIZE) if len(line) > LINE_SIZE_MAX else 0
            yield number, line[begin : begin + LINE_SIZE_MAX]


def main() -> int:
    """Answer the request in the arguments; `EXIT_BAD_PATTERN` explains itself on one line."""
    request = msgspec.json.decode(sys.argv[1], type=Request)
    try:
        pattern = re.compile(request.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stdout.write(f"pattern: {error}")
        return EXIT_BAD_PATTERN
    for line in find_lines(request, pattern):
        sys.stdout.buffer.write(f"{line}\n".encode(errors="replace"))
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
