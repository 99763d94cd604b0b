"""`treadle models`: who could answer here, and what they offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.app.sessions.provider_reachability import ProviderReachability
    from treadle.config.loader import LoadedSettings


@click.command("models")
@click.argument("provider", metavar="[PROVIDER]", required=False)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per provider.")
@click.pass_context
def command(ctx: click.Context, /, provider: str | None, as_json: bool) -> None:
    """Show which providers are configured and reachable, or what models one of them offers.

    \b
    treadle models              who can be asked, and is there
    treadle models ollama       what one of them offers

    Every provider with a key, and those on this machine, are asked; nothing is sent to the others.

    With PROVIDER the exit code is 5 if its key is missing or refused, 75 if it may answer later.
    """  # noqa: D301  click reads the backspace
    import asyncio
    import os

    from treadle.app.sessions.provider_reachability import check_providers
    from treadle.config.loader import load_settings
    from treadle.errors import UsageError

    loaded = load_settings(".", os.environ)
    known = list(loaded.catalog.providers)
    if provider is not None and provider not in known:
        raise UsageError(f"there is no provider {provider!r}", hint=f"known: {', '.join(known)}")
    found = asyncio.run(check_providers(loaded, known if provider is None else [provider]))
    if as_json:
        rows = [one.to_dict() for one in found]
        from treadle.cli.json_output import print_json

        print_json(rows)
    elif provider is None:
        _show_providers(loaded, found)
    else:
        _show_models(found[0])
    if provider is not None:
        ctx.exit(_code_of(found[0]))


def _show_models(one: ProviderReachability) -> None:
    from treadle.cli.renderers import make_printable

    for model in one.models or ():
        click.echo(f"{one.provider}:{make_printable(model)}")
    if one.error is not None:
        from treadle.core.llm import LlmError

        advice = one.error.advice if isinstance(one.error, LlmError) else one.error.hint
        click.echo(f"treadle: {one.provider}: {make_printable(one.problem)}", err=True)
        if advice:
            click.echo(f"         {make_printable(advice)}", err=True)


def _code_of(one: ProviderReachability) -> int:
    from treadle import exit_codes
    from treadle.errors import TreadleError

    if one.error is None:
        return exit_codes.DONE
    if isinstance(one.error, TreadleError):
        return exit_codes.code_of(one.error)
    return exit_codes.code_of_kind(one.error.kind)


def _show_providers(loaded: LoadedSettings, found: list[ProviderReachability]) -> None:
    from treadle.app.sessions.providers import Models
    from treadle.cli.renderers import make_printable
    from treadle.errors import TreadleError

    width = max(len(one.provider) for one in found)
    for one in found:
        state = one.problem or f"{len(one.models or ())} models"
        default = f", by default {one.default_model}" if one.default_model else ""
        mark = click.style("✓", fg="green") if not one.problem else click.style("-", dim=True)
        key = f"; key from {one.key}" if one.key else ""
        text = f"{one.provider:<{width}}  {one.address}  {state}{default}{key}"
        click.echo(f"{mark} {make_printable(text)}")
    click.echo(f"\naliases: {', '.join(loaded.catalog.aliases)}")
    try:
        click.echo(f"new threads use {Models(loaded).resolve_name(None)}")
    except TreadleError as error:
        click.echo(make_printable(error.message))
