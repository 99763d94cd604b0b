"""Starts a team server: its database, its first admin, its processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from msgspec import Struct

from treadle.app.folders import user_folders
from treadle.app.notices import Notify
from treadle.app.server_provider import read_provider
from treadle.app.threads.times import utc_now
from treadle.errors import UsageError
from treadle.models.catalog import is_loopback_host
from treadle.scratch_folders import scratch_folder

ShowToken = Callable[[str, str], None]
"""Takes who was made, in words, and the token, which is not shown again."""


class ServerOptions(Struct, frozen=True, kw_only=True):
    """How a server runs.

    `host` and `port` are what it listens on (port 0: any that is free), `database` its URL (`None`:
    a file of this user), `migrate` brings tables of an older Treadle up to date. `workers` counts
    processes, `body_max` bytes of a request, `rate` requests per second and user (0: any number).
    `app/server_provider.py` reads what is said of OpenID Connect.
    `private_webhooks` lets webhooks lead into private networks.
    """

    host: str
    port: int
    database: str | None = None
    migrate: bool = False
    workers: int = 1
    base_url: str = ""
    oidc_issuer: str = ""
    oidc_client: str = ""
    oidc_domain: tuple[str, ...] = ()
    body_max: int
    rate: float
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    plain_http: bool = False
    public_metrics: bool = False
    private_webhooks: bool = False


def check_transport_security(options: ServerOptions) -> str:
    """A token that goes over a network in the clear is everybody's on the way.

    Returns:
        A warning; empty if there is nothing to warn of.

    Raises:
        UsageError: what was said does not go together.
    """
    if bool(options.certificate) != bool(options.key):
        raise UsageError("--certificate and --key belong together")
    if is_loopback_host(options.host) or options.certificate or options.behind_proxy:
        return ""
    if not options.plain_http:
        raise UsageError(
            f"{options.host} can be reached from other machines, and plain HTTP shows tokens and "
            "threads to everybody on the way",
            hint="give --certificate and --key, or --behind-proxy if a proxy speaks HTTPS; "
            "--plain-http does it all the same",
        )
    return "plain HTTP beyond this machine: everybody on the way can read tokens and threads"


def run_server(options: ServerOptions, show_token: ShowToken, notify: Notify) -> int:
    """Serve until a signal says to stop; gives the exit code.

    Args:
        options: how.
        show_token: takes the token of the first admin, if this start has made one.
        notify: takes where it listens, once it does.

    Raises:
        ConfigError: the database is of another version, or cannot be used.
        StoreError: it cannot be reached.
        UsageError: it cannot listen there.
    """
    with ExitStack() as stack:
        if options.workers > 1:
            # Processes keep what they count there; set before the library that looks is loaded.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = stack.enter_context(scratch_folder())
        from treadle.server.data.kept_settings import BASE_URL, OIDC_ISSUER
        from treadle.server.http.process import ServerProcessOptions, open_listening_socket, serve
        from treadle.server.http.settings import ServerConfig

        base_url = options.base_url.rstrip("/")
        provider = read_provider(
            options.oidc_issuer, options.oidc_client, options.oidc_domain, base_url
        )
        listening = stack.enter_context(open_listening_socket(options.host, options.port))
        url = options.database or _make_default_database_url()
        scheme = "https" if options.certificate else "http"
        where = f"{scheme}://{_format_host(options.host)}:{listening.getsockname()[1]}"
        # Behind a proxy, and on all addresses, it is not known how people reach it.
        is_direct = is_loopback_host(options.host) and not options.behind_proxy
        kept = {
            BASE_URL: base_url or (where if is_direct else ""),
            OIDC_ISSUER: options.oidc_issuer,
        }
        _prepare_database(url, kept, show_token, is_migrating=options.migrate)
        config = ServerConfig(
            base_url=base_url,
            oidc=provider,
            has_public_metrics=options.public_metrics,
            is_behind_proxy=options.behind_proxy,
            allows_private_webhooks=options.private_webhooks,
            body_size_max=options.body_max,
            rate=options.rate,
            burst=max(1, round(options.rate * 10)),
        )
        start = ServerProcessOptions(
            config=config,
            database=url,
            workers=options.workers,
            certificate=options.certificate or "",
            key=options.key or "",
        )
        return serve(start, listening, lambda: notify(f"listening on {where}"))


def _prepare_database(
    url: str, kept: Mapping[str, str], show_token: ShowToken, *, is_migrating: bool
) -> None:
    from treadle.server.accounts import accounts
    from treadle.server.data.database import Database
    from treadle.server.data.kept_settings import keep_settings

    database = Database(url)
    try:
        database.prepare(is_migrating=is_migrating)
        token = database.run(lambda db: accounts.make_first_user(db, utc_now()), is_write=True)
        database.run(lambda db: keep_settings(db, kept), is_write=True)
    finally:
        database.dispose()
    if token is not None:
        organization = accounts.FIRST_ORGANIZATION
        show_token(f"Made the user {accounts.FIRST_USER} of the organization {organization}", token)


def _make_default_database_url() -> str:
    """A file of this user, in a folder that nobody else may open."""
    file = user_folders().server
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{file}"


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
