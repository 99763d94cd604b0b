"""Branches of a session of another program: each that was left is taken back, in its place."""

from __future__ import annotations

from treadle.exchange.session_branches import add_rewinds
from treadle.exchange.session_steps import SessionPrompt, SessionRewind


def test_each_branch_that_was_left_is_taken_back_before_the_next_begins() -> None:
    asked, first, second, kept = (SessionPrompt(f"{at}", f"prompt {at}") for at in range(4))
    parents = {"a": "", "b": "a", "c": "a", "d": "a"}
    assert add_rewinds([asked, first, second, kept], ["a", "b", "c", "d"], parents, "d") == [
        asked,
        first,
        SessionRewind("2", first),
        second,
        SessionRewind("3", second),
        kept,
    ]


def test_what_hangs_on_nothing_that_is_known_is_left_alone() -> None:
    asked, loose = SessionPrompt("0", "a prompt"), SessionPrompt("1", "of nobody knows where")
    parents = {"a": "", "x": "gone"}
    assert add_rewinds([asked, loose], ["a", "x"], parents, "a") == [asked, loose]
