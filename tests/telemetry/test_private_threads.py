"""Of a private thread nothing is sent, also out of a store of a program's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.samples import CONFIG, said
from store.shelf import fill
from store_conformance.example import SqliteStore
from telemetry.receiver import run_receiver
from treadle import Threads
from treadle.app import export_trace
from treadle.errors import PrivateThreadError, UnknownThreadError
from treadle.thread.facts import Configured, PrivacySet


def test_nothing_private_leaves_a_store_of_ones_own(tmp_path: Path) -> None:
    threads = Threads(SqliteStore(str(tmp_path / "threads.db")))
    base, alone = threads.create("t"), threads.create("t", parent=("T-gone", "a", 1))
    child = threads.create("t", parent=(base.thread_id, "a", 1))
    for writer in (base, alone, child):
        fill(writer, (Configured(CONFIG), said("go")))
        writer.close()
    forked = threads.fork(child.thread_id, creator="t")
    forked.close()
    below = (base.thread_id, child.thread_id, forked.thread_id)

    def set_privacy(is_private: bool) -> None:
        writer = threads.open(base.thread_id)
        fill(writer, (PrivacySet(is_private),))
        writer.close()

    with run_receiver() as receiver:
        set_privacy(True)
        for one in below:
            with pytest.raises(PrivateThreadError, match=f"{one} is private, or {base.thread_id}"):
                export_trace(threads, one, receiver.url)
            assert export_trace(threads, one).threads == (one,), "its owner may look at it"
        assert receiver.spans == []
        set_privacy(False)
        for one in (*below, alone.thread_id):
            export_trace(threads, one, receiver.url)
        told = {found["gen_ai.conversation.id"] for _, found in receiver.find("invoke_agent")}
        assert told == {*below, alone.thread_id}
        with pytest.raises(UnknownThreadError):
            export_trace(threads, "T-gone", receiver.url)
