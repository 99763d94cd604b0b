"""Which tools are offered, and what is said of those that are not, in every combination."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from treadle.app.sessions.offered_tools import choose_tools
from treadle.core.messages import ToolCall
from treadle.core.tool_families import FAMILIES, ToolKind, kind_of
from treadle.core.tools import EffectClass, ToolExecutionOutcome
from treadle.sandbox.policy import Level
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

ALL = {one.definition.name: one.definition for one in builtin_tools()}
READERS = {name for name, one in ALL.items() if one.effect is EffectClass.READ}


async def call(tools: Registry, name: str) -> str:
    outcome = await tools.execute(ToolCall("id", name), key="", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    return f"{outcome.error.kind.value}: {outcome.error.message}"


async def test_what_is_left_out_says_why_and_in_plan_mode_that_it_is_not_for_that(
    tmp_path: Path,
) -> None:
    faults: list[Any] = []
    for case in product(Level, (True, False), (True, False), (READERS, set(ALL))):
        level, only_reads, has_network, kept = case
        every = [one for one in builtin_tools() if one.definition.name in kept]
        chosen = choose_tools(
            every, level, family="", only_reads=only_reads, has_network=has_network
        )
        found = Registry(chosen.tools, workspace=tmp_path, unavailable=chosen.unavailable)
        offered = {one.name: one for one in found.definitions()}
        gone = {*({"edit_file", "write_file"} if level is Level.READ_ONLY else ())}
        gone |= {*(() if has_network else ("web_fetch",))}
        if offered.keys() != kept - gone:
            faults.append((case, "offered", offered.keys()))
        if "bash" in offered:
            arguments = offered["bash"].input_schema["properties"]
            if ("network" in arguments) != has_network or "command" not in arguments:
                faults.append((case, "arguments", arguments.keys()))
        for name in ALL.keys() - offered.keys():
            said = await call(found, name)
            words = "no page may be fetched here" if name == "web_fetch" else "read-only"
            if only_reads and name not in READERS:
                words = "Rejected: not in plan mode"
            elif name not in gone:
                words = "Tool not found"  # a task was begun without it
            if words not in said:
                faults.append((case, name, said))
    assert faults == []


async def test_a_sub_agent_is_told_that_a_tool_is_not_for_its_job(tmp_path: Path) -> None:
    for level, only_reads in product(Level, (True, False)):
        chosen = choose_tools(
            builtin_tools(),
            level,
            family="",
            only_reads=only_reads,
            has_network=True,
            left_out={"plan", "edit_file"},
        )
        found = Registry(chosen.tools, workspace=tmp_path, unavailable=chosen.unavailable)
        assert not {"plan", "edit_file"} & {one.name for one in found.definitions()}
        assert "Rejected: this tool is not for your job" in await call(found, "plan")
        words = "not in plan mode" if only_reads else "not for your job"
        assert words in await call(found, "edit_file")


def test_all_modes_offer_the_same() -> None:
    for family, level, has_network in product(FAMILIES, Level, (True, False)):
        plan, other = (
            [
                one.definition
                for one in choose_tools(
                    builtin_tools(family),
                    level,
                    family=family,
                    only_reads=only_reads,
                    has_network=has_network,
                ).tools
            ]
            for only_reads in (True, False)
        )
        assert plan == other
        [command] = [one for one in plan if kind_of(one.name) is ToolKind.RUN]
        assert ("network" in command.input_schema["properties"]) == has_network
