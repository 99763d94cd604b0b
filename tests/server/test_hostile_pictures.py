"""Pictures that are bombs, something else besides, or none: what is given of them, and in Chromium.

The server unpacks no picture. It reads the structure of the bytes, gives what is one of four kinds
by that kind's name, and nothing of what is not.
"""

from __future__ import annotations

import struct
import zlib
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.samples import CONFIG, answer
from media_samples import GIF, JPEG, PDF, WEBP, chunk, png, webp
from server.databases import Templates as Templates
from server.planting import THREAD, plant_records
from server.running import Reply
from server.test_pages_in_browser import MARK, Team
from server.test_pages_in_browser import browser as browser
from server.test_pages_in_browser import team as team
from thread.journals import HEADER
from treadle.core.events import UserInput
from treadle.core.media import IMAGE_SIZE_MAX
from treadle.core.messages import Attachment, BlobRef, Message
from treadle.pages.pictures import make_picture_links
from treadle.server.data import schema
from treadle.thread.facts import Configured

SCRIPT: Final = MARK.encode()
HTML: Final = b"<!doctype html><script>parent." + SCRIPT + b";" + SCRIPT + b"</script>"
SVG: Final = b"<svg xmlns='http://www.w3.org/2000/svg' onload=\"" + SCRIPT + b'"/>'
PNG_MARK: Final = b"\x89PNG\r\n\x1a\n"
PNG, JPG, GIF_TYPE, WEBP_TYPE = "image/png", "image/jpeg", "image/gif", "image/webp"


class Trial(Struct, frozen=True):
    """Bytes, the type that somebody says they have, and the one they are given with."""

    data: bytes
    said: str
    given: str = ""


def make_gif(width: int, height: int, frame: tuple[int, int, int, int], *more: bytes) -> bytes:
    """A GIF of one frame in a place of its own."""
    head = b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + bytes(6)
    place = b"," + struct.pack("<4H", *frame) + b"\0\2\2\x44\1\0"
    return head + b"".join(more) + place + b";"


def make_png_head(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))


