"""Checks of a store that one process can make: journals, holds, keys, blobs, the clock."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

from treadle.errors import StaleWriterError, StoreError, ThreadBusyError, UnknownThreadError
from treadle.store_conformance.demands import (
    Check,
    OpenStore,
    begin,
    demand,
    demand_begun,
    demand_equal,
    demand_raised,
    make_id,
    read_all,
)

LARGE: Final = 5_000_000
"""Bytes of a large record, and of a large blob."""

THREADS: Final = 4
LINES: Final = 10
"""So many threads append so many lines each."""

EVERY_BYTE: Final = bytes(range(256)) * 3 + "ÄßŒ≠漢字🧵\u2028\u0301".encode() + b"\n"
KEYS: Final = (
    *("a", "A", "a ", " a", "aa", "A\u0308", "\u00c4", "🧵", "漢字", "../a", "a/b", "%", "_", "*"),
    *("'; DROP TABLE threads; --", '"', "\\", "a\nb", "a\0b", "None", "0", "x" * 500, "é" * 500),
)
"""Names that some databases and file systems take for one another."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def begins_whole(open_store: OpenStore) -> None:
    """What begin was given is there for everybody when it returns."""
    thread_id, data = make_id(), b'{"first":1}\n{"second":2}\n'
    held = demand_begun(open_store().begin(thread_id, data))
    demand_equal(read_all(open_store(), thread_id), data, "begin keeps the bytes it was given")
    demand_equal(list(open_store().ids()), [thread_id], "a thread is in the list once it is begun")
    held.close()
    demand_equal(read_all(open_store(), thread_id), data, "close changes nothing")


def begins_once(open_store: OpenStore) -> None:
    """A thread that is there is not begun again, whether somebody holds it or not."""
    store, thread_id = open_store(), make_id()
    held = demand_begun(store.begin(thread_id, b"one\n"))
    with demand_raised(StoreError, "a thread that is held is not begun again"):
        store.begin(thread_id, b"two\n")
    held.append(b"more\n", 4)
    held.close()
    with demand_raised(StoreError, "a thread that is there is not begun again"):
        store.begin(thread_id, b"two\n", "a key")
    demand_equal(
        read_all(store, thread_id), b"one\nmore\n", "who begins a thread anew changes nothing"
    )
    demand(store.find_key("a key") is None, "who begins a thread anew does not get its key")


def appends_in_order(open_store: OpenStore) -> None:
    """Each append is there for everybody when it returns: behind the others, once."""
    store, reader, thread_id = open_store(), open_store(), make_id()
    whole = b"{}\n"
    held = demand_begun(store.begin(thread_id, whole))
    for count in (1, 2, 40, 1, 3_000):
        data = b"".join(b'{"line":%d}\n' % (len(whole) + n) for n in range(count))
        held.append(data, len(whole))
        whole += data
        demand_equal(read_all(reader, thread_id), whole, "an append is durable when it returns")
    held.close()
    held = open_store().hold(thread_id)
    held.append(b"again\n", len(whole))
    held.close()
    demand_equal(read_all(reader, thread_id), whole + b"again\n", "a journal is gone on with")


def keeps_every_byte(open_store: OpenStore) -> None:
    """Bytes come back as they were, whatever they are and however many."""
    store, thread_id = open_store(), make_id()
    large = b"x" * LARGE + b"\n"
    held = demand_begun(store.begin(thread_id, EVERY_BYTE))
    held.append(large, len(EVERY_BYTE))
    held.append(EVERY_BYTE, len(EVERY_BYTE) + len(large))
    held.close()
    whole = EVERY_BYTE + large + EVERY_BYTE
    demand_equal(read_all(open_store(), thread_id), whole, "every byte comes back as it was")


def reads_from_anywhere(open_store: OpenStore) -> None:
    """`start` is a byte, wherever the appends began; behind the end there is nothing."""
    store, thread_id = open_store(), make_id()
    held, whole = demand_begun(store.begin(thread_id, b"one\n")), b"one\n"
    for data in (b"twenty\n", b"three hundred\n"):
        held.append(data, len(whole))
        whole += data
    held.close()
    for start in range(len(whole) + 3):
        found = read_all(store, thread_id, start)
        demand_equal(found, whole[start:], f"read gives what stands from byte {start} on")


