"""What a person types is never an error, and finds what they mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from core.samples import answer, call, ended, said, success
from store.shelf import CREATOR, Shelf, fill
from treadle.core.config import AgentConfig
from treadle.core.conversation import View
from treadle.core.events import PostToolsHookCompleted, Rewound
from treadle.core.messages import ToolCall
from treadle.errors import UsageError
from treadle.store.index.lookup import Index, ThreadFilters
from treadle.store.index.schema import TABLES
from treadle.store.index.search import (
    MARK_END,
    MARK_START,
    TERM_COUNT_MAX,
    extract_marks,
    parse_query,
)
from treadle.thread.facts import (
    Annotated,
    Configured,
    Foreign,
    GitObserved,
    Imported,
    Pinned,
    Renamed,
    Tagged,
)


@pytest.fixture
def index(shelf: Shelf) -> Iterator[Index]:
    index = Index(shelf.store)
    yield index
    index.close()


@pytest.fixture(scope="module")
def words() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:")
    for statement in TABLES.split(";\n"):
        database.execute(statement)
    database.execute("INSERT INTO words (text) VALUES ('some words: a \"b\" c* NEAR(x) -y')")
    yield database
    database.close()


def found(index: Index, query: str) -> list[str]:
    return [hit.thread.id for hit in index.search(query)]


SPICE = st.sampled_from(
    [*"\"*-():^{}+,.'\0\n ", "AND", "OR", "NOT", "NEAR(", "text:", "sha :", "dead", "T-", "中", "é"]
)


@given(st.lists(SPICE | st.text(max_size=4), max_size=12).map("".join))
def test_no_text_is_a_syntax_error(words: sqlite3.Connection, text: str) -> None:
    try:
        query = parse_query(text)
    except UsageError:
        return
    words.execute("SELECT count(*) FROM words WHERE words MATCH ?", (query.expression,))


@for_every_row("text", ["", "  ", '""', "-", "*", "!?", "-word", '-"a b"', "- -x", "“”"])
def test_a_query_without_a_word_to_look_for_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no word"):
        parse_query(text)


def test_a_query_has_a_limit_and_that_many_words_still_work(words: sqlite3.Connection) -> None:
    most = parse_query("dead " * TERM_COUNT_MAX)
    words.execute("SELECT count(*) FROM words WHERE words MATCH ?", (most.expression,))
    with pytest.raises(UsageError, match="at most"):
        parse_query("a " * (TERM_COUNT_MAX + 1))


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("shuttle", True),
        ("SHUTTLE loom", True),
        ("loom shuttle", True),
        ('"the shuttle"', True),
        ('"shuttle the"', False),
        ('"the shuttle', True),
        ("shut*", True),
        ('"the shut"*', True),
        ("shut", False),
        ("shuttle -loom", False),
        ("shuttle -warp", True),
        ("shuttle -warp -loom", False),
        ('shuttle -"the shuttle"', False),
        ("shuttle warp", False),
        ("cafe", True),
        ("CAFÉ", True),
        ("src/loom.py", True),
        ("loom_py", True),
        ("OR", False),
        ("搜索", True),
        ("索引", True),
        ("中引", False),
        ("中文 loom", True),
        ("データ", True),
        ("데이", True),
    ],
)
def test_words_phrases_beginnings_and_exclusions(
    shelf: Shelf, index: Index, query: str, is_found: bool
) -> None:
    text = "Put the shuttle into the loom of the café\nsrc/loom.py 中文搜索引擎 のデータ 데이터는"
    thread = shelf.create((said(text),))
    assert found(index, query) == [thread] * is_found


def test_everything_is_found_where_it_was_said(shelf: Shelf, index: Index) -> None:
    thread = shelf.create(
        (GitObserved("feature/warp", "c0ffee0123", False, "git.example/weaver"), said("prompted")),
        (answer("", call("a", "edit", '{"path":"deep/file.py","new":"inserted"}')),),
        (ended("a", success("a", "printed", "changed/name.txt")),),
        (PostToolsHookCompleted(True, "hooked", commit="0ddba11" + "0" * 33),),
        (answer("answered"), Renamed("titled"), Tagged(("tagged",)), Annotated("noted")),
        (Imported("elsewhere", "session-7"), Foreign('{"odd":"foreign"}')),
    )
    for query, version, kind in (
        ("feature/warp", 2, "place"),
        ("weaver", 2, "place"),
        ("c0ff", 2, "commit"),
        ("C0FFEE01", 2, "commit"),
        ("prompted", 3, "prompt"),
        ("inserted", 4, "call"),
        ("deep/file.py", 4, "call"),
        ("printed", 5, "output"),
        ("changed/name.txt", 5, "place"),
        ("hooked", 6, "other"),
        ("0ddba11", 6, "commit"),
        ("answered", 7, "answer"),
        ("titled", 8, "title"),
        ("tagged", 9, "tag"),
        ("noted", 10, "note"),
        ("elsewhere", 11, "other"),
        ("foreign", 12, "other"),
        ("/w/src", 1, "place"),
        (thread[:20], 12, "id"),
        (thread[2:12], 12, "id"),
    ):
        (hit,) = index.search(query)
        assert (hit.thread.id, hit.version, hit.kind) == (thread, version, kind), query
        marked_text = [hit.snippet[start:end].lower() for start, end in hit.ranges]
        assert marked_text, query
        if kind not in ("commit", "id"):
            assert query.split("/")[0] in "".join(marked_text), query
    assert found(index, "c0f") == []
    assert found(index, "c0ffe1") == []


def test_what_a_rewind_hides_is_found_all_the_same(shelf: Shelf, index: Index) -> None:
    thread = shelf.create((said("remember"),), (answer("the shuttle"),))
    with_view = shelf.store.open(thread)
    fill(with_view, (Rewound(1, View(0)),))
    with_view.close()
    assert found(index, "shuttle") == [thread]


def test_titles_and_prompts_come_before_output_and_equals_newest_first(
    shelf: Shelf, index: Index
) -> None:
    asked = (said("go on"),)
    old, new = (shelf.create(asked, (answer("the shuttle flies"),)) for _ in range(2))
    printed = shelf.create(
        asked,
        (answer("", call("a", "edit")),),
        (ended("a", success("a", "the shuttle flies")),),
    )
    prompted = shelf.create((said("the shuttle flies"),))
    titled = shelf.create(asked, (Renamed("the shuttle flies"),))
    hits = index.search("shuttle")
    assert [hit.thread.id for hit in hits] == [titled, prompted, new, old, printed]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit.thread.id for hit in index.search("shuttle", limit=2)] == [titled, prompted]


def test_a_thread_is_one_hit_with_its_best_place_and_their_number(
    shelf: Shelf, index: Index
) -> None:
    thread = shelf.create((said("the shuttle"),), (answer("a shuttle, one more shuttle"),))
    (hit,) = index.search("shuttle")
    assert (hit.thread.id, hit.version, hit.count) == (thread, 2, 2)


def test_all_texts_of_a_record_are_found_however_many_they_are(shelf: Shelf, index: Index) -> None:
    calls = (ToolCall(f"c{nth}", "read_file", f'{{"path":"at{nth}"}}') for nth in range(300))
    thread = shelf.create((said("go"),), (answer("", *calls),))
    missed = [nth for nth in range(300) if not index.search(f"at{nth}")]
    assert missed == []
    assert index.search("read_file")[0].count == 256
    assert index.search("at299")[0].thread.id == thread


def test_a_fork_is_found_by_its_own_words_and_its_base_by_those_they_share(
    shelf: Shelf, index: Index
) -> None:
    base = shelf.create((said("shared"),), (answer("yes"),))
    fork = shelf.store.fork(base, creator=CREATOR)
    fill(fork, (said("own"),))
    fork.close()
    assert found(index, "shared") == [base]
    assert found(index, "own") == [fork.thread_id]
    assert {line.id: line.title for line in index.list_threads()}[fork.thread_id] == "shared"


def test_filters_choose_the_threads_that_are_listed_and_searched(
    shelf: Shelf, index: Index
) -> None:
    shelf.clock.fixed = "2026-03-01T10:00:00.000000Z"
    plain = shelf.create((said("shuttle"),))
    shelf.clock.fixed = "2026-03-02T10:00:00.000000Z"
    rich = shelf.create(
        (
            Configured(AgentConfig("anthropic:claude-opus"), "anthropic"),
            GitObserved("feature/warp", "c0ffee0123", False, "github.com/ada/Loom"),
            said("shuttle"),
            answer("done"),
        ),
        (Tagged(("red", "blue")), Pinned(), Imported("codex", "s")),
    )
    for filters in (
        ThreadFilters(branch="feature/warp"),
        ThreadFilters(branch="feature/*"),
        ThreadFilters(commit="C0FF"),
        ThreadFilters(remote="ada/loom"),
        ThreadFilters(tags=("red",)),
        ThreadFilters(tags=("red", "blue")),
        ThreadFilters(state="waiting_for_user_input"),
        ThreadFilters(state="Waiting for user-input"),
        ThreadFilters(model="OPUS"),
        ThreadFilters(provider="Anthropic"),
        ThreadFilters(since="2026-03-02"),
        ThreadFilters(is_imported=True),
    ):
        assert [line.id for line in index.list_threads(filters)] == [rich], filters
        assert [hit.thread.id for hit in index.search("shuttle", filters)] == [rich], filters
        assert index.count(filters) == 1
    for filters in (
        ThreadFilters(until="2026-03-02T10:00:00.000000Z"),
        ThreadFilters(state="unfinished"),
        ThreadFilters(state="calling_llm"),
    ):
        assert [line.id for line in index.list_threads(filters)] == [plain], filters
    for filters in (
        ThreadFilters(branch="feature"),
        ThreadFilters(commit="c0ffef"),
        ThreadFilters(tags=("red", "green")),
        ThreadFilters(state="waiting"),
        ThreadFilters(state="damaged"),
        ThreadFilters(is_trashed=True),
        ThreadFilters(workspace="/w/src"),
        ThreadFilters(workspace="/ww"),
    ):
        assert index.list_threads(filters) == [], filters
    for folder in ("/w", "/w/", "/"):
        assert index.count(ThreadFilters(workspace=folder)) == 2
    assert index.list_with_count(limit=1)[1] == 2
    assert [line.id for line in index.list_threads()] == [rich, plain]


def test_the_latest_and_the_unfinished_are_of_this_very_workspace(
    shelf: Shelf, index: Index
) -> None:
    done = shelf.create((said("first"),), (answer("done"),))
    stopped = shelf.create((said("second"),))
    fill_later = shelf.store.open(done)
    fill(fill_later, (Annotated("later"),))
    fill_later.close()
    assert index.find_latest("/w") == index.find_latest("/w", "chat") == done
    assert (
        index.find_latest("/w", "task")
        is index.find_latest("/w/src")
        is index.find_latest("/")
        is None
    )
    assert [line.id for line in index.list_pending("/w")] == [stopped]
    assert index.list_pending("/") == []


@given(st.lists(st.text("ab \n\u200b中", max_size=5), min_size=1, max_size=7))
def test_a_snippet_without_its_marks_says_where_they_stood(pieces: list[str]) -> None:
    text = pieces[0]
    for number, piece in enumerate(pieces[1:]):
        text += (MARK_START if number % 2 == 0 else MARK_END) + piece
    if len(pieces) % 2 == 0:
        text += MARK_END
    plain, ranges = extract_marks(text)
    assert not {MARK_START, MARK_END, "\u200b", "\n"} & {*plain}
    assert all(0 <= start <= end <= len(plain) for start, end in ranges)
    assert all(one[1] < other[0] for one, other in pairwise(ranges))


def test_text_that_looks_like_marks_is_no_mark(shelf: Shelf, index: Index) -> None:
    shelf.create((said(f"{MARK_START}a{MARK_END} shuttle \0 \x1b[31m"),))
    (hit,) = index.search("shuttle")
    assert [hit.snippet[start:end] for start, end in hit.ranges] == ["shuttle"]
