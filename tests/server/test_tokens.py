"""Tokens: 256 random bits, nothing of them kept, worthless the moment they are revoked."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

from case_tables import for_every_row
from server.people import People, at
from treadle.api.error_codes import ErrorCode
from treadle.server.accounts import tokens
from treadle.server.accounts.times import shift_time
from treadle.server.accounts.tokens import (
    TokenKind,
    TokenUses,
    generate_token,
    hash_token,
    is_well_formed,
)
from treadle.server.context import ANONYMOUS
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.refusals import Refusal


def test_a_token_has_256_random_bits_and_a_checksum() -> None:
    found = {generate_token(TokenKind.ACCESS) for _ in range(1000)}
    assert len(found) == 1000
    assert {len(token) for token in found} == {4 + 43 + 6}
    assert all(is_well_formed(token, TokenKind.ACCESS) for token in found)
    assert 43 * math.log2(62) >= 256
    firsts = {token[5:10] for token in found}
    assert len(firsts) > 990
    assert len({char for token in found for char in token[4:47]}) == 62


def test_a_link_token_is_no_access_token_and_the_other_way_round() -> None:
    assert is_well_formed(generate_token(TokenKind.SHARE), TokenKind.SHARE)
    assert not is_well_formed(generate_token(TokenKind.SHARE), TokenKind.ACCESS)
    assert not is_well_formed(generate_token(TokenKind.ACCESS), TokenKind.SHARE)
    changed = "trs_" + generate_token(TokenKind.ACCESS)[4:]
    assert is_well_formed(changed, TokenKind.SHARE), "the prefix is not what the checksum is of"


def test_the_checksum_is_the_one_that_scanners_compute() -> None:
    """CRC32 in base62, as GitHub has it; gzip says the same of these 43 bytes."""
    assert is_well_formed(f"trd_{'0' * 43}2CZclj", TokenKind.ACCESS)


def test_a_mistyped_token_is_noticed_without_a_database() -> None:
    token = generate_token(TokenKind.ACCESS)
    for place in range(len(token)):
        for char in "0Az_ \n\0é":
            changed = token[:place] + char + token[place + 1 :]
            assert is_well_formed(changed, TokenKind.ACCESS) == (changed == token)
    for cut in range(len(token)):
        assert not is_well_formed(token[:cut], TokenKind.ACCESS)
    assert not is_well_formed(token + "\n", TokenKind.ACCESS)


@given(st.text() | st.text("trds_0123456789azAZ", min_size=40, max_size=60))
def test_no_text_but_a_token_is_taken_for_one(text: str) -> None:
    assert not is_well_formed(text, TokenKind.ACCESS)
    assert not is_well_formed(text, TokenKind.SHARE)


def test_a_token_is_its_user_with_all_he_is(people: People, database: Database) -> None:
    for name, principal in people.principals.items():
        token = people.token(name)
        with database.read() as db:
            found = tokens.identify_caller(db, token, at(1))
        assert (found.user_id, found.user, found.organization) == (
            principal.user_id,
            name,
            principal.organization,
        )
        assert (found.role, found.is_admin, found.is_support) == (
            principal.role,
            principal.is_admin,
            principal.is_support,
        )
        assert found.token_name == "test"
        assert found.token_id is not None


def test_no_token_is_anybody(database: Database) -> None:
    with database.read() as db:
        assert tokens.identify_caller(db, None, at()) == ANONYMOUS


@for_every_row("text", ["", " ", "\ud800", "\0", "trd_", "é" * 53, "x" * 100_000])
def test_what_is_no_token_is_refused_like_a_wrong_one(database: Database, text: str) -> None:
    with database.read() as db:
        with pytest.raises(Refusal) as garbage:
            tokens.identify_caller(db, text, at())
        with pytest.raises(Refusal) as wrong:
            tokens.identify_caller(db, generate_token(TokenKind.ACCESS), at())
    assert garbage.value.code is ErrorCode.UNAUTHORIZED
    assert garbage.value.problem == wrong.value.problem


def test_a_revoked_token_is_refused_by_the_next_transaction(
    people: People, database: Database
) -> None:
    token = people.token("owner")
    other = people.token("owner")
    with database.read() as db:
        token_id = tokens.identify_caller(db, token, at()).token_id
    assert token_id is not None
    with people.writing("admin") as context:
        tokens.revoke_token(context, token_id)
        tokens.revoke_token(context, token_id)
    with database.read() as db:
        with pytest.raises(Refusal):
            tokens.identify_caller(db, token, at())
        assert tokens.identify_caller(db, other, at()).user == "owner"


def test_the_database_holds_no_token_that_can_be_used(
    people: People, database: Database, database_url: str
) -> None:
    """Every cell of every table, and of SQLite every byte of its files."""
    made = [people.token(name) for name in people.principals]
    canaries = [text for token in made for text in (token, token[4:], token[4:47])]
    kept = []
    with database.read() as db:
        for table in schema.metadata.sorted_tables:
            kept += [str(cell) for row in db.execute(select(table)) for cell in row]
    assert all(hash_token(token) in kept for token in made)
    text = "\n".join(kept)
    assert [canary for canary in canaries if canary in text] == []
    if database.dialect == "sqlite":
        path = Path(database_url.removeprefix("sqlite:///"))
        data = b"".join(file.read_bytes() for file in path.parent.glob(path.name + "*"))
        assert hash_token(made[0]).encode() in data
        assert [canary for canary in canaries if canary.encode() in data] == []


def test_a_use_is_noted_once_a_minute(people: People, database: Database) -> None:
    token = people.token("owner")
    with database.read() as db:
        caller = tokens.identify_caller(db, token, at())
    uses, seconds = TokenUses(), (0, 0, 1, 59, 59.999999, 60, 61, 119, 120, 30, 31)
    noted = [second for second in seconds if uses.mark_if_due(caller, at(second))]
    assert noted == [0, 60, 120, 30], "a clock that was set back does not end it"
    assert not uses.mark_if_due(ANONYMOUS, at())
    assert uses.mark_if_due(caller, at(seconds[-1]), listens=True), "that is another thing to note"


def test_another_process_that_was_faster_is_not_overwritten(
    people: People, database: Database
) -> None:
    people.token("owner")
    for second, expected in ((0, 0), (30, 0), (59, 0), (60, 60), (61, 60), (200, 200)):
        with database.write() as db:
            token_id = db.execute(select(schema.tokens.c.id)).scalar_one()
            tokens.record_use(db, token_id, at(second))
            found = db.execute(select(schema.tokens.c.last_used_at)).scalar_one()
        assert found == at(expected)


def test_a_user_has_so_many_good_tokens_and_no_more(people: People) -> None:
    with people.writing() as context:
        user_id = people["owner"].user_id
        assert user_id is not None
        row = {"user_id": user_id, "name": "x", "created_at": at(), "expires_at": at(10)}
        rows = [{**row, "hash": str(n)} for n in range(tokens.LIVE_COUNT_MAX - 1)]
        context.db.execute(insert(schema.tokens), rows)
        last = tokens.make_token(context, user_id, "last")
        with pytest.raises(Refusal) as caught:
            tokens.make_token(context, user_id, "more")
        assert "revoke" in caught.value.problem.hint
        tokens.revoke_token(context, last.id)
        tokens.make_token(context, user_id, "instead")
    with people.writing(now=at(10)) as context:
        tokens.make_token(context, user_id, "when the others are over")


def test_a_token_made_with_a_token_does_not_outlive_it(people: People) -> None:
    from msgspec.structs import replace

    limited = replace(people["owner"], token_expires_at=at(100))
    held = People(people.database, {**people.principals, "owner": limited})
    for wanted, expected in ((None, at(100)), (at(101), at(100)), (at(50), at(50))):
        with held.writing() as context:
            made = tokens.make_token(context, limited.user_id or 0, "t", wanted)
        assert made.expires_at == expected
    with people.writing() as context:
        assert tokens.make_token(context, limited.user_id or 0, "t").expires_at is None


@for_every_row(
    "text",
    [
        "",
        "never",
        "2026-11-21",
        "2026-11-21T08:15:30",
        "9999-12-31T23:59:59-12:00",
        "0",
        "0001-01-01T00:00:00+12:00",
        at(),
        at(-1),
        "\0",
        "2026-02-30T00:00:00Z",
    ],
)
def test_a_time_that_is_none_or_is_over_makes_no_token(people: People, text: str) -> None:
    with people.writing() as context, pytest.raises(Refusal) as caught:
        tokens.make_token(context, people["owner"].user_id or 0, "t", text)
    assert caught.value.code is ErrorCode.BAD_REQUEST


def test_a_time_is_kept_in_the_form_of_records_whatever_its_zone(people: People) -> None:
    for text in ("2026-11-21T09:15:01+01:00", "2026-11-21T08:15:01Z", "2026-11-21t08:15:01.0z"):
        with people.writing() as context:
            made = tokens.make_token(context, people["owner"].user_id or 0, "t", text)
        assert made.expires_at == at(1)
    assert shift_time(at(), days=1, seconds=-86400) == at()
