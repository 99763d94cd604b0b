"""A prompt as an editor sends it, in blocks, and what is said to the agent for it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from treadle.app.sessions.prompt_mentions import TEXT_LENGTH_MAX
from treadle.app.sessions.prompt_text import PreparedPrompt, prepare_prompt
from treadle.app.sessions.setup import Setup
from treadle.core.media import MediaError, identify_media, make_attachment
from treadle.core.messages import Attachment, SeenFile
from treadle.errors import UsageError
from treadle.store.blobs import Blobs
from treadle.thread.record import replace_surrogates
from treadle.thread.typed_words import MENTIONS_HEAD
from treadle.tools.files import digest_of
from treadle.tools.line_digests import digest_lines

_LINES: Final = re.compile(r"L?(\d{1,9})(?:[-:]L?(\d{1,9}))?\Z")
"""The lines that the address of a file ends in, behind its `#`."""
_NO_WORD: Final = re.compile(r'[\s"\\]')
"""What stands behind a backslash in a name that is not quoted."""
WORDLESS: Final = "(see what is shown with this)"
"""What is said for a prompt of pictures alone."""


class PromptText(Struct, frozen=True):
    """What a person typed, or a part of it."""

    text: str


class PromptLink(Struct, frozen=True):
    """What a person names; a file if its address says so."""

    uri: str
    name: str = ""


class PromptDocument(Struct, frozen=True):
    """A document, whole: its text, or its bytes."""

    uri: str
    content: str | bytes


class PromptPicture(Struct, frozen=True):
    """A picture."""

    data: bytes
    name: str = "picture"


PromptBlock: TypeAlias = PromptText | PromptLink | PromptDocument | PromptPicture


async def prepare_blocks(setup: Setup, blocks: Sequence[PromptBlock]) -> PreparedPrompt:
    """What is said for a prompt, and what is shown with it; the bytes of that are kept already.

    A file that is linked is read like one that a person names with `@`, a document stands behind
    the person's words as the editor has it.

    Args:
        setup: of the thread.
        blocks: in order.

    Raises:
        UsageError: a picture is none that a model takes, or the prompt is empty.
        TreadleError: as `prepare_prompt`.
    """
    folder = setup.workspace()
    typed = ""
    for block in blocks:
        words = _describe_block(block, folder)
        # A mention is one at the beginning of a word alone.
        stands_apart = not typed or typed[-1].isspace() or typed[-1] in "([{"
        typed += f" {words}" if words.startswith("@") and not stands_apart else words
    typed = typed.strip()
    documents, room = list[str](), TEXT_LENGTH_MAX
    seen: list[SeenFile] = []
    shown: list[tuple[Attachment, bytes]] = []
    for block in blocks:
        if isinstance(block, PromptPicture):
            shown.append(_read_picture(block.name, block.data))
        elif isinstance(block, PromptDocument) and isinstance(block.content, bytes):
            shown.append(_read_picture(name_linked_file(block.uri, folder), block.content))
        elif isinstance(block, PromptDocument):
            text, file = _tell_document(block, folder, room)
            documents.append(text)
            room -= len(text)
            seen += file
    if shown and not typed:
        typed = WORDLESS
    if not typed:
        raise UsageError("the prompt is empty", hint="say what the agent is to do")
    piped = "\n".join((MENTIONS_HEAD.lstrip("\n"), *documents)) if documents else ""
    said = await prepare_prompt(setup, typed, piped)
    blobs = Blobs(setup.store.folders)
    for _, data in shown:
        await asyncio.to_thread(blobs.keep, data)
    attachments = (*(one for one, _ in shown), *said.attachments)
    return PreparedPrompt(said.text, attachments, (*said.seen, *seen))


def _describe_block(block: PromptBlock, folder: str) -> str:
    """What stands for a block among the person's words."""
    match block:
        case PromptText():
            return block.text
        case PromptLink():
            name = name_linked_file(block.uri, folder)
            if name == block.uri:  # no file: only its address is known
                return f"{block.name} ({block.uri})" if block.name else block.uri
            return f'@"{name}"' if '"' not in name else "@" + _NO_WORD.sub(r"\\\g<0>", name)
        case PromptDocument():
            return f"`{name_linked_file(block.uri, folder)}`"
        case PromptPicture():
            return ""


def _tell_document(
    block: PromptDocument, folder: str, room: int
) -> tuple[str, tuple[SeenFile, ...]]:
    """A document as the agent is told of it, and the file that it is, if it is all of one."""
    assert isinstance(block.content, str)
    name = name_linked_file(block.uri, folder)
    content = replace_surrogates(block.content)
    text = f"[{json.dumps(name, ensure_ascii=False)}]\n{content}"
    if len(text) > room:
        told = f"not shown: with it, a prompt would have over {TEXT_LENGTH_MAX} characters of files"
        return f"[{json.dumps(name, ensure_ascii=False)}, {told}; read what you need of it]", ()
    path, _, lines = name.partition(":")
    if lines or path == block.uri or path.startswith("/"):
        return text, ()
    data = content.encode()
    last = max(1, content.count("\n") + (not content.endswith("\n")))
    return text, (SeenFile(path, digest_of(data), 1, last, digest_lines(data)),)


def name_linked_file(uri: str, folder: str) -> str:
    """A file by its path in the workspace, or by its whole path; what is no file by its address.

    Lines that the address names stand behind it: `src/app.py:10-20`.
    """
    try:
        parts = urlsplit(replace_surrogates(uri))
    except ValueError:  # no address at all, as far as it goes
        return uri
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return uri
    path = os.path.normpath(unquote(parts.path))
    inside = os.path.relpath(path, folder)
    name = path if inside.split("/")[0] == ".." else inside
    found = _LINES.fullmatch(parts.fragment)
    if found is None or '"' in name or "\n" in name:
        return name
    return f"{name}:{found[1]}-{found[2]}" if found[2] else f"{name}:{found[1]}"


def _read_picture(name: str, data: bytes) -> tuple[Attachment, bytes]:
    try:
        media = identify_media(data)
    except MediaError as error:
        raise UsageError(f"{name} is not taken: {error}") from error
    if media is None:
        raise UsageError(f"{name} is neither a picture nor a PDF document that a model reads")
    return make_attachment(media, name, data), data
