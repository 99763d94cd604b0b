"""What a model knows of a file that it is about to write, or reads again.

Writing over what one has not seen, or over what is not any more as one has seen it, destroys what
somebody else has done. So it is refused once, with the reason; who calls again has heard of it.
"""

from __future__ import annotations

from typing import Final

from treadle.core.messages import SeenFile
from treadle.core.sightings import Sighting, Sightings
from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.files import ABSENT
from treadle.tools.line_digests import LineRange, digest_lines, find_changes
from treadle.tools.shown_lines import LINE_COUNT_MAX, show_lines

CHANGE_COUNT_MAX: Final = 5
"""Changed places that are named."""
REPEATED_SIZE_MIN: Final = 500
"""Characters of a result that is worth less than its repetition costs; a shorter one is sent."""

_AGAIN: Final = "nothing was written. Make the same call again if it still holds"


def refuse_unseen(
    sightings: Sightings | None, name: str, digest: str, content: bytes | None
) -> None:
    """Refuse to write over a file that the model has not seen, or not as it is.

    Args:
        sightings: what the model knows; `None` if nobody can tell, which refuses nothing.
        name: the file, without links.
        digest: of what it holds now, as `content_of` says it.
        content: what it holds; `None` where that is nothing, or too much.

    Raises:
        ToolFailure: once: it says that the model knows now.
    """
    if sightings is None or digest == ABSENT or content == b"":
        return  # there is nothing to lose
    if next(sightings.of_file(name), None) is None:
        size = "" if content is None else f" and holds {len(content)} bytes"
        message = f"{name} exists{size}, and you have not read it; {_AGAIN}, or read it first"
        raise ToolFailure(ToolErrorKind.FAILED, message, seen=(_see(name, digest, content),))
    refuse_changed(sightings, name, digest, content)


def refuse_changed(
    sightings: Sightings | None, name: str, digest: str, content: bytes | None
) -> None:
    """Refuse to change a file that is not any more as the model has seen it. As `refuse_unseen`."""
    heard = [] if sightings is None else list(sightings.of_file(name))
    if not heard or digest == ABSENT or heard[0].file.content == digest:
        return
    known = heard[0]
    if known.message is not None and any(one.file.content == digest for one in heard):
        return  # a message that waited shows how the file stood before the model wrote or read it
    what, lines = _describe_changes(known.file, content)
    verb = "wrote" if known.is_write else "heard of"
    by = "a message of the person" if known.message is not None else known.call_id
    message = (
        f"{name} has changed since you last {verb} it ({by}), by a command or by somebody "
        f"else{what}; {_AGAIN}"
    )
    raise ToolFailure(ToolErrorKind.FAILED, message, lines, seen=(_see(name, digest, content),))


def _see(name: str, digest: str, content: bytes | None) -> SeenFile:
    return SeenFile(name, digest, lines="" if content is None else digest_lines(content))


def _describe_changes(known: SeenFile, content: bytes | None) -> tuple[str, str]:
    """Which lines are others now, in words, and the first of them as they are."""
    if content is None:
        return "", ""
    changes = find_changes(known.lines, content)
    if not changes:
        return "", ""
    named = "; ".join(map(str, changes[:CHANGE_COUNT_MAX]))
    more = "; ..." if len(changes) > CHANGE_COUNT_MAX else ""
    return f": now different: {named}{more}", _show_changes(changes, content)


def _show_changes(changes: list[LineRange], content: bytes) -> str:
    lines = content.decode(errors="replace").split("\n")
    numbers: list[int] = []
    for first, last in changes[:CHANGE_COUNT_MAX]:
        for number in range(first, last + 1):
            if len(numbers) < LINE_COUNT_MAX and number <= len(lines):
                numbers.append(number)
    return show_lines(lines, numbers)


def find_repetition(sightings: Sightings | None, seen: SeenFile, size: int) -> Sighting | None:
    """What still stands in view and shows the same lines of the same file.

    `None` if there is none, if a call since then was answered by naming it already (who asks twice
    wants to see it), or if the lines are so few that they may as well be sent.

    Args:
        sightings: what the model knows; `None` if nobody can tell.
        seen: what it would be shown now.
        size: characters of that.
    """
    if sightings is None or size < REPEATED_SIZE_MIN or not seen.first_line:
        return None
    for one in sightings.of_file(seen.name):
        if one.file.content != seen.content or not (one.file.first_line or one.is_write):
            return None
        if (one.file.first_line, one.file.last_line) == (seen.first_line, seen.last_line):
            return one if sightings.is_in_view(one) else None
    return None
