"""Lists: what a filter fits, in which order, and how much of it the caller may see."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import insert

from case_tables import for_every_row
from server.people import People, at
from server.search.corpus import EMPTY, add, id_of
from treadle.api.error_codes import ErrorCode
from treadle.server.data import schema
from treadle.server.refusals import Refusal
from treadle.server.search import thread_lists
from treadle.server.search.thread_lists import Filters, parse_filters


def listed(people: People, who: str = "owner", **given: str) -> list[int]:
    """The numbers of the threads that a request with these parameters lists."""
    filters = parse_filters({name: [value] for name, value in given.items()})
    with people.reading(who) as context:
        page = thread_lists.list_threads(context, filters)
    assert page.total == len(page.threads)
    return [int(line.summary.id[-12:], 16) for line in page.threads]


def test_newest_activity_comes_first_then_the_higher_id(people: People) -> None:
    for number, moment in ((1, 5), (2, 9), (3, 5)):
        add(people, number, last_activity_at=at(moment))
    assert listed(people) == [2, 3, 1]


def test_pages_follow_each_other_and_tell_how_many_there_are(people: People) -> None:
    for number in range(1, 6):
        add(people, number)
    add(people, 6, owner="outsider")
    with people.reading() as context:
        pages = [
            thread_lists.list_threads(context, limit=2, offset=offset) for offset in (0, 2, 4, 6)
        ]
    told = [[line.summary.id for line in page.threads] for page in pages]
    assert told == [[id_of(5), id_of(4)], [id_of(3), id_of(2)], [id_of(1)], []]
    assert {(page.total, page.limit) for page in pages} == {(5, 2)}


def test_a_line_tells_whose_thread_it_is(people: People) -> None:
    add(people, 1, summary=replace(EMPTY, title="The loom"))
    with people.reading("member") as context:
        (line,) = thread_lists.list_threads(context).threads
    assert (line.owner, line.organization, line.summary.title) == ("owner", "acme", "The loom")


SHOWN = {
    1: {"workspace_root": "/w", "git_branch": "main", "agent_state_kind": "error"},
    2: {"workspace_root": "/w/sub", "git_branch": "feature/a_b", "model": "Opus 100%"},
    3: {"workspace_root": "/wx", "git_branch": "feature/aXb", "machine": "task"},
    4: {"workspace_root": "/", "git_branch": "[x]*", "visibility": "public"},
    5: {"model": "gpt", "tags": '["red","a \\"b\\", c"]'},
    6: {"tags": '["b","redder","x\\"red\\""]', "owner": "member"},
    7: {"summary": replace(EMPTY, questions=1), "tags": '["red","b"]'},
    8: {"summary": replace(EMPTY, is_unfinished=True, title='"questions":1')},
    9: {"summary": replace(EMPTY, imported_from="codex"), "visibility": "private"},
}
ASKED: list[tuple[dict[str, str], list[int]]] = [
    ({}, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ({"workspace": "/w"}, [2, 1]),
    ({"workspace": "/w/"}, [2, 1]),
    ({"workspace": "/"}, [4, 3, 2, 1]),
    ({"workspace": "/nowhere"}, []),
    ({"branch": "main"}, [1]),
    ({"branch": "MAIN"}, []),
    ({"branch": "ma?n"}, [1]),
    ({"branch": "MA*"}, []),
    ({"branch": "feature/*"}, [3, 2]),
    ({"branch": "feature/a_*"}, [2]),
    ({"branch": "[x]*"}, [4]),
    ({"branch": "[*"}, [4]),
    ({"branch": "%"}, []),
    ({"commit": "C0FFEE"}, [1]),
    ({"commit": "c"}, [2, 1]),
    ({"commit": "0ffee"}, []),
    ({"repo": "host/path"}, [2]),
    ({"repo": "host"}, []),
    ({"tag": "red"}, [7, 5]),
    ({"tag": "b"}, [7, 6]),
    ({"tag": 'a "b", c'}, [5]),
    ({"tag": "re"}, []),
    ({"state": "error"}, [1]),
    ({"state": "waiting"}, [7]),
    ({"state": "unfinished"}, [8, 7]),
    ({"owner": "member"}, [6]),
    ({"owner": "nobody"}, []),
    ({"visibility": "public"}, [4]),
    ({"visibility": "private"}, [9]),
    ({"machine": "task"}, [3]),
    ({"model": "opus"}, [2]),
    ({"model": "100%"}, [2]),
    ({"model": "%"}, [2]),
    ({"model": "_"}, []),
    ({"since": "2026-11-21T08:15:08Z"}, [9, 8]),
    ({"until": "2026-11-21T10:15:02+02:00"}, [1]),
    ({"since": "2026-11-21T08:15:03Z", "until": "2026-11-21T08:15:05Z"}, [4, 3]),
    ({"imported": "true"}, [9]),
    ({"imported": "false", "deleted": "false"}, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ({"deleted": "true"}, [10]),
    ({"workspace": "", "unknown": "x"}, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ({"workspace": "/w", "branch": "main", "state": "error"}, [1]),
    ({"workspace": "/w", "branch": "main", "state": "waiting"}, []),
]


@pytest.fixture
def shown(people: People) -> People:
    """Threads 1 to 9, a deleted one and one of another organisation."""
    with people.database.write() as db:
        db.execute(insert(schema.repos).values(id=1, slug="host/path", created_at=at()))
    for number, columns in SHOWN.items():
        given: dict[str, Any] = {"owner": "owner", **columns}
        if number == 2:
            given["repo_id"] = 1
        add(people, number, **given)
    add(people, 10, deleted_at=at(99), workspace_root="/w")
    add(people, 11, deleted_at=at(99), owner="member")
    add(people, 12, purged_at=at(99))
    add(people, 13, owner="outsider", workspace_root="/w")
    with people.database.write() as db:
        for number, sha in ((1, "c0ffee"), (2, "c1"), (13, "c0ffee")):
            db.execute(
                insert(schema.thread_commits).values(
                    thread_id=id_of(number),
                    commit_sha=sha * 6,
                    is_dirty=False,
                    is_initial=False,
                    is_final=False,
                    observed_at=at(),
                )
            )
    return people


def test_a_filter_fits_what_it_says_and_nothing_else(shown: People) -> None:
    with shown.database.write() as db:
        db.execute(
            schema.threads.update()
            .where(schema.threads.c.id == id_of(9))
            .values(owner_id=shown["owner"].user_id)
        )
    for given, wanted in ASKED:
        assert listed(shown, **given) == wanted, given


def test_two_tags_must_both_be_there(shown: People) -> None:
    with shown.reading() as context:
        page = thread_lists.list_threads(context, parse_filters({"tag": ["red", "b"]}))
    assert [line.summary.id for line in page.threads] == [id_of(7)]


def test_others_see_no_deleted_and_no_private_thread(shown: People) -> None:
    assert listed(shown, "member", deleted="true") == [11]
    assert 9 not in listed(shown, "member")
    assert listed(shown, "outsider") == [13, 4]
    assert listed(shown, "outsider", commit="c0ffee") == [13]
    assert listed(shown, "") == [4]


@for_every_row(
    "given",
    [
        {"commit": ["xyz"]},
        {"commit": ["c0ffee' OR 1"]},
        {"commit": ["a" * 65]},
        {"visibility": ["team"]},
        {"machine": ["x"]},
        {"deleted": ["yes"]},
        {"since": ["yesterday"]},
        {"until": ["2026-99-99"]},
        {"workspace": ["a\0b"]},
        {"branch": ["\ud800"]},
        {"model": ["x" * 5000]},
        {"state": ["error", "waiting"]},
        {"tag": ["x"] * 17},
        {"since": [""]},
        {"until": [""]},
        {"commit": [""]},
    ],
)
def test_a_value_of_another_form_is_refused(given: dict[str, list[str]]) -> None:
    with pytest.raises(Refusal) as caught:
        parse_filters(given)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert next(iter(given)) in str(caught.value)


def test_a_page_of_a_list_has_bounds(people: People) -> None:
    with people.reading() as context:
        for limit, offset in ((0, 0), (201, 0), (1, -1), (1, 10_001)):
            with pytest.raises(Refusal) as caught:
                thread_lists.list_threads(context, Filters(), limit, offset)
            assert caught.value.code is ErrorCode.BAD_REQUEST
