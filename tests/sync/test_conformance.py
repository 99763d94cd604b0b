"""The server in memory and the real one on both databases keep the same contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from server.databases import Templates, new_folder
from server.people import populate
from server.running import Running
from sync.conformance import BODY_SIZE_MAX, RULES
from sync.desk import Desk
from treadle.server.data.database import Database
from treadle.sync.client import HttpRemote
from treadle.sync.credentials import Account
from treadle.sync.ports import Remote

SERVERS = ("memory", "sqlite", "postgresql")


@pytest.fixture(scope="module")
def templates() -> Iterator[Templates]:
    """What databases are copied from."""
    found = Templates()
    yield found
    found.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory."""
    import shutil

    folder = new_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=SERVERS)
def remote(request: pytest.FixtureRequest, templates: Templates, place: Path) -> Iterator[Remote]:
    """A server that has nothing, as a client reaches it."""
    if request.param == "memory":
        desk = Desk()
        desk.body_size_max = BODY_SIZE_MAX
        yield desk.remote()
        return
    url = templates.copy(request.param, place)
    database = Database(url)
    token = populate(database).token("owner")
    database.dispose()
    with (
        Running(url, body_size_max=BODY_SIZE_MAX) as running,
        HttpRemote(Account(running.url, token)) as found,
    ):
        yield found
    templates.remove(url)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_server_keeps_the_contract(rule: Callable[[Remote], None], remote: Remote) -> None:
    rule(remote)
