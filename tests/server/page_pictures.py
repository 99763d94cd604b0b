"""Takes the pictures of docs/pages.md, of a team's real pages in Chromium. `make pictures` runs it.

Thirteen pages, each as a phone or a desk shows it, in light or in dark. Times on most are those of
the planted threads, so those pictures change with the pages alone.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

from msgspec.structs import replace  # noqa: E402 - it is run as a script
from playwright.sync_api import sync_playwright  # noqa: E402

from core.samples import CONFIG, answer, call, ended, said, success  # noqa: E402
from server.databases import Templates  # noqa: E402
from server.people import People, at, populate  # noqa: E402
from server.planting import id_of  # noqa: E402
from server.running import Running  # noqa: E402
from thread.journals import HEADER  # noqa: E402
from treadle.api.marks import Mark  # noqa: E402
from treadle.api.types import NewShare  # noqa: E402
from treadle.core.events import PostToolsHookCompleted, ToolStarted  # noqa: E402
from treadle.core.llm import Usage  # noqa: E402
from treadle.server.accounts import share_links  # noqa: E402
from treadle.server.threads import threads  # noqa: E402
from treadle.thread.codec import Entry, encode_entry  # noqa: E402
from treadle.thread.facts import Base, Configured, GitObserved, Renamed, Tagged  # noqa: E402
from treadle.thread.record import Head, encode_batch, scan_journal  # noqa: E402

FOLDER: Final = TESTS.parent / "docs" / "pictures"
SIZES: Final = {"phone": (390, 760), "desk": (1100, 760)}

PROMPT: Final = "The totals in the weekly report are off by one day. Find out why and mend it."
EDIT: Final = {
    "path": "report/weeks.py",
    "edits": [
        {
            "old_str": "def week_of(day):\n    start = day - timedelta(days=day.weekday() + 1)\n"
            "    return start, start + timedelta(days=7)\n",
            "new_str": "def week_of(day):\n    start = day - timedelta(days=day.weekday())\n"
            "    return start, start + timedelta(days=7)\n",
        }
    ],
}
TOLD: Final = """\
The week began on **Sunday**, while the totals count from Monday.

```python
def week_of(day):
    start = day - timedelta(days=day.weekday())  # Monday
    return start, start + timedelta(days=7)
```

| week | before | now |
|---|--:|--:|
| 47 | 1,204 | 1,311 |
| 48 | 980 | 873 |

All 41 tests pass; `test_weeks.py` has a case for each weekday now.
"""
TALK: Final = (
    (said(PROMPT),),
    (
        answer(
            "I look at how weeks are made, and at the tests.",
            call("a", "bash", json.dumps({"command": "pytest -q tests/test_weeks.py"})),
            call("b", "edit_file", json.dumps(EDIT)),
        ),
        ToolStarted("a"),
        ToolStarted("b"),
    ),
    (
        ended("a", success("a", "F....\n1 failed, 4 passed in 0.12s")),
        ended("b", success("b", "report/weeks.py: 1 replacement", "report/weeks.py")),
    ),
    (PostToolsHookCompleted(True, "weeks begin on Monday", commit="c0ffee" * 6),),
    (answer(TOLD, usage=Usage(18_250, 640)),),
)
TITLES: Final = (
    ("owner", "Totals of the weekly report", "reports", "mondays", ("bug",)),
    ("member", "Upload of large files times out", "uploads", "main", ()),
    ("chief", "Plan the move to PostgreSQL 17", "infra", "main", ("plan", "db")),
    ("owner", "Dark mode for the invoices", "invoices", "dark-mode", ()),
    ("member", "Flaky test of the scheduler", "scheduler", "main", ("flaky",)),
)


LENGTHS: Final = (0.0, 0.2, 0.1, 4.6, 2.3, 0.9, 7.4, 0.3)
"""Seconds that pass before each write of a thread."""


def write(batches: Sequence[Sequence[Entry]]) -> bytes:
    """A journal, written at the speed of an agent."""
    data, head, moment = b"", Head(), datetime.fromisoformat(at())
    for batch, seconds in zip(batches, (*LENGTHS, *[0.1] * len(batches)), strict=False):
        moment += timedelta(seconds=seconds)
        when = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lines, head = encode_batch(head, when, [encode_entry(one)[1] for one in batch])
        data += lines
    return data


def plant_forks(people: People, base: str, data: bytes) -> None:
    """Two that go on from a thread, one of them of a colleague's."""
    record = scan_journal(data).records[9]
    for number, owner, title in (
        (20, "owner", "Totals: weeks by ISO 8601 instead"),
        (21, "member", "Totals: what did the old numbers cost us?"),
    ):
        thread, place = id_of(number), Base(base, record.seq, record.hash)
        batches = ((replace(HEADER, thread=thread, base=place),), (Renamed(title),))
        with people.writing(owner, at(700 + number)) as context:
            threads.push_records(context, thread, Mark(), write(batches))


