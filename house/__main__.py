"""`make house`: what is measured of the structure of the source, with the aim of each measure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from house import source, tasks, traced

Row = tuple[str, str, str]
"""What is measured, what it is, what it is to be."""


def main() -> None:
    """Measure, and print the table."""
    table = Table("measure", "is", "aim", box=None)
    for row in rows():
        table.add_row(*row)
    Console(width=100).print(table)


def rows() -> Iterator[Row]:
    """Each measure."""
    source_lines = source.line_count(iter(source.modules()))
    for room, size in source.lines_of_rooms().items():
        yield f"lines of {room}", str(size), ""
    yield "lines of src", str(source_lines), "<= 74000"
    tests = (source.ROOT / "tests").rglob("*.py")
    yield "lines of tests", str(source.line_count(tests)), "<= src"
    yield "modules", str(len(source.modules())), ""
    chain = source.longest_chain()
    yield "longest import chain", str(len(chain)), "<= 22"
    shared = source.shared_class_names()
    yield "class names of two modules or more", str(len(shared)), "0"
    yield "modules with a banned name", str(len(source.banned_module_names())), "0"
    yield "functions with a banned name", str(source.banned_function_names().total()), "0"
    yield "comments per 1,000 lines", f"{source.comments_of_1000_lines():.1f}", ">= 25"
    wide = source.wide_functions()
    yield f"functions of more than {source.PARAMETERS_MAX} parameters", str(len(wide)), "0"
    large = source.large_classes()
    yield f"classes of more than {source.CLASS_LINES_MAX} lines", str(len(large)), "0"
    for room, count in sorted(source.modules_of_faces().items()):
        yield f"modules of the command line that import {room}", str(count), "0"
    for name, called, aim in (
        ("from Enter to the request", traced.prompt_to_request(), "<= 35 files"),
        (
            "from the answer of the model to the question",
            traced.answer_to_question(),
            "<= 35 files",
        ),
        ("from a record to the server", traced.record_to_server(), "<= 45 files"),
    ):
        files = len({path for path, _ in called})
        yield name, f"{files} files, {len(called)} functions", aim
    for task, touched in tasks.files_of_tasks().items():
        yield f"files touched by {task}", str(len(touched)), ""


if __name__ == "__main__":
    main()
