"""Keeps what is around the agent: how repository, files and settings stood. Recorded when news."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from treadle import outputs
from treadle.core.call_decision import has_begun
from treadle.core.messages import ToolCall
from treadle.core.tools import Status
from treadle.runtime.calls import is_bug, observe_workspace
from treadle.runtime.ports import FileStateSaver, Workspace
from treadle.runtime.thread_journal import ThreadJournal
from treadle.thread.codec import encode_entry
from treadle.thread.facts import ContextObserved, FilesNotSaved, GitObserved

_log = logging.getLogger("treadle.runtime")


class FileKeeper:
    """Stages how the workspace stands, before and after each round that may change it.

    Args:
        journal: the thread.
        workspace: who knows the repository, if anybody.
        files: who keeps the files as they were, if anybody.
        context: where and how the agent works.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        workspace: Workspace | None,
        files: FileStateSaver | None,
        context: ContextObserved | None,
    ) -> None:
        self._journal = journal
        self._workspace = workspace
        self._files = files
        self._context = None if context is None else encode_entry(context, journal.redact)[0]
        self.before: GitObserved | None = journal.fold.observed
        """How the repository stood before the round."""
        self.is_whole = False
        """Whether this process saw the round from its beginning."""
        self.only_reads = False
        """Whether it is known of the round that none of its calls may change anything."""
        self._is_unsaved = False
        """Whether files may have changed in it that nobody has kept since."""
        self._is_unknown = False
        """Whether it is not known how the files were before the round."""
        self._has_complained = False

    def record_context(self) -> None:
        """Stage where and how the agent works."""
        if self._context is not None and self._context != self._journal.fold.context:
            self._journal.stage(self._context)

    async def observe(self, seen: GitObserved | None = None) -> GitObserved | None:
        """Look at the repository, unless somebody just has, and stage how it stands."""
        if self._workspace is None:
            return None
        seen = seen or await observe_workspace(self._workspace)
        if seen is not None and seen != self._journal.fold.observed:
            self._journal.stage(seen)
        return seen

    async def open_round(
        self, round_: Sequence[tuple[ToolCall, Status]], *, may_change: bool
    ) -> None:
        """Keep how things stand before a round, if it is at its start and may change them."""
        if any(has_begun(status) for _, status in round_):
            self.only_reads = self.only_reads and not may_change
            return
        self.is_whole, self.only_reads = True, not may_change
        if may_change:
            self.before = await self.observe()
            await self._save_files("before")
            self._is_unsaved = True

    def resume_round(self, *, may_change: bool) -> None:
        """An earlier process began the round; whether its open calls may change files."""
        self.only_reads, self._is_unsaved = False, may_change

    async def close_round(self) -> None:
        """Keep the files as a round has left them, with its hook."""
        if self._is_unsaved:
            self._is_unsaved = False
            await self._save_files("after")

    async def _save_files(self, moment: Literal["before", "after"]) -> None:
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
            saved = await self._files.save(asked, self._journal.fold.files)
        except BaseException as error:
            if not is_bug(error):
                raise
            _log.exception("keeping the files raised")
            self._record_missed_save(moment, "an error of the program", has_missed=is_unknown)
            return
        if saved is not None:
            self._journal.stage(saved)
        elif self._files.problem:
            self._record_missed_save(moment, self._files.problem, has_missed=is_unknown)
        if self._files.problem and self._journal.fold.observed and not self._has_complained:
            self._has_complained = True
            why = f"the files are not kept as they are: {self._files.problem}"
            self._journal.announce(outputs.Notice(why))

    def _record_missed_save(
        self, moment: Literal["before", "after"], why: str, *, has_missed: bool
    ) -> None:
        """Record, once for a round, that the files were not kept where they might have been."""
        self._is_unknown = moment == "before"
        fold = self._journal.fold
        if not (moment == "after" and has_missed) and (fold.observed or fold.files):
            self._journal.stage(FilesNotSaved(moment, why))
