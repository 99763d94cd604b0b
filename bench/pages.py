"""A team's pages in a browser: the first paint, their weight, and many who look at one thread."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import selectors
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from bench.report import Row, at_most
from bench.sync import MESSAGES
from bench.threads import _journal, _turn
from server.serving import Served
from treadle.api.marks import Mark
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Renamed
from treadle.thread.record import Head, encode_batch, scan_journal

VIEWERS: Final = 500
PER_PERSON: Final = 20
"""Streams that the server gives one person."""

TIMES: Final = 9
NEWS: Final = 5
"""Records that are told to all viewers, one after the other."""

LONG: Final = "T-01900000-0000-7000-8000-000000000001"
SHORT: Final = "T-01900000-0000-7000-8000-000000000002"
PUSH_RECORDS: Final = 500
PAINT: Final = """() => new Promise((found) => new PerformanceObserver((list) => {
  for (const one of list.getEntriesByName("first-contentful-paint")) found(one.startTime);
}).observe({ type: "paint", buffered: true }))"""
WEIGHT: Final = """() => [...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].reduce((sum, one) => sum + one.encodedBodySize, 0)"""


def measure() -> list[Row]:
    """All of it, on SQLite."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-pages-"))
    served = Served(f"sqlite:///{folder}/server.db", folder / "home", "--rate", "0")
    try:
        served.start()
        team = _Team(served)
        head = team.push_thread(LONG, MESSAGES // 4)
        team.push_thread(SHORT, 1)
        return [*_look(team, folder), *_follow(team, head)]
    finally:
        served.kill()
        shutil.rmtree(folder, ignore_errors=True)


class _Team:
    """People of one organization, and their server."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.url = served.url
        self.token = served.owner_token()
        self.cookie = self._sign_in(self.token)

    def add_person(self, name: str) -> str:
        """Somebody else; gives the cookie of their browser."""
        organization = json.loads(self._call("GET", "/api/me"))["organization"]
        person = {"name": name, "organization": organization}
        self._call("POST", "/api/admin/users", json.dumps(person).encode(), media="json")
        path = f"/api/admin/users/{name}/tokens"
        told = self._call("POST", path, b'{"name":"bench"}', media="json")
        return self._sign_in(json.loads(told)["token"])

    def push_thread(self, thread: str, turn_count: int) -> Head:
        """A thread of so many turns of four messages, which all may see."""
        random = Random(thread)
        entries = [entry for number in range(turn_count) for entry in _turn(random, number)]
        data = _journal(thread, entries)
        lines, records = data.splitlines(keepends=True), scan_journal(data).records
        mark = Mark()
        for start in range(0, len(lines), PUSH_RECORDS):
            batch = lines[start : start + PUSH_RECORDS]
            self.push(thread, b"".join(batch), mark)
            last = records[start + len(batch) - 1]
            mark = Mark(last.seq, last.hash)
        path = f"/api/threads/{thread}/visibility"
        self._call("POST", path, b'{"visibility":"organization"}', media="json")
        return scan_journal(data).head

    def push(self, thread: str, lines: bytes, mark: Mark) -> None:
        """Records behind a mark."""
        self._call("POST", f"/api/threads/{thread}/records", lines, media="x-ndjson", mark=mark.tag)

    def find_last_page(self, thread: str) -> int:
        """The number of the last page of a thread, as its page says it."""
        connection = http.client.HTTPConnection("127.0.0.1", self._served.port, timeout=60)
        connection.request("GET", f"/threads/{thread}", headers={"cookie": self.cookie})
        found = re.search(rb'data-page="(\d+)"', connection.getresponse().read())
        connection.close()
        assert found is not None
        return int(found[1])

    def processor_s(self) -> float:
        """What the server has taken of the processor so far, all threads, in seconds."""
        tasks = Path(f"/proc/{self._served.pid}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1e9

    def _call(
        self, method: str, path: str, body: bytes = b"", *, media: str = "", mark: str = ""
    ) -> bytes:
        headers = {"authorization": f"Bearer {self.token}"}
        if media:
            headers["content-type"] = f"application/{media}"
        if mark:
            headers["if-match"] = mark
        connection = http.client.HTTPConnection("127.0.0.1", self._served.port, timeout=60)
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        told = answer.read()
        connection.close()
        assert answer.status < 300, told
        return told

    def _sign_in(self, token: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._served.port, timeout=60)
        headers = {"content-type": "application/x-www-form-urlencoded", "origin": self.url}
        connection.request("POST", "/sign-in", f"token={quote(token)}", headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        cookie = (answer.headers["set-cookie"] or "").partition(";")[0]
        assert answer.status == 303, answer.status
        assert cookie
        return cookie


# ---- one who looks -------------------------------------------------------------------------------


def _look(team: _Team, folder: Path) -> list[Row]:
    chromium = shutil.which("chromium")
    if chromium is None:
        return [Row("pages in a browser", 0, "", note="not measured: apt-get install chromium")]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = _open(browser, team)
        page.goto(f"{team.url}/threads/{SHORT}")
        page.wait_for_load_state("load")
        weight = page.evaluate(WEIGHT)
        page.goto(f"{team.url}/threads/{LONG}")
        page.wait_for_load_state("load")
        whole = page.evaluate(WEIGHT)
        used = team.processor_s()
        ours = [_paint_ms(page, f"{team.url}/threads/{LONG}") for _ in range(TIMES)]
        used = (team.processor_s() - used) / TIMES
        with _files(page, folder / "files") as url:
            floor = [_paint_ms(page, f"{url}/thread.html") for _ in range(TIMES)]
        browser.close()
    mine, least = statistics.median(ours), statistics.median(floor)
    return [
        at_most(
            f"first paint of {MESSAGES:,} messages, against its page as a file",
            mine / least,
            "x",
            2,
            f"{mine:.0f} ms, of a file {least:.0f} ms; {used * 1e3:.0f} ms CPU of the server, "
            f"{whole / 1e3:.0f} kB",
        ),
        at_most(
            "  weight of a page of one turn, with style and scripts",
            weight / 1e3,
            "kB",
            60,
            "as it comes over the wire, nothing kept from before",
        ),
    ]


def _open(browser: Browser, team: _Team) -> Page:
    context = browser.new_context()
    name, _, value = team.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": team.url}])
    return context.new_page()


def _paint_ms(page: Page, url: str) -> float:
    page.goto("about:blank")
    page.goto(url)
    return float(page.evaluate(PAINT))


@contextmanager
def _files(page: Page, folder: Path) -> Iterator[str]:
    """The page that is shown, from a server of files: a browser needs as much at least."""
    folder.mkdir()
    (folder / "thread.html").write_text(page.content())
    for url in page.evaluate(
        "() => [...document.querySelectorAll('link[href], script[src]')].map(x => x.href || x.src)"
    ):
        answer = page.request.get(url)
        target = folder / url.split("/", 3)[3].partition("?")[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(answer.body())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


# ---- many who follow -----------------------------------------------------------------------------


def _follow(team: _Team, head: Head) -> list[Row]:
    cookies = [team.add_person(f"viewer{n}") for n in range(VIEWERS // PER_PERSON)]
    port = int(team.url.rpartition(":")[2])
    page = team.find_last_page(LONG)
    crowd = _Crowd(
        port,
        [
            f"GET /threads/{LONG}/live?page={page} HTTP/1.1\r\nhost: localhost\r\n"
            f"cookie: {cookie}\r\n\r\n"
            for cookie in cookies
            for _ in range(PER_PERSON)
        ],
    )
    crowd.wait_for_all(b"data:")
    _wait_for_index(team, crowd)
    used, start = team.processor_s(), time.perf_counter()
    crowd.read_for(5.0)
    idle = (team.processor_s() - used) / (time.perf_counter() - start)
    seen, cost = [], []
    for number in range(NEWS):
        name = f"the {number}th name"
        line = encode_entry(Renamed(name))[1]
        data, after = encode_batch(head, "2026-11-21T09:00:00.000000Z", [line])
        used, start = team.processor_s(), time.perf_counter()
        team.push(LONG, data, Mark(head.seq, head.hash))
        crowd.wait_for_all(name.encode())
        seen.append(time.perf_counter() - start)
        cost.append(team.processor_s() - used)
        head = after
    crowd.close()
    floor = asyncio.run(_floor_s())
    first = statistics.median(seen)
    return [
        at_most(
            f"{VIEWERS} viewers of one thread have the page with a new record within",
            first,
            "s",
            1,
            f"{first / floor:.1f} times what an asyncio program takes to write as many short "
            "events to bare sockets",
        ),
        Row(
            "  CPU of the server per viewer and record",
            statistics.median(cost) / VIEWERS * 1e3,
            "ms",
            note="an event with what is new on the page",
        ),
        Row("  CPU of the server for each idle viewer", idle / VIEWERS * 1e6, "us/s"),
    ]


def _wait_for_index(team: _Team, crowd: _Crowd) -> None:
    """Until the server is quiet: the words of a thread that was pushed are indexed later."""
    used, limit = -1.0, time.monotonic() + 60
    while (now := team.processor_s()) - used > 0.02 and time.monotonic() < limit:
        used = now
        crowd.read_for(1.0)


class _Crowd:
    """Streams of events that are read at once."""

    def __init__(self, port: int, requests: list[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in requests]
        for one, request in zip(self._sockets, requests, strict=True):
            one.sendall(request.encode())
            self._selector.register(one, selectors.EVENT_READ)

    def wait_for_all(self, words: bytes) -> None:
        """Until each has had these words."""
        waiting = dict.fromkeys(self._sockets, b"")
        while waiting:
            for key, _ in self._selector.select(60):
                one = key.fileobj
                assert isinstance(one, socket.socket)
                data = one.recv(65536)
                assert data, "a stream has ended"
                if one in waiting:
                    waiting[one] += data
                    if words in waiting[one]:
                        del waiting[one]

    def read_for(self, seconds: float) -> None:
        """Take what comes meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.recv(65536)

    def close(self) -> None:
        """Hang up."""
        self._selector.close()
        for one in self._sockets:
            one.close()


async def _floor_s() -> float:
    """How long an asyncio program takes to write as many events to as many sockets."""
    writers: list[asyncio.StreamWriter] = []
    is_full = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if len(writers) == VIEWERS:
            is_full.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=VIEWERS)
    port = server.sockets[0].getsockname()[1]
    crowd = await asyncio.to_thread(_Crowd, port, [""] * VIEWERS)
    await is_full.wait()
    start = time.perf_counter()
    reading = asyncio.create_task(asyncio.to_thread(crowd.wait_for_all, b"data:"))
    for writer in writers:
        writer.write(b'event: state\ndata: {"version":7505,"text":""}\n\n')
    await reading
    took = time.perf_counter() - start
    crowd.close()
    server.close()
    return took
