"""The sandbox of one workspace: what holds its commands, and how each is started.

A command runs in the sandbox or not at all, unless the person has turned it off: that nothing can
hold it, or that something goes wrong on the way, is a failure of the call.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from treadle import helper_programs
from treadle.risk.run_files import STARTUP_NAMES
from treadle.risk.settings import Setting
from treadle.sandbox import folders
from treadle.sandbox.after_command import hold, look_before, put_programs_aside
from treadle.sandbox.bubblewrap import Mounts, add_folder
from treadle.sandbox.caches import (
    find_cache,
    link_crates,
    make_cache,
    make_go_proxy,
    variables_of,
)
from treadle.sandbox.command_environment import (
    make_environment,
    make_reading_variables,
    read_git_settings,
)
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.git_includes import own_settings
from treadle.sandbox.held import Launch
from treadle.sandbox.launch import Backend, Order, Prepared
from treadle.sandbox.open_settings import OpenSettings, files_to_open
from treadle.sandbox.path_rules import SECRET_FILES, PathRules, is_below, rules_for
from treadle.sandbox.placeholders import (
    MadePlaceholder,
    find_strangers,
    make_placeholders,
    remove_placeholders,
)
from treadle.sandbox.policy import Level, Network, Policy
from treadle.sandbox.protected import (
    Protected,
    find_protected,
    first_missing,
    is_in,
    ways_to,
)
from treadle.sandbox.put_back import Copies, undo
from treadle.sandbox.replaced_files import MountedFiles
from treadle.sandbox.status import HINT, NO_NETWORK, SandboxStatus
from treadle.sandbox.thread_scratch import VARIABLE, make_scratch
from treadle.scratch_folders import scratch_folder
from treadle.secrets.known_secrets import files_named_by

_SYSTEM: Final = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/var", "/dev", "/proc", "/sys", "/opt")


class Sandbox:
    """Holds the commands of one workspace.

    Args:
        policy: what they may do. Chosen by a person.
        workspace: the folder they work in; it exists.
        environ: the environment of which they get a part; by default that of the process.
        backends: what may hold them, the first that works.
    """

    def __init__(
        self,
        policy: Policy,
        workspace: str | os.PathLike[str],
        *,
        environ: Mapping[str, str] | None = None,
        backends: tuple[str, ...] = BACKENDS,
    ) -> None:
        self.policy: Final = policy
        self.workspace: Final = os.path.realpath(workspace)
        self._environ: Final = dict(os.environ if environ is None else environ)
        self._backends: Final = backends
        self.scratch = ""
        """The folder of the thread whose commands these are; empty if it has none."""
        helper_programs.exclude(self.workspace, *policy.writable, *filter(None, [policy.caches]))

    @property
    def is_off(self) -> bool:
        """Whether the person wants none."""
        return self.policy.level is Level.OFF

    @property
    def only_reads(self) -> bool:
        """Whether nothing that a command does can last."""
        return self.policy.level is Level.READ_ONLY

    @cached_property
    def reading(self) -> Sandbox:
        """What holds commands that only read: nothing that they do can last."""
        if self.only_reads:
            return self
        policy = replace(self.policy, level=Level.READ_ONLY)
        return Sandbox(policy, self.workspace, environ=self._environ, backends=self._backends)

    def keep_scratch(self, folder: str) -> None:
        """Let commands write a folder of their thread; those that only read see it.

        No yes stands on it. It is made when the first command runs.
        """
        self.scratch = folder
        helper_programs.exclude(*filter(None, [folder]))
        if not self.only_reads:
            self.reading.scratch = folder

    @property
    def scratch_variables(self) -> dict[str, str]:
        """What names the folder to a command; makes it."""
        return {VARIABLE: self.scratch} if make_scratch(self.scratch) else {}

    @property
    def shuts_git_settings(self) -> bool:
        """Whether commands can change the workspace, but not the settings of its repositories."""
        return self.policy.level is Level.WORKSPACE_WRITE and not self._why_unheld

    def has_network(self, wants_network: bool) -> bool:
        """Whether a command reaches the network, if nobody says no.

        One that only reads has to say that it wants it, even where all others have it.
        """
        if self.is_off or (self.policy.network is Network.ON and not self.only_reads):
            return True
        return wants_network and self.policy.network is not Network.OFF

    def standing(self, wants_network: bool = False) -> SandboxStatus:
        """How a command would be held. Quick after the first time.

        Args:
            wants_network: whether it says that it needs the network.
        """
        has_network = self.has_network(wants_network)
        if self.is_off:
            words = "no sandbox"
            return SandboxStatus(words, False, self._ground(words, has_network))
        if self._why_unheld:
            words = f"no sandbox: {self._why_unheld}"
            refused = f"nothing can hold commands here: {self._why_unheld}. {HINT}"
            ground = self._ground(words, has_network)
            return SandboxStatus(words, False, ground, refused, self._why_unheld)
        # What cannot last needs no question for being wide: what is hidden stays hidden.
        why_wide = "" if self.only_reads else self.rules.why_wide or self._why_open
        network = "network" if has_network else "no network"
        words = ", ".join((self.policy.level.value, network, self._backend.describe()))
        return SandboxStatus(
            words,
            True,
            self._ground(words, has_network),
            refused=NO_NETWORK if wants_network and not has_network else "",
            why_wide=why_wide,
            must_ask=bool(why_wide) or (wants_network and self.policy.network is Network.ASK),
        )

    def environment(self) -> dict[str, str]:
        """What a command gets; the same in every terminal."""
        return dict(self._clean)

    @cached_property
    def _clean(self) -> Mapping[str, str]:
        """Made once: each value is looked through for credentials, and every command asks twice."""
        return make_environment(self._environ, is_off=self.is_off)

    @contextmanager
    def launch(
        self,
        argv: tuple[str, ...],
        cwd: str,
        *,
        wants_network: bool,
        settings: tuple[Setting, ...] = (),
        scratch: tuple[str, ...] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Launch]:
        """Make ready to run a program, and put things right afterwards. May take milliseconds.

        Args:
            argv: the program, by its whole path, and its arguments.
            cwd: the folder it begins in, beneath the workspace.
            wants_network: as in `standing`.
            settings: those of git that a person lets it write.
            scratch: folders that it may change besides, without links in their names.
            variables: what it gets besides, whether or not that is secret.

        Raises:
            ToolFailure: something stands in the workspace that could not be protected.
        """
        assert not self.is_off
        assert not self._why_unheld
        mounts, protected = self._mounts()
        named = self.scratch_variables
        if named and not self._is_writable(self.scratch):
            mounts = add_folder(mounts, self.scratch, is_writable=not self.only_reads)
        opened = files_to_open(protected, cwd) if settings else ()
        protected = replace(
            protected, shut=tuple(one for one in protected.shut if one not in opened)
        )
        mounts = replace(
            mounts,
            shut=tuple(one for one in mounts.shut if one not in opened),
            writable=(*mounts.writable, *scratch),
        )
        written = OpenSettings(opened, settings)
        # What a run that was killed has left.
        undone = undo((*protected.absent, *find_strangers(protected.stubs)))
        put_aside, unseen = list[str](), list[str]()
        with hold(self._writable, look_before(protected.repositories)) as before:
            made = make_placeholders(protected.missing, protected.stubs)
            mounted = MountedFiles(protected.shut if self._backend.name == "bubblewrap" else ())
            try:
                with self._lay(mounts, protected, made, undone) as (mounts, env, data):
                    env |= {**named, **variables}
                    has_network = self.has_network(wants_network)
                    order = Order(argv, env, cwd, self.policy.limits, has_network, self.only_reads)
                    prepared = Prepared(self._backend, mounts, order, data)
                    try:
                        yield Launch(prepared, undone, put_aside, unseen)
                    finally:
                        prepared.close()
            finally:
                # Before anything else runs git.
                undone += (*written.put_back(), *mounted.put_back())
                left = remove_placeholders(made)
                strangers = find_strangers(protected.stubs)
                undone += undo(dict.fromkeys((*left, *protected.absent, *strangers)))
                if self._writable:
                    own = own_settings(self._environ, self.workspace)
                    looked = put_programs_aside(self._writable, own, before)
                    put_aside += looked.put_aside
                    unseen += looked.unseen

    # ---- what holds ----------------------------------------------------------------------------

    @cached_property
    def _backend(self) -> Backend:
        return find_backend(self._backends)

    @cached_property
    def _homes(self) -> tuple[str, ...]:
        return folders.homes_of(self._environ)

    @cached_property
    def rules(self) -> PathRules:
        """What file tools in the workspace must not touch: what commands do not see either."""
        return self._all_rules[0]

    @cached_property
    def _all_rules(self) -> tuple[PathRules, ...]:
        """Those of the workspace, then of each folder that commands change or see besides."""
        chosen = tuple(map(os.path.expanduser, (*self.policy.writable, *self.policy.readable)))
        homes = dict.fromkeys((*self._homes, *folders.homes_of_others()))
        reached = (self.workspace, *map(os.path.realpath, chosen))
        hidden, named = self.policy.hidden, files_named_by(self._environ)
        return tuple(rules_for(one, homes, hidden, chosen, named) for one in reached)

    @cached_property
    def _why_unheld(self) -> str:
        """Why nothing can hold commands here; empty if something does."""
        if not self._backend.name:
            return self._backend.why_not or "nothing that could hold commands was chosen"
        if self.workspace == "/" or any(is_below(one, self.workspace) for one in _SYSTEM):
            return f"the workspace, {self.workspace}, is a folder of the system"
        inside = [one for one in self._hidden if self._is_writable(one)]
        if self._backend.name == "landlock" and inside:
            return f"without bubblewrap {inside[0]} cannot be hidden in the workspace"
        if self._backend.program and helper_programs.is_excluded(self._backend.program):
            return f"commands may change {self._backend.program}, which should hold them"
        return ""

    @cached_property
    def _own_code(self) -> tuple[str, ...]:
        """Where this program itself is loaded from, of what commands could change."""
        return tuple(one for one in helper_programs.own_code() if self._is_writable(one))

    @cached_property
    def _why_open(self) -> str:
        """Why a command could change this program, which runs outside the sandbox."""
        for one in self._own_code:
            # Landlock gives and takes nothing back; a mount on the whole workspace leaves nothing.
            if self._backend.name == "landlock" or one in self._writable:
                return f"Treadle itself runs from {one}, which commands may change"
        return ""

    def _ground(self, words: str, has_network: bool) -> str:
        # Whether this command has the network counts, not who could be asked for it.
        policy = replace(self.policy, may_ask=True, network=Network.ASK)
        told = (words, has_network, self.workspace, policy, sorted(self.environment().items()))
        return hashlib.sha256(msgspec.json.encode(told)).hexdigest()

    # ---- what is seen --------------------------------------------------------------------------

    @property
    def _hidden(self) -> tuple[str, ...]:
        """Of all hidden places, those that are there now."""
        found = [place.path for rules in self._all_rules for place in rules.hidden]
        return folders.existing((*self.policy.hidden, *found))

    def _startup_files(self) -> tuple[str, ...]:
        """What a shell or a desktop runs when a person logs in, of homes that commands change."""
        homes = [home for home in self._homes if self._is_writable(home)]
        return folders.existing(f"{home}/{name}" for home in homes for name in STARTUP_NAMES)

    @cached_property
    def _writable(self) -> tuple[str, ...]:
        if self.only_reads:
            return ()
        return (self.workspace, *folders.existing(map(os.path.expanduser, self.policy.writable)))

    def _is_writable(self, path: str) -> bool:
        return any(is_below(path, one) for one in self._writable)

    @cached_property
    def _plain_mounts(self) -> Mounts:
        """All of them that no run changes."""
        seen = [self.workspace, *self._shown, *self.policy.skills, *filter(None, [self._cache])]
        seen += folders.toolchains_of(self._environ, self._homes)
        if self.policy.network is not Network.OFF:
            seen += folders.existing(folders.NEEDED_OF_RUN)
        scratch = {*folders.existing(folders.SCRATCH), *self._homes}
        empty = {*folders.existing(folders.EMPTY), *folders.homes_of_others()} - scratch
        private = {*scratch, *empty}
        # A folder of which all is seen anyway, or that lies in the workspace, is left as it is.
        whole = (self.workspace, *folders.existing(map(os.path.expanduser, self.policy.writable)))
        private = {one for one in private if not any(is_below(one, top) for top in whole)}
        readable = [
            path
            for path in dict.fromkeys(seen)
            if folders.is_there(path)
            and any(is_below(path, one) for one in private)
            and not self._is_writable(path)
            and not any(is_below(one, path) for one in private)
        ]
        if self.only_reads:
            # Of what lies on a scratch folder, Landlock lets pipes with a name be written too.
            empty |= {top for top in scratch if any(is_below(one, top) for one in readable)}
            scratch -= empty
        return Mounts(
            scratch=tuple(sorted(scratch & private)),
            empty=tuple(sorted(empty & private)),
            readable=tuple(sorted(readable)),
            # No repository in a cache is looked for: nobody works there but commands.
            writable=(*self._writable, *([] if self.only_reads else filter(None, [self._cache]))),
        )

    @cached_property
    def _shown(self) -> tuple[str, ...]:
        """What the person lets commands see outside the workspace, and not change."""
        chosen = (*self.policy.readable, *(self.policy.writable if self.only_reads else ()))
        return tuple(map(os.path.expanduser, chosen))

    @cached_property
    def _cache(self) -> str:
        """The folder of this workspace's cache; empty if it has none."""
        base = self.policy.caches and os.path.realpath(self.policy.caches)
        if self.only_reads:
            return find_cache(base, self.workspace) if base else ""
        is_held = self.policy.level is Level.WORKSPACE_WRITE and not self._is_writable(base)
        cache = make_cache(base, self.workspace) if base and is_held else ""
        if cache and self._homes:
            link_crates(cache, self._environ, self._homes[0])
        return cache

    def _cache_variables(self, scratch: str) -> dict[str, str]:
        home = self._homes[0] if self._homes else ""
        if self.only_reads:
            found = make_reading_variables(self._clean, scratch, self._cache, home)
            return found | make_go_proxy(self._environ, home, self._cache)
        if not self._cache or not home:
            return {}
        chosen = (*self.policy.writable, *self.policy.readable)
        return variables_of(self._cache, self._environ, home, chosen)

    def _mounts(self) -> tuple[Mounts, Protected]:
        """Those of this run, which begins now."""
        protected = Protected()
        if self._writable:
            protected = find_protected(self._writable, own_settings(self._environ, self.workspace))
        hidden, startup = self._hidden, self._startup_files()
        own = tuple(
            str(first_missing(Path(path)))
            for path in map(os.path.realpath, self.policy.hidden)
            if not folders.is_there(path) and self._is_writable(path)
        )
        code = () if self._why_open else self._own_code
        # What leads to hidden paths cannot be renamed, or they would be open under another name.
        ways = (
            way
            for path in (*hidden, *own, *startup, *code)
            for folder in self._writable
            if is_in(path, folder)
            for way in ways_to(Path(path), folder)
            if way not in self._writable
        )
        protected = replace(
            protected,
            kept=tuple(dict.fromkeys((*protected.kept, *ways))),
            shut=tuple(dict.fromkeys((*protected.shut, *startup))),
            missing=tuple(dict.fromkeys((*protected.missing, *own))),
        )
        mounts = replace(
            self._plain_mounts,
            kept=protected.kept,
            shut=(*protected.shut, *code),
            hidden_folders=tuple(dict.fromkeys(one for one in hidden if folders.is_folder(one))),
            hidden_files=tuple(
                dict.fromkeys(
                    one
                    for one in (*hidden, *folders.existing(SECRET_FILES), *self._named())
                    if folders.is_file(one)
                )
            )
            + self._sockets(),
            uncovered=tuple(
                one
                for one in folders.existing(self.policy.skills)
                if any(is_below(one, place) for place in hidden)
            ),
        )
        return mounts, protected

    def _named(self) -> tuple[str, ...]:
        """Files of credentials that variables name, outside of what a person lets commands see."""
        left = (*folders.existing(self._shown), *self._writable)
        named = filter(self._is_seen, folders.existing(map(str, files_named_by(self._environ))))
        return tuple(path for path in named if not any(is_below(path, one) for one in left))

    def _sockets(self) -> tuple[str, ...]:
        """Those that programs outside listen on, where a command would see them."""
        return tuple(
            path
            for path in folders.sockets()
            if self._is_seen(path) and not self._is_writable(path)
        )

    def _is_seen(self, path: str) -> bool:
        """Whether a command would see what lies outside of what it may write."""
        plain = self._plain_mounts
        is_out_of_sight = any(is_below(path, one) for one in (*plain.scratch, *plain.empty))
        return not is_out_of_sight or any(is_below(path, one) for one in plain.readable)

    @contextmanager
    def _lay(
        self, mounts: Mounts, protected: Protected, made: list[MadePlaceholder], undone: list[str]
    ) -> Iterator[tuple[Mounts, dict[str, str], dict[str, bytes]]]:
        """The mounts, the environment and the files of a run on the backend."""
        env = self.environment()
        home = self._homes[0] if self._homes else ""
        if self._backend.name == "bubblewrap":
            own = (*mounts.scratch, *mounts.empty)
            place = next((one for one in folders.SCRATCH if one in mounts.scratch), "/tmp")  # noqa: S108
            env |= self._cache_variables(place) | {"TMPDIR": place}
            if home not in own and (self.only_reads or not self.rules.why_wide):
                home = env["HOME"] = place
            data = {f"{home}/.gitconfig": self._git_settings} if home in own else {}
            laid = replace(
                mounts,
                hidden_folders=(
                    *mounts.hidden_folders,
                    *(one.path for one in made if one.is_folder),
                ),
                shut=(*mounts.shut, *(one.path for one in made if not one.is_folder)),
            )
            copies = Copies(protected.links)
            try:
                yield laid, env, data
            finally:
                undone += copies.restore()
            return
        copies = Copies((*protected.shut, *protected.links))
        with scratch_folder() as scratch:
            settings = Path(scratch, "gitconfig")
            settings.write_bytes(self._git_settings)
            env |= self._cache_variables(os.path.realpath(scratch))
            env |= {"TMPDIR": scratch, "HOME": scratch, "GIT_CONFIG_GLOBAL": str(settings)}
            scratch = os.path.realpath(scratch)
            try:
                writable = (*mounts.writable, scratch)
                shut = (*mounts.shut, *(one.path for one in made))
                yield replace(mounts, writable=writable, shut=shut), env, {}
            finally:
                undone += copies.restore()

    @cached_property
    def _git_settings(self) -> bytes:
        return read_git_settings(self._environ)
