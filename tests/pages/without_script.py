"""What a page lacks in a browser that runs no script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from playwright.sync_api import Page

_FIND: Final = """() => {
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const never = "option, script, style, template, svg title, svg desc";
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const holder = walker.currentNode.parentElement;
    if (!text || holder.closest(never)) continue;
    const box = document.createRange();
    box.selectNodeContents(walker.currentNode);
    const isSeen = holder.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!isSeen || (!holder.closest("textarea") && !box.getClientRects().length))
      wrong.push(`cannot be seen: ${text.slice(0, 80)}`);
  }
  for (const form of document.querySelectorAll("form")) {
    const button = form.querySelector("button:not([type=button]), input[type=submit]");
    if (!button || button.disabled || !button.checkVisibility())
      wrong.push(`no button sends ${form.action}`);
    if (!form.action.startsWith(location.origin)) wrong.push(`goes elsewhere: ${form.action}`);
  }
  for (const button of document.querySelectorAll("button"))
    if (!button.form || button.type === "button") wrong.push(`does nothing: ${button.outerHTML}`);
  for (const link of document.querySelectorAll("a"))
    if (!link.href || link.href.startsWith("javascript:"))
      wrong.push(`leads nowhere: ${link.outerHTML}`);
  if (/enable|needs? java|javascript|loading/i.test(document.body.innerText))
    wrong.push("asks for a script, or for patience");
  return wrong;
}"""


def find_unreadable(page: Page, words: str) -> list[str]:
    """What cannot be read or sent on the page that is shown, with all that folds unfolded.

    Args:
        page: of a browser without scripts.
        words: what it is there to say.
    """
    for summary in page.query_selector_all("summary"):
        if summary.is_visible() and summary.evaluate("one => !one.parentElement.open"):
            summary.click()
    found: list[str] = page.evaluate(_FIND)
    if words not in page.inner_text("body"):
        found.append(f"says {page.inner_text('body')!r}, and not {words!r}")
    return found


def list_unopened(routes: Iterable[str], opened: Iterable[str]) -> list[str]:
    """The routes that none of these paths is one of."""
    places = [one.partition("?")[0] for one in opened]
    patterns = {
        one: re.sub(r"\{\w+\}", "[^/]+", one).replace("{call_id:path}", ".+") for one in routes
    }
    return [
        route
        for route, pattern in patterns.items()
        if not any(re.fullmatch(pattern, place) for place in places)
    ]
