"""What is said beside the result of a write if the file does not parse."""

from __future__ import annotations

from treadle.syntax.check import Source, find_faults, find_language
from treadle.tools.files import Written
from treadle.tools.shown_lines import list_around, show_lines


def describe_syntax(written: Written) -> str:
    """Why the file does not parse, where, and whether it did before; empty if it does.

    It is an advice, as the file may be meant to be so. Nobody is told of what cannot be told.
    """
    if not find_language(written.name):
        return ""
    fault, *_ = find_faults([Source(written.name, written.new)])
    if fault is None:
        return ""
    has_old = bool(written.old)
    did = has_old and find_faults([Source(written.name, written.old or b"")]) == [None]
    state = "does not parse any more" if did else "does not parse"
    state = "still does not parse" if has_old and not did else state
    where = f", line {fault.line}" if fault.line else ""
    remark = f"[syntax: {written.name} {state} as {fault.language}{where}: {fault.message}]"
    lines = written.new.decode(errors="replace").split("\n")
    shown = show_lines(lines, list_around(fault.line, 3)) if fault.line else ""
    return f"{remark}\n{shown}" if shown else remark
