"""The fields of a form, as browsers send those of pages. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from treadle.pages.page_refusal import PageRefusal

FORM_TYPE: Final = "application/x-www-form-urlencoded"
FIELDS_MAX: Final = 50


def check_form_type(content_type: str) -> None:
    """Raise `PageRefusal` if a body of this type is no form."""
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise PageRefusal(415, "That is no form", "Nothing was done.")


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of a form; of one that stands there twice the first.

    Raises:
        PageRefusal: it cannot be read, or holds what no page sends.
    """
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except (UnicodeError, ValueError):
        raise PageRefusal(400, "That form cannot be read", "Nothing was done.") from None
    if any("\0" in part for pair in pairs for part in pair):
        raise PageRefusal(400, "That form cannot be read", "Nothing was done.")
    return dict(reversed(pairs))
