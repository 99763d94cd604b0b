"""What `treadle scrub` says to a person, and asks."""

from __future__ import annotations

from typing import Final

import click

from treadle.app.upkeep.thread_scrub import (
    ScrubJob,
    ScrubReport,
    has_states,
    plan_scrub,
    replace_server_copies,
    scrub_threads,
)
from treadle.cli.notices import print_line
from treadle.cli.renderers import make_printable
from treadle.errors import UsageError
from treadle.exit_codes import DONE, FAILED, TRY_LATER, USAGE

LIMITATIONS_NOTICE: Final = """\
This cannot reach what the model's provider has been sent, commits on branches, files in the
workspace, copies of threads elsewhere (exports, other machines, backups) and blocks that the disk
has not overwritten. Change the secret."""

NOT_FOUND_NOTICE: Final = "the text was found nowhere"


def show_plan(job: ScrubJob) -> int:
    """Say what would be done; the exit code."""
    plan = plan_scrub(job)
    _print_report(plan, is_done=False)
    print_line(LIMITATIONS_NOTICE if plan.was_found else NOT_FOUND_NOTICE, err=True)
    return FAILED if not plan.was_found else USAGE if plan.outcome.refused else DONE


def run_scrub(job: ScrubJob, *, is_agreed: bool) -> int:
    """Do it, if somebody agrees or has, and say what was done; the exit code.

    Raises:
        UsageError: a person has not agreed.
    """
    plan = None if is_agreed else plan_scrub(job)
    if plan is not None:
        _print_report(plan, is_done=False)
        question = "Take it out? This cannot be undone."
        if not plan.was_found:
            if not has_states(job, plan):
                print_line(NOT_FOUND_NOTICE, err=True)
                return FAILED
            print_line("no record and no output of these threads holds the text", err=True)
            question = "Look through the saved states of their files, and take it out there?"
        if not click.confirm(question, err=True):
            raise UsageError("not agreed; nothing was changed")
    done = scrub_threads(job, plan)
    _print_report(done, is_done=True)
    if not done.was_found:
        print_line(NOT_FOUND_NOTICE, err=True)
        return FAILED
    server = replace_server_copies(job, done)
    for thread_id in server.came_back:
        print_line(
            f"treadle: thread {thread_id} holds it again: other machines go on with it all the "
            "time; scrub it again when they have ended",
            err=True,
        )
    print_line(LIMITATIONS_NOTICE, err=True)
    if done.outcome.refused:
        return USAGE
    return DONE if server.is_gone and not server.came_back else TRY_LATER


def _print_report(report: ScrubReport, *, is_done: bool) -> None:
    """What was done, or would be, on stdout; what holds the text, on stderr."""
    outcome, files = report.outcome, report.files
    for done in outcome.threads:
        words = f"{done.count} records hold it" if done.count else "is chained anew"
        if is_done:
            words = f"{done.count} records changed" if done.count else "chained anew"
        print_line(f"{done.thread}  {words}")
    if outcome.blob_count:
        print_line(f"{outcome.blob_count} kept outputs")
    for name, threads in outcome.kept_blobs.items():
        print_line(f"the output {name} is kept: {', '.join(threads)} has it too", err=True)
    for path in files:
        print_line(f"{'still holds it' if is_done else 'holds it'}: {path}", err=True)
    for thread, why in outcome.refused.items():
        verb = "is" if is_done else "would be"
        print_line(f"thread {thread} {verb} left as it is: {why}", err=True)
    if outcome.refused:
        print_line("give more of the secret, if there is more of it", err=True)
    elif is_done and files:
        print_line("scrub those threads too, or use --all-threads", err=True)
    for problem in report.problems:
        print_line(f"not reached: {make_printable(problem)}", err=True)
