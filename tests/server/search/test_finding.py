"""What is found, in which order, and by whom: the same on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core.samples import answer, call, ended, said, success
from server.people import People, at
from server.search.corpus import EMPTY, add, id_of, put_row
from thread.journals import records_of, write
from treadle.api.error_codes import ErrorCode
from treadle.api.types import SearchHit
from treadle.core.messages import Message
from treadle.server import search
from treadle.server.refusals import Refusal
from treadle.server.search import ranking
from treadle.server.search.query import TEXT_LENGTH_MAX
from treadle.server.search.ranking import compute_score
from treadle.server.search.tokenizer import clean_text, split_words
from treadle.thread.codec import Entry
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot, Thread, ThreadMetadata
from treadle.thread.facts import Annotated, GitObserved, Renamed, Tagged
from treadle.thread.search_texts import SearchTextKind


def hits(people: People, query: str, who: str = "owner", **rest: Any) -> list[SearchHit]:
    with people.reading(who) as context:
        return list(search.search_threads(context, query, **rest).hits)


def found(people: People, query: str, who: str = "owner", **rest: Any) -> list[str]:
    return [hit.thread.summary.id for hit in hits(people, query, who, **rest)]


def refused(people: People, query: str, **rest: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        hits(people, query, **rest)
    return caught.value


# ---- the language --------------------------------------------------------------------------------

TEXT = "The quick brown fox, foo_bar.baz; naïve Straße 日本語テスト c0ffee12 done"


ASKED = (
    ("quick", True),
    ("QUICK fox", True),
    ("fox quick", True),
    ("quick missing", False),
    ('"quick brown"', True),
    ('"brown quick"', False),
    ('"quick fox"', False),
    ('"quick brown', True),
    ("qui*", True),
    ("qui", False),
    ('"quick bro"*', True),
    ('"quick bro"', False),
    ("quick -fox", False),
    ("quick -wolf", True),
    ('quick -"brown fox"', False),
    ('quick -"fox brown"', True),
    ("foo_bar", True),
    ("bar.baz", True),
    ("bar_foo", False),
    ("naive", True),
    ("NAÏVE", True),
    ("strasse", True),
    ("本語", True),
    ("語本", False),
    ("c0ffee12", True),
    ("c0ffee", False),
    ("AND", False),
    ("NOT quick", False),
    ("quick OR missing", False),
    ("quick:*", True),
    ("text:quick", False),
    ("quick' | 'x", False),
    ("(quick)", True),
    ("quick & fox", True),
    ("quick\\", True),
    ("qu\0ick", False),
    ("quick \ud800", True),
    ("\U0001f98a fox", True),
)


def test_a_query_finds_what_its_words_say(people: People) -> None:
    thread = add(people, 1, [said(TEXT)])
    for query, is_found in ASKED:
        assert found(people, query) == ([thread] if is_found else []), query


def test_nothing_to_look_for_is_refused(people: People) -> None:
    for query in ("", "  ", '""', "*", "-", "-fox", "...", "\U0001f98a", "\0", "_"):
        assert refused(people, query).code is ErrorCode.BAD_REQUEST, query


def test_too_much_to_look_for_is_refused(people: People) -> None:
    phrase = '"' + "a " * 65 + '"'
    for query in ("word " * 10_000, "a " * 65, "x" * (TEXT_LENGTH_MAX + 1), phrase):
        assert refused(people, query).code is ErrorCode.BAD_REQUEST


def test_no_text_is_an_error_of_a_database(people: People) -> None:
    """Signs that mean something to one of the two, in any order."""
    add(people, 1, [said("a b c")])
    signs = ["'", '"', "\\", "&", "|", "!", "<->", ":*", "*", "(", ")", "AND", "OR", "NOT", "NEAR"]
    signs += ["^", "-", "+", "{", "}", ":", "a", "b", "\0", "\ud83d", "\u2028", "%", "_", "\ue000a"]
    random = Random(4)
    for _ in range(150):
        query = random.choice(("", " ")).join(random.choices(signs, k=random.randrange(1, 12)))
        try:
            hits(people, query)
        except Refusal as refusal:
            assert refusal.code is ErrorCode.BAD_REQUEST  # noqa: PT017


def test_a_page_has_bounds(people: People) -> None:
    for limit, offset in ((0, 0), (201, 0), (-1, 0), (1, -1), (1, 10_001)):
        assert refused(people, "x", limit=limit, offset=offset).code is ErrorCode.BAD_REQUEST


def test_a_search_for_too_much_ends_and_says_so(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is far lower here, so that it is reached."""
    monkeypatch.setattr(ranking, "STEP_COUNT", 1)
    monkeypatch.setattr(ranking, "STEP_ROUNDS_MAX", 1)
    monkeypatch.setattr(ranking, "TIMEOUT_MS", 1)
    words = " ".join(f"w{number}" for number in range(2000))
    add(people, 1, [said(words) for _ in range(60)])
    many = " ".join(["w* -x*"] * 32)
    assert refused(people, many).code is ErrorCode.BAD_REQUEST
    monkeypatch.undo()
    assert found(people, many) == [id_of(1)]


