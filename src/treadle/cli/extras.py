"""Whether the libraries of an extra are there; the commands that need them ask first."""

from __future__ import annotations

from typing import Final

LIBRARIES: Final = {
    "server": ("sqlalchemy", "alembic", "starlette", "uvicorn", "httptools"),
    "mcp": ("mcp",),
    "web": ("starlette", "uvicorn"),
    "remote": ("cryptography",),
}
"""Those of each extra without which nothing of it works."""

_NAMES: Final = {
    "server": "the team server",
    "mcp": "the Model Context Protocol",
    "web": "what serves pages",
    "remote": "what signs answers from another device",
}


def require_extra(extra: str) -> None:
    """Go on only if an extra is installed.

    Raises:
        NotConfiguredError: it is not.
    """
    from importlib.util import find_spec

    from treadle.errors import NotConfiguredError

    missing = [name for name in LIBRARIES[extra] if find_spec(name) is None]
    if missing:
        raise NotConfiguredError(
            f"{_NAMES[extra]} is not installed: {missing[0]} is missing",
            hint=f'install it in a clone of Treadle: pip install ".[{extra}]"',
        )
