"""An answer of a type while it arrives."""

from __future__ import annotations

import json
from typing import Any

import pydantic
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from treadle import Agent, ScriptedModel
from treadle.agent.partial_values import read_partial
from treadle.store.threads import AnyThreads

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=6,
)


def is_part_of(part: Any, whole: Any) -> bool:
    """Whether a value is what has come so far of another one."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_part_of(one, whole[name]) for name, one in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        pairs = zip(part, whole, strict=False)
        return len(part) <= len(whole) and all(is_part_of(*pair) for pair in pairs)
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part.rstrip("\ufffd"))
    return part == whole


@given(st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4), st.booleans())
def test_whatever_has_come_is_a_part_of_what_comes(whole: Any, is_ascii: bool) -> None:
    text = f"```json\n{json.dumps(whole, ensure_ascii=is_ascii)}\n```"
    seen = UNSET
    for end in range(len(text) + 1):
        part = read_partial(text[:end])
        if part is UNSET:
            assert seen is UNSET, "what was there stays"
            continue
        assert is_part_of(part, whole), (text[:end], part)
        seen = part
    assert seen == whole


def test_what_is_open_is_closed_where_it_stands() -> None:
    cases: list[tuple[str, Any]] = [
        ("", UNSET),
        ("Here", UNSET),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a": ', {}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": [1, {"b": "c', {"a": [1, {"b": "c"}]}),
        ('{"a": {}} and more', {"a": {}}),
    ]
    assert [(text, read_partial(text)) for text, _ in cases] == cases


class Recipe(pydantic.BaseModel):
    name: str
    steps: list[str]


async def test_an_answer_is_followed_while_it_arrives(store: AnyThreads) -> None:
    text = '{"name": "tea", "steps": ["boil", "wait"]}'
    model = ScriptedModel.of({"text": text, "chunk_size": 6})
    agent = Agent("cook", model=model, output=Recipe, store=store)
    async with agent.task("Tea?") as task:
        found = [one async for one in task.stream_output()]
        result = await task.run()
    async with agent.thread("one") as thread:
        again = [one async for one in thread.stream_output("Tea?")]
        assert thread.result.output == result.output
    assert found == again
    assert found[0] == {}
    assert {"name": "tea", "steps": ["boi"]} in found
    assert found[-1] == result.output.model_dump()
    assert len(found) > 4


def test_of_what_is_nested_without_end_nothing_is_said() -> None:
    assert read_partial("[" * 400) is not UNSET
    for opening in ("[", '{"a":'):
        assert read_partial(opening * 200_000) is UNSET
