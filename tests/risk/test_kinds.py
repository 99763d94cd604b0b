"""What grants of commands name, and that none covers a command that does more."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from risk.command_kinds import EXACT, OTHER_WORDS, PREFIXED, WITHOUT
from treadle.core.tools import RiskLevel
from treadle.risk.assess import assess
from treadle.risk.assessment import Danger

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "approvals.md"
KINDS: Final = {**PREFIXED, **EXACT, **OTHER_WORDS, **dict.fromkeys(WITHOUT, ())}
GRANTED: Final = [command for command, kinds in {**PREFIXED, **EXACT}.items() if kinds]
EVERY_PREFIX: Final = {kind for kinds in PREFIXED.values() for kind in kinds}
ADDED: Final = (
    *(
        "; rm x",
        "&& rm x",
        "|| rm x",
        "& rm x",
        "\nrm x",
        "| rm x",
        "| tee x",
        "| xargs rm",
        "| sh",
    ),
    *("> x", ">> x", "2> x", "&> x", "< x", "> 'x'", "<> x", ">| x", "<<< x", "<<x\nx\n", "|& cat"),
    *(
        "$(rm x)",
        "`rm x`",
        "$x",
        "${x}",
        "<(rm x)",
        ">(rm x)",
        "{a,b}",
        "*",
        "~/x",
        "# x",
        "(rm x)",
    ),
    *("| sort -o x", "| sed -i 1d x", "| awk x", "; export X=1", "&& eval x", "&& ./x.sh"),
)
FILES: Final = {
    "bash x.sh": "x.sh",
    "source x.sh && make": "x.sh",
    "./x.sh": "./x.sh",
    "python x.py --data=y.csv": "x.py y.csv",
    "python -m tools.gen": "tools/gen.py tools/gen/__main__.py",
    ".venv/bin/pytest -q": ".venv/bin/pytest",
    "make -f x.mk": "x.mk",
    "make -fx.mk": "x.mk",
    "nohup ./x.sh": "./x.sh",
    "timeout 5 bash x.sh | tail": "x.sh",
    "ruby -r./x": "./x.rb",
    "sh -c 'ls; . x.sh'": "x.sh",
    "env -C sub ./x.sh": "sub/x.sh",
    "cat y.py | python -u": "y.py",
    "cp y.sh x.sh && bash x.sh": "x.sh y.sh",
    "ls; bash x.sh": "x.sh",
    "cd sub && bash x.sh": "x.sh sub/x.sh",
    "cd a; cd b; bash x.sh": "a/b/x.sh",
    "cat y | python x.py": "x.py",
    "pytest -c x.ini": "x.ini",
    "npx prettier --config=x.js .": "x.js",
    "git bisect run ./x": "./x",
    "git rebase -x ./x main": "./x",
    "sort < x.txt": "x.txt",
    "BASH_FLAGS=./x.sh ls": "./x.sh",
    "/work/tool x": "/work/tool",
}
ON_DATA: Final = (
    *("rm -rf build", "mv a b", "cp -r a b", "touch x.py", "sed -i s/a/b/ x.py", "chmod +x x.sh"),
    *("git push origin main", "git checkout main", "echo hello > x.py", "make build", "npm run x"),
    *("cat x.py", "pytest x.py", "cd x && ls", "DEBUG=1 make x"),
)


def paths_of(danger: Danger) -> set[str]:
    return {normpath(path) for paths in danger.files.values() for path in paths}


@for_every_row("command, kinds", KINDS.items())
def test_a_command_has_its_kinds_and_no_others(command: str, kinds: tuple[str, ...]) -> None:
    danger = assess(command)
    assert danger.kinds == kinds
    assert not (kinds and danger.risk is RiskLevel.CRITICAL)


@for_every_row("command, paths", FILES.items())
def test_a_kind_lists_the_files_that_it_may_run(command: str, paths: str) -> None:
    danger = assess(command)
    assert {normpath(path) for path in paths.split(" ")} <= paths_of(danger)
    assert danger.files.keys() <= {*danger.kinds}


@for_every_row("command", ON_DATA)
def test_what_a_program_only_reads_or_writes_is_no_file_of_its_kind(command: str) -> None:
    danger = assess(command)
    assert danger.kinds
    assert not paths_of(danger) & {"build", "a", "b", "x", "x.py", "x.sh", "main"}


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(GRANTED), st.sampled_from(ADDED), st.data())
def test_a_grant_never_covers_what_adds_an_operator(
    command: str, added: str, data: st.DataObject
) -> None:
    quotes = [re.sub(r"\\.", "__", command[:n]) for n in range(len(command) + 1)]
    places = [n for n, before in enumerate(quotes) if not _is_inside(before)]
    place = data.draw(st.sampled_from(places))
    text = f"{command[:place]} {added} {command[place:]}"
    granted = {*assess(command).kinds, *EVERY_PREFIX}
    kinds = assess(text).kinds
    assert not (kinds and {*kinds} <= granted), text


def _is_inside(before: str) -> bool:
    """Whether a text ends within quotes, or behind a backslash."""
    rest = re.sub(r"'[^']*'|\"[^\"]*\"", "", before)
    return bool({*"'\"\\"} & {*rest}) or before.endswith("_")


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(GRANTED), st.sampled_from(("X=1 ", "./", "sudo ", "bash -c ", "xargs ", "$"))
)
def test_a_grant_never_covers_what_is_put_before_it(command: str, before: str) -> None:
    kinds = assess(f"{before}{command}").kinds
    assert not (kinds and {*kinds} <= {*assess(command).kinds, *EVERY_PREFIX} - {kinds[0]})
    assert kinds[:1] != assess(command).kinds[:1] or not kinds


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*GRANTED, "rm x", "cd a/", "ls 'b/'", " ", "; ", " && "])))
def test_no_kind_is_taken_for_a_folder_with_others_below_it(pieces: list[str]) -> None:
    assert not any(kind.endswith("/") for kind in assess("".join(pieces)).kinds)


@for_every_row("command", EXACT)
def test_the_kind_of_a_single_command_is_that_command_again(command: str) -> None:
    assert assess(assess(command).kinds[0]).kinds == assess(command).kinds


def test_the_document_shows_the_kinds_that_commands_have() -> None:
    table = DOCUMENT.read_text().partition("## Kinds and grants")[2].partition("\n- ")[0]
    rows = re.findall(r"^\| `(.*)` \| (`.*`) \|$", table, re.MULTILINE)
    assert len(rows) > 5
    for command, kinds in rows:
        found = ", ".join(f"`{kind}`" for kind in assess(command.replace("\\|", "|")).kinds)
        assert found == kinds.replace("\\|", "|")
