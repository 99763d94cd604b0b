"""Searches files for a regular expression, in a process of its own.

A regular expression can run for longer than the universe, and Python cannot be interrupted in it;
a process can be killed. Started by `search_files` with a `Request` as its argument; writes lines of
the form `path:line: text`. Where the pattern finds nothing, what else it may mean is tried
(`search_variants.py`), and what was searched is told.

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
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import PurePath
from typing import BinaryIO, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.tools import ToolErrorKind
from treadle.sandbox.path_rules import NO_RULES, PathRules
from treadle.tool_failure import ToolFailure
from treadle.tools.globs import make_filter
from treadle.tools.paths import Root
from treadle.tools.search_variants import (
    Variant,
    compile_pattern,
    list_globs,
    list_variants,
    shorten,
)
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
SPAN_COUNT_MAX: Final = 12
"""Lines shown of a match over several lines."""
NAME_COUNT_MAX: Final = 3
"""Names in a remark."""
EXIT_BAD_PATTERN: Final = 2


class Request(Struct, frozen=True):
    """What to search: `start` is a file or a folder relative to `root`, `rg` names ripgrep.

    `rules` say which places are hidden: a process of its own has to be told. With `text_fd`, an
    open file of text, that is searched and nothing else, and `start` is only its name.
    """

    root: str
    pattern: str
    start: str = "."
    is_file: bool = False
    glob: str = "**"
    rg: str | None = None
    rules: PathRules = NO_RULES
    text_fd: int | None = None


class _Searched(Struct, frozen=True):
    """What there was to search: files, those that fit the glob, what .gitignore leaves out."""

    files: tuple[str, ...]
    fitting_count: int
    ignored: tuple[str, ...]


def answer(request: Request) -> Iterator[str]:
    """The lines of the answer, with remarks on what it is.

    Raises:
        ToolFailure: `start` vanished, the glob is none, or the pattern, and nothing is found.
    """
    if (yield from _try_variants(request, "")):
        return
    searched = None
    if not (request.is_file or request.text_fd is not None):
        searched = _look_around(request)
        for glob in list_globs(request.glob, request.start) if not searched.fitting_count else ():
            reread = replace(request, glob=glob)
            remark = f"no file fits the glob {request.glob!r}: read as {glob!r}"
            if (yield from _try_variants(reread, remark)):
                return
            if (again := _look_around(reread)).fitting_count:
                yield f"[{remark}]"
                request, searched = reread, again
                break
    fault = compile_pattern(request.pattern)
    if isinstance(fault, str) and (searched is None or searched.fitting_count):
        raise ToolFailure(
            ToolErrorKind.INVALID_ARGUMENTS,
            f"pattern: {fault}; as plain text it is not found either",
        )
    yield f"[{_explain_nothing(request, searched)}]"


def _try_variants(request: Request, remark: str) -> Generator[str, None, bool]:
    """What the first reading finds that finds anything, and which it is; whether one does."""
    fault = ""
    for variant in list_variants(request.pattern):
        pattern = compile_pattern(variant.pattern)
        if isinstance(pattern, str):
            fault = fault or pattern
            continue
        asked = replace(request, pattern=variant.pattern)
        has_found = False
        for line in find_lines(asked, pattern, spans_lines=variant.spans_lines):
            has_found = True
            yield line
        if has_found:
            remarks = [remark] if remark else []
            remarks += [_explain_variant(variant, fault)] if variant.name else []
            yield from (f"[{one}]" for one in remarks)
            return True
    return False


def _explain_variant(variant: Variant, fault: str) -> str:
    if fault:
        return f"no regular expression ({fault}); these lines match it {variant.name}"
    what = "no single line matches" if variant.spans_lines else "nothing matches as it stands"
    return f"{what}; these lines match the pattern {variant.name}"


def _look_around(request: Request) -> _Searched:
    root = Root(request.root, rules=request.rules)
    fits = make_filter(request.start, request.glob)
    ignored: list[str] = []
    files = tuple(
        entry.path for entry in walk(root, request.start, ignored=ignored) if entry.is_regular
    )
    return _Searched(files, sum(map(fits, files)), tuple(ignored))


def _explain_nothing(request: Request, searched: _Searched | None) -> str:
    """What is so, where nothing was found: what was searched, for what, and what was not."""
    place = "" if request.start == "." else f" in {request.start}"
    if searched is None:
        why = _find_unsearched(request)
        return f"{request.start}: {why}" if why else f"no matches{place}{_list_tried(request)}"
    left_out = ""
    if searched.ignored:
        names = _some(searched.ignored)
        left_out = f"; not searched, because .gitignore leaves it out: {names}"
        left_out += " (name it as `path` to search it)"
    if not searched.files:
        return f"no files to search{place}{left_out}"
    if not searched.fitting_count:
        told = f"no file fits the glob {request.glob!r}, which is relative to {request.start!r}"
        some = f"of {_count(len(searched.files))} there: {_some(searched.files)}"
        return f"{told}, {some}{left_out}"
    files = _count(searched.fitting_count)
    return f"no matches in {files}{place}{_list_tried(request)}{left_out}"


def _count(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _list_tried(request: Request) -> str:
    names = [one.name for one in list_variants(request.pattern) if one.name]
    return "".join(f", nor {name}" for name in names)


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAME_COUNT_MAX
    told = ", ".join(map(shorten, names[:NAME_COUNT_MAX]))
    return f"{told} and {more} more" if more > 0 else told


def _find_unsearched(request: Request) -> str:
    """Why the one file that was asked for is not searched; empty if it is."""
    if request.text_fd is not None:
        return ""
    with os.fdopen(Root(request.root, rules=request.rules).open_file(request.start), "rb") as file:
        if os.fstat(file.fileno()).st_size > FILE_SIZE_MAX:
            return f"larger than {FILE_SIZE_MAX // 2**20} MiB, so it is not searched"
        return "a binary file, which is not searched" if b"\0" in file.read(SNIFF_SIZE) else ""


def find_lines(
    request: Request, pattern: re.Pattern[str], *, spans_lines: bool = False
) -> Iterator[str]:
    """The lines that match, a remark on the limits of the answer included.

    Args:
        request: what to search.
        pattern: for one line, or for a whole text.
        spans_lines: which of the two; of a match over several lines the first ones are shown.

    Raises:
        ToolFailure: `start` vanished, or the glob is none.
    """
    root = Root(request.root, rules=request.rules)
    search = _search_whole if spans_lines else _search
    count, room = 0, OUTPUT_SIZE_MAX
    for path in _candidates(root, request, is_nominated=not spans_lines):
        for number, text in _search_file(root, path, pattern, request.text_fd, search):
            line = f"{path}:{number}: {text}"
            room -= len(line.encode(errors="replace")) + 1
            if count == MATCH_COUNT_MAX or room < 0:
                yield f"[stopped after {count} lines: there are more]"
                return
            yield line
            count += 1


def _candidates(root: Root, request: Request, *, is_nominated: bool) -> Iterator[str]:
    if request.is_file or request.text_fd is not None:
        yield request.start
        return
    fits = make_filter(request.start, request.glob)
    # For lines: ripgrep does not look further unless it is told to, and then takes all at once.
    nominated = _nominate(root, request) if is_nominated else None
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


def _search_file(
    root: Root, path: str, pattern: re.Pattern[str], text_fd: int | None, search: _Search
) -> Iterator[tuple[int, str]]:
    if text_fd is not None:
        os.lseek(text_fd, 0, os.SEEK_SET)
        with os.fdopen(os.dup(text_fd), "rb") as file:
            yield from search(file, pattern)
        return
    try:
        fd = root.open_file(path)
    except ToolFailure:  # it vanished, or may not be read
        return
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_size > FILE_SIZE_MAX or b"\0" in file.read(SNIFF_SIZE):
            return
        file.seek(0)
        yield from search(file, pattern)


def _search(file: BinaryIO, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The lines that match, each with its number."""
    for number, raw in enumerate(file, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
        found = pattern.search(line)
        if found:
            begin = max(0, found.start() - BEFORE_SIZE) if len(line) > LINE_SIZE_MAX else 0
            yield number, line[begin : begin + LINE_SIZE_MAX]


def _search_whole(file: BinaryIO, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The first lines of each match."""
    text = file.read().decode(errors="replace").replace("\r\n", "\n")
    number = seen = 0
    for found in pattern.finditer(text):
        begin = text.rfind("\n", 0, found.start()) + 1
        number, seen = number + text.count("\n", seen, begin), begin
        end = text.find("\n", max(found.end() - 1, found.start()))
        lines = text[begin : None if end < 0 else end].split("\n")
        for offset, line in enumerate(lines[:SPAN_COUNT_MAX], 1):
            yield number + offset, line[:LINE_SIZE_MAX]


_Search: TypeAlias = Callable[[BinaryIO, re.Pattern[str]], Iterator[tuple[int, str]]]


def main() -> int:
    """Answer the request in the arguments; `EXIT_BAD_PATTERN` explains itself on one line."""
    request = msgspec.json.decode(sys.argv[1], type=Request)
    try:
        for line in answer(request):
            sys.stdout.buffer.write(f"{line}\n".encode(errors="replace"))
            sys.stdout.buffer.flush()
    except ToolFailure as failure:
        if failure.kind is not ToolErrorKind.INVALID_ARGUMENTS:
            raise
        sys.stdout.write(failure.message)
        return EXIT_BAD_PATTERN
    return 0


if __name__ == "__main__":
    sys.exit(main())
