"""Hooks of a commit run where the agent's commands run, and reach no further than these."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from runtime.clock import use_up
from runtime.fifo import read_fifo
from treadle.app.sessions.confined_hooks import make_hook_runner
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Network, Policy
from treadle.workspace.commit import CommitLimits
from workspace.repo import BASH, TRAILER, Agent, Repo, edited

HOOK_S = 500.0
"""What a hook may take that hangs in a test."""


@pytest.fixture(params=[name for name in BACKENDS if find_backend((name,)).name])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def agent_of(repo: Repo, backend: str, folder: str = ".", **policy: object) -> Agent:
    options = {"network": Network.OFF, **policy}
    where = repo.path / folder
    backends = (backend,) if backend else ()
    box = Sandbox(Policy(**options), where, backends=backends)  # type: ignore[arg-type]
    return Agent(where, confined=make_hook_runner(box), limits=CommitLimits(commit_s=HOOK_S))


async def test_what_a_hook_calls_reaches_no_further_than_a_command(
    repo: Repo, backend: str, tmp_path: Path
) -> None:
    """All that git would run at a commit, each with a script that a command wrote anew."""
    canary = tmp_path / "canary"
    names = (
        *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change"),
        *("reference-transaction", "pre-auto-gc", "post-rewrite"),
    )
    for name in names:
        repo.hook(name, f"echo {name} >> ran; sh .pre-commit-config.yaml {name}")
    repo.git("config", "core.fsmonitor", f"{repo.path}/.pre-commit-config.yaml fsmonitor")
    repo.write(".git/info/exclude", "ran\n")
    agent = agent_of(repo, backend)
    await agent.begin()
    script = repo.write(
        ".pre-commit-config.yaml",
        f"#!/bin/sh\necho $1 >> called\nmkdir -p {tmp_path} && echo $1 >> {canary}\ntrue\n",
    )
    script.chmod(0o755)
    result = await agent.end(BASH)
    assert not canary.exists(), canary.read_text()
    assert result.commit is not None, result.note
    assert repo.read("ran").split() == list(names[:4])
    assert repo.read("called").split() == list(names[:4])
    assert result.note.endswith("chore: add .pre-commit-config.yaml (1 file)")


async def test_a_hook_that_formats_and_stages_changes_the_commit_and_no_index(
    repo: Repo, backend: str
) -> None:
    repo.hook(
        "pre-commit",
        "for n in $(git diff --cached --name-only); do echo '# f' >> $n; done\n"
        "git add $(git diff --cached --name-only); echo 1 > version; git add version",
    )
    repo.hook("prepare-commit-msg", 'test "$2" = message && echo "[x] $(cat "$1")" > "$1"')
    repo.hook("commit-msg", 'grep -q Treadle-Thread "$1" && printf "\\n\\n" >> "$1"')
    repo.write("b.py", "staged\n")
    repo.write("docs/c.md", "modified\n")
    repo.git("add", "b.py")
    agent = agent_of(repo, backend)
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.write("new.py", "2\n")
    result = await agent.end(edited("a.py", "new.py"))
    assert result.commit == repo.head, result.note
    assert result.note.endswith("(2 files); a hook also committed version")
    assert repo.committed == {"a.py": "M", "new.py": "A", "version": "A"}
    assert repo.git("show", "HEAD:a.py") == "1\n# f"
    assert repo.message == f"[x] chore: update a.py and new.py\n\n{TRAILER}"
    assert repo.short_status == ["M  b.py", " M docs/c.md"]
    assert repo.git("reflog", "-1", "--format=%gs") == "commit: [x] chore: update a.py and new.py"
    repo.git("fsck", "--strict")


REFUSED = (
    ("pre-commit", "echo a.py: too long >&2; exit 1", "the pre-commit hook failed: a.py: too long"),
    ("prepare-commit-msg", "exit 3", "the prepare-commit-msg hook failed: exit status 3"),
    ("commit-msg", "echo no ticket; exit 1", "the commit-msg hook failed: no ticket"),
    ("commit-msg", 'echo > "$1"', "its hooks left no message"),
    ("commit-msg", 'rm "$1"; mkfifo "$1"', "what its hooks left of COMMIT_EDITMSG is no file"),
    ("pre-commit", "git reset -q", "its hooks left no change to commit"),
    (
        "pre-commit",
        "rm $GIT_INDEX_FILE; ln -s a.py $GIT_INDEX_FILE",
        "what its hooks left of index:",
    ),
    ("pre-commit", "echo x > $GIT_INDEX_FILE", "git write-tree failed: fatal: "),
    ("pre-commit", "echo x > /etc/x", "the pre-commit hook failed: "),
)


async def test_a_hook_that_refuses_or_spoils_it_leaves_all_as_it_was(
    repo: Repo, backend: str
) -> None:
    repo.write("b.py", "staged\n")
    repo.git("add", "b.py")
    agent = agent_of(repo, backend)
    await agent.begin()
    repo.write("a.py", "1\n")
    repo.write("new.py", "2\n")
    repo.remove("docs/c.md")
    index, head = repo.index, repo.head
    wrong = []
    for name, script, note in REFUSED:
        repo.hook(name, script)
        said = (await agent.end(BASH)).note
        repo.remove(f".git/hooks/{name}")
        is_told = said.startswith(f"not committed: {note}")
        has_hint = ("--no-commit" in said) == ("/etc/x" in script)
        if not (is_told and has_hint and (repo.index, repo.head) == (index, head)):
            wrong.append((script, said))
    assert wrong == []
    assert (await agent.end(BASH)).commit == repo.head
    assert repo.committed == {"a.py": "M", "docs/c.md": "D", "new.py": "A"}


async def test_files_and_folders_that_change_places_are_committed(repo: Repo, backend: str) -> None:
    repo.hook("pre-commit", "git diff --cached --quiet && exit 1; exit 0")
    agent = agent_of(repo, backend)
    await agent.begin()
    repo.remove("a.py")
    repo.write("a.py/x", "")
    repo.remove("docs/c.md")
    (repo.path / "docs").rmdir()
    repo.write("docs", "")
    repo.git("rm", "-q", "b.py")
    (repo.path / "link").symlink_to("docs")
    result = await agent.end(BASH)
    assert result.action_taken, result.note
    assert repo.committed == {
        "a.py": "D",
        "a.py/x": "A",
        "b.py": "D",
        "docs": "A",
        "docs/c.md": "D",
        "link": "A",
    }
    assert repo.short_status == []


async def test_a_first_commit_has_its_hooks(tmp_path: Path, backend: str) -> None:
    repo = Repo(tmp_path / "first")
    repo.git("init")
    repo.hook("pre-commit", 'test -n "$(git ls-files)"')
    agent = agent_of(repo, backend)
    await agent.begin()
    repo.write("a.py", "1\n")
    assert (await agent.end(edited("a.py"))).commit == repo.head
    assert (repo.committed, repo.short_status) == ({"a.py": "A"}, [])


async def test_hooks_that_hang_are_ended_with_their_children(repo: Repo, backend: str) -> None:
    os.mkfifo(repo.path / "begun")
    repo.write(".git/info/exclude", "begun\n")
    repo.hook("pre-commit", "echo > begun; sleep 1000")
    agent = agent_of(repo, backend)
    for ends in ("time", "cancel"):
        await agent.begin()
        repo.write("a.py", f"{ends}\n")
        index, head = repo.index, repo.head
        round_end = asyncio.ensure_future(agent.end(BASH))
        await read_fifo(repo.path / "begun")
        if ends == "time":
            await use_up(HOOK_S)
            assert "the pre-commit hook took more than 500 s" in (await round_end).note
        else:
            round_end.cancel()
            with pytest.raises(asyncio.CancelledError):
                await round_end
        assert (repo.index, repo.head) == (index, head)


async def test_a_hook_that_commits_meanwhile_is_not_run_over(repo: Repo, backend: str) -> None:
    """As a person does in another terminal."""
    repo.hook(
        "commit-msg",
        "unset GIT_INDEX_FILE; echo 5 > b.py\n"
        "git -c user.name=x -c user.email=y commit --no-verify -qm theirs b.py",
    )
    agent = agent_of(repo, backend)
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.commit is None
    assert "another git has committed meanwhile" in result.note
    assert (repo.message, repo.short_status) == ("theirs", [" M a.py"])


async def test_links_that_a_hook_leaves_do_not_make_git_write_elsewhere(
    repo: Repo, backend: str, tmp_path: Path
) -> None:
    """A commit writes its message, names of files and branches wherever such a link leads."""
    names = ("COMMIT_EDITMSG", "index", "logs/HEAD", "packed-refs", "logs/refs/heads/main")
    outside = tmp_path / "outside"
    repo.git("worktree", "add", "-q", "tree")
    repo.write(".git/info/exclude", "tree\n")
    for where, count in ((".git", 5), (".git/worktrees/tree", 3)):
        for name in names[:count]:
            outside.mkdir()
            target = outside / "file"
            saved = (repo.path / where / name).read_bytes() if name == "index" else b""
            target.write_bytes(saved)
            repo.hook("post-commit", f"ln -sf {target} {where}/{name}")
            agent = agent_of(repo, backend)
            await agent.begin()
            repo.write("a.py", f"# {where} {name}\n")
            result = await agent.end(edited("a.py"))
            tree = Repo(repo.path / "tree") if "tree" in where else repo
            assert name in result.note
            [aside] = (repo.path / where).glob(f"{name}.*.put-aside")
            aside.unlink()
            tree.git("reset", "-q")
            repo.hook("post-commit", "true")
            tree.git("commit", "--allow-empty", "-m", "$(touch canary)")
            tree.git("pack-refs", "--all")
            assert (target.read_bytes(), [*outside.iterdir()]) == (saved, [target]), name
            target.unlink()
            outside.rmdir()


async def test_hooks_where_nothing_holds_commands_do_not_run(repo: Repo, tmp_path: Path) -> None:
    repo.hook("pre-commit", f"touch {tmp_path}/ran")
    agent = agent_of(repo, "")
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.note.startswith("not committed: the pre-commit hook failed: nothing can hold")
    assert "--sandbox off" in result.note
    assert not (tmp_path / "ran").exists()


async def test_hooks_of_a_part_of_a_repository_see_what_commands_see(
    repo: Repo, backend: str
) -> None:
    """The rest of it lies in a folder that is empty for them, unless the person shows it."""
    repo.hook("pre-commit", "git diff --cached --name-only | grep -q docs/c.md")
    agent = agent_of(repo, backend, "docs")
    await agent.begin()
    repo.write("docs/c.md", "1\n")
    result = await agent.end(BASH)
    assert result.commit is None
    assert "sandbox_readable" in result.note
    agent = agent_of(repo, backend, "docs", readable=(str(repo.path),))
    await agent.begin()
    repo.write("docs/d.md", "1\n")
    repo.git("checkout", "docs/c.md")
    repo.hook("pre-commit", "git diff --cached --name-only | grep -q docs/d.md")
    assert (await agent.end(edited("d.md"))).commit == repo.head
