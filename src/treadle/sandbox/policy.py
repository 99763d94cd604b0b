"""What a command may do. Chosen by the person, never by a repository or a model. Pure."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Level(Enum):
    """What of the file system a command may change."""

    READ_ONLY = "read-only"
    """Nothing that lasts: not even the workspace. Tools that write files are not offered then."""
    WORKSPACE_WRITE = "workspace-write"
    """The workspace, but not what runs programs later: git's hooks and settings, `.treadle`."""
    OFF = "off"
    """Whatever the person may."""


class Network(Enum):
    """Whether a command reaches the network."""

    OFF = "off"
    ASK = "ask"
    """A command that says it needs it is asked about, under every approval mode."""
    ON = "on"


class Limits(Struct, frozen=True):
    """What one command may use up. Sizes in bytes."""

    processes_max: int = 512
    memory_size_max: int = 4 * 2**30
    file_size_max: int = 2 * 2**30
    """Of one file that it writes."""
    disk_growth_max: int = 20 * 2**30
    """By how much the disk of the workspace may fill while it runs, by whomever."""


class Policy(Struct, frozen=True):
    """All that bounds a command, besides its time.

    `writable` and `readable` are folders outside the workspace that the person lets it change or
    see; `hidden` are paths nobody in a sandbox sees: this program's own threads and settings.
    `skills` are folders of instructions that a person has or trusts: tools that read files read
    them too, and commands see them even where what is around them is hidden.
    `caches` is a folder below which each workspace has a cache of its own that its commands may
    write; without one they have none. `may_ask` is whether a person is there to be asked about
    what is neither allowed nor refused. With `asks_to_read` a command that only reads is asked
    about like one that writes.
    """

    level: Level = Level.WORKSPACE_WRITE
    network: Network = Network.ASK
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    limits: Limits = Limits()
    caches: str = ""
    may_ask: bool = True
    asks_to_read: bool = False
    skills: tuple[str, ...] = ()
