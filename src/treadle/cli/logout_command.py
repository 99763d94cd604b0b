"""`treadle logout`: forget the key of a provider; or the server, whose token becomes worthless."""

from __future__ import annotations

import click


@click.command("logout")
@click.argument("target", metavar="[PROVIDER | URL]", required=False)
@click.option("--keep-token", is_flag=True, help="Leave the token valid: it is used elsewhere too.")
@click.pass_context
def command(ctx: click.Context, target: str | None, keep_token: bool) -> None:
    """Log out of the server; or forget the key that is kept for a provider.

    \b
    treadle logout               the token is revoked at the server, and its file is removed
    treadle logout URL           the same, if it is this server
    treadle logout anthropic     the file with the key is removed; the key itself stays valid

    The file is removed in any case. If the server cannot be reached, the token stays valid: that is
    said, with who can revoke it, and the exit code is 1. Threads stay as they are, here and there.
    """  # noqa: D301  click reads the backspace
    from treadle import exit_codes
    from treadle.app.stores import open_store
    from treadle.app.sync.server_login import log_out
    from treadle.cli.renderers import make_printable

    if target is not None and not _is_address(target):
        _forget_key(target)
        return
    done = log_out(open_store(), keeps_token=keep_token, url=target or "")
    words = {
        "revoked": f"the token is worthless now at {done.url}",
        "expired": f"the token was no longer valid at {done.url}",
        "left": f"the token stays valid at {done.url}",
        "not revoked": f"the token stays valid: {done.problem}; {_REVOCATION_HINT}",
        "unreadable": f"the token could not be read, and stays valid: {_REVOCATION_HINT}",
    }
    click.echo(make_printable(f"logged out; {words[done.token]}"), err=True)
    is_failed = done.token in ("not revoked", "unreadable") and not keep_token
    ctx.exit(exit_codes.FAILED if is_failed else exit_codes.DONE)


def _is_address(target: str) -> bool:
    """As `treadle login` tells a server from a provider; a key that is kept is its provider's."""
    from treadle.app.folders import user_folders
    from treadle.app.model_setup import list_kept_keys

    if ":" in target or "/" in target:
        return True
    looks_so = "." in target or target == "localhost"
    return looks_so and target not in list_kept_keys(user_folders())


def _forget_key(provider: str) -> None:
    from treadle.app.folders import user_folders
    from treadle.app.model_setup import forget_key, list_kept_keys
    from treadle.errors import UsageError

    places = user_folders()
    if not forget_key(places, provider):
        kept = ", ".join(list_kept_keys(places))
        raise UsageError(
            f"no key is kept for {provider!r}",
            hint=f"kept are those of {kept}" if kept else "`treadle logout` is about the server",
        )
    click.echo(f"the key of {provider} is forgotten here; its provider can revoke it", err=True)


_REVOCATION_HINT = (
    "whoever runs the server can revoke it: `treadle admin tokens list --user NAME`, then "
    "`treadle admin tokens revoke NUMBER`"
)
