"""The AGENTS.md files of a repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.workspace.instructions import SIZE_MAX, read_instructions


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    return tmp_path / "repo"


def write(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "AGENTS.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_folder_without_any_says_nothing(root: Path) -> None:
    assert read_instructions(root).text == ""
    assert read_instructions(root).notices == ()


def test_the_files_from_the_root_down_to_the_folder_come_in_this_order(root: Path) -> None:
    write(root, "be kind\n")
    write(root / "a", "be quick")
    write(root / "a" / "b", "be brief")
    write(root / "a" / "b" / "c", "too deep")
    write(root / "other", "elsewhere")
    found = read_instructions(root / "a" / "b")
    assert found.text == (
        "Instructions from AGENTS.md:\n\nbe kind\n\n"
        "Instructions from a/AGENTS.md:\n\nbe quick\n\n"
        "Instructions from a/b/AGENTS.md:\n\nbe brief"
    )


def test_above_the_root_of_the_repository_nothing_is_read(root: Path) -> None:
    write(root.parent, "not of this repository")
    assert read_instructions(root).text == ""


def test_without_a_repository_only_the_folder_itself_is_looked_at(tmp_path: Path) -> None:
    write(tmp_path, "above")
    write(tmp_path / "here", "here")
    assert read_instructions(tmp_path / "here").text == "Instructions from AGENTS.md:\n\nhere"


def test_a_worktree_whose_git_is_a_file_is_a_root_too(tmp_path: Path) -> None:
    write(tmp_path, "tree")
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    (tmp_path / "sub").mkdir()
    assert "tree" in read_instructions(tmp_path / "sub").text


def test_all_files_together_are_capped_and_people_are_told(root: Path) -> None:
    write(root, "äöü and more")
    write(root / "a", "x" * (SIZE_MAX - 3))
    found = read_instructions(root / "a")
    assert found.text.startswith("Instructions from AGENTS.md:\n\nä\n\nInstructions from a/AG")
    assert found.text.endswith("x" * (SIZE_MAX - 3))
    assert found.notices == (f"AGENTS.md is cut: all AGENTS.md files may have {SIZE_MAX} bytes",)


def test_the_nearest_file_has_room_before_all_others_and_who_gets_none_is_named(root: Path) -> None:
    write(root, "of the root")
    write(root / "a", "of the middle")
    write(root / "a" / "b", "x" * SIZE_MAX)
    found = read_instructions(root / "a" / "b")
    assert found.text == "Instructions from a/b/AGENTS.md:\n\n" + "x" * SIZE_MAX
    assert found.notices == tuple(
        f"{name} is left out: all AGENTS.md files may have {SIZE_MAX} bytes"
        for name in ("AGENTS.md", "a/AGENTS.md")
    )


def test_an_empty_file_without_room_is_not_worth_a_notice(root: Path) -> None:
    write(root, "")
    write(root / "a", "x" * SIZE_MAX)
    assert read_instructions(root / "a").notices == ()


def test_what_is_no_utf8_is_replaced(root: Path) -> None:
    write(root, b"caf\xe9 ok")
    assert read_instructions(root).text.endswith("caf� ok")


def test_a_link_within_the_repository_is_followed(root: Path) -> None:
    (root / "CLAUDE.md").write_text("shared words")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    assert read_instructions(root).text.endswith("shared words")


def test_a_link_that_leads_out_is_not_and_people_are_told(root: Path) -> None:
    (root.parent / "secret").write_text("the private key")
    (root / "AGENTS.md").symlink_to("../secret")
    found = read_instructions(root)
    assert found.text == ""
    assert found.notices == (
        "AGENTS.md is not used: it is a link that leads out of the repository",
    )


def test_a_link_that_leads_in_a_circle_is_a_notice(root: Path) -> None:
    (root / "AGENTS.md").symlink_to("AGENTS.md")
    write(root / "a", "be kind")
    found = read_instructions(root / "a")
    assert found.text == "Instructions from a/AGENTS.md:\n\nbe kind"
    (notice,) = found.notices
    assert notice.startswith("AGENTS.md is not used: ")


def test_a_dangling_link_a_folder_and_a_pipe_do_no_harm(root: Path) -> None:
    (root / "AGENTS.md").symlink_to("nowhere")
    (root / "a" / "AGENTS.md").mkdir(parents=True)
    (root / "a" / "b").mkdir()
    os.mkfifo(root / "a" / "b" / "AGENTS.md")
    found = read_instructions(root / "a" / "b")
    assert found.text == ""
    assert [notice.split(" is not used")[0] for notice in found.notices] == [
        "AGENTS.md",
        "a/AGENTS.md",
        "a/b/AGENTS.md",
    ]
