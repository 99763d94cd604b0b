"""Files in the prompts of a chat: named with `@`, or dropped into the terminal."""

from __future__ import annotations

import json
from pathlib import Path

from media_samples import png
from terminal.talks import Start, told
from terminal.test_chat_commands import is_at_rest


def test_what_is_named_and_what_is_dropped_goes_along(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    (repository / "shot.png").write_bytes(png())
    dropped = repository.parent / "a picture.png"
    dropped.write_bytes(png(4, 4))
    talk = start("--approval-mode", "plan", columns=140)
    talk.say(f"see @shot.png, '{dropped}' and @nobody", "@nobody stays text: file not found")
    talk.wait_for("Hello there.")
    talk.wait_for(is_at_rest)
    assert f"· shot.png, image/png, 3x2, {len(png())} bytes" in talk.text
    assert f"· {dropped}, image/png, 4x4," in talk.text
    assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    shown = json.loads(told(environment, "show", line["id"], "--json", cwd=repository))
    first = shown["conversation"]["messages"][0]
    names = [(one["name"], one["width"]) for one in first["attachments"]]
    assert names == [("shot.png", 3), (str(dropped), 4)]
