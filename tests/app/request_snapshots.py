"""What a model is sent first, as text for people; `make fmt` writes it to first_requests/."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from app.one_user import SPEAKERS, Speaker, answer_in_its_format, user_at_repository
from models.loopback import Loopback, Seen
from treadle import app
from treadle.app.sessions.approval_modes import MODES
from treadle.config.settings import ApprovalMode

FOLDER: Final = Path(__file__).parent / "first_requests"
PROMPT: Final = "The shuttle sticks. Find out why, and mend it."
LONG: Final = 80
"""Characters from which on a text stands below, as it is."""
OF_THE_MACHINE: Final = {
    r"(?<=- Date: )\S+": "2026-01-31",
    r"(?<=- Platform: )[^;]+": "Linux 6.1, x86_64",
    r"(?<=- Folder: ).+": "/home/ada/loom",
    r"(?<=^treadle-)[0-9a-f]{32}$": "KEY-OF-THE-THREAD",
}


async def ask_all_first(top: Path) -> list[tuple[Speaker, ApprovalMode, Seen]]:
    """The first request of each speaker's new thread, in each mode, somebody at the terminal."""
    cases = [(speaker, mode) for speaker in SPEAKERS for mode in MODES]
    async with Loopback(lambda seen: answer_in_its_format(seen, "It is mended.")) as server:
        with user_at_repository(top, server) as folder:
            for speaker, mode in cases:
                setup = app.make_setup(
                    app.open_store(),
                    app.RunChoice(model=speaker.model, mode=mode),
                    app.ThreadTarget(str(folder)),
                    app.MemoryHost().host,
                )
                result = await app.run_turn(setup, app.TurnRequest(PROMPT), lambda _: None)
                assert result.turn.answer == "It is mended.", result.turn.error
    return [(*case, seen) for case, seen in zip(cases, server.requests, strict=True)]


def list_snapshots() -> Iterator[tuple[Path, str]]:
    """Every file with its text: one for each mode, and the tools, which all modes have alike."""
    with TemporaryDirectory() as top:
        asked = asyncio.run(ask_all_first(Path(top)))
    tools: dict[Path, set[str]] = {}
    for speaker, mode, seen in asked:
        folder = FOLDER / f"{speaker.wire_format}-{speaker.family}"
        body = seen.json
        told = format_value(f"The tools of {speaker.name}, in all modes", body.pop("tools"))
        tools.setdefault(folder / "tools.txt", set()).add(told)
        head = f"The first request of {speaker.name}, mode {mode}\n{seen.method} {seen.path}"
        yield folder / f"{mode}.txt", format_value(head, body)
    for path, texts in tools.items():
        (text,) = texts
        yield path, text


def format_value(head: str, value: Any) -> str:
    """A JSON value, its long texts below it as they are."""
    texts: list[str] = []

    def cut_out(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: cut_out(one) for name, one in part.items()}
        if isinstance(part, list):
            return [cut_out(one) for one in part]
        if not isinstance(part, str):
            return part
        for pattern, stand_in in OF_THE_MACHINE.items():
            part = re.sub(pattern, stand_in, part)
        if len(part) <= LONG and "\n" not in part:
            return part
        texts.append(part)
        return f"<text {len(texts)}>"

    shape = json.dumps(cut_out(value), indent=1, ensure_ascii=False)
    tokens = len("".join((re.sub(r"\s+", " ", shape), *texts))) // 4
    below = (f"---- text {number}\n{text}\n" for number, text in enumerate(texts, 1))
    return "\n".join((f"{head}\nabout {tokens:,} tokens\n", shape, "", *below))


if __name__ == "__main__":
    for path, text in list_snapshots():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        sys.stdout.write(f"{path.relative_to(FOLDER.parent)}\n")
