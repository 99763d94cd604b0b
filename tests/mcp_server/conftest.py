"""A machine with threads of a real agent, in a repository of its own."""

from __future__ import annotations

from cli.conftest import environment as environment
from cli.conftest import fresh_treadle as fresh_treadle
from cli.conftest import repository as repository
from cli.conftest import script as script
from cli.conftest import treadle as treadle
