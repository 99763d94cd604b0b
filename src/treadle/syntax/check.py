"""Whether a file parses, as its language: Python, JSON, TOML, YAML, others where a parser is there.

Files are hostile. A parser in this process could be led to use up its stack, which ends the
process, or to keep it busy. So all parsing is done by a short-lived interpreter
(`parser.py`), which is bounded in time and memory and of which one line is read for each
file. What cannot be told in time is not told: a check is an advice.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from treadle import helper_programs
from treadle.process.command import run_command
from treadle.process.result import Bounds

SIZE_MAX: Final = 1024 * 1024
"""Bytes of a file that is checked; larger ones are generated."""
ALL_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes checked at once; the files behind them are not."""
CHECK_S_MAX: Final = 3.0
"""Seconds for all files of one check; one of usual size takes a few milliseconds."""
MESSAGE_SIZE_MAX: Final = 200
"""Characters of what a parser says, which may quote the file."""

_LANGUAGE_BY_SUFFIX: Final = {
    **dict.fromkeys((".py", ".pyi"), "Python"),
    **dict.fromkeys((".json", ".ipynb", ".webmanifest", ".geojson"), "JSON"),
    ".toml": "TOML",
    **dict.fromkeys((".yaml", ".yml"), "YAML"),
}
_GRAMMAR_BY_SUFFIX: Final = {
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript.language_typescript"),
    ".tsx": "typescript.language_tsx",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".rb": "ruby",
    ".php": "php.language_php",
    ".cs": "c_sharp",
    **dict.fromkeys((".sh", ".bash"), "bash"),
}
"""Grammars of tree-sitter, each a package of its own (`tree_sitter_go`), which take what compilers
take. C and C++ are missing: macros make their files none of the grammar's."""
_TREE_SITTER: Final = "tree_sitter"
_WITH_COMMENTS: Final = re.compile(
    r"(tsconfig|jsconfig|devcontainer|\.eslintrc|\.swcrc|api-extractor)[\w.-]*\.json", re.IGNORECASE
)
"""Files that are called JSON, and whose programs read comments in them."""
_TEMPLATE: Final = re.compile(rb"\{\{|\{%|<%")
"""What stands in a YAML or JSON file that is a template of one."""
_ANSWER: Final = re.compile(r"(\d{1,4})\t(\d{1,9})\t(.*)")


class Source(NamedTuple):
    """A file to be checked: its name, of which the end says the language, and its bytes."""

    name: str
    content: bytes


class SyntaxFault(NamedTuple):
    """The first place at which a file does not parse; `line` is 0 where the parser does not say."""

    language: str
    line: int
    message: str


def find_language(name: str) -> str:
    """The language that a file of this name is checked as; empty if it is not."""
    base = name.rpartition("/")[2]
    suffix = Path(base).suffix.lower()
    language = _LANGUAGE_BY_SUFFIX.get(suffix, "")
    if language == "JSON" and (_WITH_COMMENTS.fullmatch(base) or ".vscode" in name.split("/")):
        return ""
    if language == "YAML" and _home_of("yaml") is None:
        return ""
    grammar = _GRAMMAR_BY_SUFFIX.get(suffix)
    return language if grammar is None or not _has_grammar(grammar) else grammar


def find_faults(sources: Sequence[Source]) -> list[SyntaxFault | None]:
    """For each file the first fault; `None` if it has none, or if nobody can tell.

    Takes a few hundredths of a second, and `CHECK_S_MAX` at most.
    """
    faults: list[SyntaxFault | None] = [None] * len(sources)
    words: list[str] = []
    data = bytearray()
    for at, (name, content) in enumerate(sources):
        language = find_language(name)
        is_template = language in ("YAML", "JSON") and _TEMPLATE.search(content) is not None
        is_large = len(content) > SIZE_MAX or len(data) + len(content) > ALL_SIZE_MAX
        if language and content and not is_template and not is_large:
            words.append(f"{at}:{language}:{len(content)}")
            data += content
    for line in _parse_elsewhere(words, bytes(data)):
        if found := _ANSWER.fullmatch(line):
            at = int(found[1])
            if at < len(sources):
                language = _describe_language(find_language(sources[at].name))
                message = found[3].strip()[:MESSAGE_SIZE_MAX]
                faults[at] = SyntaxFault(language, int(found[2]), message)
    return faults


def _describe_language(language: str) -> str:
    if language == "Python":
        return f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    return language.partition(".")[0]


def _parse_elsewhere(words: Sequence[str], data: bytes) -> list[str]:
    """What the parsers say, one line for each file that has a fault."""
    if not words:
        return []
    homes = {home for name in ("yaml", _TREE_SITTER) if (home := _home_of(name)) is not None}
    # Isolated and without `site`, so that no file of the workspace and no `.pth` file is run.
    program = (sys.executable, "-I", "-S", "-W", "ignore", "-c", _parser())
    try:
        ran = run_command(
            [*program, os.pathsep.join(sorted(homes)), *words],
            helper_programs.environment(),
            Bounds(CHECK_S_MAX),
            folder="/",
            data=data,
        )
    except (OSError, ValueError):  # no memory for a process, say
        return []
    # One that was killed has told of the files before: what it said is whole lines.
    return ran.out.decode(errors="replace").split("\n")[:-1]


def _has_grammar(grammar: str) -> bool:
    package = f"{_TREE_SITTER}_{grammar.partition('.')[0]}"
    return _home_of(_TREE_SITTER) is not None is not _home_of(package)


@cache
def _home_of(package: str) -> str | None:
    """The folder from which a package is imported; `None` if it is not installed."""
    found = importlib.util.find_spec(package)
    return None if found is None or not found.origin else str(Path(found.origin).parents[1])


@cache
def _parser() -> str:
    return Path(__file__).with_name("parser.py").read_text(encoding="utf-8")
