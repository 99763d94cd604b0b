"""An evaluation as the options of `treadle eval` ask for it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
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
    """Begin one, or go on with one; what the command does.

    Told to end, it stops as at Ctrl-C, and so removes what it had laid out.
    """
    from treadle.app import evaluate, read_evaluation, resume_evaluation

    folder = None if given["cwd"] is None else str(options.find_folder(given["cwd"]).resolve())
    if (wanted := given["resume"]) is None:
        request = _make_request(store, names, {**given, "folder": folder})
        limits = _make_limits(given)
        work = evaluate(store, request, limits, on_result=tell_result, notify=print_notice)
        return _run_until_told(work)
    if names or any(given[name] for name in (*CHOSEN, "check_s_max", "search", "tags", "file")):
        raise click.UsageError("--resume goes on as it was begun: with other limits at most")
    limits = _make_limits(given, read_evaluation(store, wanted).limits)
    return _run_until_told(
        resume_evaluation(
            store,
            wanted,
            limits,
            folder=folder,
            on_result=tell_result,
            notify=print_notice,
        )
    )


def _run_until_told(work: Coroutine[Any, Any, Evaluation]) -> Evaluation:
    """Run it; SIGTERM and SIGHUP stop it as SIGINT does, each with its exit code."""
    told: list[int] = []

    async def run() -> Evaluation:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            told.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + told[0]) from None


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
    return EvaluationRequest(threads, folder=given["folder"], **chosen)


def _make_limits(given: dict[str, Any], had: EvaluationLimits | None = None) -> EvaluationLimits:
    from treadle.app import EvaluationLimits

    had = had or EvaluationLimits()
    return EvaluationLimits(
        given["max_tokens"] or had.max_tokens,
        given["max_cost"] or had.max_cost,
        given["jobs"] or had.jobs,
    )
