"""What keys and layout know of the run of a drawn terminal that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer

from treadle.terminal.dialogs import CompletionMenu, Dialog
from treadle.terminal.ports import InputHandler, ListRow, RowPreview
from treadle.terminal.screen_state import ScreenState

if TYPE_CHECKING:
    from treadle.app.threads.transcript import Transcript

T = TypeVar("T")


class Canvas(Protocol):
    """The input and all around it; `drawing.Drawing` is the one there is."""

    scene: ScreenState
    keys: InputHandler
    app: Application[None]
    buffer: Buffer
    answer: Buffer
    dialog: Dialog | None
    menu: CompletionMenu | None
    hint: str

    def press(self, key: str) -> None:
        """A key for the question that is asked: `up`, `down`, `enter`, or what it writes."""
        ...

    def suspend(self) -> None:
        """Stop, until the shell goes on with us."""
        ...

    def redraw(self) -> None:
        """Draw now, or rather when the loop comes to it."""
        ...

    async def pick(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        preview: RowPreview | None = None,
    ) -> str | None:
        """Wait for a row."""
        ...

    async def browse(self, transcript: Transcript) -> None:
        """Show a transcript on a screen of its own, until its person goes back."""
        ...

    async def run_in_terminal(self, work: Callable[[], T]) -> T:
        """Give screen and keyboard to something else, and take them back whatever it does."""
        ...
