"""A file that does not parse any more waits for the round that makes it whole."""

from __future__ import annotations

from workspace.repo import BASH, Agent, Repo, edited

WHOLE = "def f():\n    return 1\n"
BROKEN = "def f(:\n    return 1\n"


async def test_a_broken_file_is_not_committed_until_it_is_whole(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", BROKEN)
    repo.write("b.py", WHOLE)
    result = await agent.end(edited("a.py", "b.py"))
    assert repo.committed == {"b.py": "M"}
    assert "not committed: a.py (does not parse any more as Python" in result.note
    assert "at line 1: waits until it does)" in result.note
    await agent.begin()
    repo.write("a.py", WHOLE)
    result = await agent.end(edited("a.py"))
    assert repo.committed == {"a.py": "M"}
    assert "does not parse" not in result.note
    assert repo.short_status == []


async def test_it_is_committed_by_a_later_round_though_that_names_other_files(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", BROKEN)
    await agent.end(BASH)
    assert repo.short_status == [" M a.py"]
    await agent.begin()
    repo.write("a.py", WHOLE)
    repo.write("b.py", WHOLE)
    await agent.end(BASH)
    assert repo.committed == {"a.py": "M", "b.py": "M"}


async def test_what_did_not_parse_before_and_what_is_new_is_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", BROKEN)
    repo.git("commit", "-qam", "broken by the person")
    await agent.begin()
    repo.write("a.py", BROKEN + "\n")
    repo.write("tests/bad_input.json", "{")
    await agent.end(edited("a.py", "tests/bad_input.json"))
    assert repo.committed == {"a.py": "M", "tests/bad_input.json": "A"}


async def test_a_removed_file_and_one_of_another_language_are_committed(repo: Repo) -> None:
    agent = Agent(repo.path)
    await agent.begin()
    repo.remove("a.py")
    repo.write("docs/c.md", "def f(:")
    await agent.end(BASH)
    assert repo.committed == {"a.py": "D", "docs/c.md": "M"}
