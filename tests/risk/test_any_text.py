"""What holds for every text: an answer, in time; and plain words are those that bash reads."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from processor_time import slow
from treadle.core.tools import RiskLevel
from treadle.risk.advice import ADVICE, COMMAND_LENGTH_MAX
from treadle.risk.assess import assess
from treadle.risk.plain_shell import read_plain
from treadle.risk.settings import settings_written

PIECES: Final = st.sampled_from(
    [
        *"'\"\\`$(){}[]<>|&;#!*?~=\n\t -_x1@:^%+,./",
        *("$(", "${", "$((", "<<", "<<<", "EOF", "\nEOF\n", "rm ", "git ", "sh -c ", "case "),
        *(" in ", "esac", "for ", "do ", "done", "if ", "fi", "[[ ", "]]", "2>&1", "\\\n", " && "),
    ]
)
ARGUMENTS: Final = st.lists(
    st.sampled_from([*"'\"\\#!*?~=\t -x1@:^%+,./[]", "a b", "\\'", '"x y"', "'$z'", "\\\n", "=~"]),
    min_size=1,
    max_size=12,
).map("".join)
HEADS: Final = (
    *("rm -r ", "git push ", "git clean ", "aws ", "find ", "psql -c '", "chmod -R ", "docker "),
    *("curl x ", "x | ", "sudo ", "cat ", "git branch ", "kubectl ", "sed -n ", "make "),
)
WORDS: Final = (*("a ", "-", "-f", "-a-a", "/ ", "a/", ".git/", "-C x ", "rm "),)
"""Behind the name of a program, for which rules about its words are tried."""
SHAPES: Final = (
    *("$(", "${", "`", "'", '"', "<(", "(", "{ ", "\\", "<<A ", "a|", "a;", "$x", "[[", "f", "' "),
    *("sudo ", "sh -c ", "-exec ", "*", "a=", "\n", " ", "f(){ ", ">", ".env", "eval(", "~/", '" '),
    *("delete from ", "curl ", "| sudo - ", "base64 ", "<<A\n", "drop table ", "s/", "a\\\n"),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200))
def test_every_text_has_an_answer(text: str) -> None:
    danger = assess(text, "/work")
    assert danger.risk >= RiskLevel.HIGH
    assert not (danger.kinds and danger.risk is RiskLevel.CRITICAL)
    assert all(kind.isprintable() for kind in danger.kinds)
    assert {*danger.reasons} <= {one.sentence for one in ADVICE}
    settings_written(text)


@for_every_row("part", range(4))
def test_what_a_text_costs_grows_with_its_length_whatever_its_shape(part: int) -> None:
    pairs = [*product(HEADS, WORDS), *(("", shape) for shape in SHAPES + WORDS)]
    texts = {
        head + shape: (head + shape * COMMAND_LENGTH_MAX)[: COMMAND_LENGTH_MAX - 1]
        for head, shape in pairs[part::4]
    }
    assert slow(assess, texts) == []


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(ARGUMENTS, min_size=60, max_size=60))
def test_plain_words_are_those_that_bash_reads(tmp_path: Path, texts: list[str]) -> None:
    expected: list[list[str]] = []
    script = ["set -f; show() { printf '%s\\0' \"$@\"; printf '\\1'; }"]
    for text in texts:
        commands = read_plain(f"show {text}")
        if len(commands) == 1:
            script.append(f"show {text}")
            expected.append([*commands[0].texts[1:]] or [""])
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=tmp_path, capture_output=True, check=True
    )
    found = done.stdout.decode().split("\1")[:-1]
    assert [one.split("\0")[:-1] for one in found] == expected
