"""What the parts of a chat ask of each other.

The way of a key: the terminal turns it into a call of `InputHandler`, which the chat is; the chat
works on its session; what the session tells goes to the view, which commits finished blocks to the
terminal's scrollback and draws the rest live, above the input.

There are two terminals: `DrawnTerminal` (prompt_toolkit), and `PlainTerminal` (lines only, for
screen readers and for terminals that know nothing else). One suite of tests holds both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from rich.console import RenderableType

    from treadle.app.threads.transcript import Transcript

T = TypeVar("T")

StyledLine: TypeAlias = Sequence[tuple[str, str]]
"""One line as (style, text) pieces; styles are those of `STYLES`, or begin with `styles.LOOK`."""

STYLES: Final = ("", "dim", "bold", "accent", "good", "warn", "bad", "code", "added", "removed")
"""All that a live line can look like. Both kinds of drawing know each name."""


class DialogChoice(Struct, frozen=True):
    """One way to answer a question: the key that takes it, and its words."""

    key: str
    words: str
    needs_enter: bool = False
    """Whether its key alone only marks it, so that Enter has to follow; the words are read in whole
    then. If the first choice does, the last is the one that is marked at first."""


class ListRow(Struct, frozen=True):
    """One line of a list to pick from: `value` is what picking it gives.

    `cells` stand in columns behind the text, `detail` behind them. A row without a value says
    something and cannot be picked.
    """

    value: str
    text: str
    detail: str = ""
    cells: tuple[str, ...] = ()


RowPreview: TypeAlias = Callable[[str], Sequence[str]]
"""Lines about the value of a row, for whoever looks for one."""


class QueuedInput(Struct, frozen=True):
    """Something said while the agent works.

    It `steers` if it is heard after the current round of tools, not only when the turn is over.
    """

    text: str
    steers: bool
    is_sent: bool = True
    """Whether it is where it has to be; else it is a prompt that is not on disk yet."""


class StatusFields(Struct, frozen=True):
    """What the status line tells. What is unknown is `None`, 0 or empty, and left out.

    `context` is how many tokens the model had read when it last answered, and how many it can;
    `sums` are the tokens that all requests of the thread have read and written, and those of them
    that they have read again from the provider's cache.
    """

    model: str = ""
    mode: str = ""
    branch: str = ""
    is_dirty: bool = False
    context: tuple[int, int] = (0, 0)
    sums: tuple[int, int] = (0, 0)
    cost_usd: Decimal | None = None
    sync: str = ""
    is_private: bool = False
    sandbox: str = ""
    has_vim_keys: bool = False
    """What the input goes by; the line tells the mode it is in."""
    notifies: bool = True
    """Whether a person who has gone elsewhere is called; the line does not tell it."""
    remote: str = ""
    """What another device of the person may do here."""


class InputHandler(Protocol):
    """What a keyboard asks of the conversation. None of these blocks or raises."""

    @property
    def is_at_work(self) -> bool:
        """Whether a turn is running, so that Tab queues what was typed for after it."""
        ...

    def submit(self, text: str, *, steers: bool) -> None:
        """The person has sent a line: a prompt, a `/command`, or a `!command`.

        While the agent works a prompt is queued: heard after the current round of tools if it
        `steers`, else when the turn is over.
        """
        ...

    def interrupt(self) -> bool:
        """Esc, or Ctrl+C on an empty input: end the turn; false if nothing was running."""
        ...

    def rewind(self) -> None:
        """Esc Esc on an empty input while nothing runs: choose an earlier prompt to go back to."""
        ...

    def cycle_mode(self) -> None:
        """Shift+Tab: the next approval mode."""
        ...

    async def read_transcript(self, *, only_news: bool = False) -> Transcript | None:
        """Ctrl+O while nothing is asked: what happened in the thread; `None` if nothing has.

        With `only_news` also if nothing has since the last time.
        """
        ...

    def take_back(self) -> None:
        """Up on an empty input while something is queued: the newest goes back into the input."""
        ...

    def leave(self) -> None:
        """Ctrl+D, or Ctrl+C twice: settle the thread and end."""
        ...


class Terminal(Protocol):
    """Where a chat is shown and heard."""

    commands: Sequence[SlashCommand]
    """What `/` completes."""
    keeps_history: bool
    """Whether what is entered goes into the history file; false in a private thread."""

    @property
    def is_plain(self) -> bool:
        """Whether only lines can be shown: no live drawing, no boxes."""
        ...

    @property
    def width(self) -> int:
        """Columns, as they are now."""
        ...

    @property
    def height(self) -> int:
        """Rows, as they are now."""
        ...

    async def run(self, keys: InputHandler) -> None:
        """Show the input and hear the keyboard until `stop`."""
        ...

    def stop(self) -> None:
        """End `run`; the screen is left tidy, below what was committed."""
        ...

    def commit(self, *blocks: RenderableType) -> None:
        """Print finished blocks above the input, once and for ever: they are scrollback."""
        ...

    def commit_soon(self, block: RenderableType) -> None:
        """The same for a block that may be long: keys are heard while it is made ready."""
        ...

    def call_person(self, words: str) -> None:
        """Call somebody who has gone elsewhere, as `choose` does too; `words` say what for."""
        ...

    def refresh(self) -> None:
        """What is live has changed: draw it again soon. Cheap; many calls are one drawing."""
        ...

    def show_status(self, facts: StatusFields) -> None:
        """What the status line tells from now on."""
        ...

    def show_queue(self, queued: Sequence[QueuedInput]) -> None:
        """What waits to be heard, shown above the input."""
        ...

    def fill(self, text: str) -> None:
        """Put a text into the input, before what stands there, to be edited and sent."""
        ...

    async def choose(
        self,
        question: RenderableType,
        choices: Sequence[DialogChoice],
        *,
        body: RenderableType | None = None,
        foot: RenderableType | None = None,
    ) -> str:
        """Show a question and wait for one of its keys.

        It is gone when it is answered, where that can be: who asks commits what is to stay.
        Keys that were typed before the question was shown are not taken for its answer.

        Args:
            question: what is asked; it stays in sight.
            choices: the ways to answer.
            body: stands below it, and scrolls where it does not fit.
            foot: stands below that, and stays in sight.

        Raises:
            EOFError: nobody is there any more.
        """
        ...

    async def enter(
        self, label: str, text: str = "", *, is_long: bool = False, is_answer: bool = False
    ) -> str | None:
        """A text from the person, beginning with `text`; `None` if they think better of it (Esc).

        Args:
            label: what is asked for.
            text: what stands there already.
            is_long: whether it may have several lines.
            is_answer: whether it answers what `choose` has asked last, which stays in sight.
        """
        ...

    async def enter_secret(self, label: str) -> str | None:
        """A text in one line that nobody sees and nothing keeps; `None` on Esc, or if it is empty.

        Args:
            label: what is asked for.
        """
        ...

    async def pick(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        preview: RowPreview | None = None,
    ) -> str | None:
        """One row of a list; `None` for none (Esc).

        Args:
            title: what is asked.
            search: gives the rows for what was typed; called in a thread.
            preview: gives lines about the value of the row that is marked; called in a thread.
        """
        ...

    async def run_in_terminal(self, work: Callable[[], T]) -> T:
        """Run something that prints and asks by itself, in a thread, with the screen to itself.

        What it prints becomes scrollback. What it raises is raised here.
        """
        ...


class LiveView(Protocol):
    """Shows what a session tells. `live` is called by the terminal whenever it draws."""

    def live_lines(self, width: int) -> Sequence[StyledLine]:
        """What is not finished: the text that is still being written, calls that run, a spinner."""
        ...


SlashAction: TypeAlias = Callable[[str], Awaitable[None]]
"""What a slash command does with the words behind it."""


WordCompleter: TypeAlias = Callable[[str], Awaitable[tuple[str, Sequence[str]]]]
"""Given the words behind a command: what is there of the last one, and what it may become."""


class SlashCommand(Struct, frozen=True):
    """A command of the chat: `name` without the slash, `words` for /help, `argument` its hint."""

    name: str
    words: str
    run: SlashAction
    argument: str = ""
    waits_for_turn: bool = True
    """Whether it waits for the end of a running turn; the others may be used any time."""
    is_switch: bool = False
    """Whether another thread may be at hand afterwards, one that is private perhaps."""
    is_prompt: bool = False
    """Whether it is said to the agent, which is told what its file or its server says."""
    other_names: tuple[str, ...] = ()
    """What it is called besides."""
    complete: WordCompleter | None = None
    """Knows what its words may become."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is called, the usual name first."""
        return (self.name, *self.other_names)


class TurnQueueEntry(Struct, frozen=True):
    """A prompt, or a command with the `work` that it is; `dropped` hears that it is taken back."""

    text: str
    steers: bool = False
    work: Callable[[], Coroutine[Any, Any, None]] | None = None
    dropped: Callable[[], None] = lambda: None
