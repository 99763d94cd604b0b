"""What must hold after all machines have come together: looked up in what lies on their disks.

Costs time in proportion to the records. Everything said is known by its number (`NUMBER`), which
survives merging, forking and scrubbing; a record without one by its hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lab.simulation_entries import way_out
from runtime.desk import imbalance
from sync import engines
from sync.simulated_machine import NUMBER, SECRET, Machine, Saying
from treadle.store.branch_archive import list_archived_branches
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.thread.branches import encode_branch_event, flatten_records
from treadle.thread.codec import decode_entry
from treadle.thread.facts import Base
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_thread_id
from treadle.thread.record import JournalCondition, Record, scan_journal

if TYPE_CHECKING:
    from sync.simulation import Simulation

REST_COUNT_MAX: Final = 100

SAID_AGAIN: Final = frozenset({"renamed", "pinned", "tagged", "extra_set", "shared"})
"""What a merge says once more where it is later than its branch."""


class Violation(AssertionError):  # noqa: N818
    """Something does not hold; the message begins with its kind."""


def must(holds: bool, kind: str, text: str = "") -> None:
    """Whether something holds."""
    if not holds:
        raise Violation(f"{kind}: {text}")


def journals_of(machine: Machine) -> dict[str, bytes]:
    """The journals of a machine, those in the trash among them.

    One without an intact record is none: its process died while it made the thread.
    """
    folders = machine.store.folders
    found = {
        name.removesuffix(JOURNAL_SUFFIX): machine.disk.read(f"{folder}/{name}")
        for folder in (folders.threads, folders.trash)
        for name in machine.disk.list(folder)
        if name.endswith(JOURNAL_SUFFIX)
    }
    return {thread: data for thread, data in found.items() if scan_journal(data).records}


def state_of(run: Simulation) -> object:
    """All that the machines and the server have; the same again when nothing moves any more."""
    found = [journals_of(client.machine) for client in run.clients]
    return [*found, run.server.journals()]


def check(run: Simulation) -> None:
    """All that must hold in the end.

    Raises:
        Violation: it does not.
    """
    replicas = {client.machine.name: journals_of(client.machine) for client in run.clients}
    replicas["server"] = run.server.journals()
    records = {
        name: {thread: records_of(name, thread, data) for thread, data in journals.items()}
        for name, journals in replicas.items()
    }
    apart = run.apart() | thrown_away(replicas)
    apart |= orphans(replicas, apart)
    said = {client.machine.name: client.machine.said for client in run.clients}
    check_private(replicas["server"], run.never_public)
    check_same(replicas, apart)
    aside = {name: numbers_apart(rows, apart) for name, rows in records.items()}
    check_numbers(records, said, apart, aside, has_forks=run.on_conflict == "fork")
    for client in run.clients:
        check_kept(client.machine, replicas[client.machine.name], apart)
        check_conversations(client.machine, replicas[client.machine.name])
    # What two machines have scrubbed at once is told, and scrubbed again by hand.
    in_vain = {one for client in run.clients for one in engines.unscrubbed(client.machine.store)}
    places = {one.number: one.thread for sayings in said.values() for one in sayings}
    where = places if run.on_conflict == "fork" else {}
    searched = {**replicas, "search": run.server.indexed()}
    check_scrubbed(searched, run.scrubbed, apart | in_vain, where)
    if not where and not in_vain:
        for client in run.clients:
            check_snapshots(client.machine, run.scrubbed, said, apart)


def thrown_away(replicas: Mapping[str, Mapping[str, bytes]]) -> set[str]:
    """Threads in the trash that not everybody has.

    One that was put there before it was ever sent stays where it is; one that was put there before
    a machine has seen it is not fetched.
    """
    everything = {
        thread: data for journals in replicas.values() for thread, data in journals.items()
    }
    return {
        thread
        for thread, data in everything.items()
        if data.rfind(b'"type":"trashed"') > data.rfind(b'"type":"restored"')
        and any(thread not in journals for journals in replicas.values())
    }


def orphans(replicas: Mapping[str, Mapping[str, bytes]], apart: set[str]) -> set[str]:
    """Forks of a branch that another one took the place of, and what goes on from them.

    Their base is a kept branch of one machine; the server says no, and the machine says so.
    """
    found: set[str] = set()
    for _ in range(len(replicas["server"]) + 10):
        before = len(found)
        for journals in replicas.values():
            for thread, data in journals.items():
                base = base_of(data)
                if base is None or thread in apart:
                    continue
                stands = replicas["server"].get(base.thread, b"")
                names = (f'"hash":"{base.hash}"}}\n', f'"id":"{base.hash}"')
                if base.thread in found or not any(one.encode() in stands for one in names):
                    found.add(thread)
        if len(found) == before:
            break
    return found


def records_of(replica: str, thread: str, data: bytes) -> list[Record]:
    """The records of a journal, which must be intact."""
    found = scan_journal(data)
    what = f"{thread} at {replica}"
    must(found.condition is JournalCondition.CLEAN, "damaged", f"{what}: {found.reason}")
    gaps = [one.seq for one in found.records] != list(range(1, len(found.records) + 1))
    must(not gaps, "gap", what)
    once = (one for one in flatten_records(found.records) if one.event["type"] not in SAID_AGAIN)
    times = Counter(one.hash for one in once)
    twice = [one for one, count in times.items() if count > 1]
    must(not twice, "merged twice", f"{len(twice)} records of {what}")
    return found.records


def check_private(server: Mapping[str, bytes], hidden: Iterable[str]) -> None:
    """What was never to leave is not there."""
    there = sorted(set(server) & set(hidden))
    must(not there, "private", f"the server has {there}")


def check_same(replicas: Mapping[str, Mapping[str, bytes]], apart: set[str]) -> None:
    """All replicas have the same bytes of every thread that is shared."""
    everything = {
        thread for journals in replicas.values() for thread, data in journals.items() if data
    } - apart
    for thread in sorted(everything):
        has = {name: journals.get(thread) or None for name, journals in replicas.items()}
        lacks = [name for name, data in has.items() if data is None]
        must(not lacks, "absent", f"{thread} is not at {lacks}")
        sizes = {name: len(data or b"") for name, data in has.items()}
        must(len(set(has.values())) == 1, "differs", f"{thread}: {sizes}")


def numbers_of(records: Iterable[Record]) -> list[int]:
    """The numbers said in a journal, in order, those of merged branches among them.

    A merge may say a title again that is later than those of its branch: that is no second one.
    In a fork of a branch that holds such a merge, the first one has another id.
    """
    titles: set[tuple[str, bytes]] = set()
    found: list[int] = []
    for record in flatten_records(records):
        if record.event["type"] == "renamed":
            if (record.at, encode_branch_event(record)) in titles:
                continue
            titles.add((record.at, encode_branch_event(record)))
        found += (int(one) for one in dict.fromkeys(NUMBER.findall(encode_branch_event(record))))
    return found


def numbers_apart(records: Mapping[str, list[Record]], apart: set[str]) -> set[int]:
    """The numbers in threads that need not be everywhere."""
    return {number for one in apart & records.keys() for number in numbers_of(records[one])}


def check_numbers(
    records: Mapping[str, Mapping[str, list[Record]]],
    said: Mapping[str, list[Saying]],
    apart: set[str],
    aside: Mapping[str, set[int]] = MappingProxyType({}),
    *,
    has_forks: bool = False,
) -> None:
    """Everything acknowledged is everywhere once, in the order of who said it.

    A branch that became a fork begins at a rest, and so has some records of its base once more. If
    that fork was made private later, what was said in it is where it was said, and no further.
    """
    for replica, threads in records.items():
        shared = {one: numbers_of(rows) for one, rows in threads.items() if one not in apart}
        counted = Counter(
            (number, thread if has_forks else "")
            for thread, numbers in shared.items()
            for number in numbers
        )
        twice = sorted(number for (number, _), times in counted.items() if times > 1)
        must(not twice, "doubled", f"{twice} at {replica}")
        place = {
            number: (thread, index)
            for thread, numbers in shared.items()
            for index, number in enumerate(numbers)
        }
        for machine, sayings in said.items():
            mine = [one.number for one in sayings if one.thread not in apart]
            kept = aside[machine] if has_forks else ()
            lost = [number for number in mine if number not in place and number not in kept]
            must(not lost, "lost", f"{lost} of {machine} at {replica}")
            if not has_forks:
                check_order(f"of {machine} at {replica}", [place[number] for number in mine])


def check_order(what: str, places: Iterable[tuple[str, int]]) -> None:
    """Places in threads, in the order of saying, go forward in each thread."""
    last: dict[str, int] = {}
    for thread, index in places:
        must(last.get(thread, -1) < index, "order", f"{thread} {what}")
        last[thread] = index


def check_kept(machine: Machine, journals: Mapping[str, bytes], apart: set[str]) -> None:
    """What is kept apart is at least where it was said, in its journal or a kept branch of it."""
    kept = [machine.disk.read(one.path) for one in list_archived_branches(machine.store.folders)]
    data = b"".join((*journals.values(), *kept))
    there = {int(number) for number in NUMBER.findall(data)}
    lost = [one.number for one in machine.said if one.thread in apart and one.number not in there]
    must(not lost, "lost", f"{lost} of {machine.name}, where they were said")


def check_conversations(machine: Machine, journals: Mapping[str, bytes]) -> None:
    """Every thread can be folded, comes to rest, and is balanced there."""
    for thread, data in journals.items():
        if not scan_journal(data).records:
            continue  # it was being made when its process died
        loaded = machine.store.load(thread)
        must(not loaded.problem, "unreadable", f"{thread} at {machine.name}: {loaded.problem}")
        fold = at_rest(loaded.fold)
        must(fold.is_idle, "restless", f"{thread} at {machine.name} in {fold.state_kind}")
        why = imbalance(fold.conversation.in_view)
        must(not why, "pairs", f"{thread} at {machine.name}: {why}")
        ids = [one.id for message in fold.conversation for one in message.tool_calls]
        must(len(ids) == len(set(ids)), "ids", f"{thread} at {machine.name}")
        must(
            not fold.joining_messages,
            "waiting",
            f"{thread} at {machine.name} never joins its branches",
        )
        times = Counter(
            number
            for message in fold.conversation
            for number in {*NUMBER.findall(msgspec.json.encode(message))}
        )
        twice = sorted(int(one) for one, count in times.items() if count > 1)
        must(not twice, "said twice", f"{twice} in {thread} at {machine.name}")


def at_rest(fold: ThreadFold) -> ThreadFold:
    """The thread after what is open in it has ended, somehow; the fold is used up."""
    for _ in range(REST_COUNT_MAX):
        if fold.is_idle:
            break
        entry: Any = way_out(fold.state)  # type: ignore[arg-type]
        fold.apply(fold.version + 1, fold.updated_at, entry)
    return fold


def check_scrubbed(
    replicas: Mapping[str, Mapping[str, bytes]],
    scrubbed: Iterable[int],
    apart: set[str],
    places: Mapping[int, str],
) -> None:
    """What was scrubbed on one machine is gone everywhere.

    A branch that became a fork has a turn of its base once more, which is scrubbed by itself: then
    `places` says where each number was said, and scrubbed.
    """
    for replica, journals in replicas.items():
        for thread, data in journals.items():
            if thread not in apart:
                here = [one for one in scrubbed if places.get(one, thread) == thread]
                left = [one for one in here if SECRET.format(one).encode() in data]
                must(not left, "scrubbed", f"{left} in {thread} at {replica}")


def check_snapshots(
    machine: Machine,
    scrubbed: Iterable[int],
    said: Mapping[str, list[Saying]],
    apart: set[str],
) -> None:
    """What was scrubbed is in no snapshot, of forks neither, which hold what they go on from."""
    kept = {one.number for sayings in said.values() for one in sayings if one.thread in apart}
    gone = [one for one in scrubbed if one not in kept]
    for path, data in machine.disk.files().items():
        name = path.rpartition("/")[2].removesuffix(".json")
        if path.endswith(".json") and is_thread_id(name) and name not in apart and "/data/" in path:
            left = [one for one in gone if SECRET.format(one).encode() in data]
            must(not left, "scrubbed", f"{left} in the snapshot of {name} at {machine.name}")


def base_of(data: bytes) -> Base | None:
    """What a journal goes on from."""
    first = scan_journal(data[: data.find(b"\n") + 1]).records
    found: Base | None = getattr(decode_entry(first[0].event), "base", None) if first else None
    return found