# ---- order, places, snippets ---------------------------------------------------------------------


def test_what_people_say_comes_before_what_tools_print(people: People) -> None:
    outputs: list[Entry] = [answer("", call("a")), ended("a", success("a", "loom"))]
    added = {
        "title": add(people, 1, [Renamed("loom")]),
        "note": add(people, 2, [Annotated("loom")]),
        "prompt": add(people, 3, [said("loom")]),
        "answer": add(people, 4, [answer("loom")]),
        "output": add(people, 5, outputs),
    }
    assert [(hit.kind, hit.thread.summary.id) for hit in hits(people, "loom")] == [*added.items()]


def test_more_texts_come_first_then_newer_threads_then_higher_ids(people: People) -> None:
    once, twice = add(people, 1, [said("x")]), add(people, 2, [said("x"), said("x x x")])
    newer = add(people, 3, [said("x")], last_activity_at=at(99))
    equal = add(people, 4, [said("x")], last_activity_at=at(99))
    assert found(people, "x") == [twice, equal, newer, once]
    first = hits(people, "x")[0]
    assert (first.count, first.version) == (2, 3)
    scores = [hit.score for hit in hits(people, "x")]
    assert scores == sorted(scores, reverse=True)


def test_a_score_never_puts_a_number_of_texts_before_what_they_are() -> None:
    kinds = sorted({compute_score(kind, 1) for kind in SearchTextKind})
    assert all(low < high - 0.1 for low, high in pairwise(kinds))
    assert compute_score(SearchTextKind.ANSWER, 10**9) < compute_score(SearchTextKind.PROMPT, 1)


