"""Which uncommitted files are not the agent's, and the question about a command that takes them."""

from __future__ import annotations

import json

from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.risk.commits import UncommittedFile
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from treadle.workspace.commit import GitWorkspace
from workspace.repo import BASH, TRAILER, Repo, edited


def names(workspace: GitWorkspace) -> list[str]:
    return sorted(change.name for change in workspace.list_others_changes())


async def test_where_every_round_is_committed_what_is_left_is_others(repo: Repo) -> None:
    repo.write("notes.md", "mine\n")
    workspace = GitWorkspace(repo.path)
    before = await workspace.observe()
    repo.write("a.py", "print(10)\n")
    await workspace.after_tools([edited("a.py")], before, is_whole=True, trailer=TRAILER)
    await workspace.observe()
    assert names(workspace) == ["notes.md"]


async def test_where_nothing_is_committed_the_agents_own_is_known_by_its_rounds(repo: Repo) -> None:
    repo.write("a.py", "print('mine')\n")
    workspace = GitWorkspace(repo.path, auto_commit=False)
    before = await workspace.observe()
    repo.write("b.py", "print(20)\n")
    await workspace.after_tools([edited("b.py")], before, is_whole=True, trailer=TRAILER)
    repo.write("late.md", "mine\n")
    before = await workspace.observe()
    assert names(workspace) == ["a.py", "late.md"]
    repo.write("built.txt", "by a command\n")
    await workspace.after_tools([BASH], before, is_whole=True, trailer=TRAILER)
    await workspace.observe()
    assert names(workspace) == ["a.py", "late.md"]
    repo.git("commit", "-qam", "all")
    await workspace.observe()
    repo.write("b.py", "print('mine now')\n")
    await workspace.observe()
    assert names(workspace) == ["b.py", "late.md"], "what was committed meanwhile is nobody's"


def scope_of(repo: Repo, command: str, *, may_ask: bool = True, access: str = "write") -> Scope:
    files = [UncommittedFile("notes.md", is_untracked=True), UncommittedFile("a.py")]
    sandbox = Sandbox(Policy(may_ask=may_ask), repo.path)
    registry = Registry(
        builtin_tools(), workspace=repo.path, sandbox=sandbox, others_files=lambda: files
    )
    arguments = json.dumps({"command": command, "access": access})
    found = registry.scope_of(ToolCall("c", "bash", arguments))
    assert found is not None
    return found


def test_a_command_that_takes_them_is_asked_about_with_their_names_and_no_grant_covers_it(
    repo: Repo,
) -> None:
    scope = scope_of(repo, 'git commit -am "wip"')
    assert scope.must_ask
    assert scope.reasons[0] == "it takes changes along that are not the agent's: a.py"
    assert scope.kinds == ()
    everything = scope_of(repo, 'git add -A && git commit -m "wip"')
    assert everything.reasons[0].endswith(": notes.md, a.py")
    assert everything.binding != scope.binding, "a yes is for these files"
    own = scope_of(repo, "git commit -m fix -- b.py")
    assert not own.must_ask
    assert own.kinds
    assert not scope_of(repo, "git commit -am x", access="read").must_ask, "it cannot commit"


def test_where_nobody_can_be_asked_it_is_refused_and_told_what_to_do(repo: Repo) -> None:
    refused = scope_of(repo, "git commit -am wip", may_ask=False).refused
    assert "a.py" in refused
    assert "`git commit -m MESSAGE -- FILE ...`" in refused
    assert not scope_of(repo, "git commit -m fix -- b.py", may_ask=False).refused
