"""`treadle doctor`: is everything here that the work needs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.app.upkeep.checks import Finding
    from treadle.store.paths import Places


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per line.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool) -> None:
    """Check versions, folders, programs, disk, settings, models, threads and what they leave.

    \b
    treadle doctor
    treadle doctor --json      for a program

    Each line is ok, a warning or a failure, and says what to do. Changes nothing, but brings the
    search index up to date. Threads are read only as far as that is quick: `treadle verify --all`
    reads them all. Exit code 1 if something has failed.
    """  # noqa: D301  click reads the backspace
    from treadle.app.upkeep.checks import worst

    findings: list[Finding] = []
    for finding in _examine():
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        from treadle.cli.json_output import print_json

        print_json(findings)
    ctx.exit(1 if worst(findings) == "failure" else 0)


def _examine() -> Iterator[Finding]:
    from pathlib import Path

    from treadle import helper_programs
    from treadle.app.upkeep import checks
    from treadle.app.upkeep.store_checks import check_store
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    places = Places.find()
    helper_programs.exclude(Path.cwd())
    yield from checks.check_versions()
    yield from checks.check_places(places)
    yield from checks.check_programs()
    yield from checks.check_surroundings()
    yield from checks.check_disk(places)
    yield from _check_models(places)
    yield from check_store(LocalStore(places), places)


def _check_models(places: Places) -> Iterator[Finding]:
    """Settings, what they let commands do, the model of new threads, providers with a key."""
    import asyncio
    import os

    from treadle.app.sessions.provider_reachability import reach
    from treadle.app.sessions.providers import PLAYED, Models
    from treadle.app.upkeep import checks, risk_checks
    from treadle.config.load import load_settings
    from treadle.core.config import choose_model
    from treadle.errors import TreadleError

    try:
        loaded = load_settings(".", os.environ)
    except TreadleError as error:
        yield checks.failure("settings", error.message, error.hint or "correct it")
        yield from checks.check_sandbox()
        return
    for notice in loaded.notices:
        yield checks.warning("settings", notice, "`treadle config show --origin` tells what holds")
    if not loaded.notices:
        yield checks.ok("settings", f"{_count_set(loaded.origins)} set, the rest by default")
    yield from risk_checks.check_here(loaded, places)
    chosen = problem = advice = ""
    try:
        chosen = Models(loaded).name(None)
    except TreadleError as error:
        problem, advice = error.message, error.hint or "docs/models.md says more"
    wanted = [
        name
        for name, entry in loaded.catalog.providers.items()
        if name == chosen.partition(":")[0]
        or os.environ.get(entry.key_env)
        or entry.key_file
        or entry.key_command
    ]
    found = asyncio.run(reach(loaded, [name for name in wanted if name not in PLAYED]))
    if not chosen:
        yield checks.warning("model", problem, advice)
    else:
        yield checks.check_model(chosen, found, is_named=bool(choose_model(loaded.settings.models)))
    yield from risk_checks.check_keys(found)
    for one in found:
        yield checks.check_provider(one, is_used=one.provider == chosen.partition(":")[0])


def _count_set(origins: Mapping[str, str]) -> int:
    from treadle.config.load import DEFAULT

    return sum(origin != DEFAULT for origin in origins.values())


def _show(finding: Finding) -> None:
    from treadle.cli.render import printable

    color = {"ok": "green", "warning": "yellow", "failure": "red"}[finding.status]
    status = click.style(f"{finding.status:<7}", fg=color)
    click.echo(f"{status}  {finding.name:<12}  {printable(finding.text)}")
    if finding.advice:
        click.echo(f"{'':<23}{click.style(printable(finding.advice), dim=True)}")
