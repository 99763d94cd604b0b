"""What `treadle --help` says on one screen, and the groups in which all commands are listed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

HELP: Final = """\
treadle [OPTIONS] [PROMPT]       a coding agent whose every step is durable

  treadle                           talk with the agent in this folder
  treadle "fix the failing test"    the same, beginning with this prompt
  git diff | treadle -p "review"    one turn; the answer goes to stdout

Work     run       a task, to its end         resume   go on with a thread
         approve   answer what waits          rewind   go back, files too
         diff      what the agent changed     demo     30 seconds, no keys
Threads  list      those on this machine      search   in all that was said
         show      one thread                 blame    the prompt behind a line
         fork      go on beside it            export   Markdown, HTML, JSON
Share    sync      with a server of yours     share    who may see a thread
Set up   login     a model, or a server       models   who can answer here
         config    show and change settings   doctor   is everything well?

-c  go on with the last thread here    -m MODEL     provider:model, or an alias
-r  [ID] with this one, or pick one    -C FOLDER    work there instead of here
-q  say nothing but the answer         --approval-mode plan|ask|auto-edit|auto

treadle COMMAND --help says more, treadle help --all has all there is
"""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Work": (
            *("run", "resume", "approve", "rewind", "diff", "compact", "watch", "worker"),
            *("fleet", "demo"),
        ),
        "Threads": (
            *("list", "search", "show", "web", "blame", "log", "fork", "export", "import"),
            *("rename", "tag", "pin", "note", "trace", "replay"),
            *("usage", "eval", "trash", "restore", "du", "gc", "scrub", "verify"),
        ),
        "Share": (
            *("pr", "sync", "remote", "share", "unshare", "private", "webhooks", "serve", "admin"),
        ),
        "Set up": (
            *("login", "logout", "config", "models", "doctor", "acp", "mcp", "completion"),
            *("graph", "help"),
        ),
    }
)
"""Every command, in the order in which `treadle help --all` lists them."""
