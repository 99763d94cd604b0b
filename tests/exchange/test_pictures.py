"""Pictures that a person showed in another program come along with their words."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from exchange.recorded import block, claude, draft_of, fold_of, one
from media_samples import ANIMATED_GIF, PDF, attachment, png
from treadle.exchange.content_blocks import list_pictures

SHOT: Final = b64encode(png()).decode()
SOURCE: Final = {"type": "base64", "media_type": "image/png", "data": SHOT}

FOUND: Final[tuple[Any, ...]] = (
    [{"type": "image", "source": SOURCE}],
    {"type": "input_image", "image_url": f"data:image/png;base64,{SHOT}"},
    [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SHOT}"}}],
    [{"inlineData": {"mimeType": "image/png", "data": SHOT}}],
)

NOTHING: Final[tuple[Any, ...]] = (
    None,
    "text",
    [block("text"), 7, None, {"type": "image"}],
    {"type": "input_image", "image_url": "https://example.org/x.png"},
    {"type": "input_image", "image_url": "data:image/png,raw"},
    {"type": "image", "source": {"data": "no base64 at all"}},
    {"type": "image", "source": {"data": b64encode(ANIMATED_GIF).decode()}},
    {"type": "image", "source": {"data": b64encode(png()[:-4]).decode()}},
    {"type": "image", "source": {"data": b64encode(b"text").decode()}},
    {"type": "image", "source": {"data": 7}},
    {"type": "image", "source": "x", "image_url": ["x"]},
)


def test_the_bytes_are_found_in_the_forms_of_each_api() -> None:
    assert [list_pictures(one) for one in FOUND] == [(png(),)] * len(FOUND)
    paper = {"type": "document", "source": {"data": b64encode(PDF).decode()}}
    assert list_pictures([*FOUND[0], paper]) == (png(), PDF)


def test_what_no_model_takes_and_what_is_elsewhere_stays_a_mark_in_the_text() -> None:
    assert [list_pictures(one) for one in NOTHING] == [()] * len(NOTHING)


def test_they_are_in_the_thread_and_their_bytes_are_to_be_kept() -> None:
    shown = [block("see"), {"type": "image", "source": SOURCE}]
    draft = draft_of(
        one("claude-code", (claude("user", 0, shown), claude("assistant", 1, "I see.")))
    )
    assert draft.kept == (png(),)
    first = fold_of(draft).conversation[0]
    assert first.content == "see\n[image: image/png]"
    assert first.attachments == (attachment(png(), "picture 1"),)
