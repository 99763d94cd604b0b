"""The tools with which other agents read this machine's threads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from treadle.app.offered_threads import (
    describe_offered_origins,
    find_offered_threads,
    read_offered_thread,
)
from treadle.app.stores import Store
from treadle.core.tools import EffectClass, RiskLevel
from treadle.tools.function_tool import AnyTool, tool

_reading: Final = tool(effect=EffectClass.READ, risk=RiskLevel.LOW)

Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class ThreadTools:
    """What can be asked about threads; names, arguments and docstrings are told to the agents.

    Args:
        store: the threads of this user.
        folder: where names of files begin that do not begin at the root.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def list_tools(self) -> dict[str, AnyTool]:
        """The tools by name, in the order in which they are told."""
        tools: list[AnyTool] = [self.search_threads, self.show_thread, self.blame]
        return {one.definition.name: one for one in tools}

    @_reading
    async def search_threads(
        self, query: str, workspace: str = "", limit: Annotated[int, Meta(ge=1, le=50)] = 20
    ) -> str:
        """Search the recorded sessions ("threads") of the coding agent Treadle on this machine.

        Finds earlier conversations by what was said and done in them: prompts, answers, tool calls,
        output, paths, branches, commits. Each hit has the id with which `show_thread` shows it.

        Args:
            query: All words must stand in one text. "in quotes" is a phrase, weav* a beginning,
                -word must not stand there.
            workspace: Only threads that worked in this folder or below it: an absolute path.
            limit: How many threads at most.
        """
        find = find_offered_threads
        return await asyncio.to_thread(find, self._store, query, workspace, limit=limit)

    @_reading
    async def show_thread(self, thread: str, page: Count = 1) -> str:
        """Show a recorded session: its prompts, answers, tool calls and their results, as Markdown.

        Args:
            thread: Its id, as `search_threads` or `blame` names it.
            page: Long threads have several pages.
        """
        return await asyncio.to_thread(read_offered_thread, self._store, thread, page)

    @_reading
    async def blame(self, file: str, first_line: Count = 1, last_line: Count | None = None) -> str:
        """Tell why lines of a file are there: the commit, thread, turn and prompt behind each.

        Args:
            file: A file of a git repository: an absolute path, or one from where the server runs.
            first_line: The first line, counted from 1.
            last_line: The last line; by default all from the first on.
        """
        path = self._folder / file
        return await describe_offered_origins(self._store, path, first_line, last_line)