def test_pages_follow_each_other(people: People) -> None:
    added = [add(people, number, [said("x")]) for number in range(1, 8)][::-1]
    pages = [found(people, "x", limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert pages == [added[:3], added[3:6], added[6:], []]


def test_a_snippet_shows_the_words_and_where_they_are(people: People) -> None:
    filler = " ".join(f"w{number}" for number in range(100))
    add(people, 1, [said(f"{filler}\n\tThe  loom, weaves {filler}")])
    (hit,) = hits(people, '"the loom" weaves')
    assert hit.snippet.startswith("…w95 w96 w97 w98 w99 The loom, weaves w0")
    assert hit.snippet.endswith("…")
    assert [hit.snippet[start:end] for start, end in hit.ranges] == ["The loom", "weaves"]


LONG = (
    ("a" + " ." * 500 + " loom" + " ." * 500, "loom"),
    ("語" * 300 + "織機" + "語" * 300, "織機"),
    ("loom " * 5000, "loom"),
    ("x" * 100_000, "x" * 70),
    ("a\u0301" * 3 + " Loom", "loom"),
)


def test_a_snippet_is_short_and_its_ranges_hold_what_was_found(people: People) -> None:
    for number, (text, query) in enumerate(LONG, 1):
        add(people, number, [said(text)], workspace_root=f"/{number}")
        (hit,) = hits(people, query, workspace=f"/{number}")
        assert len(hit.snippet) < 500
        wanted = "".join(word for word, _, _ in split_words(query))
        assert hit.ranges
        for start, end in hit.ranges:
            told = "".join(word for word, _, _ in split_words(hit.snippet[start:end]))
            assert told.startswith(wanted[:64])


def test_a_phrase_is_found_wherever_in_a_long_text_it_stands(people: People) -> None:
    """At the borders of parts too."""
    words = [f"w{number}" for number in range(6500)]
    add(people, 1, [answer(" ".join(words))])
    for start in (0, 1, 2935, 2936, 2937, 2998, 2999, 3000, 3001, 5900, 6436):
        assert found(people, '"' + " ".join(words[start : start + 64]) + '"') == [id_of(1)], start
    assert found(people, '"w10 w12"') == []


def test_a_phrase_is_found_after_hundreds_of_its_words(people: People) -> None:
    add(people, 1, [answer("error " * 1000 + "error timeout")])
    assert found(people, '"error timeout"') == [id_of(1)]


def test_commits_are_found_by_their_beginning_and_nothing_else_is(people: People) -> None:
    seen = add(people, 1, [GitObserved("main", "c0ffee12" * 5)])
    other = add(people, 2, [said("the c0ffee is hot")])
    assert found(people, "c0ffee") == [other, seen] or found(people, "c0ffee") == [seen, other]
    assert found(people, "c0ff") == [seen]
    assert found(people, "C0FFEE12") == [seen]
    assert found(people, "c0f") == []
    assert found(people, "0ffee") == []
    (hit, *_) = hits(people, "c0ff")
    assert (hit.kind, hit.ranges) == ("commit", ((0, 40),))


def test_a_thread_is_found_by_the_beginning_of_its_id_before_all_else(people: People) -> None:
    one, two = add(people, 1), add(people, 2, [said("01900000-0000")])
    (hit,) = hits(people, one)
    assert (hit.kind, hit.snippet, hit.ranges) == ("id", one, ((0, 38),))
    assert found(people, "T-01900000-0000") == [two, one]
    assert found(people, "T-01900000", limit=1, offset=1) == [one]
    assert found(people, "01900000-0000", limit=5, offset=2) == []


def test_only_a_workspace_is_searched_if_that_is_asked(people: People) -> None:
    here = add(people, 1, [said("x")], workspace_root="/w")
    below = add(people, 2, [said("x")], workspace_root="/w/sub")
    add(people, 3, [said("x")], workspace_root="/wx")
    add(people, 4, [said("x")])
    assert found(people, "x", workspace="/w") == [below, here]


# ---- who may find what ---------------------------------------------------------------------------


def test_nobody_finds_what_he_may_not_see(people: People) -> None:
    team = add(people, 1, [said("loom")])
    private = add(people, 2, [said("loom")], visibility="private")
    public = add(people, 3, [said("loom")], visibility="public")
    assert {*found(people, "loom", "owner")} == {team, private, public}
    assert {*found(people, "loom", "member")} == {team, public}
    assert found(people, "loom", "outsider") == [public]
    for thread in (team, private):
        assert found(people, thread, "outsider") == []
    assert found(people, private, "member") == []


def test_what_is_deleted_or_purged_is_found_by_nobody(people: People) -> None:
    add(people, 1, [said("loom")], deleted_at=at(9))
    add(people, 2, [said("loom")], purged_at=at(9))
    assert found(people, "loom") == found(people, id_of(1)) == found(people, id_of(2)) == []


# ---- what is kept --------------------------------------------------------------------------------


def document(title: str, *texts: str) -> Thread:
    return Thread(
        id_of(1),
        7,
        at(),
        at(),
        at(),
        ConversationSnapshot(tuple(Message.user(text) for text in texts)),
        AgentStateSnapshot("waiting_for_user_input"),
        metadata=ThreadMetadata(title, ("red",)),
        git_commits=("c0ffee12",),
        git_branch="feature/loom",
    )


SILENT = replace(
    document(""),
    conversation=ConversationSnapshot(()),
    metadata=ThreadMetadata(),
    git_commits=(),
    git_branch=None,
)


def test_a_document_is_found_by_all_it_says_and_no_more_by_what_it_said(people: People) -> None:
    with people.database.write() as db:
        put_row(db, people, 1, "owner", EMPTY, 7, {"kind": "document"})
        search.index_document(db, id_of(1), document("The loom", "weave it"))
    for query in ("loom", "weave", "red", "c0ff", "feature/loom"):
        assert found(people, query) == [id_of(1)], query
    assert hits(people, "weave")[0].version == 7
    with people.database.write() as db:
        search.index_document(db, id_of(1), document("The mill", "grind it"))
    assert found(people, "weave") == []
    assert found(people, "grind") == [id_of(1)]


def test_nothing_of_a_forgotten_thread_is_left_in_the_file(people: People) -> None:
    for number in range(1, 6):
        add(people, number, [said(f"common{number} xylophone{number} text")])
    add(people, 6, [said("unspeakable zyzzyva")])
    with people.database.write() as db:
        put_row(db, people, 8, "owner", EMPTY, 7, {"kind": "document"})
        search.index_document(db, id_of(8), document("The loom", "qwertzuiop"))
        search.erase_texts(db, id_of(6))
    with people.database.write() as db:  # from here on it says nothing, and its words may stay
        search.index_document(db, id_of(8), SILENT)
    with people.database.write() as db:
        search.erase_texts(db, id_of(8))
        search.erase_texts(db, id_of(7))
    assert found(people, "zyzzyva") == []
    assert found(people, "common3") == [id_of(3)]
    if people.database.dialect == "sqlite":
        with people.database.read() as db:
            raw: Any = db.connection.driver_connection
            data = bytes(raw.serialize())
        assert b"xylophone3" in data
        assert b"zyzzyva" not in data
        assert b"qwertzuiop" not in data


def test_records_that_follow_are_found_beside_those_before(people: People) -> None:
    add(people, 1, [said("first")])
    records = records_of(
        write([(said("a"),), (said("b"),), (said("second"), Tagged(("third",)))])[0]
    )
    with people.database.write() as db:
        search.index_records(db, id_of(1), records[2:])
    for query, version in (("first", 2), ("second", 3), ("third", 4)):
        assert [hit.version for hit in hits(people, query)] == [version]


# ---- one corpus, two databases -------------------------------------------------------------------

WORDS = (
    *("alpha", "beta", "gamma", "delta", "error", "timeout", "naïve", "日本", "Ünïcode"),
    *("foo_bar", "c0ffee1", "x"),
)
QUERIES = (
    *("alpha", "alpha beta", '"alpha beta"', "al*", "al* -beta", "日", "本日", "naive", "foo_bar"),
    *("c0ff", "T-01900000", "x -timeout", '"x alpha"* delta', "-x error", "unicode 日本"),
)

_told: dict[str, list[Any]] = {}


@cache
def random_entries() -> Sequence[Sequence[Entry]]:
    random = Random(7)

    def text() -> str:
        return " ".join(random.choices(WORDS, k=random.choice((1, 3, 40, 900))))

    return [
        [random.choice((said, answer))(text()) for _ in range(random.randrange(1, 5))]
        for _ in range(25)
    ]


def test_both_databases_tell_the_same_of_the_same_corpus(people: People) -> None:
    """To the last character: compared with what this test told on the other database."""
    for number, entries in enumerate(random_entries(), 1):
        add(people, number, entries)
    told = [msgspec.to_builtins(hits(people, query, limit=200)) for query in QUERIES]
    assert all(told[:5])
    _told[people.database.dialect] = told
    assert [*_told.values()] == [told] * len(_told)
    for query, one in zip(QUERIES, told, strict=True):
        if query in ("alpha", "日", "naive"):
            wanted = next(word for word, _, _ in split_words(clean_text(query)))
            counts = [
                sum(
                    wanted
                    in [w for w, _, _ in split_words(clean_text(str(msgspec.to_builtins(entry))))]
                    for entry in entries
                )
                for entries in random_entries()
            ]
            assert sum(hit["count"] for hit in one) == sum(counts)
