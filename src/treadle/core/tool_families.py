"""The one place where tools have names: what each does, and what it is called for whom. Data.

Models have learnt some shapes of the same tools. A family of models is offered ours in the shape
that it knows: other names, other arguments, an edit by itself instead of a list of them, a patch of
several files. What a call does is the same in each. The family is chosen when a thread begins and
recorded with its configuration. Whoever looks at a call later knows its tool by the name alone: a
name means the same tool, and an argument the same, in all families.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct


class ToolKind(Enum):
    """What one of the built-in tools does."""

    READ = "reads a file"
    LIST = "lists files"
    SEARCH = "searches files"
    EDIT = "replaces text in a file"
    WRITE = "writes a whole file"
    PATCH = "changes several files"
    RUN = "runs a command"
    BACKGROUND = "looks after commands in the background"
    FETCH = "fetches a page"
    PLAN = "tells the plan"
    EXPLORE = "has a sub-agent find something out"
    DELEGATE = "hands a job to a sub-agent"


OWN_NAMES: Final[Mapping[ToolKind, str]] = MappingProxyType(
    {
        ToolKind.READ: "read_file",
        ToolKind.LIST: "list_files",
        ToolKind.SEARCH: "search_files",
        ToolKind.EDIT: "edit_file",
        ToolKind.WRITE: "write_file",
        ToolKind.PATCH: "apply_patch",
        ToolKind.RUN: "bash",
        ToolKind.BACKGROUND: "background_command",
        ToolKind.FETCH: "web_fetch",
        ToolKind.PLAN: "plan",
        ToolKind.EXPLORE: "explore",
        ToolKind.DELEGATE: "delegate",
    }
)
"""What we call them ourselves, which is what they are called where no family says otherwise."""
FILE_CHANGES: Final = frozenset({ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH})
"""What changes files by itself, without a command."""
SUB_AGENTS: Final = frozenset({ToolKind.EXPLORE, ToolKind.DELEGATE})
"""What hands a job to another agent; no family has a name of its own for it."""
COMMAND_NAME: Final = OWN_NAMES[ToolKind.RUN]
PERSONS_COMMAND: Final = "!"
"""What stands for a tool's name where a person runs a command."""


