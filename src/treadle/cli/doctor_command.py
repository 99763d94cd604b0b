"""`treadle doctor`: is everything here that the work needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.app.upkeep.checks import Finding


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
    from treadle.app.stores import open_store
    from treadle.app.upkeep.checks import worst_status
    from treadle.app.upkeep.doctor import run_checks
    from treadle.cli.json_output import print_json

    findings: list[Finding] = []
    for finding in run_checks(open_store()):
        findings.append(finding)
        if not as_json:
            _show_finding(finding)
    if as_json:
        print_json(findings)
    ctx.exit(1 if worst_status(findings) == "failure" else 0)


def _show_finding(finding: Finding) -> None:
    from treadle.cli.renderers import make_printable

    color = {"ok": "green", "warning": "yellow", "failure": "red"}[finding.status]
    status = click.style(f"{finding.status:<7}", fg=color)
    click.echo(f"{status}  {finding.name:<12}  {make_printable(finding.text)}")
    if finding.advice:
        click.echo(f"{'':<23}{click.style(make_printable(finding.advice), dim=True)}")
