"""Servers of models on this machine are found at once, and nothing else is taken for one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from models.loopback import Answer, Loopback, refusal
from treadle.app import local_servers
from treadle.app.local_servers import LocalServer, find_local_servers
from treadle.app.model_setup import find_model_sources, use_provider
from treadle.config.keys import find_key
from treadle.config.loader import LoadedSettings, load_settings
from treadle.store.paths import Places


def told(data: Any, status: int = 200) -> Answer:
    """An answer to HTTP/1.0: no chunks, and the connection ends with it."""
    return replace(refusal(status, data), framing="close")


LISTED = told({"object": "list", "data": [{"id": "coder:7b"}, {"id": "other"}]})
NOTHING = "http://127.0.0.1:9/v1"
NAMES = ("ollama", "lmstudio", "vllm", "llamacpp")


def loaded(tmp_path: Path, **urls: str) -> LoadedSettings:
    """Settings in which these are the servers of this machine."""
    where = {**dict.fromkeys(NAMES, NOTHING), **urls}
    lines = [f'[providers.{name}]\nbase_url = "{url}"\n' for name, url in where.items()]
    path = tmp_path / "config" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(lines))
    return load_settings(tmp_path, {"TREADLE_HOME": str(tmp_path)})


async def test_a_server_is_found_by_its_list_and_asked_nothing_else(tmp_path: Path) -> None:
    async with Loopback(LISTED) as one, Loopback(LISTED) as two:
        local = two.url.replace("127.0.0.1", "localhost")
        settings = loaded(tmp_path, ollama=f"{one.url}/v1", vllm=f"{local}/v1")
        found = await find_local_servers(settings, {"http_proxy": NOTHING})
        there = one.url
    models = ("coder:7b", "other")
    assert set(found) == {
        LocalServer("ollama", f"{there}/v1", models),
        LocalServer("vllm", f"{local}/v1", models),
    }
    for server in (one, two):
        ((method, path, key),) = [
            (seen.method, seen.path, seen.headers.get("authorization")) for seen in server.requests
        ]
        assert (method, path, key) == ("GET", "/v1/models", None)


OTHERS: list[tuple[str, Any]] = [
    ("a page", told(b"<html>")),
    ("no such path", told({"data": [{"id": "x"}]}, 404)),
    ("a key is needed", told({"data": [{"id": "x"}]}, 401)),
    ("another list", told([1, 2])),
    ("a list of nothing", told({"data": []})),
    ("names that are none", told({"data": [{"id": 1}, {"id": "\x1b[2J"}, 3]})),
    ("no list", told({"data": 5})),
    ("nested too deep", told(b'{"data":' + b"[" * 100_000)),
    ("no status", Answer((b"x",), 200, {}, framing="close")),
    ("silence", Answer((b'{"data": [{"id": '), 200, {"content-length": "99"}, hangs=True)),
]


async def test_what_is_no_such_server_is_not_taken_for_one_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_servers, "PROBE_S_MAX", 0.2)
    wrong = []
    for words, answer in OTHERS:
        async with Loopback(answer) as server:
            found = await find_local_servers(loaded(tmp_path, ollama=f"{server.url}/v1"), {})
        if found or len(server.requests) != 1:
            wrong.append((words, found))
    assert wrong == []


async def test_nobody_beyond_this_machine_is_asked(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        ollama="http://192.0.2.1:11434/v1",
        vllm="http://localhost.example.org/v1",
        lmstudio="https://127.0.0.1:9/v1",
    )
    began = time.monotonic()
    assert await find_local_servers(settings, {}) == ()
    assert time.monotonic() - began < local_servers.PROBE_S_MAX, "nothing was connected to"


async def test_sources_are_servers_then_keys_then_what_a_key_would_open(tmp_path: Path) -> None:
    keys = tmp_path / "config" / "keys"
    keys.mkdir(parents=True)
    (keys / "groq.key").write_text("gsk-0123456789\n")
    environ = {"XAI_API_KEY": "xai-0123456789"}
    async with Loopback(LISTED) as server:
        url = f"{server.url}/v1"
        found = await find_model_sources(loaded(tmp_path, ollama=url), environ)
    assert [(one.kind, one.provider, one.place) for one in found[:3]] == [
        ("server", "ollama", url),
        ("key", "groq", f"key from file {keys / 'groq.key'}"),
        ("key", "xai", "key from environment XAI_API_KEY"),
    ]
    assert {one.kind for one in found[3:]} == {"ask"}
    assert found[3].provider == "anthropic"
    assert "0123456789" not in json.dumps([str(one) for one in found])
    (tmp_path / "config" / "config.toml").write_text("local_only = true\n")
    alone = load_settings(tmp_path, {"TREADLE_HOME": str(tmp_path)})
    assert [one for one in await find_model_sources(alone, environ) if one.kind != "server"] == []


async def test_a_key_in_a_variable_of_another_name_is_found_and_used(tmp_path: Path) -> None:
    environ = {"TREADLE_HOME": str(tmp_path), "GOOGLE_API_KEY": "g-0123456789"}
    settings = loaded(tmp_path)
    (source,) = [one for one in await find_model_sources(settings, environ) if one.kind == "key"]
    assert (source.provider, source.place) == ("gemini", "key from environment GOOGLE_API_KEY")
    places = Places.find(environ)
    name = use_provider(places, source, "", folder=tmp_path, environ=environ)
    assert name == settings.catalog.resolve("gemini").name
    after = load_settings(tmp_path, environ)
    assert after.values["providers.gemini.key_env"] == "GOOGLE_API_KEY"
    found = find_key(after.catalog.providers["gemini"], environ)
    assert found is not None
    assert found.origin == "environment GOOGLE_API_KEY"
