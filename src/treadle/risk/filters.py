"""What filters of jq and yq reach besides their input. Pure."""

from __future__ import annotations

import re
from typing import Final

FILTERS: Final = frozenset({"jq", "gojq", "jaq", "yq"})
_FIELD: Final = r"(?<![\w$])(?<!(?<!\.)\.)"
"""Not the name of a field: `.env` is one, `..env` is none."""
_ENVIRONMENT: Final = re.compile(
    _FIELD + r"(str|subst)?env(subst)?\b|\$\s*(__prog\w*|ENV)\b|\bENV\b"
)
_STRING: Final = re.compile('"[^"]*"')
_FILES: Final = re.compile(
    _FIELD + r"(include|import|modulemeta|input_filename|get_search_list|load\w*|system|exec)\b"
)


def shows_environment(text: str) -> bool:
    """Whether a filter can print variables of the environment."""
    is_simple = "\\" not in text and "#" not in text  # or a quote may be none
    return _ENVIRONMENT.search(_STRING.sub('""', text) if is_simple else text) is not None


def reads_more(text: str) -> bool:
    """Whether a filter can read more than its input: the environment, modules, names of files."""
    return shows_environment(text) or _FILES.search(text) is not None
