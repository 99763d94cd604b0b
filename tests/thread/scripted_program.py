"""A program that plays random sessions through core and thread and prints all they come to.

Run it in several processes: what it prints must be the same, byte for byte. With `--audit` it
prints instead which of the operating system's doors it touched on the way.
"""

from __future__ import annotations

import logging
import sys
from hashlib import sha256
from random import Random
from typing import Any

import msgspec

from core.random_events import random_event
from thread.journals import HEADER, at, fold_of, random_fact
from treadle.core.chat.table import TRANSITIONS, draw_conversation_machine
from treadle.core.events import DURABLE
from treadle.thread.codec import encode_entry
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, encode_batch, scan_journal
from treadle.thread.recovery import get_call_progress
from treadle.thread.snapshot import decode_snapshot, encode_snapshot, restore_fold

DOORS = ("open", "socket.", "os.", "subprocess.", "exec", "import", "ctypes.", "mmap.", "shutil.")


def play(seed: int, length: int) -> tuple[bytes, list[str]]:
    """The journal of one random session, and each action it led to."""
    random = Random(seed)
    data, head = encode_batch(Head(), at(0), [encode_entry(HEADER)[1]])
    fold = ThreadFold(HEADER)
    actions: list[str] = []
    for clock in range(length):
        entry: Any = random_event(random, fold.state, clock)
        if random.random() < 0.1:
            entry = random_fact(random)
        elif not isinstance(entry, DURABLE):
            actions.append(told(fold.machine.handle_event(entry)))
            continue
        fed, stored = encode_entry(entry)
        actions.append(told(fold.apply(head.seq + 1, at(clock), fed)))
        lines, head = encode_batch(head, at(clock), [stored])
        data += lines
    return data, actions


def told(action: object) -> str:
    """The action in words, with everything that is in it."""
    request = getattr(action, "request", None)
    if request is None:
        return repr(action)
    return repr((*request.messages, request.model, request.tools, request.system))


def main(seed: int) -> bytes:
    """Everything a session comes to: journal, actions, document, snapshot, diagram."""
    data, actions = play(seed, 200)
    found = scan_journal(data)
    fold = fold_of(found.records)
    snapshot = encode_snapshot(fold, found.head)
    again = decode_snapshot(snapshot)
    assert again is not None
    assert restore_fold(again) is not None
    standings = [get_call_progress(status) for status in getattr(fold.state, "executions", ())]
    return b"\n".join(
        [
            data,
            "\n".join(actions).encode("utf-8", "surrogatepass"),
            msgspec.json.encode(fold.document()),
            snapshot,
            repr((fold.machine.obligations().__class__, standings)).encode(),
            draw_conversation_machine(TRANSITIONS).encode(),
        ]
    )


def audited(seed: int) -> str:
    """The events of the interpreter's audit hook that touch the world outside."""
    touched: list[str] = []
    is_on = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_on and event.startswith(DOORS):
            touched.append(f"{event} {arguments!r:.80}")

    logging.getLogger("treadle").setLevel(logging.DEBUG)
    logging.getLogger("treadle").addHandler(logging.NullHandler())
    logging.getLogger("treadle").propagate = False
    sys.addaudithook(hook)
    main(seed)
    is_on = False
    return "\n".join(touched)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    if "--audit" in sys.argv:
        logging.disable(logging.NOTSET)
        sys.stdout.write(audited(1))
    else:
        for number in range(5):
            whole = main(number)
            sys.stdout.write(f"{sha256(whole).hexdigest()} {len(whole)}\n")
            if number == 0:
                sys.stdout.buffer.write(whole)
