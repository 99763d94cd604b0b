"""Writing whole files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from treadle.core.messages import SeenFile
from treadle.core.tools import RewrittenFile, ToolErrorKind, ToolExecutionOutcome
from treadle.tools.line_digests import digest_lines


async def test_the_content_is_written_byte_for_byte(call: Any, folder: Path) -> None:
    content = "\ufefföne\r\ntwo\n\x00\u2028"
    outcome = await call("write_file", path="deep/down/f.txt", content=content)
    output = f"wrote deep/down/f.txt, {len(content.encode())} bytes"
    digest = hashlib.sha256(content.encode()).hexdigest()
    rewritten = (RewrittenFile("deep/down/f.txt", "absent", digest),)
    seen = (SeenFile("deep/down/f.txt", digest, lines=digest_lines(content.encode())),)
    assert outcome == ToolExecutionOutcome.Success(
        "call-0", output, ("deep/down/f.txt",), rewritten=rewritten, seen=seen
    )
    assert (folder / "deep/down/f.txt").read_bytes() == content.encode()


async def test_the_answer_says_what_was_replaced(succeed: Any, folder: Path) -> None:
    (folder / "f").write_text("something")
    assert await succeed("write_file", path="f", content="") == "wrote f, 0 bytes (was 9)"
    assert (folder / "f").read_bytes() == b""


async def test_a_folder_is_not_replaced(fail: Any, folder: Path) -> None:
    (folder / "sub").mkdir()
    expected = (ToolErrorKind.FAILED, "sub: it is a folder, not a file")
    assert await fail("write_file", path="sub", content="x") == expected


async def test_half_a_surrogate_pair_is_refused(fail: Any, folder: Path) -> None:
    kind, _ = await fail("write_file", path="f", content="\ud800.")
    assert kind is ToolErrorKind.INVALID_ARGUMENTS
    assert not (folder / "f").exists()
