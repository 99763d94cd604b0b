"""What people have used of models: by day and model, counted once as records come in."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from core.samples import CONFIG, answer, call, ended, said, success
from server.chains import Chain, chain, send
from server.people import People, at, populate
from server.planting import plant_records
from server.running import Running
from server.test_pages import Site
from thread.journals import HEADER, PLAIN, branch_record
from treadle.api.usage_types import ModelUsageLine
from treadle.core.events import LlmEvent, ToolStarted
from treadle.core.llm import Usage
from treadle.server.accounts import model_usage
from treadle.server.accounts.model_usage import Part, read_model_usage, sum_usage
from treadle.server.data import schema
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.server.threads.usage_counts import count_thread, find_uncounted_thread
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Configured, Merged, Scrubbed
from treadle.thread.record import encode_batch

DAY: Final = at()[:10]
CUT: Final = 3 + len(PLAIN[1])
"""The record that ends the first turn of the threads here."""


def used(tokens: int, cost: str | None = None) -> LlmEvent.Completed:
    """An answer that has used so much; without a cost nobody knows its price."""
    price = None if cost is None else Decimal(cost)
    return answer("hello", usage=Usage(tokens, 1, cost_usd=price))


def lines(people: People, since: str = "", name: str = "admin") -> list[tuple[Any, ...]]:
    with people.reading(name) as context:
        found = read_model_usage(context, since).lines
    return [(one.user, one.model, one.requests, one.input_tokens, one.cost_usd) for one in found]


def count_all(people: People) -> int:
    """Count what came in before anything was counted; how many threads that were."""
    count, key = 0, ""
    while True:
        with people.database.write() as db:
            found = find_uncounted_thread(db, key)
            if found is None:
                return count
            count_thread(db, found, at())
        count, key = count + 1, found


def test_each_request_counts_once_for_whoever_has_made_it(people: People) -> None:
    one = chain(1, [PLAIN[1], (said("a"), used(10, "0.5")), (said("b"), used(20))])
    send(people, one.upto(CUT))
    send(people, one, one.upto(CUT).mark)
    send(people, one, one.upto(CUT).mark)  # its answer was lost
    [model] = {line[1] for line in lines(people)}
    assert model == CONFIG.model_name
    assert lines(people) == [("owner", model, 2, 30, Decimal("0.5"))]
    send(people, chain(2, [(said("c"), used(5))], base=one.base(one.head.seq)))
    assert lines(people) == [("owner", model, 3, 35, Decimal("0.5"))], "a fork has the rest alone"
    send(people, chain(3, [PLAIN[1], (said("a"), used(7))]), name="member")
    whole = [("member", model, 1, 7, None), ("owner", model, 3, 35, Decimal("0.5"))]
    assert lines(people) == whole
    assert lines(people, DAY) == whole
    assert lines(people, "2026-11-22") == []
    with people.reading("admin") as context:
        assert [one.unpriced_tokens for one in read_model_usage(context).lines] == [8, 27]
    with people.writing("owner") as context:
        threads.purge_thread(context, one.thread)
    assert lines(people) == whole, "it was paid for"
    send(people, one)
    assert lines(people) == whole, "nor is it counted again"


def test_what_a_sub_agent_used_counts_in_its_own_thread(people: People) -> None:
    asks = (answer("", call("c1"), usage=Usage(10, 1)), ToolStarted("c1"))
    told = replace(ended("c1", success("c1", "ok")), usage=Usage(1000, 1))
    send(people, chain(1, [PLAIN[1], (said("a"),), asks, (told,)]))
    assert [line[2:4] for line in lines(people)] == [(1, 10)]


def test_models_are_told_apart_and_a_scrub_counts_what_it_leaves(people: People) -> None:
    other = Configured(replace(CONFIG, model_name="other/model"), "anthropic")
    one = chain(1, [PLAIN[1], (said("a"), used(10)), (other,), (said("b"), used(20))])
    send(people, one)
    fork = chain(2, [(said("c"), used(3))], base=one.base(one.head.seq))
    send(people, fork)
    wanted = [("owner", CONFIG.model_name, 1, 10, None), ("owner", "other/model", 2, 23, None)]
    assert sorted(lines(people)) == sorted(wanted)
    less = chain(1, [PLAIN[1], (said("x"), used(10)), (Scrubbed(1, "0" * 32),)])
    with people.writing("owner") as context:
        threads.replace_records(context, one.thread, one.mark, less.data)
    wanted[1] = ("owner", "other/model", 1, 3, None)
    assert sorted(lines(people)) == sorted(wanted)


def test_what_was_merged_is_nobodys_model(people: People) -> None:
    merge = Merged(2, "0" * 32, (branch_record(3, used(4)),), (), (), "loom")
    send(people, chain(1, [PLAIN[1], (said("a"), used(10)), (merge,)]))
    assert sorted(line[1:4] for line in lines(people)) == [
        ("", 1, 4),
        (CONFIG.model_name, 1, 10),
    ]


def test_threads_of_before_are_counted_once_and_pushes_to_them_too(people: People) -> None:
    one = chain(1, [PLAIN[1], (said("a"), used(10, "0.25")), (said("b"), used(20))])
    send(people, one.upto(CUT))
    send(people, chain(2, [(said("c"), used(5))], base=one.base(CUT)))
    whole = lines(people)
    with people.database.write() as db:
        db.execute(schema.model_usage.delete())
        db.execute(update(schema.threads).values(is_usage_counted=False))
    send(people, one, one.upto(CUT).mark)
    assert lines(people) == []
    assert (count_all(people), count_all(people)) == (2, 0)
    assert lines(people) == [(*whole[0][:2], 3, whole[0][3] + 20, Decimal("0.25"))]
    more = one.more((said("d"), used(1)))
    send(people, more, one.mark)
    assert lines(people)[0][2] == 4


@pytest.mark.parametrize(
    "usage",
    [
        Usage(-(2**60), -1, cost_usd=Decimal(-5)),
        Usage(2**52, 1, cost_usd=Decimal("1e999999")),
        Usage(1, 1, cost_usd=Decimal("NaN")),
        Usage(1, 1, cost_usd=Decimal("sNaN")),
        Usage(1, 1, unpriced_tokens=-5, cost_usd=Decimal("Infinity")),
    ],
)
def test_forged_numbers_spoil_no_sum(people: People, usage: Usage) -> None:
    send(people, chain(1, [PLAIN[1], (said("a"), answer("x", usage=usage))]))
    [(_, _, requests, tokens, cost)] = lines(people)
    assert (requests, cost) == (1, None if tokens else Decimal(0))
    assert 0 <= tokens <= 10**9


def test_a_day_that_is_yet_to_come_counts_as_today(people: People) -> None:
    """Else days that one member has made up would take the places of all that there were."""
    one = chain(1, [PLAIN[1]])
    events = [encode_entry(entry)[1] for entry in (said("a"), used(5))]
    data, head = encode_batch(one.head, "9999-99-99T99:99:99.999999Z", events)
    send(people, Chain(one.thread, one.data + data, head))
    for _ in range(2):
        with people.reading("admin") as context:
            assert [one.day for one in read_model_usage(context).lines] == [DAY]
        with people.database.write() as db:
            db.execute(update(schema.threads).values(is_usage_counted=False))
        assert count_all(people) == 1


def test_who_makes_up_models_takes_no_room_from_others(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_usage, "USER_LINE_COUNT_MAX", 2)
    monkeypatch.setattr(model_usage, "LINE_COUNT_MAX", 3)
    named = [
        (Configured(replace(CONFIG, model_name=name), "x"), said("a"), used(1)) for name in "abcd"
    ]
    send(people, chain(1, [PLAIN[1], *named]))
    other = [(said("a"), used(7)), (*named[0][:2], used(8))]
    send(people, chain(2, [PLAIN[1], *other]), name="member")
    assert lines(people) == [
        ("member", "a", 1, 8, None),
        ("member", CONFIG.model_name, 1, 7, None),
        ("owner", model_usage.MANY, 4, 4, None),
    ]
    assert lines(people, "2026-11-22") == []


def test_sums_are_those_of_the_lines_for_admins_and_of_ones_own(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Configured(replace(CONFIG, model_name="b"), "anthropic")
    send(people, chain(1, [PLAIN[1], (said("a"), used(10, "1")), (other,), (said("b"), used(2))]))
    send(people, chain(3, [PLAIN[1], (said("a"), used(7))]), name="member")

    def sums(name: str, part: Part | None, **chosen: Any) -> list[tuple[str, int]]:
        with people.reading(name) as context:
            found: list[ModelUsageLine] = sum_usage(context, part, "", **chosen)
        return [(one.day + one.user + one.model, one.input_tokens) for one in found]

    assert sums("admin", "user") == [("owner", 12), ("member", 7)]
    assert sums("admin", "model") == [(CONFIG.model_name, 17), ("b", 2)]
    assert sums("admin", "day") == [(DAY, 19)]
    assert sums("admin", None) == [("", 19)]
    assert sums("admin", None, user="nobody") == [("", 0)]
    assert sums("admin", "user", model="b") == [("owner", 2)]
    assert sums("owner", "model", user="owner") == [(CONFIG.model_name, 10), ("b", 2)]
    for chosen in ({}, {"user": "member"}):
        with pytest.raises(Refusal):
            sums("owner", "model", **chosen)
    monkeypatch.setattr(model_usage, "LINE_COUNT_MAX", 2)
    with pytest.raises(Refusal, match="more than 2 lines"):
        lines(people)


def test_a_thread_that_was_never_pushed_is_counted_by_its_rows(people: People) -> None:
    with people.database.write() as db:
        plant_records(db, people["owner"], [(HEADER,), *PLAIN[1:2], (said("a"), used(6))])
    assert count_all(people) == 1
    assert [line[3] for line in lines(people)] == [6]


@pytest.mark.parametrize("name", ["owner", "chief", "support", ""])
def test_it_is_for_admins(people: People, name: str) -> None:
    with pytest.raises(Refusal):
        lines(people, name=name)


ALL: Final = ("/admin/usage?days=", "/admin/usage?days=&user=owner")
OWN: Final = ("/account/usage?days=", "/account/usage?days=&user=owner")


def test_pages_show_admins_all_and_everybody_their_own(database_url: str) -> None:
    priced = Configured(replace(CONFIG, model_name="<b>/model"), "anthropic")
    with Running(database_url) as server:
        site = Site(server, populate(server.database))
        send(site.people, chain(1, [PLAIN[1], (said("a"), used(10, "0.5"))]))
        member = chain(2, [PLAIN[1], (priced,), (said("a"), used(77_777))])
        send(site.people, member, name="member")
        cookies = {name: site.sign_in(name) for name in ("admin", "member", "owner")}
        pages = {
            (name, path): site.get(path, cookie)
            for name, cookie in cookies.items()
            for path in ALL + OWN
        }
        told = {
            place: tuple(
                text in page.body.decode()
                for text in ("$0.50", "77,777", "owner</bdi>", "By person")
            )
            for place, page in pages.items()
        }
        nothing = (False,) * 4
        assert told == {
            ("admin", ALL[0]): (True,) * 4,
            ("admin", ALL[1]): (True, False, True, False),
            **{("admin", path): nothing for path in OWN},
            **{(name, path): nothing for name in ("member", "owner") for path in ALL},
            **{("member", path): (False, True, False, False) for path in OWN},
            **{("owner", path): (True, False, False, False) for path in OWN},
        }
        assert {pages["member", path].status for path in ALL} == {403}
        assert "&lt;b&gt;/model" in pages["member", OWN[0]].body.decode()
        assert site.get("/admin/usage?days=8", cookies["admin"]).status == 404
        for more in ("usage?user=%00", "usage?model=a%00", "users/%00/quota", "x?y=%00"):
            assert site.get(f"/admin/{more}", cookies["admin"]).status == 400, more
