"""Whether a page is fit for all: axe-core, the width of the screen, everything unfolded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from playwright.sync_api import Page

AXE: Final = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"


def find_faults(page: Page, address: str) -> list[tuple[str, str]]:
    """What is wrong with the page at an address, at the size of this browser's window."""
    page.goto(address)
    for summary in page.query_selector_all("summary"):
        summary.click()
    found = []
    size = page.viewport_size
    assert size is not None
    if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
        found.append((address, "wider than the screen"))
    page.add_script_tag(path=str(AXE))
    told = page.evaluate("axe.run()")["violations"]
    return found + [(address, f"{one['id']}: {one['nodes'][0]['html']}") for one in told]
