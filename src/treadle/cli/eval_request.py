"""An evaluation as the options of `treadle eval` ask for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli import options
from treadle.cli.eval_output import tell_result
from treadle.cli.notices import print_line, print_notice

if TYPE_CHECKING:
    from treadle.app import Evaluation, EvaluationLimits, EvaluationRequest, Store

CHOSEN: Final = ("model", "instructions", "left_out", "checks", "function", "judge", "rubric")
"""What stands with an evaluation since it began."""


def run_evaluation(store: Store, names: tuple[str, ...], given: dict[str, Any]) -> Evaluation:
    """Begin one, or go on with one; what the command does."""
    import asyncio

    from treadle.app import evaluate, read_evaluation, resume_evaluation

    if (wanted := given["resume"]) is None:
        request = _make_request(store, names, given)
        limits = _make_limits(given)
        work = evaluate(store, request, limits, on_result=tell_result, notify=print_notice)
        return asyncio.run(work)
    if names or any(given[name] for name in CHOSEN):
        raise click.UsageError("--resume goes on as it was begun: with other limits at most")
    limits = _make_limits(given, read_evaluation(store, wanted).limits)
    work = resume_evaluation(store, wanted, limits, on_result=tell_result, notify=print_notice)
    return asyncio.run(work)


def _make_request(store: Store, names: tuple[str, ...], given: dict[str, Any]) -> EvaluationRequest:
    from treadle.app import EvaluationRequest, choose_threads
    from treadle.errors import UsageError

    threads = choose_threads(
        store,
        names,
        search=given["search"],
        tags=given["tags"],
        file=given["file"],
        notify=partial(print_line, err=True),
    )
    if not threads:
        raise UsageError("no thread is meant", hint="name some: treadle eval ID, or --tag TAG")
    path, chosen = given["instructions"], {name: given[name] for name in CHOSEN}
    if path is not None:
        try:
            chosen["instructions"] = Path(path).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
    if given["check_s_max"] is not None:
        chosen["check_s_max"] = given["check_s_max"]
    if chosen["function"]:
        file, colon, name = chosen["function"].rpartition(":")
        chosen["function"] = f"{Path(file).expanduser().resolve()}{colon}{name}"
    if given["cwd"] is not None:
        chosen["folder"] = str(options.find_folder(given["cwd"]).resolve())
    return EvaluationRequest(threads, **chosen)


def _make_limits(given: dict[str, Any], had: EvaluationLimits | None = None) -> EvaluationLimits:
    from treadle.app import EvaluationLimits

    had = had or EvaluationLimits()
    return EvaluationLimits(
        given["max_tokens"] or had.max_tokens,
        given["max_cost"] or had.max_cost,
        given["jobs"] or had.jobs,
    )
