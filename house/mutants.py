"""`make mutants`: change one random operator at a time, and see whether the tests notice.

    make mutants M="--seed 7 --count 3"

Each room gives `count` changes, of a seed; a change is killed when a test of its room fails. Tests
that name the changed module run first. The changed file is written in place and put back, so the
checkout must have no changes of its own; after a kill -9, `git checkout src` puts it back.
"""

from __future__ import annotations

import argparse
import ast
import copy
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from house.source import ROOT, SRC, modules, parsed

SWAPS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
TIMEOUT_S: Final = 1800.0
FURTHER_TESTS: Final = {
    "acp": ["tests/editors"],
    "app": ["tests/cli", "tests/editors"],
    "files": ["tests/tools", "tests/workspace/files"],
    "process": ["tests/tools/test_bash.py", "tests/config"],
    "risk": ["tests/tools"],
    "sandbox": ["tests/escapes"],
}
"""Where a room is tested besides the folder of its name."""


@dataclass(frozen=True)
class Mutant:
    """One changed expression: the file, its place in the text, and what stands there instead."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def applied_to(self, source: str) -> str:
        """The text of the file with the change in it."""
        lines = source.splitlines(keepends=True)
        changed = lines[self.line - 1].encode()
        lines[self.line - 1] = (
            changed[: self.start] + self.text.encode() + changed[self.end :]
        ).decode()
        return "".join(lines)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Each change that one module allows, of expressions that stand on one line."""
    unseen = {
        id(keyword.value)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords  # `frozen=True`: that nobody writes is for mypy to see
    }
    for node in ast.walk(parsed(path)):
        changed = _change(node)
        if (
            id(node) in unseen
            or changed is None
            or not isinstance(node, ast.expr)
            or node.lineno != node.end_lineno
        ):
            continue
        text = f"({ast.unparse(changed)})"
        yield Mutant(path, node.lineno, node.col_offset, node.end_col_offset or 0, text)


def _change(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        made = copy.deepcopy(node)
        made.ops = [_swapped(node.ops[0])]
        return made
    if isinstance(node, ast.BoolOp):
        both = copy.deepcopy(node)
        both.op = _swapped(node.op)
        return both
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        sum_ = copy.deepcopy(node)
        sum_.op = _swapped(node.op)
        return sum_
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    return None


def _swapped(operator: ast.AST) -> Any:
    return SWAPS[type(operator)]()


def chosen(seed: int, count: int, rooms: list[str]) -> dict[str, list[Mutant]]:
    """`count` mutants of each room; those of one seed are always the same on the same source."""
    of_rooms: dict[str, list[Mutant]] = defaultdict(list)
    for path in modules():
        room = path.relative_to(SRC).parts[0]
        if (ROOT / "tests" / room).is_dir() and (not rooms or room in rooms):
            of_rooms[room] += mutants_of(path)
    random = Random(seed)
    return {
        room: random.sample(found, min(count, len(found)))
        for room, found in sorted(of_rooms.items())
    }


def is_killed(mutant: Mutant, room: str) -> bool:
    """Whether a test fails, or none can be run, with this change."""
    source = mutant.path.read_text(encoding="utf-8")
    mutant.path.write_text(mutant.applied_to(source), encoding="utf-8")
    try:
        first = _tests_that_name(mutant.path)
        places = (f"tests/{room}", *FURTHER_TESTS.get(room, ()))
        of_room = [place for place in places if (ROOT / place).exists()]
        return any(_fails(tests) for tests in (first, of_room) if tests)
    finally:
        mutant.path.write_text(source, encoding="utf-8")


def _tests_that_name(path: Path) -> list[str]:
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    found = (test for test in (ROOT / "tests").rglob("test_*.py") if name in test.read_text())
    return sorted(str(test.relative_to(ROOT)) for test in found)


def _fails(tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, check=False, cwd=ROOT, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    """Try them, one after another, and print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help="only these, such as core and store")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5, help="how many of each room")
    options = parser.parse_args()
    status = ["git", "status", "--porcelain", "src"]
    if subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout:
        sys.exit("src has changes that are not committed; commit them, this changes files in place")
    rates = {}
    for room, found in chosen(options.seed, options.count, options.rooms).items():
        killed = 0
        for mutant in found:
            is_dead = is_killed(mutant, room)
            killed += is_dead
            place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
            print("killed  " if is_dead else "SURVIVED", place, mutant.text, flush=True)
        rates[room] = (killed, len(found))
    for room, (killed, all_) in rates.items():
        print(f"{room:<12} {killed} of {all_} killed")
    print(f"{'all':<12} {sum(k for k, _ in rates.values())} of {sum(n for _, n in rates.values())}")


if __name__ == "__main__":
    main()
