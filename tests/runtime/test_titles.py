"""A conversation gets a title from a cheap model, if one is there; nobody waits long for it."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.desk import Desk, Model
from treadle.core.llm import Usage
from treadle.runtime.titles import PROMPT_LENGTH_MAX, Titler
from treadle.thread.facts import Renamed
from treadle.thread.metadata import TITLE_LENGTH_MAX


async def test_the_first_prompt_is_named_and_what_that_used_is_counted(desk: Desk) -> None:
    namer = Model(
        {"text": '"The flaky test."\nmore', "usage": {"input_tokens": 9, "output_tokens": 2}}
    )
    session = desk.new(Model("done"), titler=Titler(namer, "small"))
    finished = await session.turn("mend the test that fails now and then, please")
    fold = session.driver.journal.writer.fold
    assert fold.title() == "The flaky test"
    assert (finished.version, finished.usage) == (fold.version, fold.usage)
    assert fold.usage.input_tokens >= 9
    [renamed] = [e for e in desk.events(session.thread_id) if e["type"] == "renamed"]
    assert (renamed["by"], renamed["model"]) == ("model", "small")
    assert [one.content for one in namer.requests[0].messages] == [
        "mend the test that fails now and then, please"
    ]
    desk.check(session)


async def test_only_the_first_prompt_is_named(desk: Desk) -> None:
    namer = Model("One", "Two")
    session = desk.new(Model("a", "b"), titler=Titler(namer, "small"))
    await session.turn("first")
    await session.turn("second")
    assert len(namer.requests) == 1
    assert session.driver.journal.writer.fold.title() == "One"


async def test_a_thread_that_has_a_title_keeps_it(desk: Desk) -> None:
    writer = desk.store.create("test", first=[Renamed("Mine")])
    namer = Model("Another")
    session = desk.sit(writer, Model("done"), titler=Titler(namer, "small"))
    await session.turn("first")
    assert (session.driver.journal.writer.fold.title(), namer.requests) == ("Mine", [])


@pytest.mark.parametrize(
    "reply", [{"error": {"kind": "server"}}, "", "  \n", {"error": {"kind": "authentication"}}]
)
async def test_without_a_title_the_first_line_of_the_prompt_stands(desk: Desk, reply: Any) -> None:
    session = desk.new(Model("done"), titler=Titler(Model(reply), "small"))
    finished = await session.turn("mend it\nall of it")
    assert (finished.answer, session.driver.journal.writer.fold.title()) == ("done", "mend it")
    desk.check(session)


async def test_a_model_that_does_not_answer_is_not_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.runtime.session.TITLE_WAIT_S_MAX", 0.0)
    session = desk.new(Model("done"), titler=Titler(Model({"hang": True}), "small"))
    assert (await session.turn("mend it")).answer == "done"
    assert "renamed" not in desk.kinds(session.thread_id)


async def test_the_model_is_shown_the_beginning_of_the_prompt_without_secrets(desk: Desk) -> None:
    class Hush:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    namer = Model("Title")
    session = desk.new(Model("done"), titler=Titler(namer, "small"), redactor=Hush())
    await session.turn("hunter2 " + "x" * 10_000)
    [message] = namer.requests[0].messages
    assert "hunter2" not in message.content
    assert len(message.content) == PROMPT_LENGTH_MAX


async def test_a_title_that_a_person_gives_meanwhile_wins(desk: Desk) -> None:
    session = desk.new(Model("done"))
    writer = session.driver.journal.writer
    writer.stage(Renamed("Mine"))
    writer.stage(Renamed("Theirs", "model", Usage(1, 1), "small"))
    assert writer.fold.title() == "Mine"
    writer.stage(Renamed(""))
    writer.stage(Renamed("Theirs", "model"))
    assert writer.fold.title() == "Theirs"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("<think>hm\nhm</think>\nThe loom", "The loom"),
        ("<think>and so on", "mend it"),
        ("The \x1b[31mloom\x00", "The [31mloom"),
        ("The loom\u2028and more", "The loom"),
        ("x" * 200, "x" * TITLE_LENGTH_MAX),
    ],
)
async def test_what_a_model_says_besides_is_no_part_of_the_title(
    desk: Desk, said: str, title: str
) -> None:
    session = desk.new(Model("done"), titler=Titler(Model(said), "small"))
    await session.turn("mend it")
    assert session.driver.journal.writer.fold.title() == title
    recorded = [e for e in desk.events(session.thread_id) if e["type"] == "renamed"]
    assert [len(one.get("title", "")) <= TITLE_LENGTH_MAX for one in recorded] == [True]
