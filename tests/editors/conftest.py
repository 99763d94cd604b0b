"""Real processes of `treadle acp`, in a repository of their own, and a provider on the loopback."""

from __future__ import annotations

from cli.conftest import environment as environment
from cli.conftest import repository as repository
