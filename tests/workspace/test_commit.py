"""Auto-commit: what goes into the commit, and that nothing else is touched."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from treadle.core.tools import CompletedToolInfo
from treadle.runtime.ports import PostToolsHookResult as HookResultPort
from treadle.runtime.ports import Workspace
from treadle.secrets.redaction import Redactor
from treadle.thread.facts import CHANGED_COUNT_MAX, GitObserved
from treadle.workspace import commit
from treadle.workspace.commit import GitWorkspace, HookResult
from workspace.repo import (
    BASH,
    FAILED_BASH,
    FAILED_EDIT,
    READ,
    TRAILER,
    Agent,
    Repo,
    edited,
)


def test_it_is_what_the_runtime_asks_for() -> None:
    workspace: Workspace = GitWorkspace(".")
    result: HookResultPort = HookResult()
    assert (result.action_taken, result.note) == (False, "")
    for name in ("observe", "after_tools"):
        ours, asked = getattr(GitWorkspace, name), getattr(Workspace, name)
        assert (
            inspect.signature(ours).parameters.keys() == inspect.signature(asked).parameters.keys()
        )
    assert workspace is not None


async def test_an_edit_is_committed_with_a_message_and_a_trailer(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "print(10)\n")
    result = await agent.end(READ, edited("a.py"))
    assert result.action_taken
    assert result.commit == repo.head
    assert result.note == f"committed {repo.head[:7]} chore: update a.py (1 file)"
    assert repo.message == f"chore: update a.py\n\n{TRAILER}"
    assert (
        repo.git("log", "-1", "--format=%(trailers:key=Treadle-Thread,valueonly)").strip()
        == (TRAILER.partition(": ")[2])
    )
    assert repo.short_status == []


async def test_what_the_person_had_in_hand_stays_exactly_as_it_was(repo: Repo) -> None:
    repo.write("staged.py", "staged\n")
    repo.write("docs/c.md", "# staged\n")
    repo.git("add", "staged.py", "docs/c.md")
    repo.write("docs/c.md", "# staged, and then changed again\n")
    repo.write("b.py", "dirty\n")
    repo.write("notes.txt", "untracked\n")
    repo.write("later.py", "to be added\n")
    repo.git("add", "--intent-to-add", "later.py")
    index, status = repo.index, repo.short_status
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "print(10)\n")
    repo.write("src/new.py", "new\n")
    result = await agent.end(BASH)
    assert repo.committed == {"a.py": "M", "src/new.py": "A"}
    assert result.note.endswith("(2 files)")
    assert repo.short_status == status
    assert repo.index[1] == index[1]
    assert repo.read("docs/c.md") == "# staged, and then changed again\n"
    assert [repo.read(name) for name in ("b.py", "notes.txt", "later.py")] == [
        "dirty\n",
        "untracked\n",
        "to be added\n",
    ]


async def test_deletions_and_renames_are_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.remove("b.py")
    (repo.path / "a.py").rename(repo.path / "z.py")
    await agent.end(BASH)
    assert repo.committed == {"a.py": "D", "b.py": "D", "z.py": "A"}
    assert repo.short_status == []


async def test_what_the_agent_staged_itself_is_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.git("mv", "a.py", "z.py")
    repo.git("rm", "b.py")
    repo.write("new.py", "1\n")
    repo.git("add", "new.py")
    repo.write("new.py", "2\n")
    await agent.end(BASH)
    assert repo.committed == {"a.py": "D", "b.py": "D", "new.py": "A", "z.py": "A"}
    assert repo.git("show", "HEAD:new.py") == "2"
    assert repo.short_status == []


async def test_a_file_that_becomes_a_folder_and_the_reverse_are_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.remove("a.py")
    repo.write("a.py/x", "")
    repo.remove("docs/c.md")
    (repo.path / "docs").rmdir()
    repo.write("docs", "")
    result = await agent.end(BASH)
    assert result.action_taken, result.note
    assert repo.committed == {"a.py": "D", "a.py/x": "A", "docs": "A", "docs/c.md": "D"}
    assert repo.short_status == []


async def test_links_and_modes_are_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    (repo.path / "link").symlink_to("a.py")
    (repo.path / "a.py").chmod(0o755)
    await agent.end(BASH)
    assert repo.committed == {"a.py": "M", "link": "A"}


@pytest.mark.parametrize(
    "name", [":(glob)**", "[0-9].py", "new\nline", 'qu"ote', " ", "-f", "ü", "!x"]
)
async def test_names_mean_themselves(repo: Repo, name: str) -> None:
    repo.write("users.py", "untracked\n")
    repo.write("1.py", "committed\n")
    repo.git("add", "1.py")
    repo.git("commit", "-m", "one")
    repo.write("1.py", "modified\n")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write(name, "x\n")
    result = await agent.end(edited(name))
    assert result.action_taken, result.note
    assert repo.git("show", "--format=", "--name-only", "-z", "HEAD").strip("\0") == name
    assert repo.short_status == [" M 1.py", "?? users.py"]


async def test_after_edits_only_the_files_they_name_are_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "agent\n")
    repo.write("b.py", "the person, at the same time\n")
    await agent.end(edited("a.py"), READ)
    assert repo.committed == {"a.py": "M"}
    assert repo.short_status == [" M b.py"]


async def test_names_are_found_however_the_tool_writes_them(repo: Repo) -> None:
    (repo.path / "link").symlink_to("docs")
    repo.git("add", "link")
    repo.git("commit", "-m", "link")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.write("b.py", "2\n")
    repo.write("docs/c.md", "3\n")
    names = ("./a.py", str(repo.path / "b.py"), "link/../link/c.md", "../x", "\0", "\ud800", "")
    await agent.end(edited(*names))
    assert repo.committed == {"a.py": "M", "b.py": "M", "docs/c.md": "M"}


async def test_a_file_the_person_had_changed_is_not_committed_and_that_is_said(repo: Repo) -> None:
    repo.write("a.py", "the person's\n")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "the person's, and the agent's\n")
    repo.write("b.py", "agent = 1\n")
    result = await agent.end(edited("a.py", "b.py"))
    assert repo.committed == {"b.py": "M"}
    assert result.note.splitlines()[1] == "not committed: a.py had changes of yours"
    head = repo.head
    result = await agent.end(edited("a.py"))
    assert result == HookResult(note="not committed: a.py had changes of yours")
    assert (repo.head, repo.short_status) == (head, [" M a.py"])


async def test_a_file_in_the_place_of_the_persons_is_not_committed(repo: Repo) -> None:
    repo.write("docs/c.md", "the person's\n")
    agent = Agent(repo.path)
    await agent.begin()
    repo.remove("docs/c.md")
    (repo.path / "docs").rmdir()
    repo.write("docs", "a file\n")
    result = await agent.end(edited("docs"))
    assert result == HookResult(note="not committed: docs (in the place of changes of yours)")


async def test_a_file_only_taken_out_of_the_index_stays_so(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.git("rm", "--cached", "a.py")
    repo.write("b.py", "1\n")
    result = await agent.end(BASH)
    assert repo.committed == {"b.py": "M"}
    assert result.note.endswith("not committed: a.py (taken out of the index, but still there)")
    assert repo.short_status == ["D  a.py", "?? a.py"]


async def test_ignored_files_are_left_alone(repo: Repo) -> None:
    repo.write(".gitignore", "*.log\n")
    repo.git("add", ".gitignore")
    repo.git("commit", "-m", "ignore")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("x.log", "")
    assert await agent.end(BASH, edited("x.log")) == HookResult()


async def test_repositories_inside_are_left_alone(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    clone = Repo(repo.path / "clone")
    clone.git("init")
    clone.git("commit", "--allow-empty", "-m", "x")
    result = await agent.end(BASH)
    assert result == HookResult(note="not committed: clone/ (a repository of its own)")
    assert repo.short_status == ["?? clone/"]


async def test_only_the_workspace_is_committed_if_it_is_a_part_of_the_repository(
    repo: Repo,
) -> None:
    agent = Agent(repo.path / "docs")
    await agent.begin()
    repo.write("a.py", "outside\n")
    repo.write("docs/c.md", "inside\n")
    result = await agent.end(BASH)
    assert result.note.endswith("chore: update c.md (1 file)")
    assert repo.committed == {"docs/c.md": "M"}
    assert repo.short_status == [" M a.py"]


async def test_a_first_commit_can_be_made(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.git("init")
    repo.write("users.py", "staged\n")
    repo.git("add", "users.py")
    agent = Agent(tmp_path, compose=composer("feat: begin"))
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.action_taken, result.note
    assert repo.message.startswith("feat: begin\n")
    assert repo.committed == {"a.py": "A"}
    assert repo.short_status == ["A  users.py"]


async def test_a_commit_on_a_detached_head_says_so(repo: Repo) -> None:
    repo.git("checkout", "--detach")
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.action_taken
    assert result.note.endswith("(1 file); HEAD is detached: make a branch to keep it")


async def test_a_commit_in_a_linked_work_tree_is_made_there(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", str(tmp_path / "tree"), "-b", "side")
    tree = Repo(tmp_path / "tree")
    agent = Agent(tree.path)
    await agent.begin()
    tree.write("a.py", "1\n")
    assert (await agent.end(edited("a.py"))).action_taken
    assert tree.committed == {"a.py": "M"}
    assert tree.head != repo.head


@pytest.mark.parametrize(
    "completed", [(), (READ,), (FAILED_EDIT,), (FAILED_BASH, READ), (edited("other.py"),)]
)
async def test_without_a_change_that_a_tool_claims_nothing_happens(
    repo: Repo, completed: tuple[CompletedToolInfo, ...]
) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "the person's, meanwhile\n")
    assert await agent.end(*completed) == HookResult()
    assert repo.short_status == [" M a.py"]


async def test_a_round_that_changed_nothing_is_silent(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    assert await agent.end(BASH, edited("a.py")) == HookResult()


async def test_a_commit_by_the_agent_itself_leaves_nothing_to_do(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.git("commit", "-am", "mine")
    assert await agent.end(BASH) == HookResult()


async def test_it_can_be_switched_off(repo: Repo) -> None:
    agent = Agent(repo.path, auto_commit=False)
    await agent.begin()
    repo.write("a.py", "1\n")
    assert await agent.end(edited("a.py")) == HookResult()
    assert repo.short_status == [" M a.py"]


async def test_without_a_look_before_nothing_is_committed_and_that_is_said(repo: Repo) -> None:
    agent = Agent(repo.path)
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result == HookResult(
        note="not committed: it is not known how the repository stood before"
    )


async def test_among_too_many_changes_nothing_is_committed_and_that_is_said(repo: Repo) -> None:
    agent = Agent(repo.path)
    agent.before = GitObserved(branch="main", dirty=True, changed=("x",), changed_is_cut=True)
    repo.write("a.py", "1\n")
    note = "not committed: more than 1000 changed files: yours and the agent's cannot be told apart"
    assert await agent.end(edited("a.py")) == HookResult(note=note)
    agent.before = GitObserved(branch="main")
    for number in range(CHANGED_COUNT_MAX):
        repo.write(f"n{number}", "")
    assert await agent.end(BASH) == HookResult(note=note)


async def test_a_process_that_did_not_see_the_whole_round_believes_only_names(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "named\n")
    repo.write("b.py", "who knows\n")
    result = await agent.end(edited("a.py"), BASH, is_whole=False)
    assert repo.committed == {"a.py": "M"}
    assert result.note.splitlines()[1] == (
        "not committed: b.py may be yours (the round was interrupted)"
    )
    assert repo.short_status == [" M b.py"]


async def test_a_large_new_file_is_not_committed_unasked(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "LOOK_SIZE_MAX", 100)
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("big.bin", "x" * 101)
    repo.write("a.py", "x" * 101)
    result = await agent.end(BASH)
    assert repo.committed == {"a.py": "M"}
    assert result.note.splitlines()[1] == "not committed: big.bin (new, and larger than 10 MiB)"
    await agent.begin()
    repo.write("b.py", "1\n")
    result = await agent.end(edited("b.py"))
    assert "big.bin" not in result.note, "it is said once"


async def test_a_file_with_a_known_secret_is_not_committed_until_it_is_gone(repo: Repo) -> None:
    agent = Agent(repo.path, redactor=Redactor({"api_key": "sk-0123456789abcdef"}))
    await agent.begin()
    repo.write(".env", "API_KEY=sk-0123456789abcdef\n")
    repo.write("a.py", "1\n")
    result = await agent.end(BASH)
    assert repo.committed == {"a.py": "M"}
    assert result.note.splitlines()[1] == (
        "not committed: .env "
        "(a secret in it, or what looks like one; commit it yourself if it is none)"
    )
    await agent.begin()
    repo.write(".env", "API_KEY=\n")
    assert (await agent.end(edited(".env"))).action_taken
    assert repo.committed == {".env": "A"}


def composer(answer: str) -> object:
    async def compose(_: str) -> str:
        return answer

    return compose


async def test_what_is_hidden_from_tools_is_nobodys_work(repo: Repo) -> None:
    agent = Agent(repo.path, hides=lambda path: path.name == ".netrc")
    await agent.begin()
    repo.write("a.py", "print(10)\n")
    repo.write(".netrc", "written by another program meanwhile\n")
    result = await agent.end(BASH)
    assert repo.committed == {"a.py": "M"}
    assert ".netrc (hidden from tools)" in result.note
