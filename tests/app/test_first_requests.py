"""What a model is sent first: files for people to read, one for each wire format and mode."""

from __future__ import annotations

from app.request_snapshots import FOLDER, list_snapshots


def test_the_first_request_is_as_people_have_read_it() -> None:
    """`make fmt` writes the files; whoever changes one reads it."""
    made = dict(list_snapshots())
    kept = {path: path.read_text() for path in FOLDER.rglob("*.txt")}
    assert sorted(made) == sorted(kept)
    assert [str(path.relative_to(FOLDER)) for path in made if made[path] != kept[path]] == []
