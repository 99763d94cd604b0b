"""Invitations: who may invite where, that each lets in one, and what is shown to whom."""

from __future__ import annotations

import re
from threading import Barrier, Thread
from typing import Any, Final

import pytest
from sqlalchemy import select

from server.people import People, at
from server.test_pages import Site
from server.test_pages import site as site
from treadle.api.error_codes import ErrorCode
from treadle.api.types import Invitation, NewInvitation
from treadle.server.accounts import invitations, tokens
from treadle.server.accounts.tokens import TokenKind, generate_token
from treadle.server.context import ANONYMOUS, Context
from treadle.server.data import schema
from treadle.server.refusals import Refusal

BASE: Final = "https://treadle.example"


def invite(people: People, name: str = "chief", now: str = "", **given: Any) -> Invitation:
    with people.writing(name, now) as context:
        return invitations.make_invitation(context, NewInvitation(**given), BASE)


def secret_of(made: Invitation) -> str:
    return made.url.removeprefix(f"{BASE}/join/")


def accept(people: People, secret: str, name: str, now: str = "") -> tuple[str, str]:
    with people.database.write() as db:
        return invitations.accept_invitation(Context(db, ANONYMOUS, now or at()), secret, name)


def refused(work: Any) -> ErrorCode:
    with pytest.raises(Refusal) as caught:
        work()
    return caught.value.code


def test_who_may_invite_where(people: People) -> None:
    """Of everybody, to both organizations: admins to any, an organization's admin to that one."""
    may = {("admin", "acme"), ("admin", "rivals"), ("chief", "acme")}
    misses = []
    for name in ("owner", "member", "chief", "outsider", "support", "admin", ""):
        for organization in ("acme", "rivals"):
            wanted = ErrorCode.FORBIDDEN if name else ErrorCode.UNAUTHORIZED
            try:
                invite(people, name, organization=organization)
                found = None
            except Refusal as refusal:
                found = refusal.code
            if found is not (None if (name, organization) in may else wanted):
                misses.append((name, organization, found))
    assert misses == []
    with people.reading("chief") as context:
        assert {one.organization for one in invitations.list_invitations(context).invitations} == {
            "acme"
        }
    with people.reading("admin") as context:
        rivals = next(
            one
            for one in invitations.list_invitations(context).invitations
            if one.organization == "rivals"
        )

    def revoke() -> None:
        with people.writing("chief") as context:
            invitations.revoke_invitation(context, rivals.id)

    assert refused(revoke) is ErrorCode.NOT_FOUND


def test_one_becomes_a_user_with_what_the_invitation_says_and_nobody_else(people: People) -> None:
    made = invite(people, role="organization_admin")
    name, token = accept(people, secret_of(made), "Ada")
    assert name == "ada"
    with people.database.read() as db:
        caller = tokens.identify_caller(db, token, at())
        stored = db.execute(select(schema.invitations.c.hash)).scalar_one()
    assert (caller.user, caller.organization, caller.role) == ("ada", "acme", "organization_admin")
    assert (caller.is_admin, caller.is_support) == (False, False)
    assert secret_of(made) not in stored
    assert refused(lambda: accept(people, secret_of(made), "eve")) is ErrorCode.GONE
    with people.reading("chief") as context:
        [line] = invitations.list_invitations(context).invitations
    assert (line.is_open, line.accepted_by, line.created_by) == (False, "ada", "chief")


def test_of_many_who_accept_at_once_one_gets_in(people: People) -> None:
    secret, barrier = secret_of(invite(people)), Barrier(4)
    found: list[str] = []

    def race(number: int) -> None:
        barrier.wait()
        try:
            found.append(accept(people, secret, f"user-{number}")[0])
        except Refusal as refusal:
            found.append(refusal.code.value)

    threads = [Thread(target=race, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found)[:3] == ["gone"] * 3
    assert sorted(found)[3].startswith("user-")


def test_what_is_over_revoked_or_mistyped_lets_nobody_in(people: People) -> None:
    old, taken_back = invite(people), invite(people)
    with people.writing("chief") as context:
        invitations.revoke_invitation(context, taken_back.id)
    week = 7 * 86_400
    assert accept(people, secret_of(invite(people)), "late", at(week - 1))[0] == "late"
    assert refused(lambda: accept(people, secret_of(old), "ada", at(week))) is ErrorCode.GONE
    assert refused(lambda: accept(people, secret_of(taken_back), "ada")) is ErrorCode.GONE
    for secret in (
        generate_token(TokenKind.INVITATION),
        people.token("owner"),
        secret_of(old)[:-1],
        "",
        "\0",
    ):
        assert refused(lambda one=secret: accept(people, one, "ada")) is ErrorCode.NOT_FOUND  # type: ignore[misc]
    for name in ("owner", "", "a b", "<b>", "x" * 101, "operator"):
        code = refused(lambda one=name: accept(people, secret_of(old), one))  # type: ignore[misc]
        assert code is ErrorCode.BAD_REQUEST, name
    assert accept(people, secret_of(old), "ada")[0] == "ada", "what was refused used nothing up"
    for until in (at(), at(-1), at(91 * 86_400), "tomorrow"):
        assert refused(lambda one=until: invite(people, expires_at=one)) is ErrorCode.BAD_REQUEST  # type: ignore[misc]


def test_a_browser_joins_is_signed_in_and_gets_a_token_for_machines(site: Site) -> None:
    asked = site.server.ask(
        "POST",
        "/api/invitations",
        site.people.token("chief"),
        b'{"role": "member"}',
        content_type="application/json",
    )
    assert asked.status == 201
    found = re.search(rb'"url":"http://localhost(/join/(tri_\w+))"', asked.body)
    assert found is not None
    path = found[1].decode()
    page = site.get(path).body.decode()
    assert "Join acme" in page
    assert "noindex" in site.get(path).headers["x-robots-tag"]
    again = site.post(path, name="<script>alert(1)</script>")
    assert again.status == 400
    assert "<script>alert" not in again.body.decode()
    assert site.post(path, name="owner").status == 400
    foreign = site.post(path, headers={"sec_fetch_site": "cross-site"}, name="eve")
    assert foreign.status == 403
    joined = site.post(path, name="Newcomer")
    body = joined.body.decode()
    assert joined.status == 200
    assert "Welcome, newcomer" in body
    token = re.search(r"trd_\w+", body)
    assert token is not None
    me = site.server.ask("GET", "/api/me", token[0]).body
    assert b'"newcomer"' in me
    cookie = re.match(r"treadle-session=(trw_\w+)", joined.headers["set-cookie"])
    assert cookie is not None
    assert "newcomer" in site.get("/team", cookie[1]).body.decode()
    for answer in (site.get(path), site.post(path, name="another")):
        assert answer.status == 410
        assert "ask who has sent it" in answer.body.decode()
    assert site.get("/join/tri_nothing").status == 404
