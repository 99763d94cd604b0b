"""The pictures of the docs look the same in every browser: nothing in them hangs on blanks."""

from __future__ import annotations

import re
from html import unescape
from typing import Final
from xml.etree import ElementTree as ET

from wcwidth import wcswidth

from terminal.harness import Screen
from terminal.pictures import FOLDER, PAGE, SCENES, SIZES, make_page
from terminal.screen_picture import COLUMN, MARGIN, ROW, draw

TEXT: Final = "{http://www.w3.org/2000/svg}text"
PICTURES: Final = sorted(FOLDER.glob("*.svg"))


def find_faults(picture: str) -> list[str]:
    """Texts that a browser would squeeze, stretch or draw over one another."""
    faults = []
    ends: dict[float, float] = {}
    for one in ET.fromstring(picture).iter(TEXT):
        words, x, y = one.text or "", float(one.attrib["x"]), float(one.attrib["y"])
        width = float(one.attrib["textLength"])
        if words != " ".join(words.split(" ")).strip() or "  " in words:
            faults.append(f"blanks that browsers drop: {words!r}")
        if abs(width - wcswidth(words) * COLUMN) > 0.01:
            faults.append(f"not as wide as its columns: {words!r}")
        if abs((x - MARGIN) / COLUMN - round((x - MARGIN) / COLUMN)) > 0.01:
            faults.append(f"between two columns: {words!r}")
        if x < ends.get(y, 0.0) - 0.01:
            faults.append(f"over what stands before it: {words!r}")
        ends[y] = x + width
    return faults


def test_each_screen_is_there_in_each_width_and_ground_and_the_page_shows_it() -> None:
    wanted = {f"{name}-{width}-{ground}" for name in SCENES for width, ground in SIZES}
    assert {path.stem for path in PICTURES} == wanted
    assert len(SCENES) >= 12
    assert PAGE.read_text(encoding="utf-8") == make_page()


def test_no_picture_hangs_on_how_a_browser_treats_blanks() -> None:
    faults = {path.stem: find_faults(path.read_text(encoding="utf-8")) for path in PICTURES}
    assert {name: found for name, found in faults.items() if found} == {}


def test_each_word_of_a_screen_stands_in_its_column() -> None:
    shown = r"printf '  a  b c\033[1m   bold \033[0m織機  <&>\033[7m x \033[0m\n'; cat"
    with Screen(["sh", "-c", shown], columns=40, rows=3) as screen:
        screen.wait_for("<&>")
        picture = draw(screen)
    assert find_faults(picture) == []
    found = re.findall(r'<text x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)<', picture)
    told = [(round((float(x) - MARGIN) / COLUMN), unescape(words)) for x, _, words in found]
    assert told == [(2, "a"), (5, "b c"), (11, "bold"), (16, "織機"), (22, "<&>"), (26, "x")]
    assert {int(y) for _, y, _ in found} == {MARGIN + 13}
    assert ROW > 13
