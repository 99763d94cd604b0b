"""What holds for every text: an answer, in time, and no cover for what is added or wrapped."""

from __future__ import annotations

from itertools import product
from shlex import quote
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from processor_time import slow
from risk.everyday import BY_THEMSELVES, GRANTED
from treadle.core.tools import RiskLevel
from treadle.risk.assess import COMMAND_SIZE_MAX, assess
from treadle.risk.harmless import RULES
from treadle.risk.kinds import kind_of_words

HARMLESS: Final = {k for kinds in (*GRANTED.values(), *BY_THEMSELVES.values()) for k in kinds}
CRITICAL: Final = ("rm -rf /", "git push --force", "cat ~/.ssh/id_rsa", "dd if=x of=/dev/sda")
PIECES: Final = st.sampled_from(
    [
        *"'\"\\`$(){}[]<>|&;#!*?~=\n\t -_x1",
        *("$(", "${", "$((", "<<", "<<<", "EOF", "\nEOF\n", "rm ", "git ", "sh -c ", "case "),
        *(" in ", "esac", "for ", "do ", "done", "if ", "fi", "[[ ", "]]"),
    ]
)
WRAPPERS: Final = (
    *("sudo {}", "env A=1 {}", "nice -n 3 {}", "timeout 5 {}", "nohup {}", "xargs {}"),
    *("command {}", "true && {}", "({})", "{{ {}; }}", "if true; then {}; fi", "echo $( {} )"),
    *("sh -c {quoted}", "eval {quoted}"),
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


@for_every_row("key", [*RULES])
def test_a_kind_as_a_command_is_of_that_kind_or_of_none(key: str) -> None:
    words = (*key.split(" "),)
    assert kind_of_words(words) == key


SHAPES: Final = (
    *(
        *("$(", "${", "$((", "`", "'", '"', "<(", "(", "{ ", "\\", "<<A ", "a|", "a;", "a ", "$x"),
        "[[",
    ),
    *("sudo ", "sh -c ", "strace ", "find -exec ", "*", "{a,", "a/", "../", "a=", "-", "\n", " "),
    *("case x in ", "f(){ ", "delete from ", "copy ", "open ", "chr(", "s/", "sed -e '", "/etc/x "),
)


def test_what_a_text_costs_grows_with_its_length_whatever_its_shape() -> None:
    texts = {
        head + shape: (head + shape * COMMAND_SIZE_MAX)[: COMMAND_SIZE_MAX - 1]
        for head, shape in product(("", "psql -c '", 'python -c "'), SHAPES)
    }
    assert slow(assess, texts) == []
