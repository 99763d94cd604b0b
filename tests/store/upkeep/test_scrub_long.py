"""What scrubbing a thread of many megabytes takes at a time."""

from __future__ import annotations

from pathlib import Path

from core.samples import CONFIG, answer, said
from store.shelf import Shelf
from treadle.secrets.redaction import Redactor
from treadle.store.blobs import Blobs
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.text_scan import PIECE_SIZE, TextScanner
from treadle.thread.facts import Configured

SECRET = "hunter2-swordfish-9"
redact = Redactor({"password": SECRET}, length_min=4).redact


def test_a_long_thread_is_looked_through_piece_by_piece(shelf: Shelf) -> None:
    turns = [(said(f"{n} " + "many words " * 20_000), answer("fine")) for n in range(40)]
    thread = shelf.create((Configured(CONFIG, "scripted"), *turns[0]), *turns[1:])
    at_edge = b"x" * (PIECE_SIZE - len(SECRET) // 2)
    kept = Blobs(shelf.store.folders).keep(at_edge + SECRET.encode())
    lengths: list[int] = []

    def watched(text: str) -> str:
        lengths.append(len(text))
        return redact(text)

    found = TextScanner(shelf.store.folders, watched).find_files()
    assert [Path(path).name for path in found] == [kept.sha256]
    assert max(lengths) <= PIECE_SIZE
    assert shelf.snapshot(thread).stat().st_size > 2 * PIECE_SIZE
    lengths.clear()
    scrub(shelf.store, [thread], watched, is_rehearsal=True)
    assert max(lengths) <= PIECE_SIZE + 2**18
