"""How a command would be held: what the sandbox says of one before it runs. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

HINT: Final = (
    "`treadle doctor` says what is missing, mostly the package bubblewrap. A person may also let "
    'commands run without: `--sandbox off` for one run, `sandbox = "off"` in their own settings'
)
NO_NETWORK: Final = (
    "commands have no network here: it is off, or nobody is there to be asked for it. A person may "
    'allow it: `--network on` for one run; `network = "ask"` in their own settings has them asked'
)


class SandboxStatus(Struct, frozen=True):
    """How a command would be held, as things stand.

    `confined` says it in words, also that nothing would hold it; `why_unheld` is then the reason,
    unless the person wants it so. A command that is `refused` is not held, or not with what it
    wants, for the reason that stands there. `why_wide` says why it is not held as it should be;
    then a person has to be asked, as for the network: `must_ask`. `ground` is a digest of all of
    it, for what a yes stands on.
    """

    confined: str
    is_confined: bool
    ground: str
    refused: str = ""
    why_unheld: str = ""
    why_wide: str = ""
    must_ask: bool = False
