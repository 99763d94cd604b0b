"""What `treadle eval` prints: results as they come, a table of all, the evaluations there are."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_notice, shorten_for_people
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app import CaseResult, Evaluation, Store


def tell_result(result: CaseResult) -> None:
    """A line for a result."""
    why = f": {sanitize_text(result.reason)}" if result.reason else ""
    print_notice(f"{_show_case(result.case, err=True)} {result.verdict.value}{why}")


def show_evaluation(found: Evaluation) -> None:
    """A row for each result, and how it stands."""
    from treadle.app import describe_divergence, describe_evaluation
    from treadle.models.prices.usage_text import describe_cost
    from treadle.terminal.columns import fit_columns

    rows = [("case", "passed", "cost", "tokens", "time", "first call that differs")]
    for one in found.results:
        ran = one.thread != ""
        rows.append(
            (
                _show_case(one.case),
                one.verdict.value,
                describe_cost(one.usage) or "-" * ran,
                f"{one.usage.total_tokens:,}" * ran,
                f"{one.time_s:.1f} s" * ran,
                describe_divergence(one),
            )
        )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    cells = [tuple(map(_in_one_line, row)) for row in rows]
    for first, rest in fit_columns(cells, width) if found.results else ():
        click.echo((first + rest).rstrip())
    for line in describe_evaluation(found):
        print_notice(line)


def show_list(store: Store, *, as_json: bool) -> None:
    """A line for each evaluation, the newest first."""
    from treadle.app import describe_evaluation, list_evaluations

    found = list_evaluations(store, notify=print_notice)
    if as_json:
        print_json([one.to_dict() for one in found])
    elif not found:
        click.echo("no evaluation was made yet", err=True)
    for one in () if as_json else found:
        click.echo(sanitize_text(f"{one.id}  {one.at[:16]}  {describe_evaluation(one)[0]}"))


def _show_case(case: str, *, err: bool = False) -> str:
    """With a short id, where a person reads."""
    thread, _, turn = case.partition(":")
    return f"{shorten_for_people(thread, err=err)}:{turn}"


def _in_one_line(text: str) -> str:
    return sanitize_text(" ".join(text.split()))


def code_of_evaluation(found: Evaluation) -> int:
    """The exit code of the command."""
    from treadle import exit_codes
    from treadle.app import CaseVerdict

    if found.is_out_of_budget:
        return exit_codes.LIMIT
    all_passed = found.count(CaseVerdict.PASSED) == len(found.cases)
    return exit_codes.DONE if all_passed else exit_codes.FAILED
