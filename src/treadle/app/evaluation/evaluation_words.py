"""An evaluation in words for people."""

from __future__ import annotations

from treadle.app.evaluation.values import TAG, CaseResult, CaseVerdict, Evaluation
from treadle.models.prices.usage_text import describe_usage


def describe_divergence(result: CaseResult) -> str:
    """Where a run left the recorded one, in a line; empty if none was made."""
    found = result.divergence
    if not result.thread or (found is None and result.verdict is CaseVerdict.NOT_RUN):
        return ""
    if found is None:
        return "none"
    now, recorded = found.now or "no further call", found.recorded or "no further call"
    return f"{found.call}: {now} (recorded: {recorded})"


def describe_evaluation(evaluation: Evaluation) -> list[str]:
    """How it stands, what is left of it and how to go on: a line each."""
    counts = [(one.value, evaluation.count(one)) for one in CaseVerdict]
    passed, *others = counts
    told = [f"{passed[1]} of {len(evaluation.cases)} {passed[0]}"]
    told += [f"{count} {word}" for word, count in others if count]
    told += [f"{evaluation.left_count} left"] if evaluation.left_count else []
    lines = [f"{', '.join(told)}; {describe_usage(evaluation.spent)}"]
    if evaluation.is_out_of_budget:
        more = "--max-tokens" if evaluation.limits.max_cost is None else "--max-cost"
        lines.append(
            "all is used that it may use; to go on: "
            f"treadle eval --resume {evaluation.id} {more} MORE"
        )
    elif evaluation.left_count or evaluation.count(CaseVerdict.NOT_RUN):
        lines.append(f"to try what is left: treadle eval --resume {evaluation.id}")
    lines.append(
        f"evaluation {evaluation.id}; its threads: treadle list --tag {TAG}{evaluation.id}"
    )
    return lines
