"""What a session knows of files outlives its process, and goes where the conversation goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Model, open_session
from treadle.core.events import Rewound
from treadle.core.messages import SeenFile
from treadle.runtime.session import Session
from treadle.tools.builtin import builtin_tools
from treadle.tools.files import digest_of
from treadle.tools.line_digests import digest_lines
from treadle.tools.registry import Registry

LONG = "".join(f"line {number} of some text\n" for number in range(1, 41))
SUMMARY: dict[str, Any] = {
    "when": {"system": "^You write the summary", "last_role": "user"},
    "text": "They read a file.",
}


class Office:
    """A desk with a folder in which the built-in tools work."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        folder.mkdir()
        self.desk = desk
        self.file = folder / "a.txt"
        self.file.write_text(LONG)
        self.tools = Registry(builtin_tools(), workspace=folder)
        self.config = replace(CONFIG, tools=self.tools.definitions())

    def new(self) -> Session:
        return open_session(
            self.desk.store.create("test"),
            Model("unused"),
            self.tools,
            self.config,
            on_output=self.desk.heard,
        )

    def reopen(self, thread_id: str) -> Session:
        writer = self.desk.store.open(thread_id)
        return open_session(writer, Model("unused"), self.tools, on_output=self.desk.heard)


async def ask(session: Session, tool: str, **arguments: Any) -> str:
    """What a call of the model is answered in a turn of its own."""
    model = Model(SUMMARY, {"calls": [{"tool": tool, "arguments": arguments}]}, "done")
    session.driver.performer.provider = model
    await session.turn("go")
    results = [message.content for message in session.conversation if message.role == "tool"]
    return results[-1]


async def look(session: Session) -> str:
    return await ask(session, "read_file", path="a.txt")


async def overwrite(session: Session) -> str:
    return await ask(session, "write_file", path="a.txt", content=LONG)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    desk = Desk(tmp_path / "desk")
    yield Office(desk, tmp_path / "folder")
    desk.disk.kill()


async def test_the_next_process_knows_what_was_read(office: Office) -> None:
    session = office.new()
    assert await look(session) == LONG
    await session.close()
    session = office.reopen(session.thread_id)
    assert "has not changed since" in await look(session)
    assert (await overwrite(session)).startswith("wrote a.txt")
    office.desk.check(session)
    await session.close()


async def test_it_is_known_from_the_journal_alone_and_from_a_snapshot(office: Office) -> None:
    session = office.new()
    await look(session)
    await session.close()
    thread_id = session.thread_id
    snapshot = office.desk.journal(thread_id).with_suffix(".json")
    assert '"sightings"' in snapshot.read_text()
    from_snapshot = office.desk.store.load(thread_id).fold.sightings
    snapshot.unlink()
    from_journal = office.desk.store.load(thread_id).fold.sightings
    assert from_snapshot == from_journal
    assert [one.file.name for one in from_journal] == ["a.txt"]


def told(office: Office, text: str = LONG, first: int = 1, last: int = 40) -> SeenFile:
    """The file as a prompt shows it that names it with `@`."""
    data = text.encode()
    return SeenFile("a.txt", digest_of(data), first, last, digest_lines(data))


async def say(session: Session, *seen: SeenFile) -> None:
    session.driver.performer.provider = Model("yes")
    await session.turn("see @a.txt", seen=seen)


async def test_a_file_that_a_prompt_has_shown_counts_as_read(office: Office) -> None:
    for is_new, seen in ((True, told(office)), (False, told(office, first=2, last=3))):
        session = office.new()
        await say(session, seen)
        if not is_new:
            await session.close()
            office.desk.journal(session.thread_id).with_suffix(".json").unlink()
            session = office.reopen(session.thread_id)
        assert (await overwrite(session)).startswith("wrote a.txt")
        office.desk.check(session)
        await session.close()


async def test_a_file_that_a_prompt_has_shown_whole_is_not_sent_again(office: Office) -> None:
    session = office.new()
    await say(session, told(office))
    stub = await look(session)
    assert "a.txt has not changed since the person's message above, which shows" in stub
    assert await look(session) == LONG
    await session.close()


async def test_a_file_that_changed_since_a_prompt_has_shown_it_is_told(office: Office) -> None:
    session = office.new()
    await say(session, told(office))
    office.file.write_text(LONG.replace("line 7 ", "line seven "))
    refused = await overwrite(session)
    assert "changed since you last heard of it (a message of the person)" in refused
    assert "now different: line 7;" in refused
    assert (await overwrite(session)).startswith("wrote a.txt")
    await session.close()


async def test_a_prompt_that_waited_makes_nothing_stale_that_the_model_wrote_meanwhile(
    office: Office,
) -> None:
    session, before = office.new(), told(office)
    await say(session, before)
    written = await ask(session, "write_file", path="a.txt", content="short\n")
    assert written.startswith("wrote a.txt")
    session.queue("and @a.txt", seen=(before,))
    session.driver.performer.provider = Model("yes")
    await session.resume()
    assert [one.message for one in session.driver.journal.fold.sightings] == [0, None, 6]
    assert (await overwrite(session)).startswith("wrote a.txt")
    office.desk.check(session)
    await session.close()


async def test_a_refusal_is_one_after_a_resume_too(office: Office) -> None:
    session = office.new()
    assert "you have not read it" in await overwrite(session)
    await session.close()
    session = office.reopen(session.thread_id)
    assert (await overwrite(session)).startswith("wrote a.txt")
    await session.close()


async def test_a_file_that_changed_while_nobody_was_there_is_told(office: Office) -> None:
    session = office.new()
    await look(session)
    await session.close()
    office.file.write_text(LONG.replace("line 7 ", "line seven "))
    session = office.reopen(session.thread_id)
    told = await overwrite(session)
    assert "a.txt has changed since you last heard of it" in told
    assert "now different: line 7;" in told
    assert (await overwrite(session)).startswith("wrote a.txt")
    await session.close()


async def test_a_fork_knows_what_its_base_had_read_up_to_there(office: Office) -> None:
    session = office.new()
    before = session.driver.journal.fold.version
    await look(session)
    await session.close()
    store, options = office.desk.store, {"on_output": office.desk.heard}
    fork = open_session(
        store.fork(session.thread_id, creator="test"), Model("unused"), office.tools, **options
    )
    assert (await overwrite(fork)).startswith("wrote a.txt")
    await fork.close()
    early = store.fork(session.thread_id, before, creator="test")
    fork = open_session(early, Model("unused"), office.tools, office.config, **options)
    assert "you have not read it" in await overwrite(fork)
    await fork.close()


async def test_a_rewind_takes_back_what_was_read_after_it(office: Office) -> None:
    session = office.new()
    model = Model("hello")
    session.driver.performer.provider = model
    await session.turn("hi")
    view, version = session.conversation.view, session.driver.journal.fold.version
    await look(session)
    await session.close()
    writer = office.desk.store.open(session.thread_id)
    writer.stage(Rewound(version, view, writer.now()))
    writer.write()
    writer.sync()
    writer.close()
    session = office.reopen(session.thread_id)
    assert "you have not read it" in await overwrite(session)
    assert await look(session) == LONG
    await session.close()


async def test_after_a_compaction_a_file_is_sent_again_and_may_be_overwritten(
    office: Office,
) -> None:
    session = office.new()
    await look(session)
    session.driver.performer.provider = Model(SUMMARY)
    await session.compact()
    assert await look(session) == LONG
    assert (await overwrite(session)).startswith("wrote a.txt")
    office.desk.check(session)
    await session.close()