JS_COMMENT: Final = b"!\xfe" + bytes((len(SCRIPT) + 6,)) + b"*/=1;" + SCRIPT + b";\0"
ROWS: Final = zlib.compress(b"".join(b"\0" + bytes(8000) for _ in range(8000)), 9)
TRIALS: Final = {
    # what is a picture
    "plain png": Trial(png(), PNG, PNG),
    "plain gif": Trial(GIF, GIF_TYPE, GIF_TYPE),
    "plain jpeg": Trial(JPEG, JPG, JPG),
    "plain webp": Trial(WEBP, WEBP_TYPE, WEBP_TYPE),
    # bombs
    "png of the largest size": Trial(
        PNG_MARK + make_png_head(8000, 8000) + chunk(b"IDAT", ROWS) + chunk(b"IEND", b""), PNG, PNG
    ),
    "png of 65000": Trial(png(65_000, 65_000), PNG),
    "png of 2 billion": Trial(png(2**31 - 1, 2**31 - 1), PNG),
    "png of no width": Trial(png(0, 5), PNG),
    "png of a thousand frames": Trial(
        png(3, 2, chunk(b"acTL", struct.pack(">II", 1000, 0)), *[chunk(b"fdAT", bytes(8))] * 1000),
        PNG,
    ),
    "png with a name that unpacks to much": Trial(
        png(3, 2, chunk(b"zTXt", b"x\0\0" + zlib.compress(bytes(10**8), 9))), PNG, PNG
    ),
    "gif of 65535": Trial(make_gif(65535, 65535, (0, 0, 1, 1)), GIF_TYPE),
    "gif with a frame of 65535": Trial(make_gif(1, 1, (0, 0, 65535, 65535)), GIF_TYPE),
    "gif with a frame far away": Trial(make_gif(1, 1, (65535, 65535, 1, 1)), GIF_TYPE),
    "gif of many frames": Trial(GIF[:-1] + GIF[19:-1] * 10_000 + b";", GIF_TYPE),
    "webp of 16383": Trial(
        webp(b"VP8L", b"\x2f" + struct.pack("<I", 0x3FFF | 0x3FFF << 14) + bytes(10)), WEBP_TYPE
    ),
    "webp canvas of 2**24": Trial(webp(b"VP8X", bytes(4) + b"\xff" * 6), WEBP_TYPE),
    "webp that moves": Trial(webp(b"VP8X", b"\2\0\0\0\7\0\0\5\0\0"), WEBP_TYPE),
    "svg that unpacks to much": Trial(
        b"<!DOCTYPE x [<!ENTITY a '" + b"&b;" * 999 + b"'>]>" + SVG, "image/svg+xml"
    ),
    "png of many bytes": Trial(png() + bytes(IMAGE_SIZE_MAX), PNG),
    # two things at once: a picture is given as one
    "png and html": Trial(png() + HTML, PNG, PNG),
    "png with html in it": Trial(png(3, 2, chunk(b"tEXt", HTML)), PNG, PNG),
    "gif and script": Trial(make_gif(0x2F, 0x2A, (0, 0, 1, 1), JS_COMMENT), GIF_TYPE, GIF_TYPE),
    "gif and html": Trial(GIF + HTML, GIF_TYPE, GIF_TYPE),
    "jpeg and html": Trial(
        JPEG[:2] + b"\xff\xfe" + struct.pack(">H", len(HTML) + 2) + HTML + JPEG[2:], JPG, JPG
    ),
    "jpeg and pdf": Trial(JPEG + PDF, JPG, JPG),
    "webp and html": Trial(WEBP + HTML, WEBP_TYPE, WEBP_TYPE),
    # something else
    "svg": Trial(SVG, "image/svg+xml"),
    "svg said to be a png": Trial(SVG + b" ", PNG),
    "html said to be a png": Trial(HTML, PNG),
    "html said to be html": Trial(HTML + b" ", "text/html"),
    "html behind the mark of a png": Trial(PNG_MARK + HTML, PNG),
    "html behind the head of a png": Trial(PNG_MARK + make_png_head(3, 2) + HTML, PNG),
    "script behind the mark of a gif": Trial(b"GIF89a=1;" + SCRIPT, GIF_TYPE),
    "html behind the mark of a webp": Trial(b"RIFF\xff\0\0\0WEBP" + HTML, WEBP_TYPE),
    "pdf said to be a png": Trial(PDF, PNG),
    "nothing": Trial(b"", PNG),
    # said wrongly
    "png said to be a jpeg": Trial(png(4, 4), JPG, PNG),
    "gif said to be a webp": Trial(make_gif(5, 5, (0, 0, 1, 1)), WEBP_TYPE, GIF_TYPE),
    "png said to be html": Trial(png(5, 5), "text/html"),
    "png with a type that goes on": Trial(png(6, 6), "image/png\r\nx: y"),
    # cut
    "cut png": Trial(png()[:-5], PNG),
    "cut gif": Trial(GIF[:-1], GIF_TYPE),
    "cut jpeg": Trial(JPEG[:-2], JPG),
    "cut webp": Trial(WEBP[:-4], WEBP_TYPE),
}


def plant_pictures(team: Team) -> dict[str, str]:
    """A thread that shows each; the paths of all."""
    shown, kept = [], {}
    for name, trial in TRIALS.items():
        digest = sha256(trial.data).hexdigest()
        ref = BlobRef(digest, len(trial.data))
        shown.append(Attachment("image", trial.said, f'{name}"><script>{MARK}', ref, 3, 2))
        kept[digest] = trial.data
    assert len(kept) == len(TRIALS)
    prompt = replace(Message.user("look"), attachments=tuple(shown))
    entries = ((HEADER, Configured(CONFIG, "scripted")), (UserInput(prompt),), (answer("seen"),))
    with team.people.database.write() as db:
        plant_records(db, team.people["owner"], entries, visibility="public")
        for digest, data in kept.items():
            row = {"thread_id": THREAD, "sha256": digest, "size": len(data), "body": data}
            db.execute(schema.blobs.insert().values(**row))
    return {
        name: f"/threads/{THREAD}/pictures/{sha256(trial.data).hexdigest()}"
        for name, trial in TRIALS.items()
    }


