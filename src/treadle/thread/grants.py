"""What a person has allowed for the rest of a thread: how it is added up, and taken back.

A grant of a whole tool and grants of its kinds stand side by side. A kind that is granted again is
for the higher of both risks if the ground is the same; on another ground the newer one replaces
the older, which nothing would stand on any more.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec.structs import replace

from treadle.core.approval import Grant
from treadle.core.config import AgentConfig
from treadle.thread.facts import Granted, KindGranted, Revoked

GRANT_COUNT_MAX: Final = 1000
"""So many tools, and so many kinds, may be allowed in a thread; further ones are asked for."""

GrantFact: TypeAlias = Granted | KindGranted | Revoked


def list_grants(config: AgentConfig) -> tuple[Grant, ...]:
    """All that a person has allowed for good: whole tools first, then kinds, oldest first."""
    return (*(Grant(name, risk) for name, risk in config.granted.items()), *config.grants)


def make_grant_facts(config: AgentConfig) -> list[Granted | KindGranted]:
    """What would have to be recorded for the same to be allowed again."""
    return [
        KindGranted(one.tool_name, one.risk, one.kind, one.ground)
        if one.kind
        else Granted(one.tool_name, one.risk)
        for one in list_grants(config)
    ]


def apply_grant_fact(config: AgentConfig, fact: GrantFact) -> AgentConfig:
    """The configuration after a person has allowed something, or taken it back."""
    if isinstance(fact, Granted):
        return _add_tool_grant(config, fact)
    if isinstance(fact, KindGranted):
        return _add_kind_grant(config, fact)
    return _remove_grant(config, fact)


def _add_tool_grant(config: AgentConfig, fact: Granted) -> AgentConfig:
    if len(config.granted) >= GRANT_COUNT_MAX and fact.tool_name not in config.granted:
        return config
    up_to = max(fact.risk, config.granted.get(fact.tool_name, fact.risk))
    return replace(config, granted={**config.granted, fact.tool_name: up_to})


def _add_kind_grant(config: AgentConfig, fact: KindGranted) -> AgentConfig:
    name = (fact.tool_name, fact.kind)
    others = tuple(one for one in config.grants if (one.tool_name, one.kind) != name)
    if len(others) >= GRANT_COUNT_MAX:
        return config
    known = (one for one in config.grants if one not in others and one.ground == fact.ground)
    risk = max([fact.risk, *(one.risk for one in known)])
    return replace(config, grants=(*others, Grant(fact.tool_name, risk, fact.kind, fact.ground)))


def _remove_grant(config: AgentConfig, fact: Revoked) -> AgentConfig:
    is_all = not fact.kind
    granted = {
        name: risk
        for name, risk in config.granted.items()
        if not (is_all and name == fact.tool_name)
    }
    grants = tuple(
        one
        for one in config.grants
        if one.tool_name != fact.tool_name or not (is_all or one.kind == fact.kind)
    )
    return replace(config, granted=granted, grants=grants)
