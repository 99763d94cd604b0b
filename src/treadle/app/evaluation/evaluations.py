"""Evaluations: cases run, scored and kept one by one, so that a kill costs what was under way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from treadle.app.evaluation.case_threads import (
    make_case_setup,
    open_case,
    sum_case_usage,
    work_on_case,
)
from treadle.app.evaluation.recorded_turns import (
    NotRunError,
    RecordedTurn,
    find_divergence,
    list_cases,
    make_prompt,
    read_calls,
    read_turn,
)
from treadle.app.evaluation.restored_files import RestoredFiles, remove_left_files, restored_files
from treadle.app.evaluation.result_file import (
    CaseBegun,
    CaseCut,
    CaseEnded,
    Planned,
    ResultFile,
    Started,
    create_file,
    list_ids,
    list_left_places,
    open_file,
    place_of,
    read_lines,
)
from treadle.app.evaluation.scores import Judge, ScoredRun, score_run
from treadle.app.evaluation.values import (
    TAG,
    CaseResult,
    CaseVerdict,
    Evaluation,
    EvaluationLimits,
    EvaluationRequest,
)
from treadle.app.files.file_diff import find_diff
from treadle.app.notices import Notify, ignore_notice
from treadle.app.sessions.host import Host
from treadle.app.sessions.open_threads import OpenThread
from treadle.app.sessions.providers import Models
from treadle.app.sessions.setup import Setup
from treadle.app.sessions.thread_work import WorkResult, cancel_turn, work_on_thread
from treadle.config.loader import load_settings
from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.core.tool_families import ToolKind, names_of
from treadle.errors import (
    DamagedJournalError,
    FileStateError,
    ReadOnlyThreadError,
    UsageError,
)
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.defaults import make_user_redactor
from treadle.store.local_store import LocalStore
from treadle.thread.codec import UnknownEntryError

_SCORED: Final = frozenset({TurnOutcome.DONE, TurnOutcome.LIMIT})
"""How a turn may end that is then scored; all others have no end that could be good."""
_STOPPED: Final = frozenset({TurnOutcome.LIMIT, TurnOutcome.CANCELLED, TurnOutcome.INTERRUPTED})
"""How a turn ends that the limit of the evaluation has stopped; they may have other causes."""


_UNREADABLE: Final = (UsageError, DamagedJournalError, ReadOnlyThreadError, UnknownEntryError)
"""What is wrong with one thread, and no reason to stop all others."""


def _ignore_result(_: CaseResult) -> None:
    """Nobody waits for it."""


async def evaluate(
    store: LocalStore,
    request: EvaluationRequest,
    limits: EvaluationLimits = EvaluationLimits(),  # noqa: B008  it is frozen
    *,
    host: Host = Host(),  # noqa: B008  it is frozen
    on_result: Callable[[CaseResult], None] = _ignore_result,
    notify: Notify = ignore_notice,
) -> Evaluation:
    """Run recorded turns again, each in a fork of its thread and a worktree, and score them.

    The threads stay as they are, and so do the person's files and branches. It is durable: what was
    stopped or killed goes on with `resume_evaluation`.

    Args:
        store: the threads.
        request: which turns, with what, and what counts as good.
        limits: what all of it may use, and how many run side by side.
        host: the program that calls; its `wrap_tools` and `wrap_provider` change what is tried.
        on_result: gets each result when it is durable.
        notify: gets a line for a person, the first of them the id.

    Raises:
        UsageError: a thread has no turn that could be run, or there is no cache folder.
        NotConfiguredError: no model was chosen, or it has no key.
        StoreError: the disk refused; what has a result keeps it.
    """
    request = _check_request(store, request)
    cases = [case for name in request.threads for case in list_cases(store, name)]
    evaluation = create_file(store, request, dict.fromkeys(cases))
    notify(f"evaluation {evaluation}; if it is stopped: treadle eval --resume {evaluation}")
    return await resume_evaluation(
        store, evaluation, limits, host=host, on_result=on_result, notify=notify
    )


async def resume_evaluation(
    store: LocalStore,
    evaluation: str,
    limits: EvaluationLimits | None = None,
    *,
    folder: str | None = None,
    host: Host = Host(),  # noqa: B008  it is frozen
    on_result: Callable[[CaseResult], None] = _ignore_result,
    notify: Notify = ignore_notice,
) -> Evaluation:
    """Run the cases of an evaluation that have no result, and those that could not be run.

    Args:
        store: the threads.
        evaluation: its id.
        limits: other limits than those it had; what was spent counts.
        folder: where the repository is now, if it has moved since.
        host: as for `evaluate`.
        on_result: gets each new result.
        notify: gets lines for a person.

    Raises:
        UsageError: there is no such evaluation, or another process is at work on it.
        NotConfiguredError, StoreError: as `evaluate`.
    """
    with open_file(store, evaluation) as file:
        found = read_evaluation(store, evaluation)
        file.add(Started(store.now(), limits or found.limits, folder or found.request.folder))
        for case, thread in _find_cut_cases(store, evaluation):
            file.add(CaseCut(case, _read_usage(store, thread)))
        await remove_left_files(list_left_places(store, evaluation))
        found = read_evaluation(store, evaluation)
        runner = _Runner(store, found, file, host, notify)
        await runner.run(on_result)
    return read_evaluation(store, evaluation)


def read_evaluation(store: LocalStore, evaluation: str) -> Evaluation:
    """An evaluation as it stands, also while another process is at work on it.

    Raises:
        UsageError: there is none of this id, or its file is damaged.
        StoreError: the disk refused.
    """
    planned, *lines = read_lines(store, evaluation)
    assert isinstance(planned, Planned)
    limits, results, spent = EvaluationLimits(), dict[str, CaseResult](), Usage()
    request = planned.request
    for line in lines:
        match line:
            case Started():
                limits, request = line.limits, replace(request, folder=line.folder)
            case CaseCut():
                spent += line.usage
            case CaseEnded(result):
                results[result.case] = result
                spent += result.usage + result.judge_usage
            case _:
                pass
    ordered = [results[case] for case in planned.cases if case in results]
    made = Evaluation(planned.id, planned.at, request, limits, planned.cases, ordered, spent)
    is_out = made.left_count > 0 and _find_limit(limits, spent) != ""
    return replace(made, is_out_of_budget=is_out)


def list_evaluations(store: LocalStore, *, notify: Notify = ignore_notice) -> Sequence[Evaluation]:
    """All evaluations, the newest first.

    Args:
        store: the threads.
        notify: gets a line for each that cannot be read.

    Raises:
        StoreError: the disk refused.
    """
    found = []
    for one in list_ids(store):
        try:
            found.append(read_evaluation(store, one))
        except UsageError as error:
            notify(error.message)
    return sorted(found, key=lambda one: (one.at, one.id), reverse=True)


def _check_request(store: LocalStore, request: EvaluationRequest) -> EvaluationRequest:
    """The request with the lasting names of its models, which mean the same for who resumes it."""
    if not request.threads:
        raise UsageError("no thread was named", hint="name one, or a tag that some have")
    if bool(request.judge) != bool(request.rubric):
        raise UsageError("a judge needs a rubric, and a rubric a judge")
    if unknown := sorted({*request.left_out} - names_of(*ToolKind)):
        raise UsageError(f"no tool is called {', '.join(unknown)}")
    models = Models(load_settings(".", os.environ), cache=store.places.cache)
    return replace(
        request,
        model=request.model and models.resolve_name(request.model),
        judge=request.judge and models.resolve_name(request.judge),
    )


def _find_cut_cases(store: LocalStore, evaluation: str) -> list[tuple[str, str]]:
    """The cases that were under way when a process died, each with its thread."""
    open_cases: dict[str, str] = {}
    for line in read_lines(store, evaluation):
        match line:
            case CaseBegun(case, thread):
                open_cases[case] = thread
            case CaseCut(case):
                open_cases.pop(case, None)
            case CaseEnded(result):
                open_cases.pop(result.case, None)
            case _:
                pass
    return list(open_cases.items())


def _read_usage(store: LocalStore, thread: str) -> Usage:
    """What a case that was cut had used; somebody may have removed its thread since."""
    try:
        return store.load(thread).fold.usage
    except _UNREADABLE:
        return Usage()


def _find_limit(limits: EvaluationLimits, spent: Usage) -> str:
    """What is used up, in words; empty if nothing is."""
    return _make_budget(limits).find_exceeded_limit(spent)[1]


def _make_budget(limits: EvaluationLimits) -> TokenBudget:
    return TokenBudget(max_total=limits.max_tokens, max_cost_usd=limits.max_cost)


class _Runner:
    """Runs the cases that are left of one evaluation.

    Args:
        store: the threads.
        evaluation: the evaluation as it stands.
        file: its file.
        host: the program that calls; nobody of it is asked anything.
        notify: gets lines for a person.
    """

    def __init__(
        self,
        store: LocalStore,
        evaluation: Evaluation,
        file: ResultFile,
        host: Host,
        notify: Notify,
    ) -> None:
        self._store, self._file, self._notify = store, file, notify
        self._id, self._request = evaluation.id, evaluation.request
        self._limits, self._spent = evaluation.limits, evaluation.spent
        self._cases = evaluation.cases
        done = {one.case for one in evaluation.results if one.verdict is not CaseVerdict.NOT_RUN}
        self._left = [case for case in evaluation.cases if case not in done]
        self._host = replace(host, people=None, notify=notify)
        self._running: dict[str, OpenThread] = {}
        self._redact = make_user_redactor().redact
        self._judge: Judge | None = None
        self._told: set[str] = set()

    async def run(self, on_result: Callable[[CaseResult], None]) -> None:
        """Run them, some side by side. Stopped, what is under way is lost, and no result is."""
        models = Models(load_settings(".", os.environ), cache=self._store.places.cache)
        try:
            if self._request.model:  # without a key nothing is begun
                models.open(self._request.model)
            if self._request.judge:
                name = self._request.judge
                self._judge = Judge(models.open(name), name, self._request.rubric, self._redact)
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, self._limits.jobs)):
                    group.create_task(self._work(on_result))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await models.aclose()

    async def _work(self, on_result: Callable[[CaseResult], None]) -> None:
        while self._left and not self._find_limit():
            case = self._left.pop(0)
            result = await self._run_case(case)
            if result is not None:
                self._file.add(CaseEnded(result))
                self._spent += result.judge_usage
                on_result(result)

    async def _run_case(self, case: str) -> CaseResult | None:
        """The result; `None` if the limit of the evaluation has cut it."""
        try:
            turn = read_turn(self._store, case)
            place = place_of(self._store, self._id, self._cases.index(case))
            async with restored_files(
                turn, self._request.folder, place, self._store.places
            ) as files:
                return await self._run_turn(case, turn, files)
        except _UNREADABLE as error:
            hint = f"; {error.hint}" if isinstance(error, NotRunError) and error.hint else ""
            reason = self._redact(error.message + hint)
            return CaseResult(case, CaseVerdict.NOT_RUN, reason)

    async def _run_turn(
        self, case: str, turn: RecordedTurn, files: RestoredFiles
    ) -> CaseResult | None:
        folder, tag = str(files.folder), TAG + self._id
        setup = make_case_setup(self._store, self._request, turn, folder, tag, self._host)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        work = await self._send(case, setup, turn)
        finished, thread = work.turn, work.turn.thread
        result = CaseResult(
            case,
            CaseVerdict.NOT_RUN,
            self._redact(finished.error),
            thread,
            finished.usage,
            time_s=loop.time() - begun,
            recorded_usage=turn.usage,
            note=files.note,
        )
        if finished.outcome in _STOPPED and self._find_limit():
            self._file.add(CaseCut(case, finished.usage))
            return None
        calls = read_calls(self._store, thread)
        folders = (*filter(None, [turn.workspace]), folder)
        result = replace(result, divergence=find_divergence(turn.calls, calls, folders))
        if finished.outcome is TurnOutcome.APPROVAL:
            waits = ", ".join(one.call.tool_name for one in work.questions)
            return replace(
                result, verdict=CaseVerdict.FAILED, reason=f"it waits for a yes: {waits}"
            )
        if finished.outcome not in _SCORED:
            return replace(result, reason=result.reason or finished.outcome.value)
        return await self._score(result, setup, turn, finished, files.folder)

    async def _score(
        self,
        result: CaseResult,
        setup: Setup,
        turn: RecordedTurn,
        finished: TurnFinished,
        folder: Path,
    ) -> CaseResult:
        run = ScoredRun(
            folder,
            result.thread,
            make_prompt(turn.message),
            finished.answer,
            read_calls(self._store, result.thread),
            await self._read_diff(result.thread, folder),
            finished.usage,
        )
        sandbox = setup.make_sandbox(str(folder))
        score = await score_run(self._request, run, sandbox, self._judge)
        is_scored = bool(self._request.checks or self._request.function or self._judge)
        if finished.outcome is TurnOutcome.LIMIT and not is_scored:
            return replace(result, verdict=CaseVerdict.FAILED)
        reason = self._redact(score.reason) or result.reason
        return replace(result, verdict=score.verdict, reason=reason, judge_usage=score.usage)

    async def _send(self, case: str, setup: Setup, turn: RecordedTurn) -> WorkResult:
        loop = asyncio.get_running_loop()

        def watch(_: Output) -> None:
            if self._find_limit():
                loop.call_soon(self._stop_all)

        def begin(opened: OpenThread) -> None:
            self._file.add(CaseBegun(case, opened.thread_id))
            self._running[case] = opened
            for notice in setup.notices:
                if notice not in self._told:
                    self._told.add(notice)
                    self._notify(notice)

        tag, home = TAG + self._id, self._request.folder
        work = work_on_thread(
            setup,
            lambda: open_case(setup, turn, tag, home, self._make_budget(), watch),
            lambda opened: work_on_case(opened, turn),
            on_open=begin,
            notify=self._notify,
        )
        try:
            result = await work
        finally:
            self._running.pop(case, None)
        self._spent += result.turn.usage
        return result

    def _sum_usage(self) -> Usage:
        """What all cases have used up to now, those that run too."""
        return sum(map(sum_case_usage, self._running.values()), self._spent)

    def _find_limit(self) -> str:
        return _find_limit(self._limits, self._sum_usage())

    def _make_budget(self) -> TokenBudget | None:
        """What a case that begins now may use: all that is left."""
        if self._limits.max_tokens is None and self._limits.max_cost is None:
            return None
        return _make_budget(self._limits).get_remaining(self._sum_usage())

    def _stop_all(self) -> None:
        for opened in self._running.values():
            cancel_turn(opened)

    async def _read_diff(self, thread: str, folder: Path) -> str:
        try:
            diff = await find_diff(self._store, thread, folder=str(folder))
            return (await diff.text()).decode("utf-8", "replace")
        except FileStateError as error:
            return f"(the diff cannot be had: {error.message})"
