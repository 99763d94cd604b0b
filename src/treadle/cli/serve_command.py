"""`treadle serve`: the team server."""

from __future__ import annotations

from typing import Any, Final

import click

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
    "--oidc-issuer",
    metavar="URL",
    default="",
    help="The provider of OpenID Connect at which people may sign in on the pages.",
)
@click.option(
    "--oidc-client",
    metavar="ID",
    default="",
    help="What the provider calls this server; the secret is in TREADLE_OIDC_SECRET.",
)
@click.option(
    "--oidc-domain",
    metavar="DOMAIN=ORGANIZATION",
    multiple=True,
    help="Who has an address there that the provider has verified becomes a user.",
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
@click.option("--private-webhooks", is_flag=True, help="Let webhooks lead into private networks.")
def command(**given: Any) -> None:
    """Keep the threads of many machines and people, and serve them over HTTP.

    The first start makes an admin and prints its token, once; `treadle login URL` takes it on
    each machine, and `treadle admin` makes everybody else.

    \b
    treadle serve
    treadle serve --database postgresql://treadle@db/treadle --workers 4 --behind-proxy \\
        --host 0.0.0.0 --base-url https://treadle.example.com
    """  # noqa: D301  click reads the backspace
    from treadle.app.server_start import ServerOptions, check_transport_security
    from treadle.cli.extras import require_extra

    options = ServerOptions(**given)
    if warning := check_transport_security(options):
        click.echo(f"treadle: WARNING: {warning}", err=True)
    require_extra("server")
    from treadle.app.server_start import run_server

    code = run_server(options, _show_token, lambda text: click.echo(text, err=True))
    click.get_current_context().exit(code)


def _show_token(owner: str, token: str) -> None:
    click.echo(f"{owner}, an admin. Its token, which is not shown again:", err=True)
    click.echo(token)
