"""What a person names with `@` in a prompt is read under the rules of the agent's own tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from media_samples import ANIMATED_GIF, JPEG, PDF, png
from treadle.app.sessions.prompt_mentions import (
    MENTION_COUNT_MAX,
    MISS_COUNT_MAX,
    TEXT_LENGTH_MAX,
    Mentions,
    read_mentions,
)
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.thread.typed_words import MENTIONS_HEAD, strip_additions
from treadle.tools.files import digest_of
from treadle.tools.line_digests import digest_lines
from treadle.tools.paths import Root

Read = Callable[[str], Mentions]

FOUND: Final = {
    "@a.py": '["a.py"]\none\ntwo\nthree\n',
    "look at @a.py, please": '["a.py"]\none\ntwo\nthree\n',
    "(see @a.py).": '["a.py"]\none\ntwo\nthree\n',
    "@a.py:2": '["a.py", lines 2 to 2]\ntwo\n[the file goes on after line 2]',
    "@a.py:2-3": '["a.py", lines 2 to 3]\ntwo\nthree\n',
    "@a.py:2-": '["a.py", lines 2 to the end]\ntwo\nthree\n',
    "why @a.py:1-2?": '["a.py", lines 1 to 2]\none\ntwo\n[the file goes on after line 2]',
    '@"two words.md"': '["two words.md"]\nwords\n',
    r"@two\ words.md": '["two words.md"]\nwords\n',
    '@"two words.md:1"': '["two words.md", lines 1 to 1]\nwords\n',
    "@odd:10-40": '["odd:10-40"]\nnot lines\n',
    "@sub/": '["sub/"]\nsub/b.py\nsub/deep/c.py',
    "@sub": '["sub"]\nsub/b.py\nsub/deep/c.py',
    "@inside": '["inside"]\nbee\n',
    "@bytes": '["bytes"]\n[binary file, 3 bytes; not shown]',
    "@a.py and @a.py": '["a.py"]\none\ntwo\nthree\n',
}
"""What is typed, and what stands behind it."""

STAYS: Final = {
    "@pytest.fixture": "file not found: pytest.fixture",
    "@a.py:9": "invalid arguments: start_line 9 is beyond the end: the file has 3 lines",
    "@a.py:3-2": "invalid arguments: there are no such lines",
    "@../outside.txt": "path outside workspace: ../outside.txt",
    "@outside": "path outside workspace: outside",
    "@~/x": "path outside workspace: ~/x",
    "@pipe": "failed: pipe is not a regular file but a pipe",
    "@hidden/key": "rejected: hidden/key",
}
"""What is typed and stays text, and the beginning of what the person is told."""

PICTURES: Final = {
    "shot.png": png(),
    "misnamed.txt": JPEG,
    "paper.pdf": PDF,
    "loop.gif": ANIMATED_GIF,
    "cut.png": png()[:-6],
    "huge.png": png(100_000, 10_000),
    "hidden/key.png": png(),
    "../out side.png": png(4, 4),
    "esc\x1b[31m.png": png(5, 5),
}

NOTHING: Final = ("", "no name", "me@example.org", "@", "@@ -1,2 +3 @@", "@ a.py", "a@b.py", '@""')


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    """A folder with some of everything."""
    top = tmp_path_factory.mktemp("mentions")
    folder = top / "w"
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "hidden").mkdir()
    for name, text in {
        "a.py": "one\ntwo\nthree\n",
        "two words.md": "words\n",
        "odd:10-40": "not lines\n",
        "sub/b.py": "bee\n",
        "sub/deep/c.py": "",
        "hidden/key": "secret",
        "../outside.txt": "out",
        **{f"n{number}": str(number) for number in range(MENTION_COUNT_MAX + 1)},
        **{f"big{number}": "x\n" * 14_000 for number in range(5)},
    }.items():
        (folder / name).write_text(text)
    (folder / "bytes").write_bytes(b"a\0b")
    for name, data in PICTURES.items():
        (folder / name).write_bytes(data)
    (folder / "inside").symlink_to("sub/b.py")
    (folder / "outside").symlink_to("../outside.txt")
    os.mkfifo(folder / "pipe")
    rules = Sandbox(Policy(hidden=(str(folder / "hidden"),)), str(folder)).rules
    opened = Root(folder, rules=rules)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def read(root: Root) -> Read:
    """Read what a text names."""
    return lambda typed: read_mentions(typed, root)


@pytest.fixture(scope="module")
def drop(root: Root) -> Read:
    """Read what a text names, where files are dropped into a terminal."""
    return partial(_drop, root)


def _drop(root: Root, typed: str) -> Mentions:
    return read_mentions(typed, root, root.rules.hides)


def test_what_is_named_stands_behind_the_words(read: Read) -> None:
    for typed, text in FOUND.items():
        told = read(typed)
        assert replace(told, seen=()) == Mentions(f"{MENTIONS_HEAD}\n{text}"), typed


def test_what_cannot_be_read_stays_text_and_is_told(read: Read) -> None:
    for typed, why in STAYS.items():
        told = read(typed)
        assert told.text == "", typed
        assert len(told.remarks) == 1, typed
        assert told.remarks[0].startswith(f"{typed} stays text: {why}"), told.remarks


def test_what_names_nothing_is_passed_over(read: Read) -> None:
    for typed in NOTHING:
        assert read(typed) == Mentions(), typed


def test_the_count_and_the_size_have_bounds(read: Read) -> None:
    told = read(" ".join(f"@n{number}" for number in range(MENTION_COUNT_MAX + 1)))
    assert told.text.count("\n[") == MENTION_COUNT_MAX + told.text.count("\n\n[")
    assert told.remarks == (
        f"only the first {MENTION_COUNT_MAX} files that a prompt names are read",
    )
    told = read(" ".join(f"@user{number}" for number in range(1000)) + " @a.py")
    assert len(told.remarks) == MISS_COUNT_MAX + 1
    assert told.remarks[-1] == "what else is named stays text: too much of it cannot be read"
    assert told.text == ""
    told = read(" ".join(f"@big{number}" for number in range(5)))
    assert len(told.text) < TEXT_LENGTH_MAX + len(MENTIONS_HEAD)
    assert [one.partition(":")[0] for one in told.remarks] == [
        "@big3 is not read",
        "@big4 is not read",
    ]


def test_what_was_typed_is_had_again(read: Read) -> None:
    for typed in (*FOUND, *STAYS):
        assert strip_additions(typed + read(typed).text) == typed


def test_pictures_and_documents_go_along_as_they_are(read: Read) -> None:
    told = read('@shot.png, @misnamed.txt and @paper.pdf; @"esc\x1b[31m.png"')
    assert told.remarks == ()
    assert told.contents == (png(), JPEG, PDF, png(5, 5))
    assert [(one.media_type, one.name, one.width, one.height) for one in told.shown] == [
        ("image/png", "shot.png", 3, 2),
        ("image/jpeg", "misnamed.txt", 5, 7),
        ("application/pdf", "paper.pdf", 0, 0),
        ("image/png", "esc\x1b[31m.png", 5, 5),
    ]
    assert told.text.splitlines()[3] == (
        f'["shot.png", image/png, 3x2, {len(png())} bytes: shown with this message]'
    )


def test_what_was_shown_of_files_counts_as_read_like_what_a_tool_shows(read: Read) -> None:
    told = read("@a.py @a.py:2-3 @inside, @bytes and @sub/ but not @hidden/key; @shot.png")
    assert [(one.name, one.first_line, one.last_line) for one in told.seen] == [
        ("a.py", 1, 3),
        ("a.py", 2, 3),
        ("sub/b.py", 1, 1),
        ("bytes", 0, 0),
        ("shot.png", 0, 0),
    ]
    for one, data in zip(
        told.seen, (*(b"one\ntwo\nthree\n",) * 2, b"bee\n", b"a\0b", png()), strict=True
    ):
        assert (one.content, one.lines) == (digest_of(data), digest_lines(data)), one.name
    assert read("@big1 @big2 @big3 @big4").seen == read("@big1 @big2 @big3").seen


def test_what_no_model_takes_is_told_with_a_way_out_and_nothing_goes_along(read: Read) -> None:
    told = read("@loop.gif @cut.png @huge.png")
    assert (told.text, told.shown) == ("", ())
    assert [one.partition(": ")[2] for one in told.remarks] == [
        "the GIF is animated, and models see one picture; save one frame as PNG",
        "the PNG is damaged or cut; save it again",
        "the picture has 100000x10000 pixels, and at most 8000x8000 can be sent; make it smaller",
    ]


def test_a_text_that_begins_like_a_document_goes_along_as_text(read: Read, drop: Read) -> None:
    folder = drop.args[0].path.parent / "w"  # type: ignore[attr-defined]
    (folder / "notes").write_text("%PDF- is how a PDF begins\n")
    told = read("@notes")
    assert "how a PDF begins" in told.text
    assert (told.shown, told.remarks) == ((), ())
    assert drop(f"see {folder}/notes").remarks[0].endswith("notes is a text, and no picture")


def test_of_a_picture_that_is_too_large_the_size_is_told(tmp_path: Path) -> None:
    with closing(Root(tmp_path)) as root:
        for name, data in (("a.png", png()), ("a.pdf", PDF)):
            with (tmp_path / name).open("wb") as file:
                file.write(data)
                file.truncate(50_000_000)
            for typed in (f"@{name}", str(tmp_path / name)):
                (remark,) = read_mentions(typed, root, root.rules.hides).remarks
                assert " has 50000000 bytes, and at most " in remark


def test_a_path_that_a_terminal_types_is_a_picture_or_nothing(read: Read, drop: Read) -> None:
    outside = drop.args[0].path.parent / "out side.png"  # type: ignore[attr-defined]
    forms = (f"'{outside}'", f'"{outside}"', str(outside).replace(" ", "\\ "), outside.as_uri())
    for form in forms:
        told = drop(f"see {form} please")
        assert [one.width for one in told.shown] == [4], form
        assert told.shown[0].name == str(outside)
        assert read(f"see {form} please") == Mentions(), "only where a terminal is"
    folder = outside.parent / "w"
    for nothing in (folder / "a.py", folder / "nobody", folder, folder / "pipe", "/dev/zero", "/"):
        assert drop(f"see {nothing}") == Mentions(), nothing
    assert drop(f"see {outside}").seen == ()
    assert drop(f"see {folder}/hidden/key.png").shown == ()
    assert len(drop(f"see {folder}/hidden/key.png").remarks) == 1
    assert drop(f"{folder}/cut.png").remarks[0].endswith("damaged or cut; save it again")


@given(st.text(alphabet='@ab.py:123-"\\ \n/~()é\0'))
def test_no_words_are_a_failure(read: Read, typed: str) -> None:
    read(typed)
