"""What a server says about its work: one JSON object a line, on stderr.

No line has a body, a title, a query string, a path with its values, or a token: requests are named
by the template of their route.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

LOGGER: Final = logging.getLogger("treadle.server")

_FIELDS_ATTRIBUTE: Final = "treadle_fields"


class JsonLogFormatter(logging.Formatter):
    """A record of the log as a JSON object. Of an exception it has the kind and the places."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        told: dict[str, Any] = {
            "time": f"{at[:-6]}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, _FIELDS_ATTRIBUTE, {}),
        }
        if record.name != LOGGER.name:
            told["logger"] = record.name
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = record.exc_info[0].__name__
            told["at"] = _list_code_locations(record.exc_info[2])
        return msgspec.json.encode(told).decode()


def configure_logging(level: int = logging.INFO) -> None:
    """Send all that is logged in this process to stderr, as lines of JSON.

    What libraries say stays away below warnings: it may quote what was sent.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level)
    # It warns of each malformed request: whoever sends those could fill a disk.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def log_event(
    event: str, /, *, level: int = logging.INFO, error: Any = None, **fields: object
) -> None:
    """Log an event with its fields.

    Args:
        event: what has happened, one word.
        level: as `logging` has them.
        error: an exception whose kind and places are told; its text is not.
        fields: numbers, and words of this program; nothing of what was sent.
    """
    LOGGER.log(level, event, exc_info=error, extra={_FIELDS_ATTRIBUTE: fields})


def _list_code_locations(traceback: Any) -> list[str]:
    """Where an exception came through, innermost last; its text may quote what was sent."""
    places = []
    while traceback is not None:
        frame = traceback.tb_frame
        places.append(f"{frame.f_globals.get('__name__')}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return places[-12:]
