"""What holds for every text: an answer, in time, and no cover for what is added or wrapped."""

from __future__ import annotations

import gc
import time
from itertools import product
from shlex import quote
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.danger.everyday import BY_THEMSELVES, GRANTED
from treadle.core.tools import RiskLevel
from treadle.tools.danger.assess import COMMAND_SIZE_MAX, assess
from treadle.tools.danger.harmless import RULES
from treadle.tools.danger.kinds import kind_of_words

HARMLESS: Final = {k for kinds in (*GRANTED.values(), *BY_THEMSELVES.values()) for k in kinds}
CRITICAL: Final = ("rm -rf /", "git push --force", "cat ~/.ssh/id_rsa", "dd if=x of=/dev/sda")
PIECES: Final = st.sampled_from(
    [
        *"'\"\\`$(){}[]<>|&;#!*?~=\n\t -_x1",
        "$(",
        "${",
        "$((",
        "<<",
        "<<<",
        "EOF",
        "\nEOF\n",
        "rm ",
        "git ",
        "sh -c ",
        "case ",
        " in ",
        "esac",
        "for ",
        "do ",
        "done",
        "if ",
        "fi",
        "[[ ",
        "]]",
    ]
)
WRAPPERS: Final = (
    "sudo {}",
    "env A=1 {}",
    "nice -n 3 {}",
    "timeout 5 {}",
    "nohup {}",
    "xargs {}",
    "command {}",
    "true && {}",
    "({})",
    "{{ {}; }}",
    "if true; then {}; fi",
    "echo $( {} )",
    "sh -c {quoted}",
    "eval {quoted}",
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200))
def test_every_text_has_an_answer(text: str) -> None:
    danger = assess(text)
    assert danger.risk >= RiskLevel.HIGH
    assert not (danger.kinds and danger.risk is RiskLevel.CRITICAL)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*GRANTED]), st.sampled_from(["; ", " && ", "\n", " | ", " & ", " || "]))
def test_a_deletion_that_is_added_is_never_covered(command: str, joint: str) -> None:
    for text in (f"{command.partition(' #')[0]}{joint}rm -rf /", f"rm -rf /{joint}{command}"):
        danger = assess(text)
        assert danger.risk is RiskLevel.CRITICAL
        assert danger.kinds == ()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*GRANTED]), st.data())
def test_a_deletion_put_in_anywhere_is_never_covered(command: str, data: st.DataObject) -> None:
    plain = command.partition("#")[0]
    places = [n for n in range(len(plain) + 1) if plain[:n].count("'") % 2 == 0]
    place = data.draw(st.sampled_from([n for n in places if plain[n - 1 : n] != "\\"]))
    danger = assess(f"{plain[:place]}; rm -rf / ;{plain[place:]}")
    assert not (danger.kinds and {*danger.kinds} <= HARMLESS)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(CRITICAL), st.lists(st.sampled_from(WRAPPERS), max_size=4))
def test_a_danger_stays_one_in_any_wrappers(command: str, wrappers: list[str]) -> None:
    for wrapper in wrappers:
        command = wrapper.format(command, quoted=quote(command))
    assert assess(command).risk is RiskLevel.CRITICAL


@pytest.mark.parametrize("key", [*RULES])
def test_a_kind_as_a_command_is_of_that_kind_or_of_none(key: str) -> None:
    words = (*key.split(" "),)
    assert kind_of_words(words) == key


SHAPES: Final = (
    *(
        "$(",
        "${",
        "$((",
        "`",
        "'",
        '"',
        "<(",
        "(",
        "{ ",
        "\\",
        "<<A ",
        "a|",
        "a;",
        "a ",
        "$x",
        "[[",
    ),
    *("sudo ", "sh -c ", "strace ", "find -exec ", "*", "{a,", "a/", "../", "a=", "-", "\n", " "),
    *("case x in ", "f(){ ", "delete from ", "copy ", "open ", "chr(", "s/", "sed -e '", "/etc/x "),
)


QUICK_S: Final = 0.5
GROWTH_MAX: Final = 8.0


def cost(text: str) -> float:
    """Seconds of processor time that `assess` takes for `text`, no garbage collection among them.

    A collection of all objects goes by how much the whole test process holds, and not by `text`.
    """
    gc.collect(0)
    gc.disable()
    try:
        begin = time.process_time()
        assess(text)
        return time.process_time() - begin
    finally:
        gc.enable()


def test_what_a_text_costs_grows_with_its_length_whatever_its_shape() -> None:
    # A text is held against a quarter of itself, on the same machine in the same minute:
    # twice as dear per character is allowed, four times (what a quadratic scan would cost) is not.
    slow: list[tuple[str, str, float]] = []
    for head, shape in product(("", "psql -c '", 'python -c "'), SHAPES):
        whole = (head + shape * COMMAND_SIZE_MAX)[: COMMAND_SIZE_MAX - 1]
        part = whole[: COMMAND_SIZE_MAX // 4]
        if (once := cost(whole)) < QUICK_S or once < GROWTH_MAX * cost(part):
            continue
        growth = min(cost(whole) for _ in range(3)) / min(cost(part) for _ in range(3))
        if growth > GROWTH_MAX:
            slow.append((head, shape, growth))
        if len(slow) == 3:  # these cost seconds each, and the rest would tell the same
            break
    assert slow == []
