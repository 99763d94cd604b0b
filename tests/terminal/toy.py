"""A chat without an agent, for tests of the terminal: it says what was asked of it.

Lines that it takes for orders: `work` and `rest` (a turn is running or not), `stream N` (so many
ticks of live text), `ask`, `enter`, `long`, `pick`, `away COMMAND`, `lines N`, `soon FIFO`,
`late FIFO FIFO`, `facts`, `die`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.app.threads.transcript import PartKind, Transcript, TranscriptPart
from treadle.terminal.ports import (
    DialogChoice,
    ListRow,
    QueuedInput,
    SlashCommand,
    StatusFields,
    StyledLine,
)
from treadle.terminal.terminal_factory import AnyTerminal, make_terminal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

CHOICES = (
    DialogChoice("y", "yes"),
    DialogChoice("a", "always", needs_enter=True),
    DialogChoice("n", "no"),
)
FACTS = StatusFields(
    model="scripted",
    mode="ask",
    branch="main",
    is_dirty=True,
    context=(180_000, 200_000),
    sums=(12_300, 0),
    cost_usd=Decimal("0.12"),
    sync="synced",
    is_private=True,
    sandbox="sandboxed",
)


async def nothing(_: str) -> None:
    """What its slash commands do."""


COMMANDS = (
    SlashCommand("help", "what there is", nothing),
    SlashCommand("model", "another model", nothing, argument="[NAME]"),
    SlashCommand("mode", "another mode", nothing, argument="[NAME]"),
)


class Slow:
    """A block that is laid out when somebody has written it into the FIFO."""

    def __init__(self, fifo: str) -> None:
        self.fifo = fifo

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[str]:
        yield Path(self.fifo).read_text()


class Toy:
    """`ports.Keys` and `ports.View`."""

    def __init__(self, terminal: AnyTerminal) -> None:
        self.terminal = terminal
        self.is_at_work = False
        self.lines: list[StyledLine] = []
        self.queued: list[QueuedInput] = []
        self.tasks: list[asyncio.Task[None]] = []

    def live_lines(self, width: int) -> Sequence[StyledLine]:
        return self.lines

    def say(self, words: str) -> None:
        self.terminal.commit(words)

    def submit(self, text: str, *, steers: bool) -> None:
        name, _, rest = text.partition(" ")
        order = getattr(self, f"do_{name}", None)
        if order is not None:
            self.tasks.append(asyncio.ensure_future(order(rest)))
        elif self.is_at_work:
            self.queued.append(QueuedInput(text, steers))
            self.terminal.show_queue(self.queued)
        else:
            self.say(f"submitted {text!r}")

    def interrupt(self) -> bool:
        was, self.is_at_work = self.is_at_work, False
        self.say(f"interrupt {was}")
        return was

    def rewind(self) -> None:
        self.say("rewind")

    def cycle_mode(self) -> None:
        self.say("cycle mode")

    async def read_transcript(self, *, only_news: bool = False) -> Transcript | None:
        part = TranscriptPart(PartKind.NOTE, "what happened", "a\nb")
        return Transcript((part,), lambda part: (part.text.encode(), False))

    def take_back(self) -> None:
        self.terminal.fill(self.queued.pop().text)
        self.terminal.show_queue(self.queued)

    def leave(self) -> None:
        self.say("bye")
        self.terminal.stop()

    async def do_work(self, _: str) -> None:
        self.is_at_work = True
        self.say("at work")

    async def do_rest(self, _: str) -> None:
        self.is_at_work = False
        self.say("at rest")

    async def do_lines(self, count: str) -> None:
        self.say("\n".join(f"line {number}" for number in range(int(count))))

    async def do_soon(self, fifo: str) -> None:
        self.terminal.commit_soon(Slow(fifo))

    async def do_late(self, fifos: str) -> None:
        """Ask when one says so, and the other has kept keys from being heard."""
        first, second = map(Path, fifos.split())
        await asyncio.to_thread(first.read_bytes)
        second.read_bytes()
        await self.do_ask("")

    async def do_stream(self, count: str) -> None:
        for number in range(int(count)):
            self.lines = [[("accent", f"live {number} 漢字 "), ("", "x" * number)]] * (number % 5)
            self.terminal.refresh()
            if number % 3 == 0:
                self.say(f"block {number}")
            await asyncio.sleep(0.001)
        self.lines = []
        self.say("streamed")

    async def do_tall(self, count: str) -> None:
        self.lines = [[("", f"tall {number}")] for number in range(int(count))]
        self.terminal.refresh()

    async def do_facts(self, _: str) -> None:
        self.terminal.show_status(FACTS)

    async def do_hostile(self, _: str) -> None:
        self.say("\x1b[2Jcommitted")
        self.lines = [[("", "\x1b[2Jlive")]]
        self.terminal.show_queue([QueuedInput("\x1b[2Jqueued", steers=True)])
        self.terminal.show_status(StatusFields(model="\x1b[2Jmodel"))

    async def do_ask(self, _: str) -> None:
        try:
            self.say(f"chose {await self.terminal.choose('May it?', CHOICES)}")
        except EOFError:
            self.say("nobody chose")

    async def do_wait(self, fifo: str) -> None:
        """Ask when somebody says so."""
        await asyncio.to_thread(Path(fifo).read_bytes)
        await self.do_ask("")

    async def do_enter(self, text: str) -> None:
        self.say(f"entered {await self.terminal.enter('A name', text)!r}")

    async def do_long(self, text: str) -> None:
        self.say(f"entered {await self.terminal.enter('A text', text, is_long=True)!r}")

    async def do_pick(self, _: str) -> None:
        rows = [ListRow(f"v{number}", f"row {number}", f"detail {number}") for number in range(100)]

        def search(words: str) -> list[ListRow]:
            if words == "broken":
                raise ValueError(words)
            return [row for row in rows if words in row.text]

        try:
            self.say(f"picked {await self.terminal.pick('Which one?', search)!r}")
        except ValueError as error:
            self.say(f"failed {error}")

    async def do_away(self, command: str) -> None:
        def work() -> int:
            code = subprocess.run(command, shell=True, check=False).returncode
            if command == "false":
                raise RuntimeError("away")
            return code

        self.say("away")
        try:
            self.say(f"back {await self.terminal.run_in_terminal(work)}")
        except RuntimeError as error:
            self.say(f"raised {error}")

    async def do_die(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


async def main(folder: Path, history: Path, is_plain: bool) -> None:
    terminal = make_terminal(folder=folder, history=history, is_plain=is_plain)
    toy = Toy(terminal)
    terminal.view = toy
    terminal.commands = COMMANDS
    terminal.keeps_history = "PRIVATE" not in os.environ
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminal.stop)
    toy.say("a toy")
    await terminal.run(toy)
    await asyncio.gather(*toy.tasks)
    sys.stdout.write("ended\n")


if __name__ == "__main__":
    asyncio.run(main(Path.cwd(), Path(sys.argv[1]), "--plain" in sys.argv))
