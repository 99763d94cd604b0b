"""Why a person should look twice at a command: all the sentences there are, the worst first."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Reason(Enum):
    """One kind of danger; its value is the sentence that a person reads."""

    UNSEEN = "it has characters that cannot be seen, so it is not what it looks like"
    LOOKALIKE = "the name of a program has letters that look like other ones"
    TOO_MUCH = "it is too long or too deeply nested to be judged"
    UNREADABLE = "it cannot be read: a quote or a bracket is not closed, or in a strange place"
    DISK = "it writes to a disk or destroys what is on one"
    ROOT = "it deletes a root, the home folder, the whole workspace or its .git"
    FORKS = "it starts copies of itself without end"
    NETWORK_RUNS = "it runs what comes from the network"
    HIDDEN_RUNS = "it runs text that is written so that it cannot be read"
    FED = "a shell runs what another command writes"
    SECRETS = "it reaches credentials"
    ENVIRONMENT = "it shows the environment, which may hold credentials"
    SENDS = "it can send data to another machine"
    PRIVILEGE = "it takes or gives the rights of another user"
    SYSTEM = "it changes or stops this machine or other programs on it"
    LATER = "it changes what runs later by itself"
    CONTAINER = "it can reach this whole machine through a container"
    REMOTE = "it runs a command on another machine"
    CLOUD = "it changes or deletes what runs or is kept elsewhere"
    DATABASE = "it deletes from a database"
    PUBLISHES = "it publishes, or changes what is published"
    OVERWRITES = "it overwrites or deletes branches that others have"
    LOSES = "it throws away work that cannot be brought back"
    REWRITES = "it rewrites history"
    POISONS = "it sets a variable that decides which programs run"
    REPLACES = "it gives the name of a program another meaning"
    COVERS_UP = "it hides what was done"
    DELETES = "it deletes files that are only known when it runs"
    STARTS = "it makes a program run other programs"
    UNKNOWN = "which program runs is only known when it runs"
    OUTSIDE_CHANGED = "it changes files outside the workspace"
    OUTSIDE = "it reaches files outside the workspace"
    INSTALLS = "it installs or runs code from the network"


ORDINARY: Final = frozenset({Reason.INSTALLS})
"""Said of a command that is no more than high risk."""

ORDER: Final = {reason: place for place, reason in enumerate(Reason)}
