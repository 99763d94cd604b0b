"""A worktree is made beside the repository, found again, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from case_tables import for_every_row
from treadle.app.files.worktrees import Worktree, open_worktree
from treadle.errors import UsageError
from workspace.repo import CONFIG, Repo


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    config = tmp_path / "gitconfig"
    config.write_text(CONFIG)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    made = Repo(tmp_path / "shop")
    made.git("init", "--quiet")
    made.write("src/a.py", "print(1)\n")
    made.git("add", ".")
    made.git("commit", "--quiet", "-m", "begin")
    return made


async def test_a_worktree_has_a_branch_of_its_own_and_is_found_again(repo: Repo) -> None:
    repo.hook("post-checkout", "touch $GIT_DIR/ran")
    place = repo.path.with_name("shop.worktrees") / "fix-1"
    assert await open_worktree(repo.path, "fix-1") == Worktree(place, "fix-1", True)
    assert (place / "src/a.py").read_text() == "print(1)\n"
    assert await open_worktree(repo.path, "fix-1") == Worktree(place, "fix-1", False)
    # From within one: its neighbour, and the same folder in it.
    inside = await open_worktree(place / "src", "fix-2")
    assert inside == Worktree(place.with_name("fix-2") / "src", "fix-2", True)
    assert repo.git("status", "--short") == ""
    assert repo.git("branch", "--format=%(refname:short)").split() == ["fix-1", "fix-2", "main"]
    assert not list(repo.path.rglob("ran"))


async def test_a_branch_that_is_there_is_checked_out_as_it_is(repo: Repo) -> None:
    repo.git("switch", "--quiet", "-c", "old")
    repo.write("old.py", "old\n")
    repo.git("add", ".")
    repo.git("commit", "--quiet", "-m", "old")
    repo.git("switch", "--quiet", "main")
    made = await open_worktree(repo.path, "old")
    assert (made.folder / "old.py").is_file()
    assert made.is_new


async def test_what_is_changed_in_the_repository_stays_there_and_is_counted(repo: Repo) -> None:
    repo.write("src/a.py", "print(2)\n")
    repo.write("new.py", "new\n")
    made = await open_worktree(repo.path, "fix")
    assert made.left == 2
    assert (made.folder / "src/a.py").read_text() == "print(1)\n"
    assert repo.git("status", "--short") == " M src/a.py\n?? new.py"


@for_every_row(
    "name",
    [
        "",
        "-b",
        "a b",
        "a/b",
        "..",
        "a..b",
        ".git",
        "x.lock",
        "x.",
        "a\nb",
        "ä",
        "a" * 65,
        "--force",
    ],
)
async def test_what_can_be_no_name_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="cannot be a worktree's name"):
        await open_worktree(tmp_path, name)


async def test_where_none_can_be_made_it_says_why(repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"checked out|already used by worktree"):
        await open_worktree(repo.path, "main")
    (tmp_path / "shop.worktrees/taken").mkdir(parents=True)
    with pytest.raises(UsageError, match="is no worktree of this repository"):
        await open_worktree(repo.path, "taken")
    empty = Repo(tmp_path / "empty")
    with pytest.raises(UsageError, match="in no git repository"):
        await open_worktree(empty.path, "fix")
    empty.git("init", "--quiet")
    with pytest.raises(UsageError, match="no commit yet"):
        await open_worktree(empty.path, "fix")
    (tmp_path / "empty.worktrees").write_text("in the way")
    empty.git("commit", "--quiet", "--allow-empty", "-m", "begin")
    with pytest.raises(UsageError, match=r"no worktree can be made in .*empty\.worktrees"):
        await open_worktree(empty.path, "fix")


async def test_a_worktree_is_not_entered_before_all_of_its_files_are_there(repo: Repo) -> None:
    """Git has died of making it, or is at it still: a lock, and no index yet."""
    place = (await open_worktree(repo.path, "cut")).folder
    kept = repo.path / ".git/worktrees/cut"
    (kept / "locked").write_text("initializing")
    assert not (await open_worktree(repo.path, "cut")).is_new  # whole, and locked by somebody
    (kept / "index").unlink()
    (place / "src/a.py").unlink()
    with pytest.raises(UsageError, match="is not whole") as caught:
        await open_worktree(repo.path, "cut")
    assert caught.value.hint is not None
    command = caught.value.hint.partition(": git ")[2].replace("'", "")
    repo.git(*command.split(" "))
    assert (await open_worktree(repo.path, "cut")).is_new
    (place / ".git").unlink()
    with pytest.raises(UsageError, match="is not whole"):
        await open_worktree(repo.path, "cut")


async def test_a_worktree_of_a_submodule_lies_beside_it(repo: Repo, tmp_path: Path) -> None:
    around = Repo(tmp_path / "around")
    around.git("init", "--quiet")
    around.git("submodule", "--quiet", "add", str(repo.path), "libs/shop")
    beside = tmp_path / "around/libs/shop.worktrees"
    made = await open_worktree(tmp_path / "around/libs/shop", "one")
    assert made.folder == beside / "one"
    assert (await open_worktree(made.folder, "two")).folder == beside / "two"
    assert not (await open_worktree(beside / "two", "one")).is_new
