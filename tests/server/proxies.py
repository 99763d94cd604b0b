"""A proxy before a database of a test: which one, says whoever opens it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar


class Proxy(Protocol):
    """Takes connections at a port of loopback."""

    port: int

    def close(self) -> None: ...


Kind = TypeVar("Kind", bound=Proxy)


@contextmanager
def open_before(url: str, make: Callable[[str], Kind]) -> Iterator[tuple[Kind, str]]:
    """A proxy before a database, made for the path of its socket, and the URL through it."""
    found = re.fullmatch(r"postgresql://postgres@/(.+)\?host=(.+)", url)
    assert found
    proxy = make(str(Path(found[2]) / ".s.PGSQL.5432"))
    try:
        yield proxy, f"postgresql://postgres@127.0.0.1:{proxy.port}/{found[1]}"
    finally:
        proxy.close()
