"""What can be measured by reading the source."""

from __future__ import annotations

import ast
import gc
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parent.parent
SRC: Final = ROOT / "src/treadle"

PARAMETERS_MAX: Final = 7
CLASS_LINES_MAX: Final = 250

BANNED_FUNCTIONS: Final = frozenset(
    (
        *("asked", "found", "given", "held", "kept", "look", "looked", "made", "said", "seen"),
        *("shown", "take", "taken", "tell", "told", "unsaid"),
    )
)
"""Names that do not say what a function does: participles, and verbs without their object."""

BANNED_MODULES: Final = re.compile(
    r"(?:.*ing|own|shown|told|hands|scene|moments|strangers|remains|room|mentions|door|crowds"
    r"|bereft|unsaid|unheard|asides|words|texts|legible|kit|brief|usable|looks|uncovered|kept"
    r"|people|reconfigured|surroundings|verdict|written|bases|places|second_names)"
)
NOUNS: Final = frozenset(
    (
        *("settings", "pricing", "routing", "serving", "string", "warning", "log"),
        *("recording", "ranking"),  # what is recorded; the order of what is found
        *("planning", "acting", "observing"),  # states of the task machine
    )
)
"""Words of the field that the pattern would take for a participle."""


@cache
def modules() -> tuple[Path, ...]:
    """The modules of the program, without the project of the demo."""
    return tuple(sorted(path for path in SRC.rglob("*.py") if "demo/project" not in str(path)))


@cache
def parsed(path: Path) -> ast.Module:
    """A module as a tree."""
    text = path.read_text(encoding="utf-8")
    # Two million nodes are made and all are kept: to look for garbage meanwhile takes three
    # quarters of the time.
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if is_enabled:
            gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the tree of a module."""
    return tuple(ast.walk(parsed(path)))


def line_count(paths: Iterator[Path]) -> int:
    """How many lines these files have."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def lines_of_rooms() -> dict[str, int]:
    """The lines of each package and each single module below `treadle`."""
    lines: Counter[str] = Counter()
    for path in modules():
        parts = path.relative_to(SRC).parts
        name = parts[0]
        lines[name] += line_count(iter([path]))
    return dict(sorted(lines.items()))


def longest_chain() -> list[str]:
    """The longest chain of modules of which each imports the next; raises if there is a circle."""
    graph = grimp.build_graph("treadle", cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    longest: dict[str, list[str]] = {}
    for name in TopologicalSorter(imported).static_order():
        below = (longest[one] for one in sorted(imported[name]))
        longest[name] = [name, *max(below, key=len, default=[])]
    return max(longest.values(), key=len)


def shared_class_names() -> dict[str, int]:
    """The names of classes that more than one module defines, with how many do."""
    defined = defaultdict(set)
    for path in modules():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                defined[node.name].add(path)
    return {name: len(found) for name, found in sorted(defined.items()) if len(found) > 1}


def banned_module_names() -> list[str]:
    """Modules and packages whose name is no noun of the field."""
    names = {path.relative_to(SRC).with_suffix("").as_posix() for path in modules()}
    names |= {path.parent.relative_to(SRC).as_posix() for path in modules()}
    return sorted(name for name in names if _is_banned(name.rpartition("/")[2]))


def _is_banned(stem: str) -> bool:
    return stem not in NOUNS and BANNED_MODULES.fullmatch(stem) is not None


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function and method of the program."""
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def banned_function_names() -> Counter[str]:
    """How often each banned name is that of a function."""
    return Counter(node.name for _, node in functions() if node.name in BANNED_FUNCTIONS)


def wide_functions() -> list[str]:
    """Functions of more parameters than the limit, without `self`."""
    wide = []
    for path, node in functions():
        arguments = node.args
        names = [
            one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]
        if len([name for name in names if name not in ("self", "cls")]) > PARAMETERS_MAX:
            wide.append(f"{path.relative_to(SRC)}:{node.name}")
    return wide


def large_classes() -> dict[str, int]:
    """Classes of more lines than the limit."""
    return {
        f"{path.relative_to(SRC)}:{node.name}": size
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        and (size := (node.end_lineno or 0) - node.lineno + 1) > CLASS_LINES_MAX
    }


_ORDERS: Final = re.compile(r"# *(?:noqa|type:|pragma)")


def comments_of_1000_lines() -> float:
    """Comments that a person reads, of each 1,000 lines; orders to linters are none."""
    comments = 0
    for path in modules():
        text = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_comment = token.type == tokenize.COMMENT
            comments += is_comment and _ORDERS.match(token.string) is None
    return 1000 * comments / line_count(iter(modules()))


def modules_of_faces() -> dict[str, int]:
    """How many modules of `cli` import each room that is none of theirs, by the drawing."""
    users: Counter[str] = Counter()
    for path in modules():
        if path.relative_to(SRC).parts[0] not in ("cli", "terminal"):
            continue
        rooms = {
            (node.module or "").split(".")[1]
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treadle.")
        }
        users.update(rooms & {"store", "sync", "workspace", "runtime"})
    return dict(users)
