"""What a person says from another device, as the bytes that they sign.

- A *statement* is a text of JSON. Signed is `DOMAIN`, then the bytes of that text as they are sent:
  there is no second form of it, and what was verified is what is read.
- It names the machine, the thread, the act, for an answer the call and the digest of the question
  that was shown, and until when it holds. Its id is its nonce: a machine takes it once.
- The signature is Ed25519. A machine verifies it with the keys that were paired with it, which lie
  in a file of its own; no server names a key.

So who carries statements can lose one, delay it until it expires, or give several in another order,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from treadle.errors import NotConfiguredError, UsageError
from treadle.store.thread_requests import Act

DOMAIN: Final = b"treadle statement 1\0"
SIZE_MAX: Final = 512 * 1024
"""Bytes of a signed statement."""


class RemoteStatement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person says, and to whom.

    Args:
        id: its nonce, of 16 to 64 letters and digits.
        machine: the machine that it is for.
        thread: the thread.
        act: what is asked for.
        expires_at: until when it holds, as records have times.
        call_id: of an answer, the call.
        ground: of an answer, the digest of the question that was shown.
        text: a prompt, the reason of a no, or the arguments of a changed call.
        folder: of a beginning, in which of the folders of the machine, as it calls them.
    """

    id: str
    machine: str
    thread: str
    act: Act
    expires_at: str
    call_id: str
    ground: str
    text: str
    folder: str = ""


class SignedStatement(Struct, frozen=True, forbid_unknown_fields=True):
    """A statement as it travels: its text, the key that is said to have signed it, the signature.

    Key and signature are in hex digits.
    """

    statement: str
    key: str
    signature: str


class VerifiedStatement(Struct, frozen=True):
    """A statement that was signed with a paired key, and the name of that key."""

    statement: RemoteStatement
    key_name: str


def make_private_key() -> bytes:
    """A new private key, of 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes_raw()


def find_public_key(private_key: bytes) -> str:
    """The public key of a private one, in hex digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw().hex()


def sign_statement(private_key: bytes, statement: RemoteStatement) -> bytes:
    """The signed statement, ready to be sent."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = msgspec.json.encode(statement)
    key = Ed25519PrivateKey.from_private_bytes(private_key)
    signed = SignedStatement(
        text.decode(), find_public_key(private_key), key.sign(DOMAIN + text).hex()
    )
    return msgspec.json.encode(signed)


def verify_statement(data: bytes, keys: Mapping[str, str]) -> VerifiedStatement:
    """Read what came over a server.

    Args:
        data: what came; anything.
        keys: the names of the paired keys, by the public keys in hex digits.

    Raises:
        UsageError: it is no statement, or was not signed with a paired key.
        NotConfiguredError: the library that verifies is not installed.
    """
    if len(data) > SIZE_MAX:
        raise UsageError("it is too long for a statement")
    try:
        signed = msgspec.json.decode(data, type=SignedStatement)
        text = signed.statement.encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise UsageError("it is no signed statement") from None
    if signed.key not in keys:
        raise UsageError("it is signed with a key that is not paired with this machine")
    if not _is_signed(signed.key, signed.signature, DOMAIN + text):
        raise UsageError("its signature is not that of its key")
    try:
        statement = msgspec.json.decode(text, type=RemoteStatement)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise UsageError("what was signed is no statement") from None
    return VerifiedStatement(statement, keys[signed.key])


def _is_signed(key: str, signature: str, data: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise NotConfiguredError(
            "what verifies remote answers is not installed: cryptography is missing",
            hint='install it in a clone of Treadle: pip install ".[remote]"',
        ) from None
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signature), data
        )
    except (InvalidSignature, ValueError):
        return False
    return True
