"""What it costs to show an answer while it is written, over having rich render it once."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.markdown import Markdown

from bench.report import Row, at_most, median_s
from treadle.outputs import TextDelta, TurnStarted
from treadle.terminal.view import ChatView

SIZE = 20_000
DELTA_SIZE = 4
TIMES = 5

_SECTION = """
## Step {number}: what has to change

The reader asks the *store* for `{number}` records, and the store asks the disk. That is **one**
request too many: see [the notes](https://example.org/{number}) for the reasons, and for what was
tried before.

- open the journal, and hold the lock
- read from the end
  - until the head is found
  - or the file is over
- tell how many there were

```python
def read(store: Store, count: int = {number}) -> list[Record]:
    \"\"\"The last records.\"\"\"
    with store.lock():
        return [record for record in reversed(store.scan()) if record.seq > count]
```

| case | before | after |
|---|---:|---:|
| empty | {number} | 0 |
| large | {number}0 | 1 |
"""


class _Screen:
    """Draws at once what it is given, as the real terminal does when it is asked to."""

    is_plain = False
    width = 80

    def __init__(self) -> None:
        self.view: ChatView | None = None
        self._console = Console(file=io.StringIO(), width=self.width, force_terminal=True)

    def commit(self, *blocks: RenderableType) -> None:
        for block in blocks:
            self._console.print(block)

    def refresh(self) -> None:
        assert self.view is not None
        _drawn(self.view.live_lines(self.width))


def _drawn(lines: Sequence[Sequence[tuple[str, str]]]) -> int:
    return sum(len(text) for line in lines for _, text in line)


def answer() -> str:
    """An answer with all that answers have."""
    text = "".join(_SECTION.format(number=number) for number in range(1, 100))
    return text[:SIZE]


def measure() -> list[Row]:
    """An answer of 20 kB in pieces of four characters, drawn after each of them."""
    text = answer()

    def once() -> None:
        Console(file=io.StringIO(), width=80, force_terminal=True).print(Markdown(text))

    def streamed() -> None:
        screen = _Screen()
        view = ChatView(screen, now=lambda: 0.0)  # type: ignore[arg-type]
        screen.view = view
        view.show(TurnStarted("t", ""))
        for place in range(0, len(text), DELTA_SIZE):
            view.show(TextDelta(text[place : place + DELTA_SIZE]))
        view.close()

    once()
    whole_s, streamed_s = median_s(once, TIMES), median_s(streamed, TIMES)
    name = "20 kB answer streamed and drawn 5,000 times, over rendering it once"
    return [at_most(name, streamed_s / whole_s, "x", 5, f"once: {whole_s * 1000:.0f} ms")]
