"""Who writes the commit message, what they are shown, and that the commit is made in any case."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from treadle.secrets.redaction import Redactor
from treadle.workspace.commit import CommitLimits
from treadle.workspace.message import DIFF_SIZE_MAX
from workspace.repo import BASH, TRAILER, Agent, Repo, edited


class Composer:
    """Remembers the diff; answers, or does as told."""

    def __init__(self, answer: str = "", act: Callable[[], Awaitable[None]] | None = None) -> None:
        self.diff = ""
        self._answer = answer
        self._act = act

    async def __call__(self, diff: str) -> str:
        self.diff = diff
        if self._act is not None:
            await self._act()
        return self._answer


async def edit(repo: Repo, compose: Composer, **options: object) -> str:
    agent = Agent(repo.path, compose=compose, **options)
    await agent.begin()
    repo.write("a.py", "print(10)\n")
    result = await agent.end(edited("a.py"))
    assert result.action_taken, result.note
    return result.note


async def test_a_composed_message_is_taken(repo: Repo) -> None:
    note = await edit(repo, Composer("fix: count right\n\nIt was 1."))
    assert repo.message == f"fix: count right\n\nIt was 1.\n\n{TRAILER}"
    assert note == f"committed {repo.head[:7]} fix: count right (1 file)"


@pytest.mark.parametrize(
    "answer", ["", "  ", "Sure! Here is a commit message for you: " * 3, "```"]
)
async def test_an_answer_that_is_no_message_is_replaced_by_the_plain_one(
    repo: Repo, answer: str
) -> None:
    await edit(repo, Composer(answer))
    assert repo.message == f"chore: update a.py\n\n{TRAILER}"


async def test_a_composer_that_raises_or_hangs_does_not_stop_the_commit(repo: Repo) -> None:
    async def fail() -> None:
        raise RuntimeError("no network")

    async def hang() -> None:
        await asyncio.Event().wait()

    await edit(repo, Composer("fix: x", fail))
    assert repo.message.startswith("chore: update a.py")
    repo.git("reset", "--hard", "HEAD~1")
    await edit(repo, Composer("fix: x", hang), limits=CommitLimits(compose_s=0.05))
    assert repo.message.startswith("chore: update a.py")


async def test_a_message_cannot_claim_another_thread(repo: Repo) -> None:
    await edit(repo, Composer("fix: x\n\nTreadle-Thread: T-evil@1"))
    assert repo.message == f"fix: x\n\n{TRAILER}"


async def test_lines_that_look_like_comments_are_kept(repo: Repo) -> None:
    repo.git("config", "commit.cleanup", "strip")
    await edit(repo, Composer("#1: x\n\n# heading"))
    assert repo.message == f"#1: x\n\n# heading\n\n{TRAILER}"


async def test_the_diff_shows_the_agents_changes_and_no_others(repo: Repo) -> None:
    repo.write("b.py", "the person's staged\n")
    repo.git("add", "b.py")
    repo.write("mine.txt", "the person's untracked\n")
    repo.git("config", "diff.noprefix", "true")
    repo.git("config", "color.ui", "always")
    repo.git("config", "diff.external", "touch ran; false")
    compose = Composer("fix: x")
    agent = Agent(repo.path / "docs", compose=compose)
    await agent.begin()
    repo.write("docs/c.md", "# changed\n")
    repo.write("docs/new.md", "# new\n")
    index = repo.index
    await agent.end(BASH)
    assert "-# C\n+# changed\n" in compose.diff
    assert "new file mode" in compose.diff
    assert "+# new\n" in compose.diff
    assert "2 files changed" in compose.diff
    assert "person" not in compose.diff
    assert "\x1b" not in compose.diff
    assert not (repo.path / "ran").exists()
    assert repo.index[1] == index[1]


async def test_the_index_is_untouched_while_the_message_is_composed(repo: Repo) -> None:
    states: list[object] = []

    async def look() -> None:
        states.append(repo.index)

    agent = Agent(repo.path, compose=Composer("feat: x", look))
    await agent.begin()
    repo.write("new.py", "1\n")
    states.append(repo.index)
    await agent.end(BASH)
    assert states[0] == states[1]


async def test_a_file_changed_while_the_message_is_composed_is_left_alone(repo: Repo) -> None:
    async def meddle() -> None:
        repo.write("a.py", "the person's\n")

    agent = Agent(repo.path, compose=Composer("fix: x", meddle))
    await agent.begin()
    repo.write("a.py", "1\n")
    result = await agent.end(edited("a.py"))
    assert result.note == "not committed: the files were changed meanwhile"
    await agent.begin()
    repo.write("a.py", "the person's\n")
    repo.write("b.py", "2\n")
    await agent.end(BASH)
    assert repo.committed == {"b.py": "M"}
    assert repo.short_status == [" M a.py"]


async def test_secrets_reach_neither_the_model_nor_the_message(repo: Repo) -> None:
    key = "sk-0123456789abcdef"
    repo.write("a.py", f"key = '{key}'\n")
    repo.git("commit", "-am", "a secret, long ago")
    compose = Composer(f"fix: remove {key}")
    await edit(repo, compose, redactor=Redactor({"api_key": key}))
    assert "-key = '[REDACTED:api_key]'" in compose.diff
    assert repo.message.startswith("fix: remove [REDACTED:api_key]\n")


async def test_a_long_diff_is_cut(repo: Repo) -> None:
    compose = Composer("fix: x")
    agent = Agent(repo.path, compose=compose)
    await agent.begin()
    repo.write("big.txt", "0123456789\n" * 100_000)
    await agent.end(BASH)
    assert len(compose.diff.encode()) < DIFF_SIZE_MAX + 100
    assert "bytes are shown]" in compose.diff.splitlines()[-1]
    assert "of 1200" in compose.diff.splitlines()[-1]
