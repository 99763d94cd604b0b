"""Logging in to a server and out of it: what this machine syncs with, and as whom."""

from __future__ import annotations

import os
from typing import Final, Literal

from msgspec import Struct

from treadle.api.types import Me
from treadle.errors import DiskError, NotLoggedInError, TreadleError, UsageError
from treadle.store.local_store import LocalStore
from treadle.sync.client import HttpRemote
from treadle.sync.credentials import (
    TOKEN_LENGTH_MAX,
    Account,
    check_token,
    find_account,
    parse_server_url,
    remove_account,
    save_account,
)
from treadle.thread.facts import Visibility

TOKEN_LINE_LENGTH_MAX: Final = TOKEN_LENGTH_MAX + 2
"""Characters of a line that are enough to see whether it holds a token."""


class LoginPlan(Struct, frozen=True):
    """A server to log in to, before it is asked; `previous_url` is another one before, or empty."""

    url: str
    is_insecure: bool
    previous_url: str


def plan_login(store: LocalStore, url: str, *, is_insecure: bool) -> LoginPlan:
    """Check an address, and that this machine may log in to it. Nothing is asked of anybody.

    Raises:
        UsageError: it is no address, the token would go over the network in the open, or the
            environment says which server this machine syncs with.
        ConfigError, DiskError: the present account cannot be read.
    """
    checked = parse_server_url(url, is_insecure=is_insecure)
    try:
        before = find_account(store.places, os.environ)
    except NotLoggedInError:
        before = None  # what cannot be used is replaced
    if before is not None and before.origin == "environment":
        raise UsageError(
            "TREADLE_SERVER_URL says which server this machine syncs with",
            hint="unset it to log in to another one",
        )
    previous = "" if before is None or before.url == checked else before.url
    return LoginPlan(checked, is_insecure, previous)


def log_in(
    store: LocalStore, plan: LoginPlan, text: str, origin: str, visibility: Visibility
) -> tuple[Account, Me]:
    """Ask the server who the owner of a token is, and keep the account; both.

    Args:
        store: whose home keeps it.
        plan: the server.
        text: the token, as it was typed or read.
        origin: where that was, for a message.
        visibility: who may see threads that are begun from now on.

    Raises:
        ConfigError: the text is no token; it is not shown.
        NotLoggedInError: the server does not know the token.
        RemoteError: it refuses, or cannot be reached.
        DiskError: the disk refused. In each case what was kept before stands.
    """
    token = check_token(text, origin)
    with HttpRemote(Account(plan.url, token, is_insecure=plan.is_insecure)) as remote:
        me = remote.me()
    account = Account(
        plan.url, token, me.user, me.organization, visibility, store.now(), plan.is_insecure
    )
    save_account(store.places, account)
    return account, me


class Logout(Struct, frozen=True):
    """The account that is forgotten: its server (empty if nobody could read it), and its token.

    `problem` says why the token could not be revoked.
    """

    url: str
    token: Literal["revoked", "expired", "left", "not revoked", "unreadable"]
    problem: str = ""


def log_out(store: LocalStore, *, keeps_token: bool, url: str = "") -> Logout:
    """Revoke the token, unless it is kept, and forget the account in any case.

    Args:
        store: whose home keeps it.
        keeps_token: whether the token stays valid.
        url: the server that is meant; empty for whichever it is.

    Raises:
        UsageError: this machine is logged in to no server, or to another one.
        DiskError: the account's file cannot be removed.
    """
    places = store.places
    try:
        # What a variable says is nobody's to remove here, and no login made it.
        account = find_account(places, {})
    except (NotLoggedInError, DiskError):
        account = None
    if account is None and not places.remote.exists():
        raise UsageError("this machine is logged in to no server")
    if url and account is not None and parse_server_url(url, is_insecure=True) != account.url:
        raise UsageError(
            f"this machine is logged in to {account.url}, and to no other server",
            hint="`treadle logout` without an address logs out there",
        )
    done = Logout("", "unreadable")
    if account is not None:
        done = Logout(account.url, "left") if keeps_token else _revoke(account)
    remove_account(places)
    return done


def _revoke(account: Account) -> Logout:
    try:
        with HttpRemote(account) as remote:
            remote.revoke_own_token()
    except NotLoggedInError:
        return Logout(account.url, "expired")
    except TreadleError as error:
        return Logout(account.url, "not revoked", error.message)
    return Logout(account.url, "revoked")
