"""Which remote people mean, and one name for all the ways to write its address. Pure."""

from __future__ import annotations

import re
from typing import Final


def choose_remote(listing: str) -> str | None:
    """The remote people mean, from `git remote -v`: `origin`, else `upstream`, else the first."""
    urls: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, rest = line.partition("\t")
        url, fetches, _ = rest.rpartition(" (fetch)")
        if fetches:
            urls.setdefault(name, url)
    for name in ("origin", "upstream", *urls):
        if name in urls:
            return normalise_remote(urls[name])
    return None


_URL: Final = re.compile(r"(?i:https?|ssh|git|git\+ssh|ssh\+git)://([^/?#]*)/([^?#]*)(?:[?#].*)?")
_SCP: Final = re.compile(r"([^/:\[]+|\[[^/\]]+\]):(?!:)([^?#]*)")
_HOST: Final = re.compile(r"([a-z0-9_][a-z0-9_.-]*|\[[0-9a-f:.]+\])(?::\d*)?")


def normalise_remote(url: str) -> str | None:
    """A remote's URL as `host/path`: without credentials, and the same for all ways to reach it.

    Takes https, http, ssh and git URLs and the scp form (`git@host:path`). The host is lower-cased,
    the path keeps its case; port, slashes at the ends and one `.git` are dropped. `None` for
    paths on this machine, `file://`, Windows drives and what is not understood.
    """
    url = url.strip()
    is_url = "://" in url
    found = _URL.fullmatch(url) if is_url else _SCP.fullmatch(url)
    if found is None or not url.isprintable() or " " in url:
        return None
    authority, path = found.groups()
    if authority.startswith("[") and authority.count(":") == 1:
        authority = authority[1:-1]  # [git@host:2222]:path
    host = _HOST.fullmatch(authority.rpartition("@")[2].lower())
    path = path.strip("/").removesuffix(".git").rstrip("/")
    is_drive = not is_url and len(authority) == 1
    # An @ behind the host may end a password that holds a slash, a colon, a ? or a #.
    if host is None or is_drive or not path or "@" in url[found.end(1) :]:
        return None
    return f"{host[1]}/{path}"
