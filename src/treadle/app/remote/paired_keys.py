"""Which devices may speak for their person to this machine, and with which machines this one may.

Two files of the user, which nobody else may read: `remote_keys.json` of a machine that takes
answers holds its name and the public keys it trusts; `device_key.json` of a device that gives them
holds its private key and the machines that know it. No server reads or writes either.
"""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.app.remote.statements import find_public_key, make_private_key
from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.errors import ConfigError, UsageError
from treadle.store.disk import Disk
from treadle.store.file_replacement import replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places

FILE_SIZE_MAX: Final = 256 * 1024
KEYS_MAX: Final = 50
NAME_LENGTH_MAX: Final = 60
_DOMAIN: Final = b"treadle pairing 1\0"
_FileT = TypeVar("_FileT")


class PairedKey(Struct, frozen=True):
    """A device that may speak for its person here; `public_key` is in hex digits."""

    name: str
    public_key: str
    paired_at: str


class MachineKeys(Struct, frozen=True):
    """Who this machine is to the devices of its person, and which of them it trusts."""

    machine: str
    keys: tuple[PairedKey, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """How the keys are called in records, by the public keys."""
        return {
            one.public_key: f"{one.name} (key {make_fingerprint(one.public_key)})"
            for one in self.keys
        }


class KnownMachine(Struct, frozen=True):
    """A machine that knows this device."""

    id: str
    name: str


class DeviceKey(Struct, frozen=True):
    """What this device signs with, and for which machines."""

    private_key: str
    machines: tuple[KnownMachine, ...] = ()

    def __repr__(self) -> str:
        return f"DeviceKey(machines={self.machines!r})"


class PairingCode(Struct, frozen=True):
    """What a machine shows and a device is given: whom it pairs with, and a secret of these two.

    It goes from screen to person, never over a server.
    """

    machine: str
    name: str
    secret: str

    def __str__(self) -> str:
        return f"{self.machine}.{self.secret}.{self.name}"


class PairingOffer(Struct, frozen=True, forbid_unknown_fields=True):
    """A device's public key on its way to a machine. `proof` shows that it knows the code."""

    name: str
    public_key: str
    proof: str


def make_fingerprint(public_key: str) -> str:
    """A short name of a key, to be compared by a person: 16 hex digits, in groups."""
    digest = sha256(bytes.fromhex(public_key)).hexdigest()
    return "-".join(digest[i : i + 4] for i in range(0, 16, 4))


# ---- pairing -----------------------------------------------------------------------------------


def make_pairing_code(machine: str, name: str) -> PairingCode:
    """A code that is good once."""
    return PairingCode(machine, name, secrets.token_hex(16))


def parse_pairing_code(text: str) -> PairingCode:
    """The code that a person has copied.

    Raises:
        UsageError: it is none.
    """
    machine, _, rest = text.strip().partition(".")
    secret, _, name = rest.partition(".")
    if not _is_hex(machine, 16) or not _is_hex(secret, 32):
        raise UsageError("that is no pairing code", hint="`treadle remote pair` prints one")
    return PairingCode(machine, name[:NAME_LENGTH_MAX], secret)


def make_offer(code: PairingCode, name: str, public_key: str) -> bytes:
    """What a device sends to the machine of a code."""
    return msgspec.json.encode(PairingOffer(name, public_key, _make_proof(code, name, public_key)))


def is_offer(data: bytes) -> bool:
    """Whether that is an offer of a device, whoever made it."""
    try:
        msgspec.json.decode(data, type=PairingOffer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def read_offer(code: PairingCode, data: bytes) -> PairingOffer:
    """An offer that was made by who knows the code.

    Raises:
        UsageError: it was not: a server cannot put a key of its own in the place of the device's.
    """
    try:
        offer = msgspec.json.decode(data, type=PairingOffer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise UsageError("that is no offer of a device") from None
    if not _is_hex(offer.public_key, 64) or not 0 < len(offer.name.strip()) <= NAME_LENGTH_MAX:
        raise UsageError("that is no offer of a device")
    proof = _make_proof(code, offer.name, offer.public_key)
    if not hmac.compare_digest(proof, offer.proof if offer.proof.isascii() else ""):
        raise UsageError("who made this offer does not know the code")
    return offer


def _make_proof(code: PairingCode, name: str, public_key: str) -> str:
    told = _DOMAIN + b"\0".join(one.encode() for one in (code.machine, public_key, name))
    return hmac.new(bytes.fromhex(code.secret), told, sha256).hexdigest()


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and all(c in "0123456789abcdef" for c in text)


# ---- the files ---------------------------------------------------------------------------------


def read_machine_keys(places: Places) -> MachineKeys | None:
    """The keys that this machine trusts; `None` if it was never paired with a device.

    Raises:
        ConfigError: the file cannot be used: others may read it, or it holds something else.
        DiskError: the machine fails to read it just now.
    """
    return _read_file(places.config / "remote_keys.json", MachineKeys)


def ensure_machine_keys(disk: Disk, places: Places) -> MachineKeys:
    """The same; a machine that has no name yet gets one."""
    found = read_machine_keys(places)
    if found is None:
        found = MachineKeys(secrets.token_hex(8))
        _write_file(disk, places.config / "remote_keys.json", found)
    return found


def add_key(disk: Disk, places: Places, key: PairedKey) -> None:
    """Trust a device from now on.

    Raises:
        UsageError: there are too many, or one has this name.
    """
    keys = ensure_machine_keys(disk, places)
    others = tuple(one for one in keys.keys if one.public_key != key.public_key)
    if any(one.name == key.name for one in others):
        raise UsageError(f"a device is called {key.name} already", hint="give it another name")
    if len(others) >= KEYS_MAX:
        raise UsageError("too many devices are paired", hint="`treadle remote forget NAME`")
    _write_file(disk, places.config / "remote_keys.json", replace(keys, keys=(*others, key)))


def forget_key(disk: Disk, places: Places, name: str) -> None:
    """Trust a device no more; it holds for what it has said and this machine has not taken, too.

    Raises:
        UsageError: no device is called so.
    """
    keys = ensure_machine_keys(disk, places)
    kept = tuple(one for one in keys.keys if one.name != name)
    if len(kept) == len(keys.keys):
        names = ", ".join(one.name for one in keys.keys) or "none"
        raise UsageError(f"no paired device is called {name}", hint=f"those that are: {names}")
    _write_file(disk, places.config / "remote_keys.json", replace(keys, keys=kept))


def read_device_key(places: Places) -> DeviceKey | None:
    """What this device signs with; raises as `read_machine_keys`."""
    return _read_file(places.config / "device_key.json", DeviceKey)


def ensure_device_key(disk: Disk, places: Places) -> DeviceKey:
    """The same; a device that has no key yet gets one."""
    found = read_device_key(places)
    if found is None:
        found = DeviceKey(make_private_key().hex())
        _write_file(disk, places.config / "device_key.json", found)
    return found


def find_device_public_key(device: DeviceKey) -> str:
    """The public key of this device, in hex digits."""
    return find_public_key(bytes.fromhex(device.private_key))


def add_machine(disk: Disk, places: Places, machine: KnownMachine) -> None:
    """Remember a machine that knows this device."""
    device = ensure_device_key(disk, places)
    others = tuple(one for one in device.machines if one.id != machine.id)
    path = places.config / "device_key.json"
    _write_file(disk, path, replace(device, machines=(*others, machine)))


def _read_file(path: Path, kind: type[_FileT]) -> _FileT | None:
    try:
        file = read_plain_file(path, FILE_SIZE_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise_machine_error(path, error)
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    if file.owner != os.getuid() or file.mode & 0o077:
        raise ConfigError(f"{path} is not used: others may read it", hint=f"chmod 600 {path}")
    try:
        return msgspec.json.decode(file.data, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        raise ConfigError(f"{path} is not used: it holds something else") from None


def _write_file(disk: Disk, path: Path, value: object) -> None:
    data = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    with convert_os_errors("make", str(path.parent)):
        disk.make_folder(str(path.parent))
    replace_file(disk, str(path), data)
