"""Pictures in prompts, on the command line: recorded, exported, imported, forked, synced, sent."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.conftest import Run
from cli.teams import Machine, Team
from media_samples import ANIMATED_GIF, PDF, png
from models.loopback import Loopback, stream
from models.speakers import anthropic

MODEL = '[[replies]]\ntext = "A loom."'
SEEING = """
[providers.near]
api = "anthropic-messages"
base_url = "{url}"
needs_key = false

[model_traits."near:*"]
context_tokens_max = 100_000
sees_images = {sees}
reads_pdf = false
"""


def shown(treadle: Run, thread: str, **where: str) -> list[list[str]]:
    """The names of what each message of a thread shows."""
    document = json.loads(treadle("show", thread, "--json", **where).stdout)
    messages: list[dict[str, Any]] = document["conversation"]["messages"]
    return [[each["name"] for each in one.get("attachments", ())] for one in messages]


def test_they_go_wherever_the_thread_goes(
    treadle: Run, script: Callable[[str], str], repository: Path, tmp_path: Path
) -> None:
    (repository / "shot.png").write_bytes(png())
    (repository / "paper.pdf").write_bytes(PDF)
    model = script(MODEL)
    done = treadle("-p", "see @shot.png", "-m", model)
    assert done.returncode == 0, done.stderr
    done = treadle("-c", "-p", "and @paper.pdf, @gone.png", "-m", model)
    assert "@gone.png stays text: file not found" in done.stderr
    (line,) = json.loads(treadle("list", "--json").stdout)
    thread, names = line["id"], [["shot.png"], [], ["paper.pdf"], []]
    assert shown(treadle, thread) == names
    blobs = [one for one in (tmp_path / "home/data/blobs").iterdir() if one.is_file()]
    assert {one.read_bytes() for one in blobs} == {png(), PDF}
    told = treadle("show", thread, TERM="xterm-kitty").stdout
    assert f"shot.png, image/png, 3x2, {len(png())} bytes" in told
    assert "\x1b" not in told, "nothing is drawn in a pipe"
    for form in ("markdown", "html"):
        assert "shown: shot.png" in treadle("export", thread, "--format", form).stdout
    treadle("fork", thread)
    fork = json.loads(treadle("list", "--json").stdout)[0]["id"]
    target, elsewhere = tmp_path / "fork.jsonl", {"TREADLE_HOME": str(tmp_path / "elsewhere")}
    done = treadle("export", fork, "--format", "jsonl", "-o", str(target))
    assert done.returncode == 0, done.stderr
    done = treadle("import", str(target), **elsewhere)
    assert "not in the file" not in done.stdout + done.stderr
    assert shown(treadle, fork, **elsewhere) == names
    assert treadle("verify", **elsewhere).returncode == 0
    assert {one.name for one in (tmp_path / "elsewhere/data/blobs").iterdir()} == {
        one.name for one in (tmp_path / "home/data/blobs").iterdir()
    }
    done = treadle("run", "say what @shot.png is", "-m", model)
    task = json.loads(treadle("list", "--json").stdout)[0]["id"]
    assert shown(treadle, task)[0] == ["shot.png"]


def test_another_machine_has_them_with_the_thread(
    team: Team, laptop: Machine, desktop: Machine
) -> None:
    token = team.token()
    laptop.login(team, token)
    (laptop.folder / "shot.png").write_bytes(png())
    thread = laptop.say("see @shot.png")
    laptop.ok("sync")
    desktop.login(team, token)
    desktop.ok("sync")
    assert desktop.journal(thread) == laptop.journal(thread)
    (blob,) = (one for one in (desktop.home / "data/blobs").iterdir() if one.is_file())
    assert blob.read_bytes() == png()


def test_a_model_sees_them_or_is_told_and_so_is_the_person(
    treadle: Run, repository: Path, tmp_path: Path
) -> None:
    (repository / "shot.png").write_bytes(png())
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)

    async def ask(*, sees: bool, arguments: tuple[str, ...]) -> tuple[Any, str]:
        async with Loopback(stream(anthropic("A loom."))) as server:
            config.write_text(SEEING.format(url=server.url, sees=str(sees).lower()))
            done = await asyncio.to_thread(treadle, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(server.requests[0].body)["messages"], done.stderr

    first = ("-p", "see @shot.png", "-m", "near:loom")
    sent, told = asyncio.run(ask(sees=True, arguments=first))
    assert [part["type"] for part in sent[0]["content"]] == ["image", "text"]
    assert "not shown" not in told
    again, told = asyncio.run(ask(sees=True, arguments=("-c", "-p", "sure?")))
    assert again[0]["content"][:1] == sent[0]["content"][:1], "the same bytes over resumes"
    blind, told = asyncio.run(ask(sees=False, arguments=("-c", "-p", "and now?")))
    assert (
        "[Not shown, this model does not see pictures: shot.png" in blind[0]["content"][0]["text"]
    )
    assert "the model is not shown shot.png: this model does not see pictures" in told


def test_a_picture_that_the_agent_reads_is_shown_to_it(
    treadle: Run, repository: Path, tmp_path: Path
) -> None:
    (repository / "shot.png").write_bytes(png())
    (repository / "loop.gif").write_bytes(ANIMATED_GIF)
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    calls = (("a", "read_file", {"path": "shot.png"}), ("b", "read_file", {"path": "loop.gif"}))

    async def ask() -> tuple[Any, str]:
        asked, answered = stream(anthropic(calls=calls)), stream(anthropic("A loom."))
        async with Loopback(asked, answered) as server:
            config.write_text(SEEING.format(url=server.url, sees="true"))
            done = await asyncio.to_thread(treadle, "-p", "look", "-m", "near:loom")
        assert (done.returncode, done.stdout) == (0, "A loom.\n"), done.stderr
        return json.loads(server.requests[1].body)["messages"], done.stderr

    sent, _ = asyncio.run(ask())
    first, second = sent[2]["content"]
    assert [part["type"] for part in first["content"]] == ["text", "image"]
    assert b64decode(first["content"][1]["source"]["data"]) == png()
    assert second["content"] == (
        "[not shown: the GIF is animated, and models see one picture; save one frame as PNG]"
    )
    (line,) = json.loads(treadle("list", "--json").stdout)
    assert shown(treadle, line["id"]) == [[], [], ["shot.png"], [], []]
    assert treadle("verify").returncode == 0
    journal = next((tmp_path / "home/data/threads").glob("*.jsonl")).read_text()
    assert "contents" not in journal, "bytes stand beside it"