def refuses_other_sizes(open_store: OpenStore) -> None:
    """Who knows another end of the journal than it has appends nothing."""
    store, thread_id = open_store(), make_id()
    held = demand_begun(store.begin(thread_id, b"one\n"))
    held.append(b"two\n", 4)
    for size in (0, 4, 7, 9, 1_000):
        with demand_raised(StaleWriterError, f"a journal of 8 bytes is not appended to at {size}"):
            held.append(b"no\n", size)
    held.close()
    demand_equal(read_all(store, thread_id), b"one\ntwo\n", "what is refused changes nothing")


def holds_for_one(open_store: OpenStore) -> None:
    """A journal has one holder, until that one closes it."""
    store, thread_id = open_store(), make_id()
    other = begin(store)
    held = demand_begun(store.begin(thread_id, b"{}\n"))
    for again in (store, open_store()):
        with demand_raised(ThreadBusyError, "a thread that was just begun is held"):
            again.hold(thread_id)
    store.hold(other).close()
    held.close()
    held.close()
    held = open_store().hold(thread_id)
    for again in (store, open_store()):
        with demand_raised(ThreadBusyError, "a thread that is held is not given to another one"):
            again.hold(thread_id)
    held.close()
    store.hold(thread_id).close()


def believes_no_former_holder(open_store: OpenStore) -> None:
    """Who has given a journal free appends nothing to it, even if nobody else has."""
    store, thread_id = open_store(), make_id()
    former = demand_begun(store.begin(thread_id, b"one\n"))
    former.close()
    with demand_raised(StoreError, "a journal that was closed is not appended to"):
        former.append(b"no\n", 4)
    held = open_store().hold(thread_id)
    with demand_raised(StoreError, "a former holder does not append beside the present one"):
        former.append(b"no\n", 4)
    held.append(b"two\n", 4)
    held.close()
    demand_equal(
        read_all(store, thread_id), b"one\ntwo\n", "what a former holder says changes nothing"
    )


def knows_no_other_threads(open_store: OpenStore) -> None:
    """What was never begun is unknown, and asking for it begins nothing."""
    store = open_store()
    for ask in (store.hold, lambda thread_id: read_all(store, thread_id)):
        with demand_raised(UnknownThreadError, "a thread that was never begun is unknown"):
            ask(make_id())
    demand(store.find_key("nobody") is None, "a key that nobody has finds nothing")
    demand_equal(list(store.ids()), [], "asking begins nothing")


def cuts(open_store: OpenStore) -> None:
    """What a crash has left of an append can be cut off, and is gone for everybody."""
    store, thread_id = open_store(), make_id()
    held = demand_begun(store.begin(thread_id, b"one\n"))
    held.append(b"two\n", 4)
    held.append(b'{"torn', 8)
    held.close()
    held = open_store().hold(thread_id)
    held.cut(8)
    demand_equal(
        read_all(open_store(), thread_id), b"one\ntwo\n", "cut leaves what stands before it"
    )
    held.append(b"three\n", 8)
    held.cut(6)
    held.append(b"four\n", 6)
    held.close()
    whole = b"one\ntwfour\n"
    demand_equal(
        read_all(open_store(), thread_id), whole, "a journal is gone on with where it was cut"
    )


def lists_all_threads(open_store: OpenStore) -> None:
    """The list has every thread once, whoever has begun it."""
    store, other = open_store(), open_store()
    begun = [begin((store, other)[n % 2], key=f"key {n}" if n % 3 else "") for n in range(40)]
    for one in (store, other, open_store()):
        demand_equal(sorted(one.ids()), sorted(begun), "every thread is in the list once")


def gives_keys_once(open_store: OpenStore) -> None:
    """A key is of the first thread that was begun with it, and the next one is not begun."""
    store, other = open_store(), open_store()
    first = begin(store, key="customer-7")
    for thread_id in (make_id(), make_id()):
        held = other.begin(thread_id, b"{}\n", "customer-7")
        demand(held is None, "who comes too late for a key gets no thread")
        with demand_raised(UnknownThreadError, "who comes too late for a key leaves no thread"):
            read_all(store, thread_id)
    for one in (store, other, open_store()):
        demand_equal(one.find_key("customer-7"), first, "a key stays with its thread")
        demand_equal(list(one.ids()), [first], "who comes too late for a key leaves no thread")
    other.hold(first).close()


