"""Making the own token worthless, which the server knows by a number."""

from __future__ import annotations

import pytest

from sync.test_client import ME, remote_of
from sync.wire_server import WireServer, reply
from treadle.errors import RemoteRefusedError


def test_the_own_token_is_revoked_by_its_number() -> None:
    answers = (reply(body={**ME, "token_id": 2}), reply(204, b"", ""))
    with WireServer(*answers) as server, remote_of(server) as remote:
        remote.revoke_own_token()
    assert (server.asked[1].method, server.asked[1].path) == ("DELETE", "/api/tokens/2")


def test_where_the_server_does_not_say_which_token_it_is_none_is_revoked() -> None:
    with WireServer(reply(body=ME)) as server, remote_of(server) as remote:
        with pytest.raises(RemoteRefusedError, match="does not say which token"):
            remote.revoke_own_token()
        assert len(server.asked) == 1
