"""A terminal that keeps what it is given, for tests of what stands behind terminals."""

from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console, RenderableType

from treadle.terminal.ports import (
    DialogChoice,
    InputHandler,
    ListRow,
    LiveView,
    QueuedInput,
    RowPreview,
    StatusFields,
)

T = TypeVar("T")


def drawn(*blocks: RenderableType, width: int = 80, is_colored: bool = False) -> str:
    """What blocks look like on a screen of this width; colours as escape sequences, if wanted."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
        legacy_windows=False,
    )
    for block in blocks:
        console.print(block)
    return file.getvalue()


class RecordingTerminal:
    """Keeps blocks, facts and queue; answers with what was put into `answers`, in order."""

    def __init__(self, *, width: int = 80, is_plain: bool = False) -> None:
        self.height = 24
        self.is_plain = is_plain
        self.keeps_history = True
        self.called: list[str] = []
        self.width = width
        self.blocks: list[RenderableType] = []
        self.facts = StatusFields()
        self.queue: list[QueuedInput] = []
        self.filled: list[str] = []
        self.asked: list[str] = []
        self.answers: deque[str | None] = deque()
        self.refresh_count = 0
        self.view: LiveView | None = None
        self._stopped = asyncio.Event()

    def text(self, width: int | None = None) -> str:
        """The scrollback."""
        return drawn(*self.blocks, width=width or self.width)

    def live(self) -> str:
        """What is live, without styles."""
        lines = [] if self.view is None else self.view.live_lines(self.width)
        return "\n".join("".join(text for _, text in line) for line in lines)

    async def run(self, keys: InputHandler) -> None:
        """Wait for the end."""
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def commit(self, *blocks: RenderableType) -> None:
        self.blocks += blocks

    commit_soon = commit

    def call_person(self, words: str) -> None:
        self.called.append(words)

    def refresh(self) -> None:
        self.refresh_count += 1

    def show_status(self, facts: StatusFields) -> None:
        self.facts = facts

    def show_queue(self, queued: Sequence[QueuedInput]) -> None:
        self.queue = list(queued)

    def fill(self, text: str) -> None:
        self.filled.append(text)

    async def choose(
        self,
        question: RenderableType,
        choices: Sequence[DialogChoice],
        *,
        body: RenderableType | None = None,
        foot: RenderableType | None = None,
    ) -> str:
        parts = (part for part in (question, body, foot) if part is not None)
        self.asked.append(drawn(*parts, width=self.width))
        answer = self._answer()
        assert answer in {one.key for one in choices}
        return answer

    async def enter(
        self, label: str, text: str = "", *, is_long: bool = False, is_answer: bool = False
    ) -> str | None:
        self.asked.append(f"{label} {text}".rstrip())
        return self._answer()

    async def pick(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        preview: RowPreview | None = None,
    ) -> str | None:
        self.asked.append("\n".join([title, *(row.text for row in search(""))]))
        return self._answer()

    async def run_in_terminal(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    def _answer(self) -> str | None:
        if not self.answers:
            raise EOFError
        return self.answers.popleft()