def tells_keys_apart(open_store: OpenStore) -> None:
    """Keys are texts: two that differ in anything are two, and no key is none."""
    store = open_store()
    begin(store), begin(store)
    begun = {key: begin(store, key=key) for key in KEYS}
    for key, thread_id in begun.items():
        demand_equal(open_store().find_key(key), thread_id, f"the key {key!r:.40} finds its thread")


def keeps_blobs(open_store: OpenStore) -> None:
    """A blob is there for everybody when it is kept, and stays what it was."""
    store = open_store()
    blobs = [b"", b"small", EVERY_BYTE, b"y" * LARGE]
    named = {sha256(data).hexdigest(): data for data in blobs}
    for name, data in (*named.items(), *named.items()):
        store.keep_blob(name, data)
        demand_equal(open_store().load_blob(name), data, "a blob comes back as it was")
    for name in named:
        near = name[:-1] + ("1" if name.endswith("0") else "0")
        demand(store.load_blob(near) is None, "a blob is found by all of its name")
    demand_equal(list(store.ids()), [], "a blob is no thread")


def _in_threads(*works: Callable[[], Any]) -> list[Any]:
    """What these give, each in a thread of its own, all at the same moment."""
    found: list[Any] = [None] * len(works)
    gate = threading.Barrier(len(works))

    def work(nth: int) -> None:
        gate.wait()
        try:
            found[nth] = works[nth]()
        except Exception as error:  # noqa: BLE001  it is told in the thread that asked
            found[nth] = error

    threads = [threading.Thread(target=work, args=(nth,)) for nth in range(len(works))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    faults = [one for one in found if isinstance(one, Exception)]
    demand(not faults, f"a store is used by any thread of a process: {faults!r:.200}")
    return found


def works_in_any_thread(open_store: OpenStore) -> None:
    """Each call may come from another thread than the one before; of a held journal one by one."""
    store, key, data = open_store(), "a key", b"a blob"
    thread_id, name = make_id(), sha256(data).hexdigest()
    (held,) = _in_threads(lambda: demand_begun(store.begin(thread_id, b"one\n", key)))
    _in_threads(lambda: held.append(b"two\n", 4))
    _in_threads(lambda: store.keep_blob(name, data))
    _in_threads(held.close)
    (again,) = _in_threads(lambda: store.hold(thread_id))
    _in_threads(lambda: again.append(b'{"torn', 8))
    _in_threads(lambda: again.cut(8))
    found = _in_threads(
        lambda: read_all(store, thread_id),
        lambda: list(store.ids()),
        lambda: store.find_key(key),
        lambda: store.load_blob(name),
    )
    _in_threads(again.close)
    wanted = [b"one\ntwo\n", [thread_id], thread_id, data]
    demand_equal(found, wanted, f"any thread finds what another one has kept: {found!r:.200}")


def works_in_many_threads(open_store: OpenStore) -> None:
    """Threads of a process that work at the same moment are in nobody's way."""
    store = open_store()

    def work(nth: int) -> tuple[bytes, bytes]:
        whole, thread_id = b"%d\n" % nth, make_id()
        held = demand_begun(store.begin(thread_id, whole))
        for count in range(LINES):
            held.append(line := b"%d %d\n" % (nth, count), len(whole))
            whole += line
        held.close()
        return whole, read_all(store, thread_id)

    for whole, found in _in_threads(*(partial(work, nth) for nth in range(THREADS))):
        demand_equal(found, whole, "a journal holds what its own writer has appended")
    ids = [make_id() for _ in range(THREADS)]
    begun = _in_threads(*(partial(store.begin, one, b"{}\n", "a key") for one in ids))
    winners = [one for one, held in zip(ids, begun, strict=True) if held is not None]
    demand_equal(winners, [store.find_key("a key")], f"{len(winners)} threads got one key")
    for held in filter(None, begun):
        held.close()


def tells_the_time(open_store: OpenStore) -> None:
    """The clock speaks as records do."""
    store = open_store()
    for _ in range(3):
        demand(_TIME.fullmatch(store.now()), "now is like 2026-11-21T08:15:30.123456Z")


CHECKS: Final[Sequence[Check]] = (
    begins_whole,
    begins_once,
    appends_in_order,
    keeps_every_byte,
    reads_from_anywhere,
    refuses_other_sizes,
    holds_for_one,
    believes_no_former_holder,
    knows_no_other_threads,
    cuts,
    lists_all_threads,
    gives_keys_once,
    tells_keys_apart,
    keeps_blobs,
    works_in_any_thread,
    works_in_many_threads,
    tells_the_time,
)
