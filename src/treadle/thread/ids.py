"""Thread ids: `T-` and a UUID version 7. Ids become file names, so nothing else passes."""

from __future__ import annotations

import re
from typing import Final

PREFIX: Final = "T-"

_ID: Final = re.compile(
    r"T-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.ASCII
)


def is_thread_id(text: str) -> bool:
    """Whether the text is a whole, well-formed thread id."""
    return _ID.match(text) is not None
