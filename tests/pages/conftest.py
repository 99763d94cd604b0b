"""Threads on a disk, and the site that shows them, asked as a browser asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from cli.conftest import environment as environment
from cli.conftest import repository as repository
from treadle import Agent, EffectClass, LocalStore, ScriptedModel, tool
from treadle.app.pages.local_site import LocalSite

PORT = 7777
LONG = "ten words of a long output that nobody reads whole\n" * 5000


@tool(effect=EffectClass.READ)
def look_up(name: str, note: str = "") -> str:
    """Look something up."""
    return LONG if name == "long" else f"{name}: found {note}"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def site(store: LocalStore) -> LocalSite:
    return LocalSite(store, PORT)


@pytest.fixture
async def stranger(site: LocalSite) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who can reach the port, and has no cookie."""
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url=site.address) as client:
        yield client


@pytest.fixture
async def visitor(site: LocalSite, stranger: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The person whose threads they are: has followed the link."""
    opened = await stranger.get(site.make_link())
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    return stranger


async def speak(store: LocalStore, key: str, *prompts: str, **reply: object) -> str:
    """A thread in which each prompt was answered; its id."""
    told = {"text": "**Fine**, it is `done`.", **reply}
    calls = told.pop("calls", None)
    replies = [{"calls": calls}, told] if calls else [told]
    model = ScriptedModel.of(*replies * len(prompts))
    async with Agent("pages", model=model, store=store, tools=[look_up]).thread(key) as thread:
        for prompt in prompts:
            await thread.send(prompt)
        return thread.id
