"""Random patches against a plain model of what they say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.test_apply_patch import Files, files_of, is_made, make, patch


def random_lines(dice: random.Random) -> list[str]:
    return [
        f"{'  ' * dice.randrange(3)}{dice.choice('abcxyz')}{n}"
        for n in range(dice.randrange(3, 30))
    ]


def edit_lines(dice: random.Random, lines: list[str]) -> tuple[list[str], list[str]]:
    """Some pieces of a patch, each with context, and the lines after them."""
    pieces: list[str] = []
    new: list[str] = []
    at = 0
    while at < len(lines):
        size = dice.randrange(0, 3)
        place = dice.randrange(at, len(lines) + 1)
        if place + size > len(lines) or dice.random() < 0.3:
            break
        added = [f"new{dice.randrange(1000)}" for _ in range(dice.randrange(0, 3))]
        start, end = max(at, place - 3), min(len(lines), place + size + 2)
        if start == end:
            break
        pieces.append("@@")
        pieces += [f" {line}" for line in lines[start:place]]
        pieces += [f"-{line}" for line in lines[place : place + size]]
        pieces += [f"+{line}" for line in added]
        pieces += [f" {line}" for line in lines[place + size : end]]
        new += lines[at:place] + added + lines[place + size : end]
        at = end
    return pieces, new + lines[at:]


def text_of(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("seed", range(4))
def test_random_patches_do_what_a_plain_model_does(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for turn in range(25):
        before = {f"d{n % 3}/f{n}": random_lines(dice) for n in range(6)}
        after: dict[str, list[str]] = dict(before)
        patch_lines: list[str] = []
        for name, lines in before.items():
            what = dice.choice(("update", "update", "move", "delete", "leave", "add"))
            pieces, new = edit_lines(dice, lines)
            if what == "delete":
                patch_lines.append(f"*** Delete File: {name}")
                del after[name]
            elif what == "add":
                patch_lines += [f"*** Add File: new/{name}", *(f"+{line}" for line in new)]
                after[f"new/{name}"] = new
            elif what in ("update", "move") and pieces:
                patch_lines.append(f"*** Update File: {name}")
                target = name
                if what == "move":
                    del after[name]
                    target = f"moved/{name}"
                    patch_lines.append(f"*** Move to: {target}")
                patch_lines += pieces
                after[target] = new
        is_broken = dice.random() < 0.3
        if is_broken:
            patch_lines += ["*** Update File: d0/f0x", "@@", "-never there"]
        there: Files = {name: text_of(lines) for name, lines in before.items()}
        folder = make(tmp_path / str(turn), there)
        outcome = patch(folder, *patch_lines)
        wanted: Files = {name: text_of(lines) for name, lines in after.items()}
        assert files_of(folder) == (wanted if is_made(outcome) else there), (patch_lines, outcome)
        assert is_made(outcome) == (not is_broken and wanted != there), outcome
