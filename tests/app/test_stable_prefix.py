"""What a provider has cached of a thread stays good: over resumes, modes, days and branches."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from app.one_user import PATHS, SPEAKERS, Speaker, user_at_repository
from models.loopback import Answer, Loopback, Seen, stream
from models.speakers import SPEAK
from treadle import app
from treadle.answers import Verdict
from treadle.app.sessions.approval_modes import MODES
from treadle.core.approval import Rejected
from treadle.terminal.chat_session import ChatCallbacks, ChatOptions, ChatSession

TURNS: Final = 20
REQUESTS: Final = 3 * TURNS
"""Of each turn: two rounds of calls, then the answer."""
DAYS: Final = ("Etc/GMT+12", "Pacific/Kiritimati")
"""Places where it is never the same day."""


class Script:
    """The server's side."""

    def __init__(self, speaker: Speaker) -> None:
        self._speak: Any = SPEAK[speaker.wire_format]
        self._count = 0

    def answer(self, seen: Seen) -> Answer:
        self._count += 1
        number = self._count
        if number % 3 == 0:
            return stream(self._speak(f"So it is, {number}."))
        calls = [(f"a{number}", "list_files", {}), (f"b{number}", "plan", {"steps": []})]
        if number % 3 == 2:  # refused or asked about, by the mode
            calls.append((f"c{number}", "edit_file", {"path": "warp.txt", "edits": []}))
        return stream(self._speak(f"I look, {number}.", tuple(calls)))


def head_of(body: dict[str, Any]) -> bytes:
    """What stands before the conversation, as it was sent, and what names the cache."""
    said = body.get("messages", [])
    system = [one for one in said if one["role"] == "system"]
    named = {
        name: body.get(name) for name in ("tools", "system", "instructions", "prompt_cache_key")
    }
    return json.dumps([named, system]).encode()


def said_in(body: dict[str, Any]) -> list[str]:
    """The conversation, a text for each message; marks of the cache are none of it."""
    texts = [json.dumps(one) for one in body.get("messages") or body["input"]]
    return [re.sub(r', "cache_control": \{[^}]*\}', "", text) for text in texts]


def told_last(body: dict[str, Any], label: str) -> str:
    """What the model reads last of a fact: its first word."""
    text = "\n".join((head_of(body).decode(), *said_in(body)))
    return re.findall(rf"- {label}: ([\w-]+)", text)[-1]


async def go_on_headless(speaker: Speaker, thread: str | None, folder: Path, mode: Any) -> str:
    """A turn of a process in which nobody is asked."""
    choice = app.RunChoice(model=speaker.model, mode=mode)
    setup = app.make_setup(app.open_store(), choice, app.ThreadTarget(str(folder), thread))
    result = await app.run_turn(setup, app.TurnRequest("Look, please."), lambda _: None)
    assert result.turn.outcome is app.TurnOutcome.DONE, result.turn.error
    return result.turn.thread


async def go_on_in_chat(speaker: Speaker, thread: str, folder: Path, modes: list[Any]) -> None:
    """A chat: a turn in each of the modes, chosen while it is open."""

    async def refuse(question: object) -> Verdict:
        return Verdict(Rejected("not now"))

    async def ask(question: object) -> Any:
        raise AssertionError("nothing is uncertain")

    async def find_model(missing: object) -> str | None:
        raise AssertionError("there is a model")

    async def answer_server(question: object) -> Any:
        raise AssertionError("there is no server of tools")

    def tell(_: object) -> None:
        pass

    people = ChatCallbacks(tell, refuse, ask, tell, tell, find_model, answer_server, lambda: None)
    chat = ChatSession(ChatOptions(model=speaker.model, cwd=str(folder)), people)
    await chat.prepare(thread)
    session = await chat.open()
    for mode in modes:
        await chat.choose(mode=mode)
        finished = await session.turn("Look again.")
        assert finished.outcome is app.TurnOutcome.DONE, finished.error
    await chat.close()


async def work(top: Path, speaker: Speaker) -> list[Seen]:
    """Twenty turns in ten processes, each on another day, branch and mode than the one before."""
    async with Loopback(Script(speaker).answer) as server:
        with user_at_repository(top, server) as folder:
            modes, thread = cycle(MODES), None
            for process in range(TURNS // 2):
                os.environ["TZ"] = DAYS[process % 2]
                time.tzset()
                branch = ["git", "checkout", "--quiet", "-B", f"loom-{process}"]
                await asyncio.to_thread(subprocess.run, branch, cwd=folder, check=True)
                if thread is None or process % 2:
                    for mode in ("auto", "plan"):
                        thread = await go_on_headless(speaker, thread, folder, mode)
                else:
                    await go_on_in_chat(speaker, thread, folder, list(islice(modes, 2)))
    return server.requests


@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda one: one.name)
async def test_over_sixty_requests_what_was_sent_stays_as_it_was_and_the_news_is_told(
    tmp_path: Path, speaker: Speaker
) -> None:
    requests = await work(tmp_path, speaker)
    bodies = [seen.json for seen in requests]
    assert len(bodies) == REQUESTS
    assert all(seen.path.endswith(PATHS[speaker.wire_format]) for seen in requests)
    assert len({head_of(body) for body in bodies}) == 1
    for number, (before, after) in enumerate(pairwise(map(said_in, bodies))):
        assert after[: len(before)] == before, number
    firsts = bodies[::3]
    assert {told_last(body, "Mode") for body in firsts} == {*MODES}
    assert [told_last(body, "Branch") for body in firsts] == [
        f"loom-{turn // 2}" for turn in range(TURNS)
    ]
    days = [told_last(body, "Date") for body in firsts]
    assert all(
        (one == other) == (turn % 2 == 0) for turn, (one, other) in enumerate(pairwise(days))
    )
