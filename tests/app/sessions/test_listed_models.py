"""What providers' lists said is kept in a cache, which may hold anything."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.app.sessions.model_list_cache import ModelListCache
from treadle.core.llm import ModelTraits

NAME = "p:m"


def test_what_a_list_said_is_known_in_the_next_process(tmp_path: Path) -> None:
    ModelListCache(tmp_path).put(NAME, ModelTraits(context_tokens_max=8000))
    found = ModelListCache(tmp_path).find(NAME)
    assert found is not None
    assert found.traits.context_tokens_max == 8000
    assert found.day


def test_a_cache_that_holds_anything_else_is_as_good_as_none(tmp_path: Path) -> None:
    contents = (
        b"",
        b"\xff",
        b"[]",
        b'{"p:m": 1}',
        b'{"p:m\xff": {}}',
        b'{"p:m": {"x": ' + b"[" * 100_000,
        b'{"p:m": {"traits": {"context_tokens_max": -1}}}',
        b'{"p:m": {"traits": {"context_tokens_max": 0}}}',
        b" " * (2**20 + 1),
    )
    for content in contents:
        (tmp_path / "models.json").write_bytes(content)
        assert ModelListCache(tmp_path).find(NAME) is None, content[:40]
    (tmp_path / "models.json").unlink()
    os.mkfifo(tmp_path / "models.json")
    assert ModelListCache(tmp_path).find(NAME) is None


def test_a_name_that_is_no_text_is_not_kept_and_breaks_nothing(tmp_path: Path) -> None:
    listed = ModelListCache(tmp_path)
    listed.put("p:\udcff", None)
    assert listed.find("p:\udcff") is None
    listed.put(NAME, None)
    assert listed.find(NAME) is not None
