"""What a person says from this device to a machine of theirs, signed here; and pairing the two."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from treadle.api.types import NewRemoteRequest, RemoteRequest, RequestOutcome
from treadle.app.remote.acceptance import ANSWERS
from treadle.app.remote.paired_keys import (
    DeviceKey,
    KnownMachine,
    MachineKeys,
    PairedKey,
    PairingCode,
    PairingOffer,
    add_key,
    add_machine,
    ensure_device_key,
    ensure_machine_keys,
    find_device_public_key,
    is_offer,
    make_fingerprint,
    make_offer,
    make_pairing_code,
    parse_pairing_code,
    read_device_key,
    read_offer,
)
from treadle.app.remote.statements import SIZE_MAX, RemoteStatement, sign_statement
from treadle.app.threads.changed_calls import check_changed_arguments
from treadle.core.approval import Question
from treadle.errors import NotConfiguredError, RemoteRefusedError, UsageError
from treadle.store.id_beginnings import make_thread_id
from treadle.store.local_store import LocalStore
from treadle.store.thread_requests import Act
from treadle.sync.credentials import require_account
from treadle.sync.request_client import RequestClient
from treadle.thread.question_digest import digest_question

HOLDS_S: Final = 600
"""Seconds for which what is said waits for the machine."""
PAIRING_S: Final = 600
LOOK_S: Final = 0.3


class RemoteWord(Struct, frozen=True):
    """What is to be said: an act, and of an answer the call, by the beginning of its id."""

    act: Act
    text: str = ""
    call: str = ""
    machine: str = ""


# ---- pairing -----------------------------------------------------------------------------------


def begin_pairing(store: LocalStore, name: str) -> PairingCode:
    """The code that this machine shows; good for one device, in this process."""
    keys = ensure_machine_keys(store.folders.disk, store.places)
    return make_pairing_code(keys.machine, name)


def wait_for_device(
    store: LocalStore, code: PairingCode, *, is_over: Callable[[], bool] = lambda: False
) -> PairedKey | None:
    """Trust the first device that shows that it knows the code; `None` if none has in time.

    Raises:
        NotLoggedInError: there is no server by way of which the two could meet.
        UsageError: a device of that name is paired already.
        RemoteUnavailableError, RemoteRefusedError: the server cannot be asked.
    """
    end = time.monotonic() + PAIRING_S
    with RequestClient(require_account(store.places, os.environ)) as client:
        while time.monotonic() < end and not is_over():
            for left in client.list_open(code.machine):
                if left.thread is None and (offer := _read_left_offer(client, code, left)):
                    key = PairedKey(offer.name, offer.public_key, store.now())
                    add_key(store.folders.disk, store.places, key)
                    client.settle(left.id, RequestOutcome("done"))
                    return key
            threading.Event().wait(LOOK_S)
    return None


def _read_left_offer(
    client: RequestClient, code: PairingCode, left: RemoteRequest
) -> PairingOffer | None:
    data = left.body.encode("utf-8", "replace")
    if not is_offer(data):
        return None  # a thread is to be begun: whoever listens for that looks at it
    try:
        return read_offer(code, data)
    except UsageError as error:
        client.settle(left.id, RequestOutcome("refused", error.message))
        return None


def join_machine(store: LocalStore, code_text: str, name: str) -> tuple[str, RemoteRequest]:
    """Offer this device's key to the machine of a code: its fingerprint, and what was left.

    Raises:
        UsageError: that is no code.
        NotLoggedInError, RemoteUnavailableError, RemoteRefusedError: as `wait_for_device`.
    """
    code = parse_pairing_code(code_text)
    disk, places = store.folders.disk, store.places
    public_key = find_device_public_key(ensure_device_key(disk, places))
    offer = make_offer(code, name, public_key).decode()
    with RequestClient(require_account(places, os.environ)) as client:
        new = NewRemoteRequest(_make_id(), code.machine, _make_expiry(PAIRING_S), offer)
        left = client.leave(new)
    add_machine(disk, places, KnownMachine(code.machine, code.name))
    return make_fingerprint(public_key), left


# ---- saying something --------------------------------------------------------------------------


def find_question(store: LocalStore, thread: str, call: str = "") -> tuple[str, Question]:
    """The open question of a thread as it was synced to this device, and the thread's id.

    Raises:
        UsageError: none is open, or no one is meant.
        StoreError: there is no such thread, or it cannot be read.
    """
    thread_id = store.resolve(thread)
    questions = store.load(thread_id).fold.machine.questions
    found = [one for one in questions if one.call.id.startswith(call)]
    if len(found) == 1:
        return thread_id, found[0]
    if not questions:
        raise UsageError(f"nothing waits for an answer in {thread_id}", hint="`treadle sync` first")
    calls = ", ".join(one.call.id for one in questions)
    raise UsageError("no one call is meant", hint=f"those that wait: {calls}")


def say_remotely(store: LocalStore, thread: str, word: RemoteWord) -> RemoteRequest:
    """Sign what is said, and leave it at the server for the machine.

    Raises:
        NotConfiguredError: this device is paired with no machine, or with several.
        UsageError: as `find_question`; or the tool does not take the arguments of a changed call.
        NotLoggedInError, RemoteUnavailableError, RemoteRefusedError: as `wait_for_device`.
    """
    device, machine = _find_machine(store, word.machine)
    call_id = ground = ""
    if word.act in ANSWERS:
        thread_id, question = find_question(store, thread, word.call)
        if word.act == "change":
            check_changed_arguments(question, word.text)
        call_id, ground = question.call.id, digest_question(thread_id, question)
    else:
        thread_id = store.resolve(thread)
    whole = (_make_id(), machine.id, thread_id, word.act, _make_expiry(HOLDS_S))
    said = RemoteStatement(*whole, call_id, ground, word.text)
    return _leave(store, device, said, thread_id)


def start_remotely(
    store: LocalStore, prompt: str, *, machine: str = "", folder: str = ""
) -> tuple[str, RemoteRequest]:
    """Ask a machine that listens to begin a conversation.

    Args:
        store: the threads of this user.
        prompt: what is said first.
        machine: which of several paired ones, by its name.
        folder: in which of the folders that it listens for, by its path or its last name.

    Returns:
        The id that the conversation will have, and what was left at the server.

    Raises:
        UsageError: there is nothing in the prompt.
        NotConfiguredError, NotLoggedInError, RemoteUnavailableError, RemoteRefusedError: as
            `say_remotely`.
    """
    if not prompt.strip():
        raise UsageError("the prompt is empty", hint="say what the agent is to do")
    device, chosen = _find_machine(store, machine)
    thread_id = make_thread_id()
    whole = (_make_id(), chosen.id, thread_id, "start", _make_expiry(HOLDS_S))
    said = RemoteStatement(*whole, "", "", prompt, folder)  # type: ignore[arg-type]
    return thread_id, _leave(store, device, said, None)


def _find_machine(store: LocalStore, name: str) -> tuple[DeviceKey, KnownMachine]:
    device = read_device_key(store.places)
    machines = () if device is None else device.machines
    chosen = [one for one in machines if name in ("", one.id, one.name)]
    if device is None or len(chosen) != 1:
        names = ", ".join(one.name or one.id for one in machines)
        raise NotConfiguredError(
            "this device is paired with no machine"
            if not chosen
            else "several machines are paired",
            hint=f"--machine NAME: {names}" if names else "`treadle remote pair` there, then join",
        )
    return device, chosen[0]


def _leave(
    store: LocalStore, device: DeviceKey, said: RemoteStatement, thread_id: str | None
) -> RemoteRequest:
    body = sign_statement(bytes.fromhex(device.private_key), said).decode()
    if len(body.encode()) > SIZE_MAX:
        raise UsageError(
            "that is too long to be said from another device",
            hint=f"signed, it may have {SIZE_MAX // 1024} KiB",
        )
    with RequestClient(require_account(store.places, os.environ)) as client:
        return client.leave(
            NewRemoteRequest(said.id, said.machine, said.expires_at, body, thread_id)
        )


def wait_for_outcome(store: LocalStore, request_id: str, wait_s: float) -> RemoteRequest:
    """What has become of something that was said, after a while at most."""
    end = time.monotonic() + wait_s
    with RequestClient(require_account(store.places, os.environ)) as client:
        while True:
            found = client.get(request_id)
            if found.state not in ("waiting", "taken") or time.monotonic() > end:
                return found
            threading.Event().wait(LOOK_S)


def take_back(store: LocalStore, request_id: str) -> bool:
    """Withdraw what the machine has not taken; whether it was in time."""
    with RequestClient(require_account(store.places, os.environ)) as client:
        try:
            client.settle(request_id, RequestOutcome("withdrawn"))
        except RemoteRefusedError:
            return False
    return True


def list_devices(store: LocalStore) -> MachineKeys:
    """Which devices may speak for their person here."""
    return ensure_machine_keys(store.folders.disk, store.places)


def _make_id() -> str:
    return secrets.token_urlsafe(24)


def _make_expiry(seconds: int) -> str:
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