def plant_threads(people: People) -> list[str]:
    """Threads of a team, pushed as its machines push them."""
    found = []
    for number, (owner, title, repo, branch, tags) in enumerate(TITLES, 1):
        thread = id_of(number)
        batches: Sequence[Sequence[Entry]] = (
            (replace(HEADER, thread=thread, workspace=f"/work/{repo}", cwd=f"/work/{repo}"),),
            (
                Configured(CONFIG, "anthropic"),
                GitObserved(branch, "c0ffee" * 6, False, f"git.example/acme/{repo}"),
            ),
            *TALK,
            (Renamed(title), *(Tagged((tag,)) for tag in tags)),
        )
        with people.writing(owner, at(600 * number)) as context:
            threads.push_records(context, thread, Mark(), write(batches))
        found.append(thread)
        if number == 1:
            first = write(batches)
    plant_forks(people, found[0], first)
    return found


def main() -> None:
    """Take all."""
    folder = Path(tempfile.mkdtemp())
    chromium = shutil.which("chromium")
    templates = Templates()
    with Running(templates.copy("sqlite", folder)) as server, sync_playwright() as playwright:
        people = populate(server.database)
        thread = plant_threads(people)[0]
        with people.writing() as context:
            link = share_links.create_link(context, thread, NewShare(), server.url).url
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        places = {
            "threads-desk-light": "/",
            "threads-phone-dark": "/",
            "thread-desk-dark": f"/threads/{thread}",
            "thread-phone-light": f"/threads/{thread}",
            "changes-desk-light": f"/threads/{thread}?diff=split",
            "versions-desk-dark": f"/threads/{thread}/versions?from=4&to=10",
            "trace-desk-light": f"/threads/{thread}/trace",
            "states-desk-light": f"/threads/{thread}/states",
            "forks-desk-dark": f"/threads/{thread}/family",
            "search-desk-light": "/?words=weekday",
            "team-desk-dark": "/team",
            "account-desk-light": "/account",
            "share-phone-light": link,
        }
        entry = browser.new_context().new_page()
        entry.goto(f"{server.url}/sign-in")
        entry.fill("input[name=token]", people.token("owner"))
        entry.keyboard.press("Enter")
        entry.wait_for_url(f"{server.url}/")
        kept = entry.context.storage_state()
        for name, place in places.items():
            _, size, ground = name.split("-")
            width, height = SIZES[size]
            seen = browser.new_context(
                storage_state=kept,
                color_scheme="dark" if ground == "dark" else "light",
                viewport={"width": width, "height": height},
            )
            page = seen.new_page()
            page.goto(place if place.startswith("http") else server.url + place)
            for summary in page.query_selector_all(".call summary")[-1:]:
                summary.click()
            page.mouse.move(0, 0)
            page.screenshot(path=FOLDER / f"pages-{name}.png")
            seen.close()
        browser.close()
    templates.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