class OfferedTool(Struct, frozen=True):
    """A tool in the shape in which a family is offered it.

    `arguments` are other names of arguments, by ours; that of a field of an argument that is a list
    is `LIST.FIELD`. A list without a name is not there: the fields of its one item stand among the
    arguments themselves. `fixed` arguments are not shown and have these values. Numbers are shown
    `factors` times ours (milliseconds for seconds). `description` is told instead of ours, and
    `described` of arguments.
    """

    kind: ToolKind
    name: str
    arguments: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}
    factors: Mapping[str, int] = {}
    description: str = ""
    described: Mapping[str, str] = {}

    @property
    def spread(self) -> str:
        """The list of which the one item stands among the arguments; empty if there is none."""
        return next((ours for ours, theirs in self.arguments.items() if not theirs), "")

    def name_of(self, path: str) -> str:
        """What one of our arguments, or a field of one (`LIST.FIELD`), is called here."""
        return self.arguments.get(path) or path.rpartition(".")[2]

    def restore(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call under our names. Pure.

        What is ours already stays, and what means the same as another one and differs from it.
        """
        restored, item = dict[str, Any](), dict[str, Any]()
        spread = f"{self.spread}." if self.spread and self.spread not in given else "."
        # Ours first: where another name says something else, it stays, and is told as a conflict.
        for name, value in sorted(given.items(), key=lambda one: one[0] in self._paths):
            path = self._paths.get(name, name)
            if path.startswith(spread):
                item[path.removeprefix(spread)] = value
            elif "." in path or restored.get(path, value) != value:
                restored[name] = value
            elif name != path and path in self.factors and isinstance(value, int | float):
                restored[path] = value / self.factors[path]
            else:
                restored[path] = self._restore_items(path, value)
        if self.spread and spread != ".":
            restored[self.spread] = [item]
        return {**self.fixed, **restored}

    @property
    def _paths(self) -> dict[str, str]:
        """Our name for each other one of an argument, or of a field that stands among them."""
        start = f"{self.spread}."
        return {
            theirs: ours
            for ours, theirs in self.arguments.items()
            if theirs and ("." not in ours or (self.spread and ours.startswith(start)))
        }

    def _restore_items(self, name: str, value: Any) -> Any:
        start = f"{name}."
        own = {
            theirs: ours.removeprefix(start)
            for ours, theirs in self.arguments.items()
            if ours.startswith(start)
        }
        if not own or not isinstance(value, list):
            return value
        return [
            {own.get(field, field): part for field, part in one.items()}
            if isinstance(one, dict)
            else one
            for one in value
        ]


class ToolFamily(Struct, frozen=True):
    """The tools of a family of models, in the order in which they are told of them.

    `prompt` is told behind the system prompt: what public prompts for these models say and others
    need not hear; empty if there is nothing.
    """

    name: str
    tools: tuple[OfferedTool, ...]
    prompt: str = ""

    def name_of(self, kind: ToolKind) -> str:
        """What the tool is called that does this; empty if there is none."""
        return next((tool.name for tool in self.tools if tool.kind is kind), "")


def _offer_own(*kinds: ToolKind) -> tuple[OfferedTool, ...]:
    return tuple(OfferedTool(kind, OWN_NAMES[kind]) for kind in kinds)


DEFAULT_FAMILY: Final = "default"
_OWN_SHAPES: Final = _offer_own(
    *(kind for kind in ToolKind if kind is not ToolKind.PATCH and kind not in SUB_AGENTS)
)
_SINGLE_EDIT: Final = {
    "edits": "",
    "edits.old_str": "old_string",
    "edits.new_str": "new_string",
    "edits.replace_all": "allow_multiple",
}

FAMILIES: Final[Mapping[str, ToolFamily]] = MappingProxyType(
    {
        DEFAULT_FAMILY: ToolFamily(DEFAULT_FAMILY, _OWN_SHAPES),
        "claude": ToolFamily("claude", _OWN_SHAPES),
        # Their published prompts name a shell, `apply_patch` and `update_plan`, and nothing that
        # reads: for that they get ours.
        "openai": ToolFamily(
            "openai",
            (
                *_offer_own(ToolKind.READ, ToolKind.LIST, ToolKind.SEARCH, ToolKind.PATCH),
                OfferedTool(
                    ToolKind.RUN,
                    "shell_command",
                    {"cwd": "workdir", "timeout_s": "timeout_ms"},
                    factors={"timeout_s": 1000},
                    described={
                        "timeout_s": "Milliseconds until it is stopped: 60000 if you do not say, "
                        "3600000 in the background."
                    },
                ),
                OfferedTool(
                    ToolKind.BACKGROUND,
                    OWN_NAMES[ToolKind.BACKGROUND],
                    {"timeout_s": "timeout_ms"},
                    factors={"timeout_s": 1000},
                    described={
                        "timeout_s": "Milliseconds to wait until it ends, or until the first of "
                        "all does; 0 just looks."
                    },
                ),
                *_offer_own(ToolKind.FETCH),
                OfferedTool(ToolKind.PLAN, "update_plan", {"steps": "plan"}),
            ),
            "Go on until what was asked is done and checked; end your turn earlier only if you "
            "cannot go on without the person. Change files with `apply_patch`, and do not read a "
            "file again after it only to see that it was applied: it fails if it was not.",
        ),
        "gemini": ToolFamily(
            "gemini",
            (
                OfferedTool(ToolKind.READ, "read_file", {"path": "file_path"}),
                OfferedTool(
                    ToolKind.LIST,
                    "list_directory",
                    {"path": "dir_path"},
                    {"pattern": "**", "depth": 1},
                    description="List the files and folders directly in a folder, sorted.\n\n"
                    "What .gitignore leaves out is not listed, nor is .git.",
                ),
                OfferedTool(
                    ToolKind.LIST,
                    "glob",
                    {"path": "dir_path"},
                    {"depth": None},
                    description="Find files by their names, beneath a folder, at any depth, "
                    "sorted.\n\nWhat .gitignore leaves out is not found.",
                ),
                OfferedTool(
                    ToolKind.SEARCH, "grep_search", {"path": "dir_path", "glob": "include_pattern"}
                ),
                OfferedTool(
                    ToolKind.EDIT,
                    "replace",
                    {"path": "file_path", **_SINGLE_EDIT},
                    description="Replace a text in a file by another one.\n\nold_string must occur "
                    "exactly once, so give enough lines around it, or set allow_multiple. The file "
                    "keeps its line ends and its encoding. An empty old_string makes a new file "
                    "out of new_string; missing folders are made.",
                ),
                OfferedTool(
                    ToolKind.WRITE,
                    "write_file",
                    {"path": "file_path"},
                    description="Write a whole file, replacing what it held; missing folders are "
                    "made.\n\nThe content is written exactly as given, as UTF-8. To change a part "
                    "of a file, use replace.",
                ),
                OfferedTool(
                    ToolKind.RUN,
                    "run_shell_command",
                    {"cwd": "dir_path", "background": "is_background"},
                ),
                *_offer_own(ToolKind.BACKGROUND, ToolKind.FETCH),
                OfferedTool(
                    ToolKind.PLAN, "write_todos", {"steps": "todos", "steps.step": "description"}
                ),
            ),
            "Before you use a library, look whether this project has it. When you were asked how "
            "something could be done, say it and change nothing.",
        ),
    }
)
"""The families by name. A thread whose configuration names none has the first."""


def find_family(name: str) -> ToolFamily:
    """The family of this name; the default one if there is none, or none is named."""
    return FAMILIES.get(name, FAMILIES[DEFAULT_FAMILY])


def find_family_of(tool_names: Collection[str]) -> str:
    """The first family that has tools of all these names; empty, the default one, if none has."""
    shaped = {name for name in tool_names if kind_of(name) not in SUB_AGENTS | {None}}
    for family in FAMILIES.values():
        if shaped <= {tool.name for tool in family.tools}:
            return "" if family.name == DEFAULT_FAMILY else family.name
    return ""


def _merge_shapes() -> dict[str, OfferedTool]:
    """The shape of each name, with what the argument is called in any of the families."""
    merged = {tool.name: tool for tool in _offer_own(*SUB_AGENTS)}
    for family in FAMILIES.values():
        for tool in family.tools:
            known = merged.setdefault(tool.name, tool)
            merged[tool.name] = OfferedTool(
                known.kind,
                known.name,
                {**known.arguments, **tool.arguments},
                {**known.fixed, **tool.fixed},
                {**known.factors, **tool.factors},
            )
    return merged


_SHAPES: Final = _merge_shapes()


def find_shape(tool_name: str) -> OfferedTool | None:
    """The shape of the tool that is called so in any family; `None` if it is none of ours."""
    return _SHAPES.get(tool_name)


def kind_of(tool_name: str) -> ToolKind | None:
    """What a tool does, by what it is called; `None` if it is none of ours."""
    shape = _SHAPES.get(tool_name)
    return None if shape is None else shape.kind


def names_of(*kinds: ToolKind) -> frozenset[str]:
    """All names of the tools that do this, those of every family."""
    return frozenset(name for name, shape in _SHAPES.items() if shape.kind in kinds)


def list_meant_names(tool_name: str) -> tuple[str, ...]:
    """The names by which a person may mean the tool that is called so: its own, and ours.

    Who has a rule for `edit_file` or `write_file` means a patch too.
    """
    kind = kind_of(tool_name)
    if kind is None:
        return (tool_name,)
    kinds = (kind, ToolKind.EDIT, ToolKind.WRITE) if kind is ToolKind.PATCH else (kind,)
    return tuple(dict.fromkeys((tool_name, *(OWN_NAMES[one] for one in kinds))))
