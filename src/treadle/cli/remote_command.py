"""`treadle remote`: answer a machine's questions from another device of the same person."""

from __future__ import annotations

import click

from treadle.cli.notices import print_line
from treadle.cli.remote_start_command import listen, start
from treadle.cli.remote_words_command import WAIT_S, answer, interrupt, say, withdraw
from treadle.thread.safe_text import sanitize_text


@click.group("remote")
def command() -> None:
    """Answer the questions of a machine of yours from another one.

    Both are logged in to one server as you. What you say is signed on the device where you say
    it, with a key that the other machine was given by you and not by the server. The machine takes
    answers only where its settings say so: `treadle config set remote answer`, `steer` or `start`.

    \b
    treadle remote pair                       on the machine: prints a code
    treadle remote join CODE                  on the device
    treadle remote answer 7c1e93f0 --yes      on the device
    treadle remote listen                     on the machine, where no session is open
    treadle remote start "fix the tests"      on the device
    treadle remote forget phone               on the machine
    """  # noqa: D301  click reads the backspace
    from treadle.cli.extras import require_extra

    require_extra("remote")


@command.command("pair")
def pair() -> None:
    """Print a code for one device, and wait until it has joined."""
    import socket

    from treadle.app.remote.paired_keys import make_fingerprint
    from treadle.app.remote.remote_answers import begin_pairing, wait_for_device
    from treadle.app.stores import open_store

    store = open_store()
    code = begin_pairing(store, socket.gethostname())
    click.echo(f"treadle remote join {code}")
    print_line("type that on the device, within ten minutes; show it to nobody else", err=True)
    key = wait_for_device(store, code)
    if key is None:
        raise click.ClickException("no device has joined in time")
    name = sanitize_text(key.name)
    print_line(f"{name} may speak for you here; its key is {make_fingerprint(key.public_key)}")


@command.command("join")
@click.argument("code")
@click.option("--name", metavar="NAME", help="What the machine calls this device; its host name.")
def join(code: str, name: str | None) -> None:
    """Join the machine that has printed CODE."""
    import socket

    from treadle.app.remote.remote_answers import join_machine, wait_for_outcome
    from treadle.app.stores import open_store

    store = open_store()
    fingerprint, left = join_machine(store, code, name or socket.gethostname())
    print_line(f"the key of this device is {fingerprint}: the machine says the same", err=True)
    outcome = wait_for_outcome(store, left.id, WAIT_S)
    if outcome.state != "done":
        raise click.ClickException(f"the machine has not taken it: {outcome.state} {outcome.why}")
    print_line("joined")


@command.command("list")
def list_paired() -> None:
    """List the devices that may speak for you on this machine."""
    from treadle.app.remote.paired_keys import make_fingerprint
    from treadle.app.remote.remote_answers import list_devices
    from treadle.app.stores import open_store

    for one in list_devices(open_store()).keys:
        name = sanitize_text(one.name)
        print_line(f"{name}  {make_fingerprint(one.public_key)}  since {one.paired_at[:10]}")


@command.command("forget")
@click.argument("name")
def forget(name: str) -> None:
    """Let a device speak for you here no more, from now on."""
    from treadle.app.remote.paired_keys import forget_key
    from treadle.app.stores import open_store

    store = open_store()
    forget_key(store.folders.disk, store.places, name)
    print_line(f"{name} is forgotten", err=True)


for _part in (answer, say, interrupt, withdraw, listen, start):
    command.add_command(_part)
