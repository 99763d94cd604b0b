"""The status line tells what it can in the room that there is."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from treadle.terminal.columns import text_width
from treadle.terminal.ports import STYLES, StatusFields
from treadle.terminal.status_line import format_count, status_line

ALL = StatusFields(
    model="anthropic:claude",
    mode="auto-edit",
    branch="main",
    is_dirty=True,
    context=(83_000, 200_000),
    sums=(1_512_300, 1_400_000),
    cost_usd=Decimal("0.1234"),
    sync="synced",
    is_private=True,
    sandbox="bubblewrap",
)


def told(facts: StatusFields, width: int) -> str:
    return "".join(text for _, text in status_line(facts, width))


def test_everything_is_told_where_there_is_room() -> None:
    assert told(ALL, 200) == (
        "private · auto-edit · bubblewrap · 83k of 200k (42%) · $0.12 · anthropic:claude · main*"
        " · all requests 1.5M, 1.4M from cache · synced"
    )


def test_what_is_unknown_is_left_out() -> None:
    assert told(StatusFields(), 80) == ""
    assert told(StatusFields(mode="ask"), 80) == "ask"
    assert told(StatusFields(mode="ask", remote="off"), 80) == "ask"
    assert told(StatusFields(mode="ask", remote="answer"), 80) == "ask · remote answer"
    assert (
        told(StatusFields(mode="ask", branch="main", cost_usd=Decimal(0)), 80)
        == "ask · $0.00 · main"
    )


@for_every_row("width", range(0, 120, 7))
def test_narrow_lines_drop_from_the_right_and_never_overflow(width: int) -> None:
    whole, line = told(ALL, 200), told(ALL, width)
    assert text_width(line) <= width
    assert whole.startswith(line)
    rest = whole[len(line) :]
    assert rest == "" or rest.startswith(" · ") or width < len("private")


def test_what_holds_commands_is_shortened_before_anything_is_dropped() -> None:
    facts = StatusFields(mode="ask", model="m", sandbox="workspace-write, no network, bubblewrap")
    assert told(facts, 80) == "ask · m · workspace-write, no network, bubblewrap"
    assert told(facts, 40) == "ask · m · ws-write, no net"
    assert told(facts, 20) == "ask · m"
    assert (
        told(StatusFields(mode="ask", sandbox="no sandbox: none is here"), 20) == "ask · no sandbox"
    )


@pytest.mark.parametrize("mode", ["auto-edit", "auto"])
def test_what_holds_commands_comes_before_the_model_where_nobody_is_asked(mode: str) -> None:
    facts = StatusFields(
        mode=mode, model="m" * 30, sums=(5, 0), sandbox="read-only, no network, Landlock"
    )
    assert told(facts, 40) == f"{mode} · read-only, no net"


def test_a_long_name_does_not_push_out_what_follows() -> None:
    facts = StatusFields(mode="ask", model="scripted:/" + "x" * 90, branch="main")
    assert told(facts, 60) == f"ask · scripted:/{'x' * 29}… · main"


def test_wide_characters_take_two_columns() -> None:
    facts = StatusFields(mode="漢字漢字", model="m")
    assert told(facts, 12) == "漢字漢字 · m"
    assert told(facts, 11) == "漢字漢字"


def test_a_first_part_that_does_not_fit_is_cut_by_columns() -> None:
    assert told(StatusFields(mode="漢字漢字"), 5) == "漢字"


@for_every_row("used, style", [(1, "dim"), (80, "dim"), (81, "warn"), (95, "warn"), (96, "bad")])
def test_a_full_context_is_coloured(used: int, style: str) -> None:
    [(found, text)] = status_line(StatusFields(context=(used, 100)), 80)
    assert (found, text) == (style, f"{used} of 100 ({used}%)")


def test_of_a_window_that_nobody_knows_what_is_used_is_told() -> None:
    assert told(StatusFields(context=(12_300, 0)), 80) == "12.3k context"


@pytest.mark.parametrize("mode", ["plan", "ask", "auto"])
def test_mode_context_and_cost_are_told_in_sixty_columns(mode: str) -> None:
    facts = replace(ALL, mode=mode, is_private=False, model="m" * 40, branch="b" * 40)
    line = told(replace(facts, sandbox="workspace-write, no network, bubblewrap"), 60)
    assert all(word in line for word in (mode, "83k of 200k (42%)", "$0.12"))


def test_only_known_styles_are_used_and_nothing_steers_the_terminal() -> None:
    facts = StatusFields(model="\x1b[2Jm", mode="a\nb", branch="\r", sync="\x07")
    line = status_line(facts, 80)
    assert {style for style, _ in line} <= set(STYLES)
    assert "".join(text for _, text in line).isprintable()


def test_counts_stay_short() -> None:
    assert [format_count(n) for n in (0, 999, 1_000, 999_949, 1_000_000, 4_500_000)] == [
        "0", "999", "1k", "999.9k", "1M", "4.5M",
    ]  # fmt: skip
