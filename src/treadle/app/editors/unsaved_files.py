"""What stands in an editor and is not saved: how the agent reads it, and how it is kept apart.

The disk stays the truth. What a person has typed and not saved is theirs: it is shown to the agent
that reads the file, and saved by their editor, as it is, before a call that would write the file is
even looked at. So questions show the change to what the person sees, a yes is bound to that, states
of the files and commits count it as theirs, and going back leaves it. What the agent writes is on
the disk first, whole and durable; then the editor is told of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from msgspec import json
from msgspec.structs import replace

from treadle.app.sessions.tool_wrapper import ToolWrapper
from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.app.threads.call_changes import make_file_reader
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import (
    Outcome,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)
from treadle.runtime.ports import Provider, Tools
from treadle.runtime.subagents import CallWork
from treadle.tools.read_file import read_file
from treadle.tools.registry import Registry

UNSAVED_REMARK: Final = (
    "[this is how the file stands in the person's editor, where it is not saved: commands and "
    "searches see what is on the disk]"
)
NOT_WRITTEN: Final = (
    "{} has changes in the person's editor that are not saved; nothing was written. Read it, then "
    "ask for this again: their changes are saved first"
)
_SHARED_PREFIXES: Final = ("output:", "$", "~")
"""Paths that lie in no folder of the editor's."""

_log: Final = logging.getLogger("treadle.editors")


class EditorFiles(Protocol):
    """The files as an editor has them; paths are absolute. Neither of these raises."""

    async def read_text(self, path: str) -> str | None:
        """What the editor shows as the file; `None` if it cannot say."""
        ...

    async def write_text(self, path: str, text: str) -> bool:
        """Have the editor show and save this as the file; whether it did."""
        ...


class UnsavedFiles:
    """Compares the files of a folder with what an editor has of them.

    Args:
        folder: the absolute path of the workspace.
        editor: who shows the files.
    """

    def __init__(self, folder: str, editor: EditorFiles) -> None:
        self._folder = Path(folder)
        self._editor = editor
        self._read = make_file_reader(self._folder)

    async def find_unsaved(self, path: str) -> str | None:
        """What the editor shows of a file, if that is not what is on the disk."""
        if path.startswith(_SHARED_PREFIXES):
            return None
        on_disk = self._read_disk(path)
        shown = None if on_disk is None else await self._editor.read_text(self._locate(path))
        return None if shown is None or _normalize(shown) == _normalize(on_disk or "") else shown

    async def save_unsaved(self, calls: Sequence[ToolCall]) -> None:
        """Have the person's own changes saved to the files that these calls would write."""
        for path in dict.fromkeys(path for call in calls for path in list_written_paths(call)):
            text = await self.find_unsaved(path)
            if text is not None and not await self._editor.write_text(self._locate(path), text):
                _log.warning("the editor did not save %s", path)

    async def show_written(self, paths: Sequence[str]) -> None:
        """Have the editor show what has just been written to these files."""
        for path in paths:
            text = self._read_disk(path)
            if text is not None:
                await self._editor.write_text(self._locate(path), text)

    def name_of(self, path: str) -> str:
        """A file of the folder by its name in it; another one by its whole path."""
        whole = Path(self._locate(path))
        inside = whole.is_relative_to(self._folder)
        return str(whole.relative_to(self._folder)) if inside else str(whole)

    def _locate(self, path: str) -> str:
        return str(self._folder / path)

    def _read_disk(self, path: str) -> str | None:
        """The text of a file; `None` if there is none, or it is no text of a size that is shown."""
        try:
            content = self._read(path)
            return None if content is None else content.decode()
        except (OSError, ValueError):
            return None


def add_unsaved_files(tools: Tools, unsaved: UnsavedFiles) -> Tools:
    """The tools, with an editor's files around their calls."""
    return ToolWrapper(tools, partial(_run_call, unsaved))


async def _run_call(
    unsaved: UnsavedFiles, call: ToolCall, work: CallWork, sightings: Sightings | None
) -> Outcome:
    """Run one call. What the person has typed since it was asked for keeps it from writing."""
    written = list_written_paths(call)
    for path in written:
        if await unsaved.find_unsaved(path) is not None:
            error = ToolError(ToolErrorKind.REJECTED, NOT_WRITTEN.format(path))
            return ToolExecutionOutcome.Error(call.id, error)
    outcome = await work()
    if not isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome
    if written:
        await unsaved.show_written(outcome.changed)
    elif kind_of(call.tool_name) is ToolKind.READ:
        return await _read_unsaved(unsaved, call, sightings) or outcome
    return outcome


async def _read_unsaved(
    unsaved: UnsavedFiles, call: ToolCall, sightings: Sightings | None
) -> Outcome | None:
    """The result of a call that may read the file, of what the editor has of it unsaved."""
    arguments = read_arguments(call) or {}
    path = arguments.get("path")
    text = await unsaved.find_unsaved(path) if isinstance(path, str) else None
    name = unsaved.name_of(path) if isinstance(path, str) else "/"
    if text is None or name.startswith(("/", "..")):
        return None
    there = json.encode({**arguments, "path": name}).decode()
    reading = replace(call, tool_name=read_file.definition.name, arguments_json=there)
    with TemporaryDirectory(prefix="treadle-unsaved-") as folder:
        await asyncio.to_thread(_put_file, Path(folder, name), text)
        outcome = await Registry([read_file], workspace=folder).execute(
            reading, key="", progress=lambda _: None, sightings=sightings
        )
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return replace(outcome, output=f"{outcome.output}\n{UNSAVED_REMARK}")
    return outcome


class EditorProvider:
    """A provider whose answers are only heard when an editor has saved what they would write.

    Args:
        inner: who answers; closed with this provider.
        unsaved: what the editor has.
        may_write: whether calls may write anything now.
    """

    def __init__(
        self, inner: Provider, unsaved: UnsavedFiles, may_write: Callable[[], bool]
    ) -> None:
        self._inner = inner
        self._unsaved = unsaved
        self._may_write = may_write

    @property
    def name(self) -> str:
        """The name of who answers."""
        return self._inner.name

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the answer."""
        async with aclosing(self._inner.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, LlmEvent.Completed) and self._may_write():
                    await self._unsaved.save_unsaved(event.response.tool_calls)
                yield event

    def traits(self, model: str) -> ModelTraits:
        """Those of who answers."""
        return self._inner.traits(model)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """As who answers counts them."""
        return await self._inner.count_tokens(request)

    async def aclose(self) -> None:
        """Close who answers."""
        await self._inner.aclose()


def _normalize(text: str) -> str:
    """The text as editors hold it, whatever the line ends and the mark at the beginning are."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _put_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
