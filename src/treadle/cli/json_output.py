"""JSON on standard output, which may be a terminal."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from treadle.app.json_text import escape_json


def print_json(value: Any, *, is_one_line: bool = False) -> None:
    """Print a value, indented, or in one line with a line break behind it."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a name of a file that is no UTF-8
        data = json.dumps(msgspec.to_builtins(value)).encode()
    data = data if is_one_line else msgspec.json.format(data, indent=2)
    click.echo(escape_json(data.decode()))
