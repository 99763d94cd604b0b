"""The page of admins: quotas and invitations, for admins alone, by forms of ours alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest
from sqlalchemy import select, update

from server.people import at, populate
from server.planting import plant_records
from server.running import Running
from server.test_pages import Site
from treadle.server.accounts import sessions
from treadle.server.data import schema

GIB: Final = 2**30


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    with Running(database_url, base_url="https://t.example") as server:
        yield Site(server, populate(server.database))


class Person:
    """Who is signed in, over HTTPS as the server's address has it."""

    def __init__(self, site: Site, name: str) -> None:
        self.site = site
        told = site.post("/sign-in", token=site.people.token(name)).headers["set-cookie"]
        found = re.match(r"__Host-treadle-session=(trw_\w+)", told)
        assert found is not None
        self.secret = found[1]

    def send(self, path: str, **fields: str) -> tuple[int, str]:
        fields = {"form_key": sessions.make_form_key(self.secret), **fields}
        cookie = f"__Host-treadle-session={self.secret}"
        reply = self.site.post(path, headers={"cookie": cookie}, **fields)
        return reply.status, reply.body.decode()

    def read(self, path: str = "/admin") -> str:
        return self.site.get(path, cookie_header(self.secret)).body.decode()


def cookie_header(secret: str) -> str:
    """`Site` writes the plain name before it: both stand there."""
    return f"x; __Host-treadle-session={secret}"


