"""Files that a prompt names with `@`, on the command line: read, recorded, told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.conftest import Run
from treadle.thread.typed_words import MENTIONS_HEAD

CODE = f'{MENTIONS_HEAD}\n["calc.py", lines 1 to 1]\ndef add(a, b):\n'
MORE = "[the file goes on after line 1]"


def read_messages(treadle: Run, thread: str) -> list[dict[str, Any]]:
    """The messages of a thread."""
    shown = json.loads(treadle("show", thread, "--json").stdout)
    found: list[dict[str, Any]] = shown["conversation"]["messages"]
    return found


def test_a_prompt_a_later_one_and_a_task_bring_files_along(
    treadle: Run, script: Callable[[str], str], repository: Path
) -> None:
    model = script('[[replies]]\ntext = "Hi."')
    (repository / ".env").write_text("TOKEN=hunter2-hunter2\n")
    done = treadle("-p", "why @calc.py:1? @nobody", "-m", model, stdin="not @calc.py here")
    assert done.returncode == 0, done.stderr
    assert "@nobody stays text: file not found: nobody" in done.stderr
    (line,) = json.loads(treadle("list", "--json").stdout)
    (seen,) = read_messages(treadle, line["id"])[0]["seen"]
    assert (seen["name"], seen["first_line"], seen["last_line"]) == ("calc.py", 1, 1)
    done = treadle("-c", "-p", "and @.env? @nobody", "-m", model)
    assert "@nobody stays text" in done.stderr
    (line,) = json.loads(treadle("list", "--json").stdout)
    assert line["title"] == "why @calc.py:1? @nobody"
    prompts = [one for one in read_messages(treadle, line["id"]) if one["role"] == "user"]
    first, second = (one["content"] for one in prompts)
    assert first == f"why @calc.py:1? @nobody\n\nnot @calc.py here{CODE}{MORE}"
    assert second.endswith('\n[".env"]\nTOKEN=[REDACTED:env]\n')
    assert "lines" in seen
    assert "lines" not in prompts[1]["seen"][0], "a short secret could be guessed by it"
    done = treadle("run", "fix @calc.py:1", "-m", model)
    assert done.returncode == 0, done.stderr
    task = next(one for one in json.loads(treadle("list", "--json").stdout) if one != line)
    given = read_messages(treadle, task["id"])[0]
    assert given["content"] == f"fix @calc.py:1{CODE}{MORE}"
    assert given["seen"] == [seen]
