"""The store of the example, as another program would import it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent / "examples"))

from sqlite_store import SqliteJournal, SqliteStore

__all__ = ["SqliteJournal", "SqliteStore"]