def test_quotas_are_set_and_taken_away(site: Site) -> None:
    admin = Person(site, "admin")
    for kind, name, table in (
        ("organizations", "acme", schema.organizations),
        ("users", "owner", schema.users),
    ):

        def bounds(table: schema.Table = table, name: str = name) -> tuple[int | None, int | None]:
            with site.people.reading() as context:
                query = select(table.c.threads_max, table.c.storage_max)
                row = context.db.execute(query.where(table.c.name == name)).one()
            return row[0], row[1]

        path = f"/admin/{kind}/{name}/quota"
        assert admin.send(path, threads="500", size="2.5")[0] == 303
        assert bounds() == (500, 5 * GIB // 2)
        assert 'value="500"' in admin.read()
        assert 'value="2.5"' in admin.read()
        wrong = ("-1", "x", "nan", "inf", "1e30", "\u0662\u0663x")
        assert [text for text in wrong if admin.send(path, threads="1", size=text)[0] != 400] == []
        assert [text for text in wrong if admin.send(path, threads=text, size="")[0] != 400] == []
        assert bounds() == (500, 5 * GIB // 2)
        assert admin.send(path, threads="0", size="")[0] == 303
        assert bounds() == (0, None)
        assert admin.send(path, threads="", size="")[0] == 303
        assert bounds() == (None, None)
        assert admin.send(f"/admin/{kind}/nobody/quota", threads="", size="")[0] == 404


def test_an_invitation_is_made_shown_once_and_revoked(site: Site) -> None:
    admin, chief = Person(site, "admin"), Person(site, "chief")
    fields = {"organization": "acme", "role": "member", "days": "30"}
    for number, person in enumerate((admin, chief), 1):
        status, page = person.send("/invitations", **fields)
        found = re.search(r"https://t\.example(/join/tri_\w+)", page)
        assert status == 200
        assert found is not None
        assert "tri_" not in person.read("/invitations")
        assert site.get(found[1]).status == 200
        assert person.send(f"/invitations/{number}/revoke")[0] == 303
        assert site.get(found[1]).status == 410
        assert "<td>over</td>" in person.read("/invitations")
    wrong = ({"days": "31"}, {"role": "root"}, {"organization": "elsewhere"})
    statuses = [admin.send("/invitations", **{**fields, **one})[0] for one in wrong]
    assert statuses == [400] * 3
    paths = [f"/invitations/{number}/revoke" for number in ("0", "9", "x", "9" * 30)]
    assert [path for path in paths if admin.send(path)[0] != 404] == []


def test_an_admin_of_an_organization_invites_to_it_alone(site: Site) -> None:
    admin, chief = Person(site, "admin"), Person(site, "chief")
    told = {"organization": "rivals", "role": "member", "days": "7"}
    assert chief.send("/invitations", **told)[0] in (403, 404)
    assert admin.send("/invitations", **told)[0] == 200
    assert "rivals" in admin.read("/invitations")
    assert "rivals" not in chief.read("/invitations")
    assert chief.send("/invitations/1/revoke")[0] == 404
    links = {
        name: 'href="/invitations"' in Person(site, name).read("/account")
        for name in ("admin", "chief", "member")
    }
    assert links == {"admin": True, "chief": True, "member": False}
    assert site.get("/invitations", cookie_header(Person(site, "member").secret)).status == 403


def test_nobody_else_does_what_admins_do(site: Site) -> None:
    paths = {
        "/admin/identities": {"user": "owner", "subject": "s"},
        "/invitations": {"organization": "acme", "role": "member", "days": "30"},
        "/admin/organizations": {"name": "new"},
        "/admin/organizations/acme/quota": {"threads": "1", "size": ""},
        "/admin/holds": {"kind": "user", "name": "owner", "reason": "why"},
        "/admin/holds/9/lift": {},
        "/admin/retention": {"organization": "", "idle_days": "365", "trash_days": ""},
        "/admin/retention/run": {},
        "/admin/users": {"name": "eve", "organization": "acme"},
        "/admin/users/owner": {"is_disabled": "yes"},
        "/admin/users/owner/quota": {"threads": "1", "size": ""},
        "/admin/users/owner/tokens": {"name": "t", "days": ""},
    }
    missed = []
    for name in ("member", "support", "owner"):
        person = Person(site, name)
        for path, fields in paths.items():
            if person.send(path, **fields)[0] != 403:
                missed.append((name, path))
    admin = Person(site, "admin")
    for path, fields in paths.items():
        if admin.send(path, **fields, form_key="x")[0] != 403:
            missed.append(("another site", path))
        if site.post(path, **fields).status != 401:
            missed.append(("nobody", path))
    assert missed == []


def test_a_hold_is_placed_and_lifted(site: Site) -> None:
    admin = Person(site, "admin")
    told = {"kind": "user", "name": "owner", "reason": "case <14>"}
    assert admin.send("/admin/holds", **told)[0] == 303
    assert "<td>the user owner</td><td><bdi>case &lt;14&gt;</bdi></td>" in admin.read()
    assert 'aria-label="Lift hold 1"' in admin.read()
    assert admin.send("/admin/holds/1/lift")[0] == 303
    page = admin.read()
    assert 'aria-label="Lift hold 1"' not in page
    assert "by admin</td>" in page
    wrong = ({"kind": "x"}, {"name": "nobody"}, {"name": ""}, {"reason": " "}, {"reason": "a\0b"})
    statuses = [admin.send("/admin/holds", **{**told, **one})[0] for one in wrong]
    assert statuses == [400, 404, 400, 400, 400]
    assert admin.send("/admin/holds/7/lift")[0] == 404


def test_rules_of_retention_are_set_and_told(site: Site) -> None:
    admin = Person(site, "admin")
    assert "For no thread it is time now." in admin.read()
    assert admin.send("/admin/retention", idle_days="1", trash_days="30")[0] == 303
    told = {"organization": "rivals", "idle_days": "never", "trash_days": ""}
    assert admin.send("/admin/retention", **told)[0] == 303
    with site.people.database.write() as db:
        plant_records(db, site.people["owner"])  # of the year before
        db.execute(update(schema.threads).values(last_activity_at=at(-400 * 24 * 3600)))
    page = admin.read()
    assert "A run would now put away 1 and remove 0 (0 Bytes)" in page
    whole = '<th scope="row">the whole server</th><td>after 1 day</td><td>after 30 days more</td>'
    rivals = '<th scope="row">rivals</th><td>never</td><td>as the whole server</td>'
    assert all(row in page for row in (whole, rivals))
    wrong = ({"idle_days": "x"}, {"trash_days": "-1"}, {"idle_days": "9" * 30}, {"idle_days": "0"})
    wrong += ({"idle_days": "000001000"},)  # not one day
    assert [admin.send("/admin/retention", **one)[0] for one in wrong] == [400] * 5
    assert admin.send("/admin/retention", organization="none")[0] == 404
    assert admin.send("/admin/retention/run")[0] == 303
    ask = site.server.ask
    token = site.people.token("admin")
    plan = "/api/admin/retention/plan"
    while ask("GET", plan, token).json["due"]:  # it is done in the background
        pass
    [line] = [
        one
        for one in ask("GET", "/api/admin/audit", token).json["lines"]
        if one["action"] == "thread_expired"
    ]
    assert (line["actor"], line["detail"][:26]) == ("operator", "put away: nothing came sin")
    rules = ask("GET", "/api/admin/retention", token).json["rules"]
    assert rules[0] == {"organization": None, "idle_days": 1, "trash_days": 30}
    for name, path in product(("owner", "chief"), (plan, "/api/admin/retention")):
        assert ask("GET", path, site.people.token(name)).status == 403
    for name, status in (("chief", 403), ("admin", 202)):
        run = ask("POST", "/api/admin/retention/run", site.people.token(name))
        assert run.status == status
