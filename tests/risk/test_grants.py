"""No grant of an everyday command covers it with an option that does more, wherever it stands."""

from __future__ import annotations

import shlex
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from risk.attacks import ATTACKS
from risk.everyday import BY_THEMSELVES, GRANTED
from treadle.risk.assess import assess
from treadle.risk.harmless import RULES
from treadle.risk.kinds import kind_of_words

HARMLESS: Final = {k for kinds in (*GRANTED.values(), *BY_THEMSELVES.values()) for k in kinds}
NARROW: Final = {*RULES, *HARMLESS}
PLAIN: Final = [command for command in GRANTED if not {*command} & {*";&|#\n>"}]
STILL_GRANTED: Final = {
    "make -j 4 test": "make test",
    "make -j test": "make test",
    "make --jobs=4 test": "make test",
    "make --jobs 4 test": "make test",
    "git diff -U5": "git diff",
    "git diff --unified=5": "git diff",
    "git log --format=%H -5": "git log",
    "git log --since 1week": "git log",
    "git log --since -1week": "git log",
    "git log -S text --pretty=oneline": "git log",
    "git log --text -p": "git log",
    "git commit -m x -m '- one\n- two'": "git commit",
    "find . -mtime -1 -size -10k": "find",
    "find . -name x -not -path './.git/*'": "find",
    "grep -rn --exclude-dir=.git x .": "grep",
    "rg -g '!.git' x": "rg",
    "cut -d - -f 1 x": "cut",
    "head -n -5 x": "head",
    "cargo test --test it": "cargo test",
    "pytest --cov=src --cov": "pytest",
    "jq .env x.json": "jq",
    "jq '.a.env|.import' x.json": "jq",
    "jq . env.json": "jq",
    "jq '.a[\"env\"]' x.json": "jq",
    "date -Iseconds": "date",
    "pip show -f requests": "pip show",
    "diff --color -u a b": "diff",
}


def words_of_rule(key: str) -> list[str]:
    return [word for word in RULES[key].never if word != "--"]


def rule_of(command: str) -> str:
    words = shlex.split(command)
    tails = (" ".join(words[place:]) for place in range(len(words)))
    names = (tail.replace(".venv/bin/", "").removeprefix("timeout 60 ") for tail in tails)
    return next((k for name in names for k in _keys(name)), "")


def _keys(text: str) -> list[str]:
    return sorted((k for k in RULES if f"{text} ".startswith(f"{k} ")), key=len, reverse=True)


def test_there_are_enough_attacks() -> None:
    assert len({*ATTACKS}) == len(ATTACKS) >= 150


@for_every_row("command", ATTACKS)
def test_an_attack_is_not_covered_by_a_grant_of_any_known_command(command: str) -> None:
    kinds = assess(command).kinds
    assert not (kinds and {*kinds} <= NARROW)


@for_every_row("command, kind", STILL_GRANTED.items())
def test_what_only_looks_like_an_attack_has_its_kind(command: str, kind: str) -> None:
    assert assess(command).kinds == (kind,)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([c for c in PLAIN if words_of_rule(rule_of(c) or "ls")]), st.data())
def test_an_option_that_does_more_has_no_kind_wherever_it_stands(
    command: str, data: st.DataObject
) -> None:
    key, words = rule_of(command), shlex.split(command)
    first = next(n for n in range(len(words)) if _ends_rule(words[: n + 1], key))
    place = data.draw(st.integers(first + 1, len(words)))
    never = data.draw(st.sampled_from(words_of_rule(key)))
    words.insert(place, "@x" if never == "@" else never)
    assert assess(shlex.join(words)).kinds == ()


def _ends_rule(words: list[str], key: str) -> bool:
    return " ".join(words).replace(".venv/bin/", "").endswith(key)


@for_every_row("key", [key for key in RULES if words_of_rule(key)])
def test_no_option_of_a_rule_hides_the_word_after_it(key: str) -> None:
    rule, head = RULES[key], (*key.split(" "),)
    for option in rule.options:
        for never in words_of_rule(key):
            hidden = "@x" if never == "@" else never
            assert kind_of_words((*head, option.rstrip("=?"), hidden)) is None
            assert kind_of_words((*head, "--", option.rstrip("=?"), hidden)) is None
