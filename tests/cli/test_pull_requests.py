"""`pr`: what was committed is pushed after a yes, and the forge's page opened, with real gits."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_run import Script

MODEL = """
[[replies]]
when.system = "description of a pull request"
text = "Add instead of subtracting\\n\\nSums were differences. The key is {key}."

[[replies]]
when = {{ user = "^edit", step = 0 }}
[[replies.calls]]
tool = "edit_file"
arguments = {{ path = "calc.py", edits = [{{ old_str = "a - b", new_str = "a + b" }}] }}

[[replies]]
when.user = "^edit"
text = "It adds now."
"""
TOKEN = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
GH = """#!/bin/sh
printf '%s\\n' "$@" > "{said}"
[ ! -e "{said}.fails" ] || {{ echo "no browser here" >&2; exit 1; }}
"""

Git = Callable[..., str]


@pytest.fixture
def git(repository: Path, environment: dict[str, str]) -> Git:
    def run(*arguments: str, folder: Path = repository) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def remote(repository: Path, tmp_path: Path, git: Git) -> Path:
    """A bare repository that `origin`, of a name at GitHub, is pushed to."""
    bare = tmp_path / "remote.git"
    git("init", "-q", "--bare", str(bare))
    git("remote", "add", "origin", "https://github.com/someone/some-thing.git")
    git("config", f"url.{bare}.pushInsteadOf", "https://github.com/someone/some-thing.git")
    git("push", "-q", "origin", "HEAD:main")
    return bare


@pytest.fixture
def thread(treadle: Run, script: Script, remote: Path) -> str:
    """A thread whose agent has made a commit on `main`."""
    model = script(MODEL.format(key=TOKEN))
    done = treadle("-p", "edit it", "-m", model, "--approval-mode", "auto")
    assert done.returncode == 0, done.stderr
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


def test_from_the_branch_that_it_is_for_another_one_is_made_and_pushed(
    treadle: Run, thread: str, git: Git, remote: Path, repository: Path
) -> None:
    (repository / "calc.py").write_text((repository / "calc.py").read_text() + "# mine\n")
    (repository / "new.txt").write_text("mine\n")
    git("add", "new.txt")
    before = git("status", "--porcelain")
    done = treadle("pr", thread, "--yes", DEPLOY_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Add instead of subtracting\n\nSums were differences. The key is")
    assert TOKEN not in done.stdout + done.stderr
    url = "https://github.com/someone/some-thing/compare/main...edit-it?expand=1"
    assert done.stdout.splitlines()[-1] == url
    assert "not part of it: 2 files with changes" in done.stderr
    assert git("rev-parse", "edit-it", folder=remote) == git("rev-parse", "HEAD")
    assert git("rev-parse", "main", folder=remote) == git("rev-parse", "HEAD~1")
    assert (git("branch", "--show-current"), git("status", "--porcelain")) == ("main", before)
    assert git("rev-parse", "--abbrev-ref", "edit-it@{upstream}") == "origin/edit-it"


def test_nothing_is_pushed_without_a_yes(treadle: Run, thread: str, git: Git, remote: Path) -> None:
    done = treadle("pr")
    assert done.returncode == 0, done.stderr
    assert "nobody can be asked here: --yes pushes it" in done.stderr
    assert (
        git("branch", "--list", folder=remote).split() == ["main"]
        or git("for-each-ref", "--format=%(refname)", folder=remote) == "refs/heads/main"
    )
    assert git("for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"


def test_the_program_of_the_forge_opens_its_page(
    treadle: Run, thread: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    said, program = tmp_path / "said", tmp_path / "programs" / "gh"
    program.parent.mkdir()
    program.write_text(GH.format(said=said))
    program.chmod(0o755)
    path = f"{program.parent}:{environment['PATH']}"
    done = treadle("pr", thread, "--yes", PATH=path, DEPLOY_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert "gh has opened its page" in done.stderr
    assert re.search(r"written by scripted:.*: about [\d,]+ tokens in, \d+ out", done.stderr)
    words = said.read_text().splitlines()
    assert words[:6] == [
        *("pr", "create", "--web", "--head=edit-it", "--base=main"),
        "--title=Add instead of subtracting",
    ]
    assert words[6].startswith("--body=Sums were differences.")
    assert TOKEN not in said.read_text()
    (tmp_path / "said.fails").touch()
    again = treadle("pr", thread, "--yes", PATH=path)
    assert "no page was opened: gh: no browser here" in again.stderr
    assert "compare/main...edit-it?expand=1" in again.stdout


def test_that_a_model_wrote_no_title_is_told(treadle: Run, thread: str, script: Script) -> None:
    silent = script('[[replies]]\ntext = "---"\n')
    done = treadle("pr", thread, "--yes", "-m", silent)
    assert done.returncode == 0, done.stderr
    assert "the model wrote no description: this one is made of the commits" in done.stderr
    assert not done.stdout.startswith("---")


def test_a_worktree_is_proposed_from_its_own_branch_and_without_a_model_by_its_commits(
    treadle: Run, script: Script, remote: Path, git: Git
) -> None:
    model = script(MODEL.format(key="none"))
    arguments = ("-m", model, "--approval-mode", "auto", "--worktree", "sums")
    assert treadle("-p", "edit it", *arguments).returncode == 0
    (line,) = json.loads(treadle("list", "--json").stdout)
    done = treadle("pr", line["id"], "--yes", "-m", "nobody:nothing")
    assert done.returncode == 0, done.stderr
    assert "the description is made of the commits" in done.stderr
    assert git("rev-parse", "sums", folder=remote) == git("rev-parse", "sums")
    assert git("log", "-1", "--format=%s", "sums") == done.stdout.splitlines()[0]
    assert "Treadle-Thread" not in done.stdout
    assert "compare/main...sums?expand=1" in done.stdout


def test_it_says_why_there_is_nothing_to_propose(
    treadle: Run, git: Git, repository: Path, tmp_path: Path
) -> None:
    assert "has no remote" in treadle("pr").stderr
    bare = tmp_path / "remote.git"
    git("init", "-q", "--bare", str(bare))
    git("remote", "add", "origin", str(bare))
    assert "no main branch of origin is known here" in treadle("pr").stderr
    git("push", "-q", "origin", "HEAD:main")
    git("fetch", "-q")
    assert "origin/main has all commits that are here" in treadle("pr").stderr
    assert "no branch dev of origin is known here" in treadle("pr", "--base", "dev").stderr
    git("commit", "-q", "--allow-empty", "-m", "begin something")
    done = treadle("pr", "--yes")
    assert "this forge is not known here" in done.stderr
    git("rev-parse", "begin-something", folder=bare)
    (bare / "hooks" / "pre-receive").write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    (bare / "hooks" / "pre-receive").chmod(0o755)
    git("commit", "-q", "--allow-empty", "-m", "once more")
    refused = treadle("pr", "--yes")
    assert refused.returncode == 2
    assert "origin has not taken once-more" in refused.stderr
    assert "once-more" not in git("branch", "--list")
