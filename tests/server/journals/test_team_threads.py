"""Threads of workers are threads of the team's server, and nobody writes to one beside a worker."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

import psycopg
import pytest
from msgspec.structs import replace

from server.journals.stores import Writing, run_sql, take_in_all
from server.people import People, at
from thread.journals import HEADER, PLAIN, write
from treadle import (
    Agent,
    PostgresStore,
    RiskLevel,
    ScriptedModel,
    StoreError,
    Threads,
    tool,
)
from treadle.api.marks import Mark
from treadle.api.retention_types import RetentionChange
from treadle.server import search
from treadle.server.refusals import Refusal
from treadle.server.search.thread_lists import list_threads
from treadle.server.threads import retention
from treadle.server.threads import threads as service
from treadle.server.threads.retention_run import (
    FAILURE_COUNT_MAX,
    RetentionReport,
    run_retention,
)
from treadle.thread.codec import encode_entry
from treadle.thread.facts import PrivacySet, Tagged
from treadle.thread.record import Head, encode_batch

LONG = "wool " * 20_000


@tool(risk=RiskLevel.LOW)
def list_wool() -> str:
    """List all wool."""
    return LONG


def _make_agent(store: PostgresStore) -> Agent[None, str]:
    model = ScriptedModel.of(
        {"when": {"user": "list", "step": 0}, "calls": [{"tool": "list_wool"}]},
        {"text": "A loom stands ready."},
    )
    return Agent("weaver", model=model, tools=[list_wool], store=store)


async def _talk(store: PostgresStore, *prompts: str) -> str:
    async with _make_agent(store).thread("Ann") as thread:
        for prompt in prompts:
            await thread.send(prompt)
        thread_id: str = thread.id
        return thread_id


async def test_a_thread_of_a_worker_is_in_lists_and_in_the_search(
    open_store: partial[PostgresStore], people: People
) -> None:
    thread_id = await _talk(open_store(), "Hello", "list it")
    take_in_all(people.database)
    whole = b"".join(open_store().read(thread_id))
    with people.reading() as context:
        head = service.read_head(context, thread_id)
        lines = service.read_records(context, thread_id, 0, 1000)
        (line,) = list_threads(context).threads
        hits = search.search_threads(context, "loom stands").hits
        (call,) = [
            record for record in lines if b'"tool_completed"' in record and b'"sha256"' in record
        ]
    assert b"".join(one + b"\n" for one in lines) == whole
    assert [hit.thread.summary.id for hit in hits] == [thread_id]
    shown = line.summary
    assert (shown.id, shown.version, shown.message_count) == (thread_id, head.version, 6)
    digest = call.partition(b'"sha256":"')[2][:64].decode()
    with people.reading("owner") as context:
        assert service.get_blob(context, thread_id, digest) == LONG.encode()


async def test_what_is_taken_in_goes_on_where_it_was(
    open_store: partial[PostgresStore], people: People
) -> None:
    for number in range(1, 4):
        thread_id = await _talk(open_store(), f"Number {number}")
        take_in_all(people.database)
        with people.reading() as context:
            head = service.read_head(context, thread_id)
            at_end = service.read_records(context, thread_id, Mark(head.version, head.hash), 10)
        assert at_end == []
        assert Threads(open_store()).load(thread_id).head.seq == head.version


async def test_a_push_to_a_thread_that_a_worker_holds_is_refused(
    open_store: partial[PostgresStore], people: People
) -> None:
    store = open_store()
    thread_id = await _talk(store, "Hello")
    take_in_all(people.database)
    whole = b"".join(store.read(thread_id))
    held = store.hold(thread_id)
    with people.reading() as context:
        head = service.read_head(context, thread_id)
    mark = Mark(head.version, head.hash)
    end = Head(head.version, head.hash, at(9e8), len(whole))
    more, _ = encode_batch(end, at(9e8), [encode_entry(Tagged(added=("new",)))[1]])
    for refused in (
        lambda: _push(people, thread_id, mark, more),
        lambda: _delete(people, thread_id),
        lambda: _purge(people, thread_id),
    ):
        with pytest.raises(Refusal, match="a worker is at work"):
            refused()
    held.append(more, len(whole))  # nothing of all that was in the way
    held.close()
    with pytest.raises(Refusal, match="not taken in yet"):
        _delete(people, thread_id)
    take_in_all(people.database)
    _delete(people, thread_id)
    assert thread_id not in store.ids()


async def test_threads_at_which_workers_are_keep_retention_from_no_other(
    open_store: partial[PostgresStore], people: People
) -> None:
    """However many they are; the plan names them."""
    store = open_store()
    written = [Writing(store) for _ in range(FAILURE_COUNT_MAX + 2)]
    last = "T-ffffffff-0000-7000-8000-000000000001"
    data, _ = write([(replace(HEADER, thread=last),), *PLAIN[1:]])
    _push(people, last, Mark(), data)
    with people.writing("admin") as context:
        retention.change_rule(context, RetentionChange(idle_days=1))
    with people.reading("admin", at(9e8)) as context:
        plan = retention.make_plan(context)
    assert [one.thread for one in plan.due] == [last]
    assert len(plan.kept) == len(written)
    assert {one.why.partition(" (")[0] for one in plan.kept} == {
        "a worker is at work on this thread"
    }
    assert run_retention(people.database, lambda: at(9e8)) == RetentionReport(put_away=1)
    for one in written:
        one.held.close()


def _push(people: People, thread_id: str, mark: Mark, data: bytes) -> None:
    with people.writing() as context:
        service.push_records(context, thread_id, mark, data)


def _delete(people: People, thread_id: str) -> None:
    with people.writing(now=at(9e8)) as context:
        service.delete_thread(context, thread_id, None)


def _purge(people: People, thread_id: str) -> None:
    with people.writing() as context:
        service.purge_thread(context, thread_id)


async def test_an_output_is_kept_beside_its_thread_and_then_there_alone(
    open_store: partial[PostgresStore], people: People, url: str
) -> None:
    store = open_store()
    await _talk(store, "list it")
    name = sha256(LONG.encode()).hexdigest()
    run_sql(url, "UPDATE journal_blobs SET kept_at = 0")
    counts = []
    for nth in range(2):
        with PostgresStore(url, store.owner, lease_s=600 + nth) as another:
            Writing(another).held.close()  # a process that has not held anything before
        with psycopg.connect(url) as db:
            counts += db.execute("SELECT count(*) FROM journal_blobs").fetchall()
        assert store.load_blob(name) == LONG.encode()
        take_in_all(people.database)
    assert counts == [(1,), (0,)]


def test_a_private_thread_does_not_begin_here(open_store: partial[PostgresStore]) -> None:
    store = open_store()
    with pytest.raises(StoreError, match="private"):
        Threads(store).create("test", is_private=True)
    assert store.ids() == []


def test_what_cannot_be_taken_in_is_in_nobodys_way(
    open_store: partial[PostgresStore], people: People
) -> None:
    """A thread that becomes private is shown up to there, and the others are."""
    store = open_store()
    writing, other = Writing(store), Writing(store)
    data, head = encode_batch(writing.head, at(), [encode_entry(PrivacySet(is_private=True))[1]])
    writing.held.append(data, writing.head.size)
    other.append("one")
    assert take_in_all(people.database) == 2
    with people.reading() as context:
        assert service.read_head(context, writing.thread_id).version == 1
        assert service.read_head(context, other.thread_id).version == 2
    assert b"".join(store.read(writing.thread_id)) == writing.data + data
    writing.held.close()
    held = store.hold(writing.thread_id)
    held.append(encode_batch(head, at(), [encode_entry(Tagged(added=("x",)))[1]])[0], head.size)
    assert take_in_all(people.database) == 1
    with pytest.raises(Refusal, match="at work"):
        _delete(people, writing.thread_id)
    held.close()
    with pytest.raises(Refusal, match="not taken in yet: this thread says that it is private"):
        _delete(people, writing.thread_id)
