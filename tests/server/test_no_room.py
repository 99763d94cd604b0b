"""A server whose disk is full: it says so, goes on reading, and writes as soon as it can."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

import pytest

from lab.mounts import mounted, why_no_mounts
from server.people import populate
from server.running import Running
from treadle.server.data.database import Database

JSON_BODY: Final = {"content-type": "application/json"}


@contextmanager
def no_file_grows(_: Path) -> Iterator[None]:
    """As on a full disk, where nothing can be mounted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """With no byte left where the folder is."""
    rest = folder / "rest"
    with rest.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield
    rest.unlink()


@pytest.mark.parametrize(
    "full",
    [
        no_file_grows,
        pytest.param(
            full_disk, marks=pytest.mark.skipif(bool(why_no_mounts()), reason="no mounts")
        ),
    ],
)
def test_a_server_that_cannot_write_lives_and_is_not_ready_and_its_log_says_why(
    full: Callable[[Path], AbstractContextManager[None]],
    fast_place: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Reading goes on, and so does writing when it can: a restart would mend nothing."""
    disk = mounted("tmpfs", "none", fast_place / "disk", "size=8m")
    with disk if full is full_disk else nullcontext():
        folder = fast_place / "disk" if full is full_disk else fast_place
        url = f"sqlite:///{folder}/full.sqlite"
        database = Database(url)
        database.prepare()
        token = populate(database).token("owner")
        database.dispose()
        with Running(url, rate=0) as server, caplog.at_level(logging.INFO, "treadle.server"):

            def make(name: str) -> int:
                body = b'{"name":"%s"}' % name.encode()
                return server.ask("POST", "/api/tokens", token, body, **JSON_BODY).status

            assert make("a") == 201
            assert server.ask("GET", "/ready").status == 200
            with full(folder):
                assert make("b") == 503
                ready, health = server.ask("GET", "/ready"), server.ask("GET", "/health")
                assert (ready.status, health.status) == (503, 200)
                assert "disk" in ready.json["components"]["database"]
                assert server.ask("GET", "/api/me", token).status == 200
            assert server.ask("GET", "/ready").status == 200
            assert make("c") == 201
    told = [record.treadle_fields for record in caplog.records]
    told = [one for one in told if one.get("why")]
    assert [("disk" in one["why"], one["status"]) for one in told] == [(True, 503)]
