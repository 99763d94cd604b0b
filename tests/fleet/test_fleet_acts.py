"""What is said on pages to tasks of a fleet: who may, what is refused, what is recorded."""

from __future__ import annotations

import html
import re
import secrets
from typing import Any

from fleet.queue_checks import until
from fleet.teams import Team
from fleet.test_fleet_page import site as site
from fleet.test_fleet_page import team as team
from server.test_pages import Site
from treadle import SubmittedTask
from treadle.fleet.port import JobStatus

PEOPLE = ("owner", "member", "chief", "outsider", "support", "admin")
MAY = {"owner", "member", "chief"}
"""Whose the store is, for whom it was submitted, and an admin of the organization."""


class Forms:
    """Browsers without a script, each of somebody."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.cookies = {name: site.sign_in(name) for name in PEOPLE}

    def read(self, name: str, path: str) -> str:
        return self.site.get(path, self.cookies[name]).body.decode()

    def find(self, name: str, path: str, action: str) -> dict[str, str]:
        """The hidden fields of the first form of a page that leads there and has this act."""
        page = self.read(name, path)
        for form in re.findall(
            r'<form method="post" action="[^"]*/acts">.*?</form>', page, re.DOTALL
        ):
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
            if fields.get("act") == action:
                return {key: html.unescape(value) for key, value in fields.items()}
        return {}

    def key(self, name: str) -> str:
        """What stands in the forms of somebody."""
        found = re.search(r'name="form_key" value="(\w+)"', self.read(name, "/account"))
        assert found is not None
        return found[1]

    def send(self, name: str, path: str, **fields: str) -> tuple[int, str]:
        reply = self.site.post(path, self.cookies[name], **fields)
        return reply.status, re.sub(r"<[^>]+>|\s+", " ", reply.body.decode())


async def list_events(task: SubmittedTask[Any]) -> list[str]:
    return [bytes(one.event).decode() async for one in task.follow()]


async def test_an_answer_on_a_page_is_one_by_who_may_to_what_was_asked(
    team: Team, site: Site
) -> None:
    program, forms = team.program, Forms(site)
    asked = await program.asking.submit("Pay it", user="member")
    other = await program.asking.submit("Pay that", user="owner")
    team.start("--concurrency", "2")
    for one in (asked, other):
        await until(lambda one=one: team.is_left_as(one, JobStatus.WAITING))
    page, path = f"/threads/{asked.id}@owner", f"/threads/{asked.id}@owner/acts"

    async def is_shown() -> bool:
        found = [forms.find("owner", f"/threads/{one.id}", "approve") for one in (asked, other)]
        return all(found)

    await until(is_shown)
    form = forms.find("member", page, "approve")
    seen = {name: bool(forms.find(name, page, "approve")) for name in PEOPLE}
    assert seen == {name: name in MAY for name in PEOPLE}
    told = forms.read("member", f"/threads/{other.id}@owner")
    assert "only owner, for whom it was submitted, or an admin" in told
    answers: dict[str, tuple[str, dict[str, str], int, str]] = {
        "another's": ("member", {"path": other.id}, 403, "Only owner"),
        "of another organization": ("outsider", {}, 404, "no such thing"),
        "support": ("support", {}, 404, "no such thing"),
        "an admin who does not see it": ("admin", {}, 404, "no such thing"),
        "no key": ("member", {"form_key": ""}, 403, "not sent from a page"),
        "another's key": ("member", {"form_key": forms.key("chief")}, 403, "not sent"),
        "another question": ("member", {"ground": "0" * 64}, 409, "answered already"),
        "another call": ("member", {"call": "c9"}, 409, "answered already"),
        "for ever": ("member", {"act": "always"}, 409, "a yes or a no"),
        "changed": ("member", {"act": "change", "arguments": "{}"}, 409, "a yes or a no"),
        "words": ("member", {"act": "prompt", "text": "go on"}, 409, "a yes or a no"),
        "no id": ("member", {"request": ""}, 409, "no id"),
    }
    faults = []
    for case, (name, changed, status, why) in answers.items():
        where = f"/threads/{changed.pop('path', asked.id)}@owner/acts"
        sent = {**form, "form_key": forms.key(name), **changed}
        got, words = forms.send(name, where, **sent)
        if got != status or why not in words:
            faults.append((case, got, words))
    assert faults == []
    assert await team.is_left_as(asked, JobStatus.WAITING), "nothing was answered"
    assert forms.send("member", path, **form) == (303, "")
    assert not forms.find("member", page, "approve"), "it is shown as answered at once"
    await until(lambda: team.is_left_as(asked, JobStatus.DONE))
    again = {**form, "request": secrets.token_urlsafe(16)}
    assert forms.send("member", path, **form)[0] == 303, "the same form twice is one answer"
    status, words = forms.send("chief", path, **{**again, "form_key": forms.key("chief")})
    assert (status, "answered already" in words) == (409, True)
    events = await list_events(asked)
    said = [one for one in events if '"request_taken"' in one or '"approval_decided"' in one]
    assert len(said) == 2
    assert f'"id":"{form["request"]}"' in said[0]
    assert '"by":"member on a page of the server"' in said[0]
    assert '"approved"' in said[1]
    assert "member on a page of the server: yes to" in forms.read(
        "member", f"{page}/versions?from=2"
    )
    no = forms.find("chief", f"/threads/{other.id}@owner", "reject")
    sent = {**no, "text": "It is paid already."}
    assert forms.send("chief", f"/threads/{other.id}@owner/acts", **sent)[0] == 303
    await until(lambda: team.is_left_as(other, JobStatus.DONE))
    assert any("It is paid already." in one for one in await list_events(other))
    assert len(team.read_ledger()) == 1
    await program.fleet.scheduler.close()


async def test_tasks_are_cancelled_and_tried_again_by_who_may(team: Team, site: Site) -> None:
    program, forms = team.program, Forms(site)
    task = await program.clerk.submit("Pay it", user="member")
    faults = []
    for act, before, after in (
        ("cancel", JobStatus.QUEUED, JobStatus.CANCELLED),
        ("retry", JobStatus.CANCELLED, JobStatus.QUEUED),
    ):
        path, button = f"/fleet/{task.id}@owner/{act}", f'id="{act}-{task.id}"'
        for name in ("outsider", "support", "admin"):
            status, _ = forms.send(name, path, form_key=forms.key(name))
            faults += [(act, name)] if status != 404 or button in forms.read(name, "/fleet") else []
        assert forms.send("member", path, form_key=forms.key("chief"))[0] == 403
        assert await team.is_left_as(task, before)
        assert button in forms.read("member", "/fleet")
        assert forms.send("member", path, form_key=forms.key("member"))[0] == 303
        assert await team.is_left_as(task, after)
    assert faults == []
    others = await program.clerk.submit("Pay that", user="owner")
    path = f"/fleet/{others.id}@owner/cancel"
    assert f"cancel-{others.id}" not in forms.read("member", "/fleet")
    status, words = forms.send("member", path, form_key=forms.key("member"))
    assert (status, "Only owner" in words) == (403, True)
    team.start()
    await until(lambda: team.is_left_as(task, JobStatus.DONE))
    events = await list_events(task)
    assert [one for one in events if '"act":"cancel","by":"member on a page' in one]

    async def is_over() -> bool:
        status, words = forms.send(
            "member", f"/fleet/{task.id}@owner/retry", form_key=forms.key("member")
        )
        return (status, "is over" in words) == (409, True)

    await until(is_over)
    await program.fleet.scheduler.close()
