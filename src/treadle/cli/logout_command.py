"""`treadle logout`: forget the server, and make the token worthless."""

from __future__ import annotations

import click


@click.command("logout")
@click.option("--keep-token", is_flag=True, help="Leave the token valid: it is used elsewhere too.")
@click.pass_context
def command(ctx: click.Context, keep_token: bool) -> None:
    """Log out: the token is revoked at the server, and its file is removed.

    \b
    treadle logout

    The file is removed in any case. If the server cannot be reached, the token stays valid: that is
    said, with who can revoke it, and the exit code is 1. Threads stay as they are, here and there.
    """  # noqa: D301  click reads the backspace
    from treadle import exit_codes
    from treadle.cli.render import printable
    from treadle.errors import DiskError, NotLoggedInError, TreadleError, UsageError
    from treadle.store.paths import Places
    from treadle.sync.client import HttpRemote
    from treadle.sync.credentials import find_account, remove_account

    places = Places.find()
    try:
        # What a variable says is nobody's to remove here, and no login made it.
        account = find_account(places, {})
    except (NotLoggedInError, DiskError):
        account = None
    if account is None and not places.remote.exists():
        raise UsageError("this machine is logged in to no server")
    said = f"the token could not be read, and stays valid: {_ELSEWHERE}"
    is_valid = not keep_token
    if account is not None and keep_token:
        said = f"the token stays valid at {account.url}"
    elif account is not None:
        try:
            with HttpRemote(account) as remote:
                remote.revoke_own_token()
            said, is_valid = f"the token is worthless now at {account.url}", False
        except NotLoggedInError:
            said, is_valid = f"the token was no longer valid at {account.url}", False
        except TreadleError as error:
            said = f"the token stays valid: {error.message}; {_ELSEWHERE}"
    remove_account(places)
    click.echo(printable(f"logged out; {said}"), err=True)
    ctx.exit(exit_codes.FAILED if is_valid else exit_codes.DONE)


_ELSEWHERE = (
    "whoever runs the server can revoke it: `treadle admin tokens list --user NAME`, then "
    "`treadle admin tokens revoke NUMBER`"
)
