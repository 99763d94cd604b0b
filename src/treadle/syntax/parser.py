"""The program that parses files; it runs in an interpreter of its own, without this package.

Its arguments are the folders of packages that it may need, and `NUMBER:LANGUAGE:SIZE` for each
file; the files themselves follow one another on its input. It prints `NUMBER`, the line and the
reason for each one that does not parse.
"""

import importlib
import os
import re
import sys

MEMORY_MAX = 1 << 30
"""Bytes of address space: a megabyte of Python takes a quarter of it."""
DEPTH_MAX = 500
"""Brackets in one another; nobody writes so many, and the time for more grows with their square."""


def parse_python(data: bytes) -> tuple[int, str] | None:
    """The first fault, as all of these: its line and the reason; `None` if it parses."""
    try:
        # The tree alone: what a name means is not looked at.
        compile(data, "file", "exec", 0x400, dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 0, error.msg or "invalid syntax"
    except ValueError as error:  # it holds a NUL
        return 0, str(error)
    return None


def parse_json(data: bytes) -> tuple[int, str] | None:
    """As `parse_python`."""
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except UnicodeDecodeError:
        return 0, "it is not UTF-8"
    return None


def parse_toml(data: bytes) -> tuple[int, str] | None:
    """As `parse_python`."""
    import tomllib

    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        words, _, place = str(error).partition(" (at ")
        number = place.removeprefix("line ").partition(",")[0]
        return int(number) if number.isdigit() else 0, words
    except UnicodeDecodeError:
        return 0, "it is not UTF-8"
    return None


def parse_yaml(data: bytes) -> tuple[int, str] | None:
    """As `parse_python`; the file may hold several documents."""
    yaml = importlib.import_module("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(data, loader):  # events alone: no alias is followed
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return 0 if mark is None else mark.line + 1, error.problem or "it cannot be read"
    except (yaml.YAMLError, UnicodeDecodeError):
        return 0, "it holds what is no text"
    return None


def parse_by_grammar(grammar: str, data: bytes) -> tuple[int, str] | None:
    """As `parse_python`, with tree-sitter: `typescript.language_tsx` is package and function."""
    tree_sitter = importlib.import_module("tree_sitter")
    package, _, function = grammar.partition(".")
    module = importlib.import_module(f"tree_sitter_{package}")
    language = tree_sitter.Language(getattr(module, function or "language")())
    root = tree_sitter.Parser(language).parse(data).root_node
    if not root.has_error:
        return None
    todo = [root]
    while todo:
        node = todo.pop()
        if node.is_error or node.is_missing:
            what = f"{node.type} is missing" if node.is_missing else "invalid syntax"
            return node.start_point[0] + 1, what
        todo += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return 0, "invalid syntax"


def is_deep(data: bytes) -> bool:
    """Whether brackets stand in one another so deep that a parser would take for ever."""
    depth = 0
    for bracket in re.finditer(rb"[][{}]", data):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > DEPTH_MAX:
            return True
    return False


PARSERS = {"Python": parse_python, "JSON": parse_json, "TOML": parse_toml, "YAML": parse_yaml}


def bound_memory() -> None:
    """What a file makes of itself must not be paid for by the machine."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass  # macOS takes no bound on the address space


def main() -> None:
    """Parse all files; each answer is written before the next file is looked at."""
    bound_memory()
    sys.path += [folder for folder in sys.argv[1].split(os.pathsep) if folder]
    for word in sys.argv[2:]:
        number, language, size = word.split(":")
        data = sys.stdin.buffer.read(int(size))
        try:
            if language != "Python" and is_deep(data):
                continue
            if language in PARSERS:
                fault = PARSERS[language](data)
            else:
                fault = parse_by_grammar(language, data)
        except (MemoryError, RecursionError):
            continue  # nested too deep for this parser; another one may take it
        except Exception:  # noqa: BLE001, S112  a parser's own fault is no fault of the file
            continue
        if fault is not None:
            words = " ".join(fault[1].split())
            sys.stdout.write(f"{number}\t{fault[0]}\t{words}\n")
            sys.stdout.flush()


main()
