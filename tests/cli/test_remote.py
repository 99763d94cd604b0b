"""The whole story: a session asks, another device of its person answers, the session goes on."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.remote_devices import join, on_device, records, start_chat, sync_question
from cli.teams import Machine, Team
from treadle import LocalStore
from treadle.store.paths import Places
from treadle.store.thread_requests import PersonRequest, RequestReply, ThreadRequests


@pytest.fixture
def pair(team: Team, laptop: Machine, desktop: Machine) -> tuple[Machine, Machine]:
    """A machine with threads, and a device that may answer there."""
    token = team.token()
    for one in (laptop, desktop):
        one.login(team, token)
    join(laptop, desktop)
    return laptop, desktop


def test_a_yes_on_the_device_lets_the_session_go_on_and_a_death_changes_nothing(
    pair: tuple[Machine, Machine],
) -> None:
    laptop, phone = pair
    with ExitStack() as ending:
        talk = ending.enter_context(start_chat(laptop))
        talk.wait_for("a new thread in")
        talk.say("run it", "this once")
        (line,) = laptop.threads()
        thread = str(line["id"])
        sync_question(phone, thread)
        shown = phone.ok("remote", "answer", thread)
        assert "echo ran >> effects" in shown
        done = phone("remote", "answer", thread, "--yes")
        assert (done.returncode, done.stderr) == (0, "done\n")
        talk.wait_for("It ran.")
        assert (laptop.folder / "effects").read_text() == "ran\n"
        again = phone("remote", "answer", thread, "--yes")
        assert "not open any more" in again.stderr
        refused = phone("remote", "say", thread, "go on")
        assert "remote = answer" in refused.stderr
    (taken,) = [one for one in records(laptop, thread) if one["type"] == "request_taken"]
    assert re.fullmatch(r"phone \(key [0-9a-f-]{19}\) by way of http://\S+", taken["by"])

    # As if the process had died when the answer was on disk, and nothing had been done yet.
    lines = laptop.journal(thread).splitlines(keepends=True)
    end = next(i for i, one in enumerate(lines) if b'"approval_decided"' in one) + 1
    store = LocalStore(Places.below(laptop.home))
    path = Path(store.folders.find(thread)[0])
    path.write_bytes(b"".join(lines[:end]))
    path.with_suffix(".json").unlink(missing_ok=True)
    (laptop.folder / "effects").unlink()
    requests = ThreadRequests(store.folders.disk, store.places, thread)
    (store.places.state / "requests" / thread / f"{taken['id']}.reply").unlink()
    until = "2099-01-01T00:00:00.000000Z"
    requests.place(PersonRequest(taken["id"], thread, "approve", "phone", until, taken["call_id"]))
    stale = PersonRequest(
        "a-nonce-of-the-device", thread, "prompt", "phone", until, text="wait", is_remote=True
    )
    requests.place(stale)  # by a process that died; its key may have been forgotten since
    with start_chat(laptop, "-r", thread) as talk:
        talk.wait_for("It ran.")
    assert (laptop.folder / "effects").read_text() == "ran\n"
    assert requests.read_reply(taken["id"]) == RequestReply(is_taken=True)
    assert (requests.is_waiting(stale.id), requests.read_reply(stale.id)) == (False, None)
    types = [one["type"] for one in records(laptop, thread)]
    assert (types.count("request_taken"), types.count("approval_decided")) == (1, 1)


def test_what_is_said_while_the_machine_is_off_waits_and_a_forgotten_device_is_refused(
    pair: tuple[Machine, Machine],
) -> None:
    laptop, phone = pair
    with start_chat(laptop) as talk:
        talk.wait_for("a new thread in")
        talk.say("run it", "this once")
        (line,) = laptop.threads()
        thread = str(line["id"])
        sync_question(phone, thread)
    from treadle.app.remote import remote_answers

    phone_store = LocalStore(Places.below(phone.home))
    with on_device(phone):
        word = remote_answers.RemoteWord("approve")
        left = remote_answers.say_remotely(phone_store, thread, word)
        taken_back = remote_answers.say_remotely(phone_store, thread, word)
        assert remote_answers.take_back(phone_store, taken_back.id)
    assert left.state == "waiting"
    with start_chat(laptop, "-r", thread) as talk:
        talk.wait_for("It ran.")
    assert (laptop.folder / "effects").read_text() == "ran\n"

    laptop.ok("remote", "forget", "phone")
    with start_chat(laptop, "-r", thread) as talk:
        talk.wait_for("It ran.")
        talk.say("run again", "this once")
        sync_question(phone, thread)
        told = phone("remote", "answer", thread, "--yes")
        assert "not paired" in told.stderr
        decided = [one for one in records(laptop, thread) if one["type"] == "approval_decided"]
        assert len(decided) == 1
    assert (laptop.folder / "effects").read_text() == "ran\n"
