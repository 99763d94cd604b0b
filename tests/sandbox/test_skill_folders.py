"""Folders of skills: commands see them, file tools read them, and nothing of what is around."""

from __future__ import annotations

import json
from pathlib import Path

from sandbox.test_box import backend as backend
from sandbox.test_box import home as home
from sandbox.test_box import shown, tools
from treadle.core.messages import ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry


async def test_skills_are_seen_and_run_and_what_is_around_them_stays_hidden(
    home: Path, backend: str
) -> None:
    config = home / ".config/treadle"
    mine, own = home / ".agents/skills/mine", config / "skills/own"
    for folder in (mine, own, home / ".agents/skills/other"):
        folder.mkdir(parents=True)
        (folder / "run.sh").write_text("echo it runs\n")
        (folder / "link").symlink_to(home / ".ssh/id")
    (config / "config.toml").write_text("secret")
    policy = Policy(hidden=(str(config),), skills=(str(mine), str(own)))
    registry = tools(home / "ws", backend, policy)
    for folder in (mine, own):
        said = await shown(
            registry, f"sh {folder}/run.sh; echo x > {folder}/new; cat {folder}/link"
        )
        assert said.startswith("it runs\n"), said
        assert "secret" not in said
        assert not (folder / "new").exists()
        assert await shown(registry, f"sh {folder}/run.sh", access="read") == (
            "it runs\n[exit code 0]"
        )
    said = await shown(
        registry, f"cat {config}/config.toml {home}/.agents/skills/other/run.sh; ls {config}"
    )
    assert "secret" not in said
    assert "it runs" not in said
    assert "config.toml" not in said.splitlines()


async def test_file_tools_read_skills_that_lie_elsewhere_and_nothing_beside_them(
    home: Path,
) -> None:
    skills = home / ".agents/skills"
    (skills / "mine/references").mkdir(parents=True)
    (skills / "mine/SKILL.md").write_text("Read references.\n")
    (skills / "mine/references/a.md").write_text("All of it.\n")
    (skills / "mine/out").symlink_to(home / ".ssh/id")
    (skills / "mine-not").mkdir()
    (skills / "mine-not/SKILL.md").write_text("secret")
    sandbox = Sandbox(Policy(skills=(str(skills / "mine"),)), home / "ws", backends=())
    registry = Registry(builtin_tools(), workspace=home / "ws", sandbox=sandbox)

    async def use(name: str, **arguments: object) -> str:
        call = ToolCall("c", name, json.dumps(arguments))
        outcome = await registry.execute(call, key="c", progress=lambda report: None)
        if isinstance(outcome, ToolExecutionOutcome.Success):
            return outcome.output
        return f"failed: {outcome.error.kind.value}"

    mine = f"{skills}/mine"
    assert await use("read_file", path=f"{mine}/SKILL.md") == "Read references.\n"
    assert await use("read_file", path=f"{mine}/references/../references/a.md") == "All of it.\n"
    assert await use("list_files", path=mine, pattern="*.md") == "SKILL.md\nreferences/a.md"
    assert await use("search_files", pattern="All", path=f"{mine}/references") == (
        "references/a.md:1: All of it."
    )
    for path in (f"{mine}/out", f"{mine}/../mine-not/SKILL.md", f"{mine}-not/SKILL.md", mine[:-5]):
        assert (await use("read_file", path=path)).startswith("failed: "), path
    assert await use("write_file", path=f"{mine}/new.md", content="x") == (
        "failed: Path outside workspace"
    )
    edits = [{"old_str": "Read", "new_str": "Wrote"}]
    assert await use("edit_file", path=f"{mine}/SKILL.md", edits=edits) == (
        "failed: Path outside workspace"
    )
    assert (skills / "mine/SKILL.md").read_text() == "Read references.\n"
