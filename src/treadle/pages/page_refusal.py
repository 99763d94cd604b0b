"""Why there is no page."""

from __future__ import annotations


class PageRefusal(Exception):  # noqa: N818  it is an answer, not a fault
    """Why there is no page, or why nothing was done, for its reader."""

    def __init__(self, status: int, title: str, text: str, hint: str = "") -> None:
        super().__init__(title)
        self.status, self.title, self.text, self.hint = status, title, text, hint
