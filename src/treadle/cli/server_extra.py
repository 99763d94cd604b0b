"""Whether the libraries of the team server are there; the commands that need them ask first."""

from __future__ import annotations

from typing import Final

LIBRARIES: Final = ("sqlalchemy", "alembic", "starlette", "uvicorn", "httptools")
"""Those of the extra `server` without which nothing of it works."""


def require_server_extra() -> None:
    """Go on only if the team server is installed.

    Raises:
        NotConfiguredError: it is not.
    """
    from importlib.util import find_spec

    from treadle.errors import NotConfiguredError

    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise NotConfiguredError(
            f"the team server is not installed: {missing[0]} is missing",
            hint='install it in a clone of Treadle: pip install ".[server]"',
        )
