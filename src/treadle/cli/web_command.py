"""`treadle web`: this machine's threads in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.app.pages.local_site import LocalSite


@click.command("web")
@click.option("--no-browser", is_flag=True, help="Print the link, and open nothing.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen on this machine; any port that is free, if nothing is said.",
)
def command(*, no_browser: bool, port: int) -> None:
    """Read this machine's threads in a browser, live while an agent works, and answer it there.

    The link that it prints opens the pages in one browser, once; Enter prints another. Nothing is
    reachable from other machines, and no server and no account is needed. Ctrl-C ends it.

    \b
    treadle web
    treadle web --no-browser --port 7777
    """  # noqa: D301  click reads the backspace
    from treadle.cli.extras import require_extra

    require_extra("web")
    import os

    from treadle.app.pages.browser import open_browser
    from treadle.app.pages.local_site import serve_pages
    from treadle.app.stores import open_store
    from treadle.cli.question_dialog import is_interactive

    def started(site: LocalSite) -> None:
        link = site.make_link()
        click.echo(f"your threads: {link}")
        if not no_browser:
            open_browser(link, os.environ)
        if is_interactive():
            _offer_more_links(site)

    serve_pages(open_store(), port, started)


def _offer_more_links(site: LocalSite) -> None:
    """Print another link for each Enter, beside the server."""
    import sys
    import threading

    def offer() -> None:
        while sys.stdin.readline():
            click.echo(f"for another browser: {site.make_link()}")

    click.echo("Enter: a link for another browser. Ctrl-C: end.")
    threading.Thread(target=offer, name="links", daemon=True).start()
