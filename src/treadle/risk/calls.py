"""One program with its arguments, and how rules ask about them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from treadle.risk.lexer import Word
from treadle.risk.split import Redirect

_VERSION: Final = re.compile(r"(?<=[a-z])(?<!base)-?[\d.]+$")


class ProgramCall(Struct, frozen=True):
    """A program as it would run.

    `name` is the last part of the path of the program, in small letters, without a version
    (`python` for `/usr/bin/python3.11`).
    """

    name: str
    program: Word
    args: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    is_fed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The arguments as they stand."""
        return tuple(word.text for word in self.args)

    @property
    def operands(self) -> tuple[str, ...]:
        """The arguments that are no options; all after `--`."""
        return operands(self.texts)

    @property
    def is_filled(self) -> bool:
        """Whether its input is something else than nothing."""
        return self.is_fed or any(each.operator.startswith("<") for each in self.redirects)

    def has(self, *options: str) -> bool:
        """Whether one of the options is among the arguments, see `has_option`."""
        return has_option(self.texts, *options)

    def value(self, *options: str) -> str | None:
        """What follows the first of these options, as its own word or in the same one."""
        texts = self.texts
        for place, text in enumerate(texts):
            for option in options:
                if text == option:
                    return texts[place + 1] if place + 1 < len(texts) else ""
                joint = f"{option}=" if option.startswith("--") else option
                if text.startswith(joint):
                    return text.removeprefix(joint)
        return None


def name_of(program: str) -> str:
    """The name that rules know a program by."""
    name = program.rstrip("/").rpartition("/")[2].lower().removesuffix(".exe")
    return _VERSION.sub("", name)


def operands(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts that are no options; all after `--`."""
    found: list[str] = []
    after = False
    for text in texts:
        if after or not text.startswith("-") or text == "-":
            found.append(text)
        elif text == "--":
            after = True
    return tuple(found)


def has_option(texts: Iterable[str], *options: str) -> bool:
    """Whether one of the options is among the texts.

    A short one (`-f`) also in a bundle (`-uf`); a long one also cut short (`--forc`), since many
    programs take that, and with a value (`--force=x`).
    """
    short = {option[1] for option in options if len(option) == 2}
    long = [option for option in options if len(option) > 2]
    for text in texts:
        if text == "--":
            return False
        name = text.partition("=")[0]
        if text.startswith("--"):
            if len(name) > 3 and any(option.startswith(name) for option in long):
                return True
        elif text.startswith("-") and (text in long or short & {*text[1:]}):
            return True
    return False
