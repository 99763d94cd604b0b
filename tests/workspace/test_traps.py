"""What a command may have left in a workspace does not make our git run it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from treadle.app.files.file_names import FileNames
from treadle.thread.facts import GitObserved
from treadle.workspace.git import Absent, Repository
from workspace.repo import BASH, Agent, Repo


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that comes to be when a trap goes off."""
    return tmp_path / "marker"


def went_off(marker: Path) -> bool:
    return marker.exists()


def disarm(marker: Path) -> None:
    marker.unlink(missing_ok=True)


def settings(marker: Path, more: str = "") -> str:
    program = f"touch {marker}; cat"
    return (
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        f'\tfsmonitor = "touch {marker}; false"\n{more}[filter "e"]\n\tclean = "{program}"\n'
    )


def touch(repo: Repo) -> None:
    """Make git look into the files, through the filter."""
    repo.write(".gitattributes", "* filter=e\n")
    repo.write("a.py", "print(3)\n")


def make_bare(source: Repo, folder: Path, marker: Path) -> None:
    """A folder that looks like a bare repository whose work tree it is."""
    folder.mkdir(exist_ok=True)
    for name in ("objects", "refs"):
        shutil.copytree(source.path / ".git" / name, folder / name)
    for name in ("HEAD", "index"):
        shutil.copy(source.path / ".git" / name, folder / name)
    (folder / "config").write_text(settings(marker, f"\tworktree = {folder}\n"))


async def look(folder: Path) -> GitObserved | Absent:
    """All that is done unasked: a status, a round with a commit, a completion."""
    agent = Agent(folder)
    await agent.begin()
    (folder / "new").write_text("new")
    await agent.end(BASH)
    Repository(folder).restore_index(["new"])
    return await Repository(folder).observe()


async def test_the_traps_go_off_in_a_git_that_is_told_nothing(repo: Repo, marker: Path) -> None:
    make_bare(repo, repo.path, marker)
    (repo.path / ".git/HEAD").rename(repo.path / ".git/HEAD.old")
    touch(repo)
    repo.git("status")
    assert went_off(marker)


async def test_a_workspace_made_to_look_like_a_bare_repository_is_none(
    repo: Repo, marker: Path
) -> None:
    make_bare(repo, repo.path, marker)
    (repo.path / ".git/HEAD").rename(repo.path / ".git/HEAD.old")
    touch(repo)
    assert isinstance(await look(repo.path), Absent)
    assert not went_off(marker)


async def test_a_folder_that_was_cloned_as_a_bare_repository_is_none(
    repo: Repo, marker: Path
) -> None:
    make_bare(repo, repo.path / "pkg", marker)
    touch(Repo(repo.path / "pkg"))
    assert isinstance(await look(repo.path / "pkg"), Absent)
    assert not went_off(marker)


async def test_the_settings_of_what_stands_for_a_submodule_are_not_followed(
    repo: Repo, marker: Path
) -> None:
    sub = Repo(repo.path / "sub")
    sub.git("init")
    sub.write("a.py", "1\n")
    sub.git("add", ".")
    sub.git("commit", "-m", "sub")
    (sub.path / ".git/config").write_text(settings(marker))
    touch(sub)
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{sub.head},sub")
    disarm(marker)
    repo.write(".gitmodules", '[submodule "s"]\n\tpath = sub\n\turl = x\n\tignore = none\n')
    assert isinstance(await look(repo.path), GitObserved)
    assert not went_off(marker)


@pytest.mark.parametrize("has_hook", [False, True], ids=["no hook", "a hook"])
async def test_a_file_that_says_where_the_settings_lie_is_not_believed(
    repo: Repo, marker: Path, has_hook: bool
) -> None:
    make_bare(repo, repo.path / "evil", marker)
    touch(repo)
    if has_hook:
        repo.hook("pre-commit", "true")
    repo.write(".git/commondir", "../evil\n")
    assert isinstance(await look(repo.path), GitObserved)
    assert not went_off(marker)
    head = repo.path / ".git/refs/heads/main"
    assert head.read_text().strip() == (repo.path / "evil/refs/heads/main").read_text().strip()


def test_completions_ask_no_program_of_a_repository(repo: Repo, marker: Path) -> None:
    repo.git("config", "core.fsmonitor", f"touch {marker}; false")
    assert "a.py" in FileNames(repo.path).list()
    make_bare(repo, repo.path, marker)
    (repo.path / ".git/HEAD").rename(repo.path / ".git/HEAD.old")
    assert "a.py" in FileNames(repo.path).list()
    assert not went_off(marker)


async def test_hooks_among_the_files_that_have_changed_do_not_run(repo: Repo, marker: Path) -> None:
    repo.git("config", "core.hooksPath", ".husky/_")
    hook = repo.write(".husky/_/pre-commit", "#!/bin/sh\nexec .husky/pre-commit\n")
    hook.chmod(0o755)
    repo.write(".husky/pre-commit", "#!/bin/sh\ntrue\n").chmod(0o755)
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "print(3)\n")
    assert (await agent.end(BASH)).commit
    repo.write(".husky/pre-commit", f"#!/bin/sh\ntouch {marker}\n")
    repo.write("a.py", "print(4)\n")
    result = await agent.end(BASH)
    assert result.commit is None
    assert "hooks in" in result.note
    assert "have changed" in result.note
    assert not went_off(marker)


async def test_hooks_of_a_commit_may_work_on_other_repositories(repo: Repo, tmp_path: Path) -> None:
    other = tmp_path / "other"
    repo.hook(
        "pre-commit", f"git init -q {other} && git -C {other} rev-parse --git-dir > {other}/said"
    )
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "print(3)\n")
    assert (await agent.end(BASH)).commit
    assert (other / "said").read_text() == ".git\n"


async def test_a_git_file_in_a_work_tree_leads_to_its_own_repository(
    repo: Repo, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "tree"))
    layout = await Repository(tmp_path / "tree").layout()
    assert not isinstance(layout, Absent)
    assert layout.common_dir == repo.path / ".git"
    assert layout.git_dir == repo.path / ".git/worktrees/tree"
