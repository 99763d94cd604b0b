"""What is proposed to a forge is planned from exactly the refs that are named, and once."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from treadle.app.files.pull_requests import plan_pull_request, push_branch
from treadle.app.sessions.pull_request_text import make_plain_text, parse_text
from treadle.errors import UsageError
from workspace.repo import CONFIG, Repo


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository with a commit on `main` that its remote has not."""
    config = tmp_path / "gitconfig"
    config.write_text(CONFIG)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    made = Repo(tmp_path / "shop")
    made.git("init", "--quiet")
    made.git("init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    made.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    made.git("commit", "--quiet", "--allow-empty", "-m", "begin")
    made.git("push", "--quiet", "origin", "main")
    made.git("remote", "set-head", "origin", "main")
    made.git("commit", "--quiet", "--allow-empty", "-m", "add a thing")
    return made


async def test_the_same_commit_is_proposed_from_the_same_branch_again(
    repo: Repo, tmp_path: Path
) -> None:
    folder = str(repo.path)
    remote = Repo(tmp_path / "remote.git")
    first = await plan_pull_request(folder, title="")
    assert (first.branch, first.is_new) == ("add-a-thing", True)
    repo.git("branch", "--no-track", "add-a-thing")  # who made it broke off before the push
    again = await plan_pull_request(folder, title="")
    assert again == replace(first, is_new=False, repository=again.repository)
    await push_branch(again)
    done = await plan_pull_request(folder, title="")
    assert (done.branch, done.is_new) == ("add-a-thing", False)
    await push_branch(done)
    repo.git("branch", "-D", "add-a-thing")  # the remote has it still
    assert (await plan_pull_request(folder, title="")).branch == "add-a-thing"
    assert remote.git("branch", "--format=%(refname:short)").split() == ["add-a-thing", "main"]
    repo.git("commit", "--quiet", "--allow-empty", "-m", "more")
    other = await plan_pull_request(folder, title="add a thing")
    assert (other.branch, other.is_new) == ("add-a-thing-2", True)


@for_every_row("base", ["main~0", "main@{0}", "main^{commit}", "main^0", "../../heads/main", "-x"])
async def test_a_base_is_a_branch_and_no_expression(repo: Repo, base: str) -> None:
    with pytest.raises(UsageError, match="is known here"):
        await plan_pull_request(str(repo.path), title="", base=base)


async def test_the_remotes_own_base_may_be_called_head(repo: Repo) -> None:
    assert (await plan_pull_request(str(repo.path), title="", base="HEAD")).base == "main"


async def test_no_remote_is_an_option_of_git(repo: Repo, tmp_path: Path) -> None:
    name, trace = f"--receive-pack=touch {tmp_path}/ran;git-receive-pack", tmp_path / "ran"
    with (repo.path / ".git/config").open("a") as file:
        file.write(f'[remote "{name}"]\n\turl = {tmp_path}/remote.git\n')
        file.write(f'[remote]\n\tpushDefault = "{name}"\n')
        file.write('[branch "main"]\n\tpushRemote = --mirror\n[remote "--mirror"]\n\turl = x\n')
    plan = await plan_pull_request(str(repo.path), title="")
    assert plan.remote == "origin"
    await push_branch(plan)
    assert not trace.exists()
    repo.git("remote", "remove", "origin")
    with pytest.raises(UsageError, match="no remote"):
        await plan_pull_request(str(repo.path), title="")


@for_every_row("subject", ["", "...", "🎉"])
async def test_a_commit_that_says_nothing_is_proposed_by_the_name_of_its_branch(
    repo: Repo, subject: str
) -> None:
    repo.git(
        "commit", "--quiet", "--amend", "--allow-empty", "--allow-empty-message", "-m", subject
    )
    plan = await plan_pull_request(str(repo.path), title="")
    assert make_plain_text(plan, "").title == plan.branch == "changes"


@for_every_row("odd", ["\0", "\ud800", "\x1b[31m", "\u202e", "\r"])
def test_what_is_proposed_is_what_was_shown(odd: str) -> None:
    """A program cannot be given some of it, and a person would not see the rest."""
    text = parse_text(f"Add{odd} a thing\n\nIt{odd} adds.")
    mark = "\N{REPLACEMENT CHARACTER}"
    assert (text.title[: len("Add ")], text.body[: len("It ")]) == (f"Add{mark}", f"It{mark}")
