"""Which server a machine syncs with: where it is kept, who may read it, what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from case_tables import for_every_row
from treadle.errors import ConfigError, DiskError, NotLoggedInError, UsageError
from treadle.runtime.defaults import make_user_redactor
from treadle.store.paths import Places
from treadle.sync.credentials import (
    Account,
    check_token,
    find_account,
    is_logged_in,
    parse_server_url,
    remove_account,
    require_account,
    save_account,
)

TOKEN = "trd_9fK2mQ7xW4vB8nL1pZ6c"
ACCOUNT = Account(
    "https://treadle.example.org", TOKEN, "ada", "analytical", "private", "2026-11-21T08:15:30Z"
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.find({"TREADLE_HOME": str(tmp_path)})


def test_what_was_kept_is_found_by_nobody_but_its_user(places: Places) -> None:
    assert not is_logged_in(places, {})
    assert find_account(places, {}) is None
    save_account(places, ACCOUNT)
    assert is_logged_in(places, {})
    found = find_account(places, {})
    assert found is not None
    assert found.origin == str(places.remote)
    assert (found.url, found.token, found.user) == (ACCOUNT.url, TOKEN, "ada")
    assert (found.organization, found.visibility) == ("analytical", "private")
    assert stat.S_IMODE(places.remote.stat().st_mode) == 0o600
    assert stat.S_IMODE(places.config.stat().st_mode) == 0o700
    assert [one.name for one in places.config.iterdir() if one.is_file()] == ["remote.json"]


def test_the_text_of_an_account_does_not_tell_the_token() -> None:
    assert TOKEN not in repr(ACCOUNT) + str(ACCOUNT) + str(ACCOUNT.__rich_repr__())


def test_another_login_replaces_the_one_before(places: Places) -> None:
    save_account(places, ACCOUNT)
    save_account(places, Account("http://127.0.0.1:8080", "another-token"))
    found = require_account(places, {})
    assert (found.url, found.token, found.visibility) == (
        "http://127.0.0.1:8080",
        "another-token",
        "organization",
    )


def test_it_is_forgotten_once(places: Places) -> None:
    save_account(places, ACCOUNT)
    assert remove_account(places)
    assert not remove_account(places)
    with pytest.raises(NotLoggedInError) as caught:
        require_account(places, {})
    assert "treadle login" in caught.value.hint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602])
def test_a_file_that_others_may_read_or_change_is_not_used(places: Places, mode: int) -> None:
    save_account(places, ACCOUNT)
    places.remote.chmod(mode)
    with pytest.raises(NotLoggedInError, match="others may read or change") as caught:
        find_account(places, {})
    assert "chmod 600" in caught.value.hint
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"url":1,"token":"x"}',
        b'{"url":"https://a"}',
        b'{"url":"ftp://a","token":"x"}',
        b'{"url":"https://a","token":"two words"}',
        b'{"url":"https://a","token":""}',
        b'{"url":"https://a","token":"x","visibility":"all"}',
        b'{"url":"http://elsewhere.example","token":"x"}',
        b"\xff\xfe",
    ],
)
def test_a_file_that_says_something_else_is_told(places: Places, data: bytes) -> None:
    places.config.mkdir()
    places.remote.touch(0o600)
    places.remote.write_bytes(data)
    with pytest.raises((NotLoggedInError, ConfigError)) as caught:
        find_account(places, {})
    assert str(places.remote) in str(caught.value)


def test_a_pipe_in_its_place_is_not_waited_for(places: Places) -> None:
    places.config.mkdir()
    os.mkfifo(places.remote, 0o600)
    with pytest.raises(NotLoggedInError, match="no plain file"):
        find_account(places, {})


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that fails when read")
def test_a_file_that_the_disk_fails_to_read_is_not_taken_for_none(places: Places) -> None:
    places.config.mkdir()
    places.remote.symlink_to("/proc/self/mem")
    with pytest.raises(DiskError, match=r"cannot read .*: Input/output error"):
        find_account(places, {})


# ---- the environment -----------------------------------------------------------------------------


def test_variables_stand_in_the_place_of_the_file(places: Places) -> None:
    save_account(places, ACCOUNT)
    environ = {"TREADLE_SERVER_URL": "https://ci.example.org/", "TREADLE_TOKEN": " ci-token\n"}
    assert is_logged_in(places, environ)
    found = require_account(places, environ)
    assert (found.url, found.token, found.origin) == (
        "https://ci.example.org",
        "ci-token",
        "environment",
    )
    assert found.visibility == "organization"
    assert require_account(places, {**environ, "TREADLE_VISIBILITY": "private"}).visibility == (
        "private"
    )


def test_a_token_without_a_server_is_never_sent_to_the_one_of_the_file(places: Places) -> None:
    save_account(places, ACCOUNT)
    assert require_account(places, {"TREADLE_TOKEN": "ci-token"}).token == TOKEN


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TREADLE_SERVER_URL": "https://a.example"}, "TREADLE_TOKEN is not"),
        ({"TREADLE_SERVER_URL": "http://a.example", "TREADLE_TOKEN": "x"}, "in the open"),
        ({"TREADLE_SERVER_URL": "https://a/b", "TREADLE_TOKEN": "x"}, "host and port"),
        ({"TREADLE_SERVER_URL": "https://a", "TREADLE_TOKEN": "two words"}, "no token"),
        (
            {"TREADLE_SERVER_URL": "https://a", "TREADLE_TOKEN": "x", "TREADLE_VISIBILITY": "all"},
            "TREADLE_VISIBILITY must be",
        ),
    ],
)
def test_half_of_it_or_something_else_is_a_mistake(
    places: Places, environ: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        find_account(places, environ)
    assert "two words" not in str(caught.value)


def test_plain_http_is_for_who_says_so(places: Places) -> None:
    environ = {"TREADLE_SERVER_URL": "http://server:8080", "TREADLE_TOKEN": "x"}
    with pytest.raises(ConfigError) as caught:
        find_account(places, environ)
    assert "TREADLE_SERVER_INSECURE=1" in caught.value.hint
    found = require_account(places, {**environ, "TREADLE_SERVER_INSECURE": "1"})
    assert found.url == "http://server:8080"


# ---- addresses and tokens ------------------------------------------------------------------------


@for_every_row(
    "text, url",
    [
        ("https://treadle.example.org", "https://treadle.example.org"),
        (" https://Treadle.Example.org:443/ ", "https://treadle.example.org"),
        ("https://treadle.example.org:8443", "https://treadle.example.org:8443"),
        ("treadle.example.org", "https://treadle.example.org"),
        ("treadle.example.org:8443", "https://treadle.example.org:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost:80", "http://localhost"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_an_address_has_one_form(text: str, url: str) -> None:
    assert parse_server_url(text) == url
    assert parse_server_url(url) == url


@for_every_row(
    "text",
    [
        "",
        "https://",
        "ftp://a",
        "file:///etc/passwd",
        "https://user:secret@a.example",
        "https://a.example/api",
        "https://a.example?x=1",
        "https://a.example#x",
        "https://a.example:0",
        "https://a.example:99999",
        "https://a b",
        "https://a\x1b[31m",
        "https://ä.example",
        "https://a.example\\@b.example",
        "https://-a",
        "http://[::1",
        "http://192.168.1.5:8080",
        "http://127.0.0.1.example.org",
    ],
)
def test_what_is_no_address_or_not_safe_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_server_url(text)
    assert "secret" not in str(caught.value)


def test_plain_http_elsewhere_is_for_who_insists() -> None:
    assert (
        parse_server_url("http://192.168.1.5:8080", is_insecure=True) == "http://192.168.1.5:8080"
    )


@for_every_row("text", ["", " ", "a b", "ä", "a\x00b", "x" * 5000])
def test_a_token_is_one_word(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_token(text, "the test")
    assert not text.strip() or text not in str(caught.value)


def test_the_token_of_the_file_is_a_secret_that_is_kept_out_of_records(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert TOKEN in make_user_redactor().redact(f"it is {TOKEN}")
    save_account(places, ACCOUNT)
    assert TOKEN not in make_user_redactor().redact(f"it is {TOKEN}")
