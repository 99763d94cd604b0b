"""The audit log: every change of who may see or do something leaves exactly one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args

import pytest
from sqlalchemy import select

from server.people import People, at
from server.planting import THREAD, plant_records
from treadle.api.retention_types import NewHold, RetentionChange
from treadle.api.types import (
    AuditLine,
    NewIdentity,
    NewInvitation,
    NewOrganization,
    NewShare,
    NewToken,
    NewUser,
    OrganizationUpdate,
    UserUpdate,
)
from treadle.api.webhook_types import NewWebhook
from treadle.server.accounts import accounts, audit, identities, invitations, share_links, support
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.refusals import Refusal
from treadle.server.threads import legal_holds, retention, threads
from treadle.server.webhooks import webhook_settings

Work = Callable[[Context], object]

ACTIONS: Final[tuple[tuple[str, audit.Action | None, Work], ...]] = (
    ("admin", "organization_made",
     lambda c: accounts.make_organization(c, NewOrganization("new"))),
    ("admin", "user_made", lambda c: accounts.make_user(c, NewUser("ada", "acme"))),
    ("admin", "user_changed",
     lambda c: accounts.change_user(c, "ada", UserUpdate(is_support=True))),
    ("admin", None, lambda c: accounts.change_user(c, "ada", UserUpdate(is_support=True))),
    ("admin", "user_changed",
     lambda c: accounts.change_user(c, "ada", UserUpdate(is_disabled=True))),
    ("admin", "token_made", lambda c: accounts.make_user_token(c, "ada", NewToken("t"))),
    ("admin", "token_revoked", lambda c: accounts.revoke_token(c, 1)),
    ("admin", None, lambda c: accounts.revoke_token(c, 1)),
    ("owner", "token_made", lambda c: accounts.make_own_token(c, NewToken("t"))),
    ("owner", "token_revoked", lambda c: accounts.revoke_own_token(c, 2)),
    ("owner", "share_made", lambda c: share_links.create_link(c, THREAD, NewShare(), "")),
    ("owner", "share_revoked", lambda c: share_links.revoke_links(c, THREAD)),
    ("owner", None, lambda c: share_links.revoke_links(c, THREAD)),
    ("support", "support_requested", lambda c: support.request_access(c, THREAD)),
    ("support", None, lambda c: support.request_access(c, THREAD)),
    ("owner", "support_granted", lambda c: support.approve_requests(c, THREAD)),
    ("owner", "support_ended", lambda c: support.end_access(c, THREAD)),
    ("owner", None, lambda c: support.end_access(c, THREAD)),
    ("owner", "support_granted", lambda c: support.grant_access(c, THREAD)),
    ("owner", "visibility_set", lambda c: threads.set_visibility(c, THREAD, None, "public")),
    ("owner", None, lambda c: threads.set_visibility(c, THREAD, None, "public")),
    ("chief", "invitation_made",
     lambda c: invitations.make_invitation(c, NewInvitation(), "https://t")),
    ("chief", "invitation_revoked", lambda c: invitations.revoke_invitation(c, 1)),
    ("chief", None, lambda c: invitations.revoke_invitation(c, 1)),
    ("admin", "identity_linked",
     lambda c: identities.add_identity(c, NewIdentity("ada", "s", "https://p.example"))),
    ("admin", None,
     lambda c: identities.add_identity(c, NewIdentity("ada", "s", "https://p.example"))),
    ("admin", "identity_removed", lambda c: identities.remove_any_identity(c, 1)),
    ("admin", "organization_changed",
     lambda c: accounts.change_organization(c, "acme", OrganizationUpdate(threads_max=9))),
    ("admin", None,
     lambda c: accounts.change_organization(c, "acme", OrganizationUpdate(threads_max=9))),
    ("admin", "hold_placed", lambda c: legal_holds.place_hold(c, NewHold("why", THREAD))),
    ("admin", "hold_lifted", lambda c: legal_holds.lift_hold(c, 1)),
    ("admin", None, lambda c: legal_holds.lift_hold(c, 1)),
    ("admin", "retention_changed",
     lambda c: retention.change_rule(c, RetentionChange(idle_days=9))),
    ("admin", None, lambda c: retention.change_rule(c, RetentionChange(idle_days=9))),
    ("chief", "thread_deleted", lambda c: threads.delete_thread(c, THREAD, None)),
    ("chief", None, lambda c: threads.delete_thread(c, THREAD, None)),
    ("chief", "thread_restored", lambda c: threads.restore_thread(c, THREAD, None)),
    ("owner", "webhook_made", lambda c: webhook_settings.make_webhook(
        c, NewWebhook("https://a.example/hook"), "", allows_private=False)),
    ("owner", "webhook_removed", lambda c: webhook_settings.remove_webhook(c, 1)),
    ("owner", "thread_purged", lambda c: threads.purge_thread(c, THREAD)),
)  # fmt: skip
"""Who does what, one after the other, and the line it leaves; `None`: nothing has changed."""


def _lines(people: People) -> tuple[AuditLine, ...]:
    with people.reading("admin") as context:
        return audit.list_lines(context, 1000).lines


def test_every_change_of_access_leaves_one_line(people: People) -> None:
    with people.database.write() as db:
        plant_records(db, people["owner"])
    for number, (name, action, work) in enumerate(ACTIONS):
        before = len(_lines(people))
        with people.writing(name, at(number)) as context:
            work(context)
        found = _lines(people)[: len(_lines(people)) - before]
        if action is None:
            assert found == (), number
            continue
        assert [(line.actor, line.action, line.at) for line in found] == [
            (name, action, at(number))
        ]
        assert found[0].thread == (THREAD if not action.startswith(_PEOPLE) else None)


_PEOPLE: Final = ("organization", "user", "token", "invitation", "identity", "webhook", "retention")


def test_the_actions_of_the_table_are_all_there_are() -> None:
    """But for those that stand in the tests of pushing and of pages."""
    told = {action for _, action, _ in ACTIONS if action is not None}
    assert {*get_args(audit.Action)} - told == {
        *("signed_in", "feed_made", "invitation_accepted", "webhook_disabled"),
        *("thread_made", "thread_rewritten", "thread_expired"),
    }


def test_what_is_refused_leaves_no_line(people: People) -> None:
    with people.database.write() as db:
        plant_records(db, people["owner"])
    for _, action, work in ACTIONS:
        for name in ("outsider", ""):
            if name and (action is None or action.startswith(("token", "webhook_made"))):
                continue
            with pytest.raises(Refusal), people.writing(name) as context:
                work(context)
    assert _lines(people) == ()


def test_a_line_and_what_it_tells_are_there_together_or_not_at_all(people: People) -> None:
    def crash(context: Context) -> None:
        accounts.make_user(context, NewUser("ada", "acme"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), people.writing("admin") as context:
        crash(context)
    assert _lines(people) == ()
    with people.reading("admin") as context, pytest.raises(Refusal):
        accounts.get_user(context, "ada")


def test_no_line_holds_a_token_a_hash_or_a_title(people: People) -> None:
    secrets: list[str] = []
    with people.database.write() as db:
        plant_records(db, people["owner"], title="canary title")
    for number, (name, _, work) in enumerate(ACTIONS):
        with people.writing(name, at(number)) as context:
            made: Any = work(context)
        secrets += [made.token] if hasattr(made, "token") else []
        if hasattr(made, "secret"):
            secrets += [made.secret]
        elif hasattr(made, "url"):
            secrets += [made.url.rpartition("/")[2]]
    assert len(secrets) == 5
    secrets += ["canary"]
    with people.database.read() as db:
        hashes = db.execute(select(schema.tokens.c.hash)).scalars().all()
    text = str(_lines(people))
    assert [secret for secret in (*secrets, *hashes) if secret in text] == []


def test_lines_come_in_pages_newest_first(people: People) -> None:
    for number in range(5):
        with people.writing("admin") as context:
            accounts.make_organization(context, NewOrganization(f"o{number}"))
    with people.reading("admin") as context:
        first = audit.list_lines(context, 2).lines
        rest = audit.list_lines(context, 1000, before=first[-1].id).lines
        assert [line.detail for line in (*first, *rest)] == ["o4", "o3", "o2", "o1", "o0"]
        for limit in (0, -1, 1001):
            with pytest.raises(Refusal):
                audit.list_lines(context, limit)


def test_what_the_operator_does_is_noted_as_his(people: People) -> None:
    with people.database.write() as db:
        context = Context(db, accounts.OPERATOR, at())
        accounts.make_organization(context, NewOrganization("new"))
    assert [line.actor for line in _lines(people)] == ["operator"]
