"""Whose changes they are."""

from __future__ import annotations

import itertools

from case_tables import for_every_row
from treadle.workspace.ownership import (
    COMPILED,
    IN_THE_WAY,
    NESTED,
    PERHAPS_YOURS,
    PUT_ASIDE,
    SUBMODULE,
    YOURS,
    Choice,
    choose,
    claims,
)
from treadle.workspace.status import StatusEntry
from workspace.repo import BASH, FAILED_BASH, FAILED_EDIT, READ, edited


def pick(
    names: str,
    *,
    yours: str = "",
    named: str = "",
    takes_all: bool = False,
    is_whole: bool = True,
    kept: str = "",
) -> Choice:
    changes = {name: StatusEntry(name, name, ".M") for name in names.split()}
    return choose(
        changes,
        yours.split(),
        named.split(),
        takes_all=takes_all,
        is_whole=is_whole,
        kept=kept.split(),
    )


@for_every_row(
    "is_yours, is_named, takes_all, is_whole, is_kept",
    list(itertools.product([False, True], repeat=5)),
)
def test_every_combination_of_what_is_known_of_a_file(
    is_yours: bool, is_named: bool, takes_all: bool, is_whole: bool, is_kept: bool
) -> None:
    choice = pick(
        "a",
        yours="a" * is_yours,
        named="a" * is_named,
        takes_all=takes_all,
        is_whole=is_whole,
        kept="a" * is_kept,
    )
    is_mine = not is_yours and (is_named or is_kept or (takes_all and is_whole))
    assert bool(choice.mine) == is_mine
    if is_yours:
        assert choice.withheld == ({"a": YOURS} if is_named else {})
    elif not is_mine:
        assert choice.withheld == ({"a": PERHAPS_YOURS} if takes_all else {})


@for_every_row(
    "mine, yours",
    [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a"), ("a a/b", "a/c"), ("x/y/z x/y", "x/y/w")],
)
def test_files_that_cannot_exist_together_go_together_or_not_at_all(mine: str, yours: str) -> None:
    choice = pick(f"{mine} {yours}", yours=yours, takes_all=True)
    assert choice.mine == ()
    assert set(choice.withheld.values()) == {IN_THE_WAY}


def test_a_file_replaced_by_a_folder_goes_together_if_all_is_the_agents() -> None:
    choice = pick("a a/b a/c", takes_all=True)
    assert [change.name for change in choice.mine] == ["a", "a/b", "a/c"]


def test_names_with_a_common_beginning_are_not_in_each_others_way() -> None:
    choice = pick("a ab a.py", yours="ab", takes_all=True)
    assert [change.name for change in choice.mine] == ["a", "a.py"]


def test_repositories_inside_the_repository_are_left_alone() -> None:
    changes = {
        "sub": StatusEntry("sub", "sub", ".M", is_submodule=True),
        "clone/": StatusEntry("clone/", "clone/", "??"),
    }
    choice = choose(changes, (), (), takes_all=True, is_whole=True)
    assert choice == Choice((), {"sub": SUBMODULE, "clone/": NESTED})


def test_what_the_sandbox_has_put_aside_is_no_work_of_the_agents() -> None:
    names = (".git.0badcafe.put-aside/config", "sub/.git.0badcafe.put-aside/hooks/pre-commit")
    changes = {name: StatusEntry(name, name, "??") for name in (*names, "put-aside.py")}
    choice = choose(changes, (), (), takes_all=True, is_whole=True)
    assert [change.name for change in choice.mine] == ["put-aside.py"]
    assert choice.withheld == dict.fromkeys(names, PUT_ASIDE)


def test_compiled_python_is_committed_only_where_git_knows_it() -> None:
    letters = {"__pycache__/a.pyc": "??", "b/__pycache__/c.pyc": ".M", "x__pycache__": "??"}
    changes = {name: StatusEntry(name, name, kind) for name, kind in letters.items()}
    choice = choose(changes, (), (), takes_all=True, is_whole=True)
    assert [change.name for change in choice.mine] == ["b/__pycache__/c.pyc", "x__pycache__"]
    assert choice.withheld == {"__pycache__/a.pyc": COMPILED}


def test_only_calls_that_succeeded_claim_anything() -> None:
    unnamed = {"bash"}
    assert claims([edited("a", "b"), READ, FAILED_EDIT, FAILED_BASH], unnamed) == (
        ["a", "b"],
        False,
    )
    assert claims([READ, BASH], unnamed) == ([], True)
    assert claims([], unnamed) == ([], False)


def test_a_tool_that_names_what_it_changed_has_named_all() -> None:
    assert claims([edited("a")], {"edit_file"}) == (["a"], False)
