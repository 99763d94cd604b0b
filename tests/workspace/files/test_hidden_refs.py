"""Why states of files stand where `git log --all` shows them: what git hides, it throws away."""

from __future__ import annotations

import subprocess
from typing import Final

from workspace.repo import Repo

PLACES: Final = (
    "refs/treadle/state",
    "refs/worktree/treadle",
    "refs/bisect/treadle",
    "refs/rewritten/treadle",
    "refs/namespaces/treadle/refs/heads/state",
    "a ref of another worktree",
    "the HEAD of another worktree",
    "a name beside HEAD",
    "a reflog without a ref",
)


def test_git_keeps_no_commit_that_it_would_not_show(repo: Repo) -> None:
    commits = {place: make_commit(repo, place) for place in PLACES}
    for place, commit in commits.items():
        put(repo, place, commit)
    for key in ("transfer.hideRefs", "receive.hideRefs", "log.excludeDecoration"):
        for place in PLACES:
            if place.startswith("refs/"):
                repo.git("config", "--add", key, place)
    shown = set(repo.git("log", "--all", "--format=%H").split())
    repo.git("-c", "gc.reflogExpireUnreachable=now", "gc", "--quiet", "--prune=now")
    checked = git(repo, "cat-file", "--batch-check", text="\n".join(commits.values()))
    kept = {line.split()[0] for line in checked.splitlines() if not line.endswith(" missing")}
    assert {place for place, one in commits.items() if one in kept - shown} == set()
    assert commits["refs/treadle/state"] in kept & shown
    assert commits["a ref of another worktree"] not in kept | shown


def git(repo: Repo, *arguments: str, text: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=repo.path, input=text, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_commit(repo: Repo, text: str) -> str:
    blob = git(repo, "hash-object", "-w", "--stdin", text=text)
    tree = git(repo, "mktree", text=f"100644 blob {blob}\tfile\n")
    return git(repo, "commit-tree", tree, "-m", text, text="")


def put(repo: Repo, place: str, commit: str) -> None:
    """Have a place lead to a commit."""
    git_dir, other = repo.path / ".git", repo.path.parent / "other"
    if place.startswith("refs/"):
        repo.git("update-ref", place, commit)
    elif place == "a ref of another worktree":
        repo.git("worktree", "add", "--quiet", "--detach", str(other))
        repo.git("-C", str(other), "update-ref", "refs/worktree/treadle", commit)
    elif place == "the HEAD of another worktree":
        repo.git("worktree", "add", "--quiet", "--detach", f"{other}-2", commit)
    elif place == "a name beside HEAD":
        (git_dir / "TREADLE_HEAD").write_text(f"{commit}\n")
    else:
        log = git_dir / "logs" / "refs" / "treadle" / "log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{'0' * 40} {commit} a <a@b> 1790000000 +0000\tstate\n")
