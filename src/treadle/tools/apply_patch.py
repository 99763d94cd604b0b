"""The tool that changes several files by one patch, all or none; OpenAI's models write such."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from treadle.core.approval import Scope, join_scopes
from treadle.core.messages import SeenFile
from treadle.core.sightings import Sightings
from treadle.core.tools import EffectClass, RewrittenFile, RiskLevel, ToolErrorKind
from treadle.sandbox.thread_scratch import expand_variable
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.file_batch import FileReader, FileRewrite, check_all, rewrite_all
from treadle.tools.files import ABSENT, Written, digest_of
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.known_files import refuse_changed, refuse_unseen
from treadle.tools.line_digests import digest_lines
from treadle.tools.near_names import with_near_names
from treadle.tools.patch_changes import PatchedFile, PatchedFiles, patch_files
from treadle.tools.patch_format import PatchSection, list_patch_paths, parse_patch
from treadle.tools.paths import Root
from treadle.tools.syntax_remark import describe_syntax
from treadle.tools.tool_return import ToolReturn
from treadle.tools.write_scope import risk_of_path, scope_of_path


def risk_of_patch(arguments: Arguments) -> RiskLevel:
    """The highest of the risks of writing its files."""
    try:
        paths = list_patch_paths(parse_patch(arguments["input"]))
    except ToolFailure:  # the call will fail by itself
        return RiskLevel.MEDIUM
    return max(map(risk_of_path, paths))


def scope_of_patch(arguments: Arguments, context: ToolContext) -> Scope:
    """What a yes to a patch covers: all files that it writes, as they are.

    Raises:
        ToolFailure: the patch cannot be read, or a path leads outside; the call will fail.
        OSError: a file cannot be read.
    """
    sections = parse_patch(arguments["input"])
    _refuse_scratch(sections, context)
    return join_scopes([scope_of_path(path, context) for path in list_patch_paths(sections)])


def check_patch(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `apply_patch` would."""
    sections = parse_patch(arguments["input"])
    _refuse_scratch(sections, context)
    check_all(context.workspace, lambda read: _list_rewrites(_patch(sections, context, read)))


@tool(
    effect=EffectClass.MUTATE,
    risk=RiskLevel.MEDIUM,
    risk_of=risk_of_patch,
    scope_of=scope_of_patch,
    check=check_patch,
)
def apply_patch(context: ToolContext, input: str) -> ToolReturn:  # noqa: A002  models know it so
    """Change, add, move and delete files by one patch: all of it or nothing.

    The patch has a section for each file:

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ def greet():
     name = "you"
    -print("Hi")
    +print(f"Hello, {name}")
    *** Add File: hello.txt
    +Hello
    *** Delete File: obsolete.txt
    *** End Patch

    Paths are relative to the workspace. `*** Move to:` may stand below an update and renames the
    file. An update has one or more pieces, in the order of the file, each begun by `@@`. In a piece
    a line that begins with a space stays, one with `-` goes, one with `+` is new; give three lines
    that stay before and after each change. Where they stand more than once, name the class or
    function behind `@@`, several below each other if needed. Each line of an added file begins
    with `+`. `*** End of File` below a piece says that it is at the end.

    Args:
        context: The workspace.
        input: The whole patch, from `*** Begin Patch` to `*** End Patch`.
    """
    sections = parse_patch(input)
    _refuse_scratch(sections, context)
    patched = PatchedFiles(())

    def plan(read: FileReader) -> list[FileRewrite]:
        nonlocal patched
        patched = _patch(sections, context, read)
        return _list_rewrites(patched)

    written = rewrite_all(context.workspace, plan)
    return _make_result(patched, written)


def _patch(
    sections: Sequence[PatchSection], context: ToolContext, read: FileReader
) -> PatchedFiles:
    """All files as the patch makes them.

    Raises:
        ToolFailure: it does not fit, changes nothing, or would undo what the model does not know.
    """
    root = context.workspace
    try:
        patched = patch_files(sections, read, root.name_of)
        _refuse_links(root, patched.files)
    except ToolFailure as failure:
        names = with_near_names(root, failure.message) if context.explains else nullcontext()
        try:
            with names:
                raise
        finally:
            failure.message += "; no file was changed"
    _refuse_unknown(context.sightings, [(root.name_of(one.path), one) for one in patched.files])
    if all(one.old == one.new for one in patched.files):
        raise ToolFailure(ToolErrorKind.FAILED, "the patch leaves all files as they are")
    return patched


def _list_rewrites(patched: PatchedFiles) -> list[FileRewrite]:
    return [FileRewrite(one.path, one.old, one.new, one.origin) for one in patched.files]


def _refuse_scratch(sections: Sequence[PatchSection], context: ToolContext) -> None:
    """Refuse paths in the scratch folder: a patch is for one folder, all or nothing."""
    for path in list_patch_paths(sections) if context.scratch else ():
        there = expand_variable(path, context.scratch)
        if there == context.scratch or there.startswith(f"{context.scratch}/"):
            raise ToolFailure(
                ToolErrorKind.INVALID_ARGUMENTS,
                f"{path}: a patch changes files of the workspace; write those in the scratch "
                "folder with a command",
            )


def _refuse_links(root: Root, patched: Sequence[PatchedFile]) -> None:
    """Refuse to remove or move what a link leads to: the link is what was named, and would stay."""
    for one in patched:
        named = root.path / root.relative(one.path)
        if one.new is None and one.old is not None and named.is_symlink():
            raise ToolFailure(
                ToolErrorKind.FAILED,
                f"{one.path} is a link to {root.name_of(one.path)}, and a patch removes or moves "
                "files alone: name that file, or remove the link with a command",
            )


def _refuse_unknown(
    sightings: Sightings | None, patched: Sequence[tuple[str, PatchedFile]]
) -> None:
    """Refuse once what goes unseen, or is not any more as the model has seen it: all in one."""
    failures: list[ToolFailure] = []
    for name, one in patched:
        refuse = refuse_unseen if one.is_overwritten else refuse_changed
        try:
            if one.old != one.new:
                refuse(sightings, name, digest_of(one.old), one.old)
        except ToolFailure as failure:
            failures.append(failure)
    if failures:
        raise ToolFailure(
            failures[0].kind,
            "\n".join(one.message for one in failures),
            "\n".join(one.output for one in failures if one.output),
            tuple(seen for one in failures for seen in one.seen),
        )


def _make_result(patched: PatchedFiles, written: Sequence[Written]) -> ToolReturn:
    """What is told of all files, in the words that the models know, and what a later yes is for."""
    origins = {one.origin for one in patched.files}
    lines = ["Success. Updated the following files:"]
    for one in patched.files:
        if one.old == one.new or (one.new is None and one.path in origins):
            continue
        sign = "D" if one.new is None else "A" if one.old is None and not one.origin else "M"
        moved = f" (moved from {one.origin})" if one.origin else ""
        lines.append(f"{sign} {one.path}{moved}")
    lines += patched.remarks
    same = (one for one in patched.files if one.old is not None and one.old == one.new)
    lines += [f"[{one.path} is as it was]" for one in same]
    lines += filter(None, (describe_syntax(one) for one in written if one.after != ABSENT))
    names = tuple(one.name for one in written)
    return ToolReturn(
        "\n".join(lines),
        names,
        tuple(RewrittenFile(one.name, one.before, one.after) for one in written),
        tuple(
            SeenFile(one.name, one.after, lines=digest_lines(one.new) if one.new else "")
            for one in written
        ),
    )
