"""The programs that a text calls, each as a line of plain words. Pure; never raises.

Only for advice: it takes a text apart as far as plain quotes, joints and `sh -c` go. What a
here-document holds counts where a shell reads it.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

DEPTH_MAX: Final = 6
"""Of texts within texts; a plain command has two."""
TAIL_COUNT_MAX: Final = 12
"""Words behind `sudo`, `env` and the like that may be the program they run."""

_PIECE: Final = re.compile(
    r"""
    (?P<blank>(?:[^\S\n]|\\\n)+ | (?:\A|(?<=[\s;|&(]))\#[^\n]*)
    | (?P<end>-(?:exec|execdir|ok|okdir)(?=\s) | (?:\$\(|[\n;|(){}`]|(?<![<>])&(?!>))+)
    | \$'(?P<ansi>(?:[^'\\]|\\.)*+)(?P<ansi_end>'?)
    | '(?P<single>[^']*)(?P<single_end>'?)
    | "(?P<double>(?:[^"\\]|\\.)*+)(?P<double_end>"?)
    | \\(?P<escaped>.?)
    | (?P<bare>[^\s;|&(){}`'"\\$]+|[$&])
    """,
    re.VERBOSE | re.DOTALL,
)
_SUBSTITUTION: Final = re.compile(r"\$\(([^()]*)|`([^`]*)")
_HERE_DOCUMENT: Final = re.compile(r"(?<!<)<<-?(?!<)[ \t]{0,9}['\"\\]?(\w{1,99})")
_READS_TEXT: Final = re.compile(
    r"(?:ba|z|da|k|fi)?sh|eval|su|ssh|trap|watch|xargs|parallel|sudo|docker|podman|kubectl"
)
_CALLS_OTHERS: Final = re.compile(
    r"sudo|doas|su|env|command|builtin|exec|nohup|nice|ionice|time|timeout|setsid|stdbuf|busybox"
    r"|xargs|parallel|watch|strace|eval|ssh|if|then|else|elif|while|until|do|!|chroot|unshare|flock"
    r"|docker|podman|kubectl"
)
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*\+?=")


class ProgramCalls(Struct, frozen=True):
    """What a text calls.

    `lines` are the words of each call with single blanks between them: the program without its
    folder, then its arguments, in which blanks and line ends are written `_`. Of `sudo`, `env` and
    the like the lines that begin at later words follow. `programs` are the first words alone. A
    text that `is_open` has a quote without an end.
    """

    lines: tuple[str, ...]
    programs: tuple[str, ...]
    is_open: bool


def list_calls(text: str) -> ProgramCalls:
    """The calls of a text, and of the texts in it that a shell reads."""
    lines: list[str] = []
    programs: list[str] = []
    is_open = False
    texts = [strip_here_documents(text)]
    for depth in range(DEPTH_MAX):
        reader = _CallReader()
        for one in texts:
            reader.read(one)
        is_open |= depth == 0 and reader.is_open
        for words in reader.calls:
            programs.append(words[0])
            lines += _list_lines(words)
        texts = reader.inner
    return ProgramCalls(tuple(dict.fromkeys(lines)), tuple(programs), is_open)


def strip_here_documents(text: str) -> str:
    """The text without its here-documents, but for those on lines that name a shell."""
    left: list[str] = []
    skipped: list[str] = []
    ends: list[str] = []
    is_read = False
    for line in text.split("\n"):
        if not ends:
            left.append(line)
            ends = _HERE_DOCUMENT.findall(line)
            is_read = any(map(_READS_TEXT.fullmatch, re.split(r"[\s/|;&(]+", line)))
        elif line.strip() == ends[0]:
            ends.pop(0)
            skipped = []
        else:
            (left if is_read else skipped).append(line)
    return "\n".join((*left, *skipped))


def _list_lines(words: list[str]) -> list[str]:
    while len(words) > 1 and _ASSIGNS.match(words[0]):
        words = words[1:]
    program = words[0].rpartition("/")[2]
    count = TAIL_COUNT_MAX if _CALLS_OTHERS.fullmatch(program) else 1
    tails = (words[start:] for start in range(min(count, len(words))))
    return [" ".join((tail[0].rpartition("/")[2], *tail[1:])) for tail in tails]


class _CallReader:
    """Calls that grow, piece by piece."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.inner: list[str] = []
        self.is_open = False
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._texts: list[str] = []

    def read(self, text: str) -> None:
        """Adds the calls of a text."""
        for match in _PIECE.finditer(text):
            groups = match.groupdict()
            if match["blank"] is not None:
                self._end_word()
            elif match["end"] is not None:
                self._end_call()
            else:
                self._add(groups)
        self._end_call()

    def _add(self, groups: dict[str, str | None]) -> None:
        self.is_open |= "" in (groups["ansi_end"], groups["single_end"], groups["double_end"])
        found = (groups["ansi"], groups["single"], groups["double"])
        quoted = next((one for one in found if one is not None), None)
        if self._word is None:
            self._word = []
        if quoted is None:
            self._word.append(groups["escaped"] or groups["bare"] or "")
            return
        self._word.append(re.sub(r"\s", "_", quoted))
        self._texts.append(quoted)
        if groups["double"] is not None:
            self.inner += (one[1] or one[2] or "" for one in _SUBSTITUTION.finditer(quoted))

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append("".join(self._word))
        self._word = None

    def _end_call(self) -> None:
        self._end_word()
        words = [word for word in self._words if word]
        if words:
            self.calls.append(words)
            if any(_READS_TEXT.fullmatch(word.rpartition("/")[2]) for word in words):
                self.inner += self._texts
        self._words, self._texts = [], []
