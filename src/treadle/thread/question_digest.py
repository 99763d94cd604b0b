"""What an answer that is given elsewhere is bound to: a question of a thread, as it was shown."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from treadle.core.approval import Question

_DOMAIN: Final = b"treadle question 1\0"


def encode_question(question: Question) -> bytes:
    """All that is asked, as JSON: the call, its risk, why it is asked about, what a yes covers."""
    return msgspec.json.encode(question, order="deterministic")


def digest_question(thread_id: str, question: Question) -> str:
    """The digest of a question: 64 hex digits of SHA-256. Another call, risk or ground, another."""
    told = _DOMAIN + thread_id.encode() + b"\0" + encode_question(question)
    return hashlib.sha256(told).hexdigest()
