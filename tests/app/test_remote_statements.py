"""What counts of what comes over a server: only what a paired device has signed, for just this."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from treadle.app.remote.acceptance import RemotePolicy, check_start, check_statement
from treadle.app.remote.paired_keys import (
    MachineKeys,
    PairedKey,
    make_offer,
    make_pairing_code,
    parse_pairing_code,
    read_offer,
)
from treadle.app.remote.statements import (
    DOMAIN,
    RemoteStatement,
    SignedStatement,
    find_public_key,
    make_private_key,
    sign_statement,
)
from treadle.core.approval import AlwaysAsk
from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, UserInput
from treadle.core.llm import LlmResponse
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import EffectClass, RiskLevel, ToolDefinition
from treadle.errors import UsageError
from treadle.thread.facts import FORMAT_VERSION, Configured, PrivacySet, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.question_digest import digest_question

THREAD: Final = "T-01900000-0000-7000-8000-00000000000a"
OTHER: Final = "T-01900000-0000-7000-8000-00000000000b"
NOW: Final = "2026-11-27T04:00:00.000000Z"
LATER: Final = "2026-11-27T04:10:00.000000Z"
ID: Final = "a-nonce-of-the-device"
MACHINE: Final = "0123456789abcdef"
KEY: Final = make_private_key()
STRANGER: Final = make_private_key()
KEYS: Final = MachineKeys(MACHINE, (PairedKey("phone", find_public_key(KEY), NOW),))
ANSWER: Final = RemotePolicy("answer", False, "https://team")
STEER: Final = RemotePolicy("steer", False, "https://team")
START: Final = RemotePolicy("start", False, "https://team")


def asking(
    thread: str = THREAD, risk: RiskLevel = RiskLevel.HIGH, name: str = "bash"
) -> ThreadFold:
    """A thread that waits for a yes to one call."""
    tool = ToolDefinition(name, "", {}, EffectClass.MUTATE, risk)
    call = ToolCall("c1", name, '{"access":"write","command":"make"}')
    fold = ThreadFold(ThreadCreated(FORMAT_VERSION, thread, "chat", "test", "/w", "/w"))
    said = LlmEvent.Completed(LlmResponse(Message.assistant("", (call,))), risks=(risk,))
    entries = (
        fold.header,
        Configured(AgentConfig(tools=(tool,), approval=AlwaysAsk())),
        UserInput(Message.user("go")),
        said,
    )
    for seq, entry in enumerate(entries, 1):
        fold.apply(seq, NOW, entry)
    assert len(fold.machine.questions) == 1
    return fold


FOLD: Final = asking()
GROUND: Final = digest_question(THREAD, FOLD.machine.questions[0])
YES: Final = RemoteStatement(ID, MACHINE, THREAD, "approve", LATER, "c1", GROUND, "")


def check(
    data: bytes,
    fold: ThreadFold = FOLD,
    policy: RemotePolicy = ANSWER,
    keys: MachineKeys = KEYS,
    *,
    request_id: str = ID,
    now: str = NOW,
) -> Any:
    return check_statement(data, request_id, fold, keys, policy, now)


def test_what_was_signed_for_just_this_counts_and_says_who_said_it() -> None:
    request = check(sign_statement(KEY, YES))
    assert (request.id, request.act, request.call_id, request.ground) == (
        *(ID, "approve", "c1"),
        GROUND,
    )
    assert request.by.startswith("phone (key ")
    assert request.by.endswith(") by way of https://team")


def test_nothing_else_counts() -> None:
    good = sign_statement(KEY, YES)
    private = asking()
    private.apply(5, NOW, PrivacySet(is_private=True))
    cases: dict[str, Callable[[], Any]] = {
        "a stranger's key": lambda: check(sign_statement(STRANGER, YES)),
        "a key that was forgotten": lambda: check(good, keys=MachineKeys(MACHINE)),
        "another machine": lambda: check(
            sign_statement(KEY, replace(YES, machine="f" * 16)), keys=KEYS
        ),
        "another thread": lambda: check(sign_statement(KEY, replace(YES, thread=OTHER))),
        "told of another thread": lambda: check(good, asking(OTHER)),
        "another id": lambda: check(good, request_id="another-id-of-the-server"),
        "too late": lambda: check(good, now=LATER),
        "far away": lambda: check(
            sign_statement(KEY, replace(YES, expires_at="2026-11-27T05:00:00.000001Z"))
        ),
        "no time": lambda: check(sign_statement(KEY, replace(YES, expires_at="~"))),
        "another call": lambda: check(sign_statement(KEY, replace(YES, call_id="c2"))),
        "off": lambda: check(good, policy=replace(ANSWER, mode="off")),
        "private": lambda: check(good, private),
        "critical": lambda: check(good, asking(risk=RiskLevel.CRITICAL)),
        "said, where only answers may be": lambda: check(
            sign_statement(KEY, replace(YES, act="prompt", text="go"))
        ),
        "changed into a critical call": lambda: check(changed("rm -rf /; curl x | sh")),
        "changed from a critical call": lambda: check(
            changed("ls"), asking(risk=RiskLevel.CRITICAL)
        ),
        "changed into one outside the sandbox": lambda: check(changed("make", outside=True)),
        "another call than a command, changed": lambda: check(
            changed("make"), asking(name="write_file")
        ),
        "an unknown act": lambda: check(signed(KEY, {**told(YES), "act": "stop"})),
        "a beginning, of a thread that is there": lambda: check(
            sign_statement(KEY, replace(YES, act="start", text="go")), policy=START
        ),
        "more than it may say": lambda: check(signed(KEY, {**told(YES), "more": 1})),
        "more than it may say besides": lambda: check(
            json.dumps({**json.loads(good), "more": 1}).encode()
        ),
        "another domain": lambda: check(signed(KEY, told(YES), domain=b"treadle pairing 1\0")),
        "no domain": lambda: check(signed(KEY, told(YES), domain=b"")),
        "no JSON": lambda: check(b"\xff{"),
        "too long": lambda: check(b" " * 600_000 + good),
        "deep": lambda: check(b"[" * 100_000),
    }
    accepted = []
    for name, case in cases.items():
        try:
            case()
        except UsageError:
            continue
        accepted.append(name)
    assert accepted == []


def test_words_count_where_the_user_lets_them_and_a_critical_yes_too() -> None:
    word = replace(YES, act="steer", call_id="", ground="", text="tabs")
    assert check(sign_statement(KEY, word), policy=STEER).text == "tabs"
    fold = asking(risk=RiskLevel.CRITICAL)
    assert check(sign_statement(KEY, replace(YES, act="reject")), fold).act == "reject"
    may = replace(ANSWER, may_be_critical=True)
    assert check(sign_statement(KEY, YES), fold, may).act == "approve"
    assert check(changed("make all")).text == changed_arguments("make all")
    long = replace(YES, expires_at="2026-11-27T05:00:00.000000Z")
    assert check(sign_statement(KEY, long)).expires_at == long.expires_at


def test_a_thread_begins_only_as_a_paired_device_has_signed_it() -> None:
    begins = replace(YES, act="start", call_id="", ground="", text="go")

    def start(
        statement: RemoteStatement = begins,
        key: bytes = KEY,
        policy: RemotePolicy = START,
        request_id: str = ID,
        now: str = NOW,
    ) -> Any:
        return check_start(sign_statement(key, statement), request_id, KEYS, policy, now)

    request, folder = start(replace(begins, folder="api"))
    assert (request.act, request.thread, request.text, folder) == ("start", THREAD, "go", "api")
    cases: dict[str, Callable[[], Any]] = {
        "a stranger's key": lambda: start(key=STRANGER),
        "another machine": lambda: start(replace(begins, machine="f" * 16)),
        "another id": lambda: start(request_id="another-id-of-the-server"),
        "too late": lambda: start(now=LATER),
        "only words": lambda: start(policy=STEER),
        "a yes": lambda: start(YES),
        "no thread": lambda: start(replace(begins, thread="../../etc")),
    }
    accepted = []
    for name, case in cases.items():
        try:
            case()
        except UsageError:
            continue
        accepted.append(name)
    assert accepted == []


def test_of_ten_thousand_forgeries_none_counts() -> None:
    """Of good ones, with bytes, fields, keys and signatures put together otherwise."""
    dice = random.Random(21)
    good = [
        sign_statement(key, replace(YES, id=f"nonce-{number:016}", thread=thread))
        for number in range(20)
        for key in (KEY, STRANGER)
        for thread in (THREAD, OTHER)
    ]
    parts = [msgspec.json.decode(one, type=SignedStatement) for one in good]
    known = {(one.statement, one.key, one.signature) for one in parts}
    accepted = []
    for _ in range(10_000):
        picked = [dice.choice(parts) for _ in range(3)]
        forged = SignedStatement(picked[0].statement, picked[1].key, picked[2].signature)
        if dice.random() < 0.5:
            text = bytearray(forged.statement.encode())
            text[dice.randrange(len(text))] = dice.randrange(32, 127)
            forged = replace(forged, statement=text.decode())
        if dice.random() < 0.2:
            digits = list(forged.signature)
            digits[dice.randrange(128)] = dice.choice("0123456789abcdef")
            forged = replace(forged, signature="".join(digits))
        if (forged.statement, forged.key, forged.signature) in known:
            continue
        try:
            name = json.loads(forged.statement).get("id", ID)
        except ValueError:
            name = ID
        try:
            check(msgspec.json.encode(forged), request_id=str(name))
        except UsageError:
            continue
        accepted.append(forged)
    assert accepted == []


def test_a_server_cannot_pair_a_key_of_its_own() -> None:
    code = make_pairing_code(MACHINE, "desk")
    assert parse_pairing_code(f" {code}\n") == code
    key = find_public_key(KEY)
    offer = make_offer(code, "phone", key)
    assert read_offer(code, offer).public_key == key
    told = json.loads(offer)
    forged = [
        {**told, "public_key": find_public_key(STRANGER)},
        {**told, "name": "other"},
        {**told, "proof": "0" * 64},
        {**told, "proof": "\u00e9"},
        {**told, "public_key": "short"},
        {**told, "more": 1},
        {},
    ]
    forged.append(json.loads(make_offer(make_pairing_code(MACHINE, "desk"), "phone", key)))
    for one in forged:
        with pytest.raises(UsageError):
            read_offer(code, json.dumps(one).encode())
    for text in ("", "x", f"{MACHINE}.", f"{MACHINE}.{'0' * 31}.desk"):
        with pytest.raises(UsageError):
            parse_pairing_code(text)


def changed_arguments(command: str, **more: Any) -> str:
    return json.dumps({"access": "write", "command": command, **more})


def changed(command: str, **more: Any) -> bytes:
    """A yes to the call with another command."""
    text = changed_arguments(command, **more)
    return sign_statement(KEY, replace(YES, act="change", text=text))


def told(statement: RemoteStatement) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(statement)
    return found


def signed(key: bytes, fields: dict[str, Any], domain: bytes = DOMAIN) -> bytes:
    """Any fields, signed as a device would sign them."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = json.dumps(fields).encode()
    signature = Ed25519PrivateKey.from_private_bytes(key).sign(domain + text).hex()
    return msgspec.json.encode(SignedStatement(text.decode(), find_public_key(key), signature))
