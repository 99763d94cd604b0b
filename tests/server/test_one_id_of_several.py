"""Ids stand in commits where everybody reads them: nobody can take one that is somebody else's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import pytest
from msgspec.structs import replace

from core.samples import answer, said
from server.chains import Chain, chain
from server.people import People
from server.running import Reply, Running
from thread.journals import HEADER, write
from treadle.api.marks import Mark
from treadle.server.data.fold_cache import FOLD_CACHE
from treadle.thread.facts import GitObserved, Shared

BLOB: Final = b"a large output"
NAME: Final = sha256(BLOB).hexdigest()
COMMIT: Final = "c0ffee" * 6 + "abcd"


class Team:
    """A server over HTTP, and a token for everybody."""

    def __init__(self, people: People, server: Running) -> None:
        self._tokens = {name: people.token(name) for name in people.principals}
        self._server = server

    def ask(self, name: str, method: str, path: str, body: Any = None, base: str = "") -> Reply:
        """One request; bytes are sent as they are, else JSON."""
        kind = "application/json"
        if isinstance(body, bytes):
            kind = "application/octet-stream" if "/blobs/" in path else "application/x-ndjson"
        elif body is not None:
            body = json.dumps(body).encode()
        headers = {"content_type": kind} if body is not None else {}
        headers |= {"if_match": base} if base else {}
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self._server.ask(method, path, self._tokens.get(name, ""), body, **named)

    def push(self, name: str, one: Chain, base: Mark | None = None) -> Reply:
        """Push what follows the base, or all of it."""
        base = base or Mark()
        path = f"/api/threads/{one.thread}/records"
        return self.ask(name, "POST", path, one.after(base.seq), base.tag)


@pytest.fixture
def team(people: People, database_url: str) -> Iterator[Team]:
    with Running(database_url, rate=0) as server:
        yield Team(people, server)


def of(word: str, visibility: Any, number: int = 1, **header: Any) -> Chain:
    """A thread in which this is said, of a repository with one commit."""
    seen = GitObserved(branch="main", head=COMMIT, dirty=False)
    return chain(number, [(Shared(visibility), said(word), answer("yes"), seen)], **header)


def test_who_takes_an_id_of_somebody_else_takes_nothing(team: Team) -> None:
    """A member of another organization comes first, with an id that he has read in a commit."""
    planted, mine = of("weeds", "public"), of("roses", "organization")
    path = f"/api/threads/{mine.thread}"
    assert team.push("outsider", planted).status == 200
    assert team.ask("outsider", "PUT", f"{path}/blobs/{NAME}", BLOB).status == 204
    assert team.push("owner", mine).json["thread"] == mine.thread
    for more in ("thorns", "petals"):
        before, mine = mine.mark, mine.more((said(more), answer("yes")))
        assert team.push("owner", mine, before).status == 200
    FOLD_CACHE.clear()
    for name, theirs in (("owner", mine), ("member", mine), ("outsider", planted)):
        reply = team.ask(name, "GET", f"{path}/records?after=0")
        assert reply.body == theirs.data, name
        found = team.ask(name, "GET", path).json
        assert found["conversation"]["messages"][0]["content"] in theirs.data.decode(), name
    assert team.ask("owner", "GET", f"{path}/blobs/{NAME}").status == 404
    assert team.ask("", "GET", path).json["conversation"]["messages"][0]["content"] == "weeds"
    hits = team.ask("member", "GET", "/api/threads/search?q=roses").json["hits"]
    assert [hit["thread"]["owner"] for hit in hits] == ["owner"]
    listed = team.ask("member", "GET", f"/api/threads?commit={COMMIT}").json["threads"]
    assert sorted(line["owner"] for line in listed) == ["outsider", "owner"]


def test_neither_can_change_or_remove_what_the_other_has(team: Team) -> None:
    planted, mine = of("weeds", "public"), of("roses", "public")
    path = f"/api/threads/{mine.thread}"
    for name, theirs in (("outsider", planted), ("owner", mine)):
        assert team.push(name, theirs).status == 200
    links = {
        name: team.ask(name, "POST", f"{path}/share", {}).json["url"].rsplit("/", 1)[1]
        for name in ("outsider", "owner")
    }
    for name, word in (("outsider", b"weeds"), ("owner", b"roses")):
        shown = team.ask("", "GET", f"{path}/share/{links[name]}")
        assert shown.status == 200
        assert word in shown.body
    assert team.ask("support", "POST", f"{path}@owner/support-access/request").status == 201
    assert team.ask("outsider", "GET", f"{path}/support-access").json["status"] == "none"
    assert team.ask("owner", "GET", f"{path}/support-access").json["status"] == "pending"
    assert (
        team.ask("outsider", "POST", f"{path}/visibility", {"visibility": "private"}).status == 200
    )
    assert team.ask("member", "GET", path).json["visibility"] == "public"
    assert team.ask("", "GET", f"/share/{links['outsider']}").status == 410
    assert team.ask("outsider", "DELETE", f"{path}?purge=true").status == 204
    assert team.ask("", "GET", f"/share/{links['owner']}").status == 200
    assert team.ask("member", "GET", f"{path}/records?after=0").body == mine.data
    heads = team.ask("owner", "GET", "/api/heads?after=0").json["heads"]
    assert [(head["thread"], head.get("is_purged", False)) for head in heads] == [
        (mine.thread, False)
    ]


def test_a_colleague_who_takes_an_id_is_told_apart_by_his_name(team: Team) -> None:
    planted, mine = of("weeds", "organization"), of("roses", "organization")
    path = f"/api/threads/{mine.thread}"
    for name, theirs in (("member", planted), ("owner", mine)):
        assert team.push(name, theirs).status == 200
    assert team.ask("owner", "GET", f"{path}/records?after=0").body == mine.data
    unclear = team.ask("chief", "GET", path)
    assert unclear.status == 400
    assert f"{mine.thread}@member, {mine.thread}@owner" in unclear.json["hint"]
    assert team.ask("chief", "GET", f"{path}@owner/records?after=0").body == mine.data
    assert team.ask("chief", "DELETE", f"{path}@member").status == 204
    assert team.ask("chief", "GET", f"{path}/records?after=0").body == mine.data
    assert team.ask("outsider", "GET", path).status == 404
    assert team.ask("outsider", "GET", f"{path}@owner").status == 404


def test_a_fork_goes_on_from_the_one_that_it_knew(team: Team) -> None:
    """By the hash of its base: the id alone says too little."""
    planted, mine = of("weeds", "public"), of("roses", "organization")
    for name, theirs in (("outsider", planted), ("owner", mine)):
        assert team.push(name, theirs).status == 200
    forks = {
        "owner": (2, mine),
        "member": (3, mine),
        "outsider": (4, planted),
        "chief": (5, planted),
    }
    for name, (number, below) in forks.items():
        base = below.base(below.head.seq)
        fork = chain(number, [(said("instead"),)], base=base)
        assert team.push(name, fork).status == 200, name
        FOLD_CACHE.clear()
        found = team.ask(name, "GET", f"/api/threads/{fork.thread}").json
        texts = [message["content"] for message in found["conversation"]["messages"]]
        assert texts == ["weeds" if below is planted else "roses", "yes", "instead"], name
    hidden = chain(6, [(said("instead"),)], base=mine.base(mine.head.seq))
    assert team.push("outsider", hidden).json["error"] == "unfoldable"


def test_a_document_is_put_beside_one_of_somebody_else(team: Team) -> None:
    one = of("weeds", "organization")
    path = f"/api/threads/{one.thread}"
    assert team.push("outsider", one).status == 200
    found = team.ask("outsider", "GET", path).json
    mine = {**found, "version": 1, "metadata": {"title": "roses"}}
    for version, status in ((1, 201), (2, 200)):
        base = "" if version == 1 else str(version - 1)
        told = {**mine, "version": version}
        base = f'"{base}"' if base else ""
        assert team.ask("owner", "PUT", path, told, base).status == status, version
    assert team.ask("member", "GET", path).json["metadata"]["title"] == "roses"
    assert team.ask("member", "GET", f"{path}?version=1").status == 200
    assert team.ask("outsider", "GET", f"{path}/records?after=0").body == one.data
    header = replace(HEADER, thread=one.thread)
    other, _ = write([(header,), (said("other"),)])
    reply = team.ask("owner", "POST", f"{path}/records", other, Mark().tag)
    assert reply.status == 409  # his own is a document, and stays one
