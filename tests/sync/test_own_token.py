"""Making the own token worthless, which the server knows by a name and a number."""

from __future__ import annotations

from typing import Any

from sync.test_client import ME, remote_of
from sync.wire_server import WireServer, reply


def token_line(number: int, name: str, **other: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "user": "ada", "created_at": "x", **other}


def test_the_own_token_is_revoked_by_its_name() -> None:
    tokens = {
        "tokens": [
            token_line(3, "desktop"),
            token_line(2, "laptop"),
            token_line(1, "laptop", is_revoked=True),
        ]
    }
    answers = (reply(body=ME), reply(body=tokens), reply(204, b"", ""))
    with WireServer(*answers) as server, remote_of(server) as remote:
        assert remote.revoke_own_token()
    assert (server.asked[2].method, server.asked[2].path) == ("DELETE", "/api/tokens/2")


def test_of_two_tokens_of_one_name_none_is_revoked() -> None:
    tokens = {"tokens": [token_line(2, "laptop"), token_line(1, "laptop")]}
    with WireServer(reply(body=ME), reply(body=tokens)) as server, remote_of(server) as remote:
        assert not remote.revoke_own_token()
    assert len(server.asked) == 2
