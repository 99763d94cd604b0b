"""What is around the agent: repository, files, the program itself. Recorded when it is news."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

from treadle.runtime.calls import is_bug, observe_workspace
from treadle.runtime.ports import FileStateSaver, Workspace, Writer
from treadle.thread.codec import encode_entry
from treadle.thread.facts import ContextObserved, FilesNotSaved, GitObserved

_log = logging.getLogger("treadle.runtime")


class WorkspaceObserver:
    """Looks around and stages what it sees.

    Args:
        writer: the thread.
        workspace: who knows the repository, if anybody.
        files: who keeps the files as they were, if anybody.
        context: where and how the agent works.
        redact: replaces known secrets, if somebody can.
        say: tells people.
    """

    def __init__(
        self,
        writer: Writer,
        workspace: Workspace | None,
        files: FileStateSaver | None,
        context: ContextObserved | None,
        redact: Callable[[str], str] | None,
        say: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._workspace = workspace
        self._files = files
        self._redact = redact
        self._say = say
        self._has_complained = False
        self._is_unknown = False
        """Whether it is not known how the files were before the round."""
        self._context = None if context is None else encode_entry(context, redact)[0]

    def record_context(self) -> None:
        """Stage where and how the agent works."""
        if self._context is not None and self._context != self._writer.fold.context:
            self._writer.stage(self._context)

    async def observe(self) -> GitObserved | None:
        """Look at the repository, and stage how it stands."""
        if self._workspace is None:
            return None
        seen = await observe_workspace(self._workspace)
        if seen is not None and seen != self._writer.fold.observed:
            self._writer.stage(seen, self._redact)
        return seen

    async def save_files(self, moment: Literal["before", "after"]) -> None:
        """Keep the files as they are now. That this fails never stops the work, and is told once.

        That there is no repository to keep them in is not told: it is as people have it. Where it
        is not known how the files were before a round, what is found after it is not the agent's
        for sure: it is kept as the state before the next.
        """
        if self._files is None:
            return
        is_unknown, self._is_unknown = self._is_unknown, False
        asked: Literal["before", "after"] = "before" if is_unknown else moment
        try:
            saved = await self._files.save(asked, self._writer.fold.files)
        except BaseException as error:
            if not is_bug(error):
                raise
            _log.exception("keeping the files raised")
            self._record_missed_save(moment, "an error of the program", has_missed=is_unknown)
            return
        if saved is not None:
            self._writer.stage(saved, self._redact)
        elif self._files.problem:
            self._record_missed_save(moment, self._files.problem, has_missed=is_unknown)
        if self._files.problem and self._writer.fold.observed and not self._has_complained:
            self._has_complained = True
            self._say(f"the files are not kept as they are: {self._files.problem}")

    def _record_missed_save(
        self, moment: Literal["before", "after"], why: str, *, has_missed: bool
    ) -> None:
        """Record, once for a round, that the files were not kept where they might have been."""
        self._is_unknown = moment == "before"
        fold = self._writer.fold
        if not (moment == "after" and has_missed) and (fold.observed or fold.files):
            self._writer.stage(FilesNotSaved(moment, why), self._redact)
