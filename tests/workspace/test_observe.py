"""What is seen of a repository, in all the ways it may stand."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from treadle.thread.facts import CHANGED_COUNT_MAX, GitObserved
from treadle.workspace import git
from treadle.workspace.commit import GitWorkspace
from treadle.workspace.git import Absence, Absent, Repository, observe
from workspace.repo import Repo


async def seen(folder: Path) -> GitObserved:
    found = await observe(folder)
    assert found is not None
    assert msgspec.json.decode(msgspec.json.encode(found), type=GitObserved) == found
    return found


async def absence(folder: Path) -> Absent:
    workspace = GitWorkspace(folder)
    assert await workspace.observe() is None
    assert workspace.absent is not None
    return workspace.absent


async def test_a_clean_repository_has_a_branch_and_a_head(repo: Repo) -> None:
    assert await seen(repo.path) == GitObserved(branch="main", head=repo.head)


async def test_staged_modified_and_untracked_files_are_changes(repo: Repo) -> None:
    repo.write("a.py", "staged\n")
    repo.git("add", "a.py")
    repo.write("b.py", "modified\n")
    repo.write("new/d.py", "untracked\n")
    found = await seen(repo.path)
    assert found.dirty
    assert sorted(found.changed) == ["a.py", "b.py", "new/d.py"]


async def test_ignored_files_are_no_changes(repo: Repo) -> None:
    repo.write(".git/info/exclude", "*.log\n")
    repo.write("x.log", "")
    assert not (await seen(repo.path)).dirty


async def test_a_renamed_file_is_two_changes(repo: Repo) -> None:
    repo.git("mv", "a.py", "z.py")
    assert sorted((await seen(repo.path)).changed) == ["a.py", "z.py"]


async def test_a_conflict_is_a_change(repo: Repo) -> None:
    repo.make_conflict()
    assert (await seen(repo.path)).changed == ("a.py",)


async def test_a_deleted_file_is_a_change(repo: Repo) -> None:
    repo.remove("a.py")
    assert (await seen(repo.path)).changed == ("a.py",)


async def test_an_empty_repository_has_a_branch_and_no_head(tmp_path: Path) -> None:
    Repo(tmp_path).git("init", "-b", "trunk")
    assert await seen(tmp_path) == GitObserved(branch="trunk")


async def test_an_orphan_branch_has_no_head(repo: Repo) -> None:
    repo.git("checkout", "--orphan", "fresh")
    found = await seen(repo.path)
    assert (found.branch, found.head) == ("fresh", None)


async def test_a_detached_head_has_no_branch(repo: Repo) -> None:
    repo.git("checkout", "--detach")
    found = await seen(repo.path)
    assert (found.branch, found.head) == (None, repo.head)


async def test_the_remote_has_its_plain_name(repo: Repo) -> None:
    repo.git("remote", "add", "origin", "https://ada:pass@Host.example:1/ada/x.git")
    assert (await seen(repo.path)).remote == "host.example/ada/x"


async def test_the_abbreviations_of_remotes_are_resolved(repo: Repo) -> None:
    repo.git("config", "url.https://host.example/.insteadOf", "h:")
    repo.git("remote", "add", "origin", "h:ada/x")
    assert (await seen(repo.path)).remote == "host.example/ada/x"


async def test_a_subfolder_sees_its_own_files_and_whether_the_repository_is_dirty(
    repo: Repo,
) -> None:
    repo.write("a.py", "outside\n")
    found = await seen(repo.path / "docs")
    assert (found.dirty, found.changed) == (True, ())
    repo.write("docs/c.md", "inside\n")
    repo.write("docs-too.md", "a sibling with the same beginning\n")
    assert (await seen(repo.path / "docs")).changed == ("c.md",)


async def test_a_link_to_the_folder_is_the_folder(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo.path / "docs")
    repo.write("docs/c.md", "changed\n")
    assert (await seen(tmp_path / "link")).changed == ("c.md",)


async def test_a_linked_work_tree_is_a_repository(repo: Repo, tmp_path: Path) -> None:
    repo.git("remote", "add", "origin", "git@host:ada/x")
    repo.git("worktree", "add", str(tmp_path / "tree"), "-b", "side")
    (tmp_path / "tree" / "new").write_text("")
    assert await seen(tmp_path / "tree") == GitObserved(
        branch="side", head=repo.head, dirty=True, remote="host/ada/x", changed=("new",)
    )


async def test_a_changed_submodule_and_a_nested_repository_are_one_change_each(
    repo: Repo, tmp_path: Path
) -> None:
    other = Repo(tmp_path / "other")
    other.git("init")
    other.git("commit", "--allow-empty", "-m", "x")
    repo.git("submodule", "add", str(other.path), "sub")
    repo.git("commit", "-m", "sub")
    repo.write("sub/x", "")
    assert (await seen(repo.path)).changed == ()
    Repo(repo.path / "sub").git("commit", "--allow-empty", "-m", "y")
    shutil.copytree(other.path, repo.path / "nested")
    assert (await seen(repo.path)).changed == ("sub", "nested/")


WEIRD = ['qu"ote', "new\nline", "tab\there", " blank ", "-dash", ":(glob)*", "ünï", "\\", "😀", "#"]


async def test_names_come_through_as_they_are(repo: Repo) -> None:
    for name in WEIRD:
        repo.write(f"sub {name}/{name}", "")
    assert sorted((await seen(repo.path)).changed) == sorted(f"sub {name}/{name}" for name in WEIRD)


async def test_a_name_that_is_no_text_is_written_out(repo: Repo) -> None:
    repo.write(os.fsdecode(b"\xff.bin"), "")
    assert (await seen(repo.path)).changed == ("\\xff.bin",)


async def test_configuration_does_not_change_what_is_seen(repo: Repo) -> None:
    for setting in (
        ("status.showUntrackedFiles", "no"),
        ("status.relativePaths", "false"),
        ("status.showStash", "true"),
        ("status.renames", "copies"),
        ("core.quotePath", "true"),
        ("color.ui", "always"),
    ):
        repo.git("config", *setting)
    repo.write("docs/ü.md", "")
    repo.git("stash", "push", "-u")
    repo.write("docs/ü.md", "")
    assert (await seen(repo.path / "docs")).changed == ("ü.md",)


async def test_more_changes_than_are_told_apart_are_cut(repo: Repo) -> None:
    for number in range(CHANGED_COUNT_MAX):
        repo.write(f"n{number}", "")
    assert not (await seen(repo.path)).changed_is_cut
    repo.write("one-more", "")
    found = await seen(repo.path)
    assert (len(found.changed), found.changed_is_cut) == (CHANGED_COUNT_MAX, True)


async def test_endless_output_is_cut_and_still_says_what_it_can(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "STATUS_SIZE_MAX", 200)
    for number in range(100):
        repo.write(f"n{number}", "")
    found = await seen(repo.path)
    assert (found.branch, found.head, found.dirty) == ("main", repo.head, True)
    assert found.changed_is_cut
    assert all((repo.path / name).exists() for name in found.changed)


async def test_a_git_that_cannot_be_started_says_why(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text("#!/nowhere/sh\n")
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = await absence(repo.path)
    assert (found.why, "No such file" in found.text) == (Absence.FAILED, True)


async def test_looking_changes_nothing_not_even_the_index_file(repo: Repo) -> None:
    repo.write("a.py", "print(1)\n")  # same contents, newer: git would like to note that
    os.utime(repo.path / "a.py", (1, 1))
    before = (repo.path / ".git/index").read_bytes()
    await seen(repo.path)
    assert (repo.path / ".git/index").read_bytes() == before


async def test_looking_runs_nothing_that_the_repository_brings(repo: Repo) -> None:
    repo.git("config", "core.fsmonitor", "touch ran; false")
    await seen(repo.path)
    assert not (repo.path / "ran").exists()


async def test_one_look_after_the_first_is_one_git(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = GitWorkspace(repo.path)
    first = await workspace.observe()
    calls: list[str] = []
    real = Repository.read

    async def counting(self: Repository, *arguments: str, **options: object) -> object:
        calls.append(arguments[0])
        return await real(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "read", counting)
    assert await workspace.observe() == first
    assert calls == ["status"]
    repo.git("remote", "add", "origin", "git@host:ada/x")
    found = await workspace.observe()
    assert found is not None
    assert found.remote == "host/ada/x"
    assert calls == ["status", "status", "remote"]


async def test_a_repository_made_inside_another_takes_over(repo: Repo) -> None:
    workspace = GitWorkspace(repo.path / "docs")
    assert (await workspace.observe()) == GitObserved(branch="main", head=repo.head)
    Repo(repo.path / "docs").git("init", "-b", "inner")
    found = await workspace.observe()
    assert found == GitObserved(branch="inner", dirty=True, changed=("c.md",))


async def test_a_folder_without_a_repository_has_none(tmp_path: Path) -> None:
    assert await absence(tmp_path) == Absent(Absence.NO_REPOSITORY)


async def test_a_missing_folder_has_none(repo: Repo, tmp_path: Path) -> None:
    assert await absence(tmp_path / "gone") == Absent(Absence.NO_FOLDER)
    assert await absence(repo.path / "a.py") == Absent(Absence.NO_FOLDER)


async def test_a_folder_that_vanishes_and_returns_is_seen_again(repo: Repo) -> None:
    workspace = GitWorkspace(repo.path)
    first = await workspace.observe()
    repo.path.rename(repo.path.with_name("moved"))
    assert await workspace.observe() is None
    repo.path.with_name("moved").rename(repo.path)
    assert await workspace.observe() == first
    assert workspace.absent is None


async def test_without_git_there_is_none(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert await absence(repo.path) == Absent(Absence.NO_GIT)


async def test_a_git_in_the_folder_itself_is_not_run(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("git", "#!/bin/sh\ntouch ran\n").chmod(0o755)
    monkeypatch.setenv("PATH", ":.")
    monkeypatch.chdir(repo.path)
    assert await absence(repo.path) == Absent(Absence.NO_GIT)
    assert not (repo.path / "ran").exists()


async def test_a_bare_repository_has_no_files_to_look_at(repo: Repo) -> None:
    assert (await absence(repo.path / ".git")).why is Absence.NO_REPOSITORY


async def test_a_repository_of_another_user_is_refused_with_what_to_do(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    found = await absence(repo.path)
    assert found.why is Absence.NOT_TRUSTED
    assert "safe.directory" in found.text


async def test_a_damaged_repository_says_so(repo: Repo) -> None:
    repo.write(".git/config", "[broken\n")
    found = await absence(repo.path)
    assert found.why is Absence.FAILED
    assert "bad config" in found.text


async def test_the_variables_of_a_hook_that_started_us_mislead_nobody(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    found = await observe(repo.path)
    assert found is not None
    assert found.branch == "main"
