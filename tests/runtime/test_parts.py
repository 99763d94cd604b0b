"""What a session, an engine, a store and a registry are made of; what is none of it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from runtime.desk import Desk, Model, Toolbox
from treadle.errors import UsageError
from treadle.runtime.engine import AgentEngine
from treadle.runtime.session import Session
from treadle.store.local_store import LocalStore
from treadle.tools.registry import Registry


def test_what_is_given_in_the_wrong_place_is_named_with_what_belongs_there(
    desk: Desk, tmp_path: Path
) -> None:
    writer = desk.store.create("test")
    model, tools = Model("done"), Toolbox()
    wrong: list[tuple[Any, tuple[object, ...], str, str]] = [
        (kind, parts, what, hint)
        for kind in (Session, AgentEngine)
        for parts, what, hint in (
            (("T-1", model, tools), "'T-1' is no thread", "LocalStore.open"),
            ((writer, "claude", tools), "'claude' is no provider", "AnthropicProvider()"),
            ((writer, model, [print]), "is no set of tools", "Registry([...])"),
        )
    ]
    wrong += [
        (LocalStore, (7,), "is kept in a folder", "LocalStore("),
        (Registry, ([print],), "is no tool", "with @tool"),
    ]
    misses = []
    for kind, parts, what, hint in wrong:
        try:
            cast(Any, kind)(*parts)
        except UsageError as error:
            if what not in error.message or hint not in (error.hint or ""):
                misses.append(f"{kind.__name__}{parts}: {error.message} ({error.hint})")
        else:
            misses.append(f"{kind.__name__}{parts} was taken")
    assert misses == []
    writer.close()


def test_an_option_that_does_not_exist_is_refused_by_name(desk: Desk) -> None:
    with pytest.raises(TypeError, match="approv"):
        cast(Any, Session)(desk.store.create("test"), Model("done"), Toolbox(), approv=None)