def find_faults(trial: Trial, reply: Reply) -> list[str]:
    """What is wrong with an answer about a picture."""
    headers, policy = reply.headers, reply.headers["content-security-policy"]
    found = [
        None if headers["x-content-type-options"] == "nosniff" else "may be guessed",
        None if "frame-ancestors 'none'" in policy else "may be framed",
    ]
    if trial.given:
        found += [
            None if (reply.status, reply.body == trial.data) == (200, True) else "is not given",
            None if headers["content-type"] == trial.given else headers["content-type"],
            None if policy.startswith("default-src 'none';") else "may load",
            None if policy.endswith("; sandbox") else "may run",
        ]
    else:
        found += [
            None if reply.status == 404 else f"is given with {reply.status}",
            "stands in the refusal" if trial.data and trial.data in reply.body else None,
        ]
    return [one for one in found if one]


def test_pictures_are_given_by_what_they_are_and_bombs_and_others_are_not(team: Team) -> None:
    paths = plant_pictures(team)
    missed = {}
    for name, trial in TRIALS.items():
        faults = find_faults(trial, team.server.ask("GET", paths[name], accept="text/html"))
        digest = paths[name].rpartition("/")[2]
        raw = team.server.ask("GET", f"/api/threads/{THREAD}/blobs/{digest}")
        told = raw.headers["content-type"], raw.headers["x-content-type-options"]
        if raw.status != 200 or told != ("application/octet-stream", "nosniff"):
            faults.append(f"raw: {raw.status} {told}")
        links = make_picture_links({digest: trial.data})
        # What somebody says of it is asked before its bytes are.
        is_asked = trial.said.startswith("image/") and trial.said.partition("/")[2].isalpha()
        if is_asked and [*links.values()] != (
            [links[digest]] if links.get(digest, "").startswith(f"data:{trial.given};") else []
        ):
            faults.append("in an export")
        if faults:
            missed[name] = faults
    assert missed == {}


def test_in_a_browser_no_picture_runs_and_all_that_are_given_are_drawn(team: Team) -> None:
    paths = plant_pictures(team)
    page = team.open("member", bypass_csp=True)  # of the page: what a hole in it could do
    page.goto(f"{team.server.url}/threads/{THREAD}%40owner")
    page.wait_for_load_state("networkidle")
    drawn = page.evaluate(
        """async (paths) => Object.fromEntries(await Promise.all(Object.entries(paths).map(
            ([name, path]) => new Promise(done => {
                const image = new Image();
                image.onload = () => done([name, image.naturalWidth > 0]);
                image.onerror = () => done([name, false]);
                image.src = path;
            }))))""",
        paths,
    )
    assert [name for name, is_drawn in drawn.items() if is_drawn and not TRIALS[name].given] == []
    ours = [name for name in drawn if name.startswith(("png of the", "plain", "png and"))]
    assert all(drawn[name] for name in ours if "jpeg" not in name and "webp" not in name), drawn
    page.evaluate(
        """async (paths) => {
            for (const path of paths) for (const kind of ["script", "iframe", "embed", "object"]) {
                const one = document.createElement(kind);
                one[kind === "object" ? "data" : "src"] = path;
                const over = new Promise(done => { one.onload = one.onerror = done; });
                document.body.append(one);
                await over;
                one.remove();
            }
        }""",
        list(paths.values()),
    )
    titles = {"in elements": page.title()}
    single = team.open("member")
    for name, path in paths.items():
        single.goto(team.server.url + path)
        titles[name] = single.title()
    assert [name for name, title in titles.items() if title == "taken"] == []
    assert [one for one in team.wrong if "taken" in one] == []
