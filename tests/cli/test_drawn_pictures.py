"""Pictures of a thread in a terminal, which is asked once whether it draws sixel."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from app.sixel_decoder import decode_sixel
from cli.conftest import Run
from media_samples import png
from terminal.harness import TREADLE, Screen

PATIENT = {"treadle.cli.device_attributes.WAIT_S": 60.0}


def test_a_terminal_is_asked_once_and_drawn_pictures_if_it_says_so(
    treadle: Run, script: Callable[[str], str], repository: Path, environment: Mapping[str, str]
) -> None:
    (repository / "shot.png").write_bytes(png())
    (repository / "other.png").write_bytes(png(4, 4))
    model = script('[[replies]]\ntext = "A loom."')
    assert treadle("-p", "see @shot.png and @other.png", "-m", model).returncode == 0
    (line,) = json.loads(treadle("list", "--json").stdout)

    def show(answer: str, constants: Mapping[str, float] | None = None) -> str:
        command = (*TREADLE, "show", line["id"])
        with Screen(command, cwd=repository, env=environment, constants=constants) as screen:
            screen.wait_for(lambda one: b"\x1b[c" in one.raw)
            assert not (constants and screen.is_cooked), "an answer is not printed"
            screen.type(answer)
            assert screen.wait_for_end() == 0
            assert screen.is_cooked
            told = screen.raw.decode().replace("\r\n", "\n")
        assert told.count("\x1b[c") == 1
        named = re.findall(r"· (\w+\.png), image/png", told)
        assert named == ["shot.png", "other.png"], "in any case"
        assert "A loom." in told
        return told

    told = show("\x1b[?62;4;22c", PATIENT)
    found = [decode_sixel(f"{one}\n") for one in re.findall(r"\x1bP.*?\x1b\\", told, re.DOTALL)]
    assert found == [[[(0, 0, 0)] * 3] * 2, [[(0, 0, 0)] * 4] * 4]
    assert "\x1bP" not in show("\x1b[?62;22;44c", PATIENT)
    assert "\x1bP" not in show(""), "it says nothing, and is waited for no longer than is said"
