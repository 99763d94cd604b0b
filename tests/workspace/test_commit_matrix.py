"""Every state a file may be in before a round, times everything a round may do to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from workspace.repo import BASH, Agent, Repo, edited


def _index_only(repo: Repo, name: str) -> None:
    repo.git("rm", "--cached", name)


def _write(text: str) -> Callable[[Repo, str], object]:
    return lambda repo, name: repo.write(name, text)


def _add(repo: Repo, name: str) -> None:
    repo.git("add", name)


def _intend(repo: Repo, name: str) -> None:
    repo.git("add", "--intent-to-add", name)


def _remove(repo: Repo, name: str) -> None:
    if (repo.path / name).exists():
        repo.remove(name)


def _keep(repo: Repo, name: str) -> None:
    pass


Steps = list[Callable[[Repo, str], object]]
WRITE, MORE = _write("the person's\n"), _write("the person's, and more\n")

COMMITTED: dict[str, Steps] = {
    "clean": [],
    "modified": [WRITE],
    "staged": [WRITE, _add],
    "staged-modified": [WRITE, _add, MORE],
    "deleted": [_remove],
    "staged-deleted": [_remove, _add],
    "replaced": [_remove, _add, WRITE],
    "out-of-index": [_index_only],
}
NEW: dict[str, Steps] = {
    "absent": [],
    "untracked": [WRITE],
    "staged-new": [WRITE, _add],
    "staged-new-modified": [WRITE, _add, MORE],
    "staged-new-deleted": [WRITE, _add, _remove],
    "intended": [WRITE, _intend],
    "ignored": [WRITE],
}
ROUND: dict[str, Callable[[Repo, str], object]] = {
    "kept": _keep,
    "written": _write("the agent's\n"),
    "removed": _remove,
}
FILES = [f"{state}.{act}" for state, act in itertools.product([*COMMITTED, *NEW], ROUND)]
MINE = {"clean.written": "M", "clean.removed": "D", "absent.written": "A"}


def make(repo: Repo) -> None:
    repo.write(".git/info/exclude", "ignored.*\n")
    for state, act in itertools.product(COMMITTED, ROUND):
        repo.write(f"{state}.{act}", "committed\n")
    repo.git("add", ".")
    repo.git("commit", "-m", "chore: files")
    for state, steps in {**COMMITTED, **NEW}.items():
        for act in ROUND:
            for step in steps:
                step(repo, f"{state}.{act}")


def contents(repo: Repo) -> dict[str, str | None]:
    return {name: repo.read(name) if (repo.path / name).exists() else None for name in FILES}


def index_lines(repo: Repo) -> set[str]:
    names = {*MINE}
    lines = repo.git("ls-files", "--stage").splitlines()
    return {line for line in lines if line.partition("\t")[2] not in names}


@pytest.mark.parametrize("completed", [BASH, edited(*FILES)], ids=["bash", "edits"])
@pytest.mark.parametrize("hook", ["exit 0", "exit 1", "echo x > hooked; git add hooked"])
async def test_the_agents_changes_are_committed_and_the_persons_stay_as_they_are(
    repo: Repo, completed: object, hook: str
) -> None:
    make(repo)
    repo.hook("pre-commit", hook)
    agent = Agent(repo.path)
    await agent.begin()
    for state, act in itertools.product([*COMMITTED, *NEW], ROUND):
        ROUND[act](repo, f"{state}.{act}")
    before, index, others, head = contents(repo), repo.index, index_lines(repo), repo.head
    staged = repo.git("diff", "--cached", "--name-status")
    result = await agent.end(completed)  # type: ignore[arg-type]
    assert contents(repo) == before
    assert repo.git("diff", "--cached", "--name-status") == staged
    if hook == "exit 1":
        assert (repo.index, repo.head) == (index, head)
        assert not result.action_taken
    else:
        hooked = {"hooked": "A"} if "hooked" in hook else {}
        assert repo.committed == {**MINE, **hooked}
        assert (
            index_lines(repo) - {line for line in index_lines(repo) if "hooked" in line} == others
        )
        assert not any(name in line for name in MINE for line in repo.short_status)
