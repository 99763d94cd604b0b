"""What the usual changes touch, shown by one finished change of each kind."""

from __future__ import annotations

import re
from typing import Final

from house.source import ROOT

TASKS: Final = {
    "a tool (list_files)": r"\blist_files\b|\bListFiles\b",
    "a provider (cerebras)": r"\bcerebras\b|\bCEREBRAS\b",
    "a machine event (ToolUncertain)": r"\bToolUncertain\b|\btool_uncertain\b",
    "a slash command (/rename)": r"/rename\b",
    "a server column (is_pinned)": r"\bis_pinned\b",
    "a CLI command (treadle pin)": r"\bpin_command\b|treadle pin\b",
}
"""A change of each kind, and what a file says that knows of it."""

_SUFFIXES: Final = frozenset({".py", ".toml", ".md", ".txt", ".mmd", ".json"})


def files_of_tasks() -> dict[str, list[str]]:
    """For each change, the files of the program and its docs that know of it; no tests."""
    found: dict[str, list[str]] = {name: [] for name in TASKS}
    for place in ("src", "docs", "README.md"):
        root = ROOT / place
        for path in sorted(root.rglob("*") if root.is_dir() else [root]):
            if path.suffix not in _SUFFIXES:
                continue
            text = path.read_text(encoding="utf-8")
            for name, pattern in TASKS.items():
                if re.search(pattern, text):
                    found[name].append(path.relative_to(ROOT).as_posix())
    return found
