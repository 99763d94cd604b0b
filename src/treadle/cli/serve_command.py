"""`treadle serve`: the team server."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    import socket

MIB: Final = 1024 * 1024


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="0 takes any that is free.",
)
@click.option(
    "--database",
    metavar="URL",
    envvar="TREADLE_DATABASE_URL",
    help="postgresql://... or sqlite:///FILE; a file in the state folder, if nothing is said. "
    "A password is better given in TREADLE_DATABASE_URL.",
)
@click.option("--migrate", is_flag=True, help="Bring the tables of an older Treadle up to date.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that answer.",
)
@click.option(
    "--base-url", metavar="URL", default="", help="What links begin with, as people reach it."
)
@click.option(
    "--body-max",
    metavar="BYTES",
    type=click.IntRange(64 * 1024, 256 * MIB),
    default=16 * MIB,
    show_default=True,
    help="What may be sent at a time.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 100_000),
    default=100.0,
    show_default=True,
    help="Requests per second and user, after a burst of ten times as many; 0: any number.",
)
@click.option("--certificate", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Of the certificate. With both it speaks HTTPS.",
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="A proxy before it speaks HTTPS; its X-Forwarded-For, -Proto and -Host hold.",
)
@click.option(
    "--plain-http", is_flag=True, help="Listen beyond this machine without either of these."
)
@click.option("--public-metrics", is_flag=True, help="Show /metrics to anybody.")
def command(**given: Any) -> None:
    """Keep the threads of many machines and people, and serve them over HTTP.

    The first start makes an admin and prints its token, once; `treadle login URL` takes it on
    each machine, and `treadle admin` makes everybody else.

    \b
    treadle serve
    treadle serve --database postgresql://treadle@db/treadle --workers 4 --behind-proxy \\
        --host 0.0.0.0 --base-url https://treadle.example.com
    """  # noqa: D301  click reads the backspace
    from treadle.cli.server_extra import require_server_extra

    _check_transport_security(given)
    require_server_extra()
    with ExitStack() as stack:
        if given["workers"] > 1:
            _share_metrics_folder(stack)
        from treadle.server.http.process import listen

        listening = stack.enter_context(listen(given["host"], given["port"]))
        code = _serve(given, listening)
    click.get_current_context().exit(code)


def _serve(given: dict[str, Any], listening: socket.socket) -> int:
    from treadle.app.threads.times import utc_now
    from treadle.server.data.database import Database
    from treadle.server.http.process import Start, serve
    from treadle.server.http.settings import ServerConfig
    from treadle.server.people import accounts

    url = given["database"] or _make_default_database_url()
    database = Database(url)
    try:
        database.prepare(is_migrating=given["migrate"])
        token = database.run(lambda db: accounts.make_owner(db, utc_now()), is_write=True)
    finally:
        database.dispose()
    if token is not None:
        click.echo(
            f"Made the user {accounts.FIRST_USER} of the organization "
            f"{accounts.FIRST_ORGANIZATION}, an admin. Its token, which is not shown again:",
            err=True,
        )
        click.echo(token)
    config = ServerConfig(
        base_url=given["base_url"],
        has_public_metrics=given["public_metrics"],
        is_behind_proxy=given["behind_proxy"],
        body_size_max=given["body_max"],
        rate=given["rate"],
        burst=max(1, round(given["rate"] * 10)),
    )
    start = Start(
        config=config,
        database=url,
        workers=given["workers"],
        certificate=given["certificate"] or "",
        key=given["key"] or "",
    )
    scheme = "https" if given["certificate"] else "http"
    where = f"{scheme}://{_format_host(given['host'])}:{listening.getsockname()[1]}"
    return serve(start, listening, lambda: click.echo(f"listening on {where}", err=True))


def _check_transport_security(given: dict[str, Any]) -> None:
    """A token that goes over a network in the clear is everybody's on the way.

    Raises:
        UsageError: what was said does not go together.
    """
    from treadle.errors import UsageError
    from treadle.models.catalog import is_this_machine

    if bool(given["certificate"]) != bool(given["key"]):
        raise UsageError("--certificate and --key belong together")
    if is_this_machine(given["host"]) or given["certificate"] or given["behind_proxy"]:
        return
    if not given["plain_http"]:
        raise UsageError(
            f"{given['host']} can be reached from other machines, and plain HTTP shows tokens and "
            "threads to everybody on the way",
            hint="give --certificate and --key, or --behind-proxy if a proxy speaks HTTPS; "
            "--plain-http does it all the same",
        )
    click.echo(
        "treadle: WARNING: plain HTTP beyond this machine: everybody on the way can read tokens "
        "and threads",
        err=True,
    )


def _make_default_database_url() -> str:
    """A file of this user, in a folder that nobody else may open."""
    from treadle.app.stores import user_folders

    file = user_folders().server
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{file}"


def _share_metrics_folder(stack: ExitStack) -> None:
    """Where processes keep what they count; set before the library that looks for it is loaded."""
    from treadle.scratch_folders import scratch_folder

    folder = stack.enter_context(scratch_folder())
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
