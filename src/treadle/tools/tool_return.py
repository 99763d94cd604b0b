"""What tools return that is more than text, and the outcome that comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.media import MediaError, identify_media, make_attachment
from treadle.core.messages import Attachment, SeenFile, ToolCall
from treadle.core.tools import RewrittenFile, ToolErrorKind, ToolExecutionOutcome
from treadle.tool_failure import ToolFailure
from treadle.tools.value_types import encode_value


class ShownFile(Struct, frozen=True):
    """A picture or a PDF document that a tool shows to the model, and what it is called."""

    name: str
    data: bytes


class ToolReturn(Struct, frozen=True):
    """What a tool returns that reads or writes files.

    `output` is what the model reads; `changed` names the files written, relative to the workspace.
    `rewritten` says what they held before and after, of files that a `Scope` names. `seen` are the
    files of which the model now knows how they are, `shown` what it sees besides the text.
    `background` is the command that goes on, if
    the call has begun one.
    """

    output: str
    changed: tuple[str, ...] = ()
    rewritten: tuple[RewrittenFile, ...] = ()
    seen: tuple[SeenFile, ...] = ()
    shown: tuple[ShownFile, ...] = ()
    background: str = ""


def make_success(call: ToolCall, value: Any) -> ToolExecutionOutcome.Success:
    """How a call ended whose tool has returned a value.

    Raises:
        ToolFailure: it shows what no model takes.
    """
    if isinstance(value, ToolReturn):
        changed = tuple(clean_text(name) for name in value.changed)
        rewritten = tuple(replace(one, name=clean_text(one.name)) for one in value.rewritten)
        output, seen = clean_text(value.output), clean_names(value.seen)
        shown = [attach_file(one) for one in value.shown]
        return ToolExecutionOutcome.Success(
            call.id,
            output,
            changed,
            rewritten=rewritten,
            seen=seen,
            background=clean_text(value.background),
            attachments=tuple(shown),
            contents={
                each.blob.sha256: one.data for each, one in zip(shown, value.shown, strict=True)
            },
        )
    output = value if isinstance(value, str) else encode_value(value).decode()
    return ToolExecutionOutcome.Success(call.id, clean_text(output))


def attach_file(shown: ShownFile) -> Attachment:
    """What a message refers to of a file that is shown; `ToolFailure` for what no model takes."""
    try:
        media = identify_media(shown.data)
    except MediaError as error:
        raise ToolFailure(ToolErrorKind.FAILED, f"{shown.name}: {error}") from error
    if media is None:
        raise ToolFailure(ToolErrorKind.FAILED, f"{shown.name} is no picture and no document")
    return make_attachment(media, clean_text(shown.name), shown.data)


def clean_names(seen: Iterable[SeenFile]) -> tuple[SeenFile, ...]:
    """The files, with names that can be stored."""
    return tuple(replace(one, name=clean_text(one.name)) for one in seen)


def clean_text(text: str) -> str:
    """The text with lone surrogates replaced: no UTF-8 file takes them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
