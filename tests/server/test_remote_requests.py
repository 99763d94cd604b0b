"""What people ask of their machines by way of the server: whose it is, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from cli.teams import Team
from treadle.server.data.schema import remote_requests
from treadle.server.threads.remote_requests import MOVES

MACHINE = "0123456789abcdef"
STATES = ("taken", "done", "refused", "withdrawn")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = Team(tmp_path_factory.mktemp("team"))
    yield found
    found.stop()


def in_time(seconds: int) -> str:
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def request(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"request-{number:016}",
        "machine": MACHINE,
        "expires_at": in_time(600),
        "body": "signed",
        **more,
    }


def ask(team: Team, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
    import json

    data = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"content_type": "application/json"}
    reply = team.running.ask(method, path, token, data, **kind)
    return reply.status, json.loads(reply.body) if reply.body else None


def test_a_request_is_its_users_alone_and_goes_where_its_machine_asks(team: Team) -> None:
    ada, bob = team.token(), team.token()
    status, left = ask(team, "POST", "/api/requests", ada, request(1))
    assert (status, left["state"], left["left_with"]) == (201, "waiting", "test")
    path, query = f"/api/requests/{left['id']}", f"/api/requests?machine={MACHINE}"
    assert ask(team, "GET", query, ada)[1]["requests"] == [left]
    assert ask(team, "GET", f"/api/requests?machine={'f' * 16}", ada)[1] == {"requests": []}
    found = {
        "another lists": ask(team, "GET", query, bob) == (200, {"requests": []}),
        "another reads": ask(team, "GET", path, bob)[0] == 404,
        "another settles": ask(team, "PUT", f"{path}/outcome", bob, {"state": "done"})[0] == 404,
        "another uses its id": ask(team, "POST", "/api/requests", bob, request(1))[0] == 400,
        "nobody lists": ask(team, "GET", query, "")[0] == 401,
        "nobody leaves": ask(team, "POST", "/api/requests", "", request(2))[0] == 401,
        "too far away": ask(
            team, "POST", "/api/requests", ada, request(3, expires_at=in_time(90_000))
        )[0]
        == 400,
        "in the past": ask(team, "POST", "/api/requests", ada, request(3, expires_at=in_time(-9)))[
            0
        ]
        == 400,
        "no such thread": ask(
            team,
            "POST",
            "/api/requests",
            ada,
            request(3, thread="T-01900000-0000-7000-8000-00000000000a"),
        )[0]
        == 404,
    }
    assert [name for name, is_so in found.items() if not is_so] == []


def test_what_becomes_of_a_request_is_said_once_and_its_words_go_with_its_end(team: Team) -> None:
    token = team.token()
    wrong = []
    number = 100
    for first in ("waiting", *STATES):
        for second in STATES:
            number += 1
            left = request(number)
            ask(team, "POST", "/api/requests", token, left)
            path = f"/api/requests/{left['id']}/outcome"
            if first != "waiting":
                ask(team, "PUT", path, token, {"state": first})
            status, found = ask(team, "PUT", path, token, {"state": second, "why": "so"})
            may = second == first or second in MOVES.get(first, ())
            if (status == 200) != may:
                wrong.append((first, second, status))
            if may and found["body"] != ("signed" if second == "taken" else ""):
                wrong.append((first, second, found))
    assert wrong == []


def test_what_was_left_with_a_token_that_was_revoked_is_nobodys(team: Team) -> None:
    token, other = team.token(), ""
    name = ask(team, "GET", "/api/me", token)[1]["user"]
    other = team.token(name)
    assert ask(team, "POST", "/api/requests", other, request(900))[0] == 201
    (made,) = [
        one
        for one in ask(team, "GET", "/api/tokens", other)[1]["tokens"]
        if one["id"] == ask(team, "GET", "/api/me", other)[1]["token_id"]
    ]
    query = f"/api/requests?machine={MACHINE}"
    assert len(ask(team, "GET", query, token)[1]["requests"]) == 1
    assert ask(team, "DELETE", f"/api/tokens/{made['id']}", token)[0] == 204
    assert ask(team, "GET", query, token)[1] == {"requests": []}
    assert ask(team, "POST", "/api/requests", other, request(901))[0] == 401


def test_what_became_of_a_request_is_forgotten_a_day_after_its_time(team: Team) -> None:
    token = team.token()
    for number in (950, 951):
        assert ask(team, "POST", "/api/requests", token, request(number))[0] == 201
    path = f"/api/requests/{request(950)['id']}"
    late = (datetime.now(UTC) - timedelta(days=1, minutes=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    rows = remote_requests.c
    aged = update(remote_requests).where(rows.id == request(950)["id"]).values(expires_at=late)
    team.running.database.run(lambda db: db.execute(aged), is_write=True)
    assert ask(team, "GET", path, token)[1]["state"] == "expired"
    other = team.token()
    assert ask(team, "POST", "/api/requests", other, request(952))[0] == 201
    assert ask(team, "GET", path, token)[0] == 200  # by what its own user leaves, and no other
    assert ask(team, "POST", "/api/requests", token, request(953))[0] == 201
    assert ask(team, "GET", path, token)[0] == 404
    assert ask(team, "GET", f"/api/requests/{request(951)['id']}", token)[0] == 200


def test_no_body_holds_a_nul(team: Team) -> None:
    """JSON may hold one, and PostgreSQL has no text that does."""
    token = team.token()
    told = (("a\0b", 400), ("a\\\0b", 400), ("a\\u0000b", 201), ("a\\\\u0000b", 201))
    found = [ask(team, "POST", "/api/requests", token, request(900 + number, body=text))[0]
             for number, (text, _) in enumerate(told)]  # fmt: skip
    assert found == [status for _, status in told]
    hold = {"reason": "a\0b", "user": "ada"}
    assert ask(team, "POST", "/api/admin/holds", token, hold)[0] == 400
