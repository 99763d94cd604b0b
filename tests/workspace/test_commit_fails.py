"""Auto-commit where a commit cannot be made: nothing changes, it is said, and made up for later."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from runtime.clock import use_up
from runtime.fifo import read_fifo
from treadle.thread.facts import GitObserved
from treadle.workspace.commit import CommitLimits, HookResult
from treadle.workspace.safe_commit import NO_IDENTITY
from workspace.repo import BASH, Agent, Repo, edited, is_gone

HOOK_S = 500.0
"""What a hook may take that hangs in a test."""

REFUSE = 'echo "a.py: line too long" >&2; echo hint >&2; exit 1'


async def fails(repo: Repo, agent: Agent, note: str) -> None:
    """A round with an edit, a new file and a deletion, whose commit must not happen."""
    repo.write("mine.txt", "untracked\n")
    repo.write("b.py", "staged\n")
    repo.git("add", "b.py")
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.write("src/new.py", "2\n")
    repo.remove("docs/c.md")
    index, head = repo.index, repo.git("rev-parse", "HEAD", is_ok=False)
    result = await agent.end(BASH)
    assert result.note.startswith(f"not committed: {note}"), result.note
    assert result == HookResult(note=result.note)
    assert repo.index == index
    assert repo.git("rev-parse", "HEAD", is_ok=False) == head
    assert repo.read("a.py") == "1\n"
    assert list((repo.path / ".git").glob("*.lock")) == []


async def begun_and_over(repo: Repo) -> bytes:
    """What the hook says when it begins; then its time is over."""
    said = await read_fifo(repo.path / ".git/begun")
    await use_up(HOOK_S)
    return said


async def succeeds(repo: Repo, agent: Agent) -> None:
    """A later round commits its own change and what was left of the round that failed."""
    await agent.begin()
    repo.write("later.py", "3\n")
    result = await agent.end(edited("later.py"))
    assert result.action_taken, result.note
    assert repo.committed == {"a.py": "M", "docs/c.md": "D", "later.py": "A", "src/new.py": "A"}
    assert sorted(repo.short_status) == ["?? mine.txt", "M  b.py"]


async def test_a_failing_hook_changes_nothing_and_the_next_round_commits_both(repo: Repo) -> None:
    repo.hook("pre-commit", REFUSE)
    agent = Agent(repo.path)
    await fails(repo, agent, "the pre-commit hook failed: a.py: line too long")
    repo.hook("pre-commit", "exit 0")
    await succeeds(repo, agent)


async def test_several_hooks_are_all_named(repo: Repo) -> None:
    repo.hook("pre-commit", "exit 0")
    repo.hook("commit-msg", "echo no ticket; exit 1")
    await fails(repo, Agent(repo.path), "a hook (pre-commit or commit-msg) failed: no ticket")


async def test_hooks_elsewhere_are_found(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "core.hooksPath", "hooks")
    repo.hook("../../hooks/pre-commit", REFUSE)
    repo.git("add", "hooks")
    repo.git("commit", "--no-verify", "-m", "hooks")
    await fails(repo, Agent(repo.path), "the pre-commit hook failed")


async def test_what_a_hook_says_is_told_in_three_plain_lines(repo: Repo) -> None:
    repo.hook(
        "pre-commit", r"""printf '\033[31mone\033[0m\n\nhint: x\n t\a\twwo\n3\n4\n'; exit 1"""
    )
    await fails(repo, Agent(repo.path), "the pre-commit hook failed: one; twwo; 3")


async def test_a_hook_that_says_nothing_is_told_too(repo: Repo) -> None:
    repo.hook("pre-commit", "exit 1")
    await fails(repo, Agent(repo.path), "the pre-commit hook failed: exit status 1")


async def test_a_file_a_failing_hook_formatted_is_still_the_agents(repo: Repo) -> None:
    repo.hook("pre-commit", "grep -q formatted a.py && exit; echo formatted > a.py; exit 1")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    assert "hook failed" in (await agent.end(edited("a.py"))).note
    await agent.begin()
    repo.write("b.py", "2\n")
    assert (await agent.end(edited("b.py"))).action_taken
    assert repo.committed == {"a.py": "M", "b.py": "M"}


async def test_what_the_person_touched_after_a_failure_is_the_persons(repo: Repo) -> None:
    repo.hook("pre-commit", REFUSE)
    agent = Agent(repo.path)
    await agent.begin()
    for name in ("a.py", "b.py", "new1", "new2"):
        repo.write(name, "agent\n")
    await agent.end(BASH)
    repo.hook("pre-commit", "exit 0")
    repo.write("a.py", "person\n")
    repo.git("add", "b.py", "new1")
    await agent.begin()
    result = await agent.end(edited("a.py", "new2"))
    assert repo.committed == {"new2": "A"}
    assert result.note.endswith("not committed: a.py had changes of yours")
    assert repo.short_status == [" M a.py", "M  b.py", "A  new1"]


async def test_a_new_process_takes_what_was_left_for_the_persons(repo: Repo) -> None:
    repo.hook("pre-commit", REFUSE)
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    await agent.end(edited("a.py"))
    repo.hook("pre-commit", "exit 0")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("b.py", "2\n")
    await agent.end(BASH)
    assert repo.committed == {"b.py": "M"}


async def test_a_hook_that_hangs_is_ended_with_its_children(repo: Repo) -> None:
    os.mkfifo(repo.path / ".git/begun")
    repo.hook("pre-commit", "echo $$ > .git/begun; sleep 1000")
    agent = Agent(repo.path, limits=CommitLimits(commit_s=HOOK_S))
    hung = asyncio.ensure_future(begun_and_over(repo))
    await fails(repo, agent, "git commit took more than 500 s")
    assert is_gone(int(await hung))
    repo.hook("pre-commit", "exit 0")
    await succeeds(repo, agent)


async def test_a_hook_that_hangs_after_the_commit_does_not_undo_it(repo: Repo) -> None:
    os.mkfifo(repo.path / ".git/begun")
    repo.hook("post-commit", "echo > .git/begun; sleep 1000")
    agent = Agent(repo.path, limits=CommitLimits(commit_s=HOOK_S))
    await agent.begin()
    repo.write("new.py", "1\n")
    hung = asyncio.ensure_future(begun_and_over(repo))
    result = await agent.end(edited("new.py"))
    await hung
    assert (result.action_taken, result.commit) == (True, repo.head)
    assert repo.short_status == []


async def test_a_cancelled_commit_changes_nothing_and_is_made_up_for(repo: Repo) -> None:
    os.mkfifo(repo.path / ".git/begun")
    repo.hook("pre-commit", "echo > .git/begun; sleep 60")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.write("new.py", "2\n")
    index = repo.index
    round_end = asyncio.ensure_future(agent.end(BASH))
    await read_fifo(repo.path / ".git/begun")
    round_end.cancel()
    with pytest.raises(asyncio.CancelledError):
        await round_end
    assert repo.index == index
    repo.hook("pre-commit", "exit 0")
    await agent.begin()
    repo.write("b.py", "3\n")
    await agent.end(edited("b.py"))
    assert repo.committed == {"a.py": "M", "b.py": "M", "new.py": "A"}


async def test_a_hook_that_changes_a_file_leaves_nothing_staged_the_other_way(repo: Repo) -> None:
    repo.hook("pre-commit", "echo formatted > a.py; git add a.py")
    repo.write("b.py", "staged\n")
    repo.git("add", "b.py")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.note.endswith("(1 file)")
    assert repo.git("show", "HEAD:a.py") == "formatted"
    assert repo.short_status == ["M  b.py"]


async def test_a_file_that_a_hook_adds_is_told(repo: Repo) -> None:
    repo.hook("pre-commit", "echo 1 > version; git add version")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.note.endswith("(1 file); a hook also committed version")
    assert repo.committed == {"a.py": "M", "version": "A"}
    assert repo.short_status == []


async def test_a_hook_that_commits_all_the_person_had_modified_is_told(repo: Repo) -> None:
    repo.hook("pre-commit", "git add --update")
    repo.write("b.py", "the person's\n")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.note.endswith("a hook also committed b.py")
    assert repo.short_status == []


async def test_hooks_run_with_the_persons_settings(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    repo.hook("pre-commit", "env > env.txt; git status -- '*.py' > /dev/null")
    repo.write(".git/info/exclude", "env.txt\n")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    await agent.end(edited("a.py"))
    variables = dict(line.partition("=")[::2] for line in repo.read("env.txt").splitlines())
    assert variables["LC_ALL"] == "C.UTF-8"
    assert "GIT_LITERAL_PATHSPECS" not in variables
    assert "GIT_OPTIONAL_LOCKS" not in variables


async def test_a_commit_that_cannot_be_signed_is_not_made(repo: Repo) -> None:
    repo.git("config", "commit.gpgsign", "true")
    repo.git("config", "gpg.program", "false")
    agent = Agent(repo.path)
    await fails(repo, agent, "git commit failed: error: gpg failed to sign the data")
    repo.git("config", "commit.gpgsign", "false")
    await succeeds(repo, agent)


async def test_a_file_that_cannot_be_added_is_no_fault_of_a_hook(repo: Repo) -> None:
    repo.hook("pre-commit", "exit 0")
    repo.git("config", "core.sparseCheckout", "true")
    repo.write(".git/info/sparse-checkout", "/docs/\n")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("new.py", "1\n")
    index = repo.index
    result = await agent.end(edited("new.py"))
    assert result.note.startswith("not committed: git add failed: The following paths")
    assert repo.index == index


async def test_without_an_identity_it_says_how_to_give_one(repo: Repo) -> None:
    repo.git("config", "--global", "--rename-section", "user", "nobody")
    agent = Agent(repo.path)
    await fails(repo, agent, NO_IDENTITY)
    repo.git("config", "--global", "--rename-section", "nobody", "user")
    await succeeds(repo, agent)


async def test_an_identity_in_the_environment_will_do(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.git("config", "--global", "--remove-section", "user")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Eve")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "eve@example.com")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    assert (await agent.end(edited("a.py"))).action_taken


async def test_in_a_merge_nothing_is_committed(repo: Repo) -> None:
    repo.git("checkout", "-b", "side")
    repo.write("side.py", "1\n")
    repo.git("add", ".")
    repo.git("commit", "-m", "side")
    repo.git("checkout", "main")
    repo.git("merge", "--no-ff", "--no-commit", "side")
    await fails(repo, Agent(repo.path), "a merge is in progress")


async def test_in_a_conflict_nothing_is_committed(repo: Repo) -> None:
    repo.make_conflict()
    (repo.path / ".git/MERGE_HEAD").unlink()
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("b.py", "1\n")
    result = await agent.end(edited("b.py"))
    assert result.note == "not committed: there are unresolved conflicts"


@pytest.mark.parametrize(
    ("command", "note"),
    [
        (("rebase", "side"), "a rebase is in progress"),
        (("cherry-pick", "side"), "a cherry-pick is in progress"),
        (("revert", "HEAD~1"), "a revert is in progress"),
    ],
)
async def test_in_the_middle_of_something_nothing_is_committed(
    repo: Repo, command: tuple[str, ...], note: str
) -> None:
    repo.write("a.py", "mine\n")
    repo.git("commit", "-am", "before")
    repo.make_conflict()
    repo.git("merge", "--abort")
    repo.git(*command, is_ok=False)
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("b.py", "1\n")
    assert (await agent.end(edited("b.py"))).note == f"not committed: {note}"


async def test_while_another_git_is_at_work_nothing_is_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.write(".git/index.lock", "")
    result = await agent.end(edited("a.py"))
    assert result.note.startswith("not committed: another git is at work")
    repo.remove(".git/index.lock")
    await agent.begin()
    assert (await agent.end(edited("a.py"))).action_taken


async def test_a_first_commit_that_fails_leaves_an_empty_index(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.git("init")
    repo.hook("pre-commit", REFUSE)
    agent = Agent(tmp_path)
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.note.startswith("not committed: the pre-commit hook failed")
    assert repo.short_status == ["?? a.py"]


async def test_a_failed_exchange_of_files_and_folders_leaves_the_index_as_it_was(
    repo: Repo,
) -> None:
    repo.hook("pre-commit", REFUSE)
    agent = Agent(repo.path)
    await agent.begin()
    repo.remove("a.py")
    repo.write("a.py/x", "")
    repo.remove("docs/c.md")
    (repo.path / "docs").rmdir()
    repo.write("docs", "")
    index = repo.index
    assert "hook failed" in (await agent.end(BASH)).note
    assert repo.index == index


async def test_what_the_agent_had_staged_stays_staged_if_the_commit_fails(repo: Repo) -> None:
    repo.hook("pre-commit", REFUSE)
    agent = Agent(repo.path)
    await agent.begin()
    repo.git("mv", "a.py", "z.py")
    repo.write("new.py", "")
    index = repo.index
    assert "hook failed" in (await agent.end(BASH)).note
    assert repo.index == index


async def test_no_repository_and_no_git_are_no_news(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(tmp_path)
    await agent.begin()
    assert await agent.end(edited("x")) == HookResult()
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    monkeypatch.setenv("PATH", "")
    assert await agent.end(edited("a.py")) == HookResult()


async def test_a_repository_that_git_refuses_is_news(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(repo.path)
    agent.before = GitObserved(branch="main")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    result = await agent.end(edited("a.py"))
    assert result.note.startswith("not committed: git refuses the repository")
