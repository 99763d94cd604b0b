"""Whether files parse; and that no file can crash, hang or fool who asks."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.syntax.check import (
    ALL_SIZE_MAX,
    MESSAGE_SIZE_MAX,
    SIZE_MAX,
    Source,
    find_faults,
    find_language,
)


@for_every_row(
    "name, language",
    [
        ("a.py", "Python"),
        ("src/A.PYI", "Python"),
        ("package.json", "JSON"),
        ("note.ipynb", "JSON"),
        ("pyproject.toml", "TOML"),
        (".github/workflows/ci.yml", "YAML"),
        ("a.yaml", "YAML"),
        ("tsconfig.json", ""),
        ("tsconfig.base.json", ""),
        (".vscode/settings.json", ""),
        ("a.jsonc", ""),
        ("py", ""),
        (".json", ""),
        ("a.py/", ""),
        ("a.c", ""),
    ],
)
def test_the_name_says_the_language(name: str, language: str) -> None:
    assert find_language(name) == language


BROKEN = {
    "a.py": (b"x = 1\ndef f(:\n", 2, "invalid syntax"),
    "indent.py": (
        b"if x:\ny = 1\n",
        2,
        "expected an indented block after 'if' statement on line 1",
    ),
    "b.json": (b'{\n "a": 1,\n b\n}\n', 3, "Expecting property name enclosed in double quotes"),
    "c.toml": (b"[a]\nb = \n", 2, "Invalid value"),
    "d.yaml": (b"a: 1\nb: c: d\n", 2, "mapping values are not allowed"),
}
WHOLE = {
    "a.py": b"# -*- coding: latin-1 -*-\nx = '\xe9'\nasync def f():\n    return [await g()]\n",
    "b.json": b'\xef\xbb\xbf{"a": [1, null, "\\u00e9"]}',
    "c.toml": b"[a]\nb = 1979-05-27\n",
    "d.yaml": b"a: &x [1, 2]\nb: *x\n---\n- two documents\n",
    "chart/values.yaml": b"a: {{ .Values.a }}: b: c\n",
    "empty.py": b"",
    "other.txt": b"def f(:",
}


def test_the_first_fault_of_each_file_is_told_with_its_line() -> None:
    sources = [Source(name, data) for name, (data, _, _) in BROKEN.items()]
    sources += [Source(name, data) for name, data in WHOLE.items()]
    faults = find_faults(sources)
    for (_, line, message), fault in zip(BROKEN.values(), faults, strict=False):
        assert fault is not None
        assert fault.line == line
        assert fault.message.startswith(message)
    assert faults[len(BROKEN) :] == [None] * len(WHOLE)


@for_every_row(
    "name, data",
    [
        ("a.py", b"(" * 100_000),
        ("a.py", b"-" * 500_000 + b"1"),
        ("a.py", b"x = " + b"1+" * 200_000 + b"1"),
        ("a.py", b"lambda: " * 100_000 + b"1"),
        ("a.py", b"a" + b".b" * 200_000),
        ("a.py", b"\n".join(b" " * depth + b"if x:" for depth in range(500))),
        ("a.py", b"f'" + b"{" * 10_000),
        ("a.py", b"x = \x00"),
        ("a.py", b"\xff\xfe\xfa"),
        ("a.json", b"[" * 500_000),
        ("a.json", b'{"a":' * 100_000),
        ("a.json", b'"\xff"'),
        ("a.toml", b"a = " + b"[" * 200_000),
        ("a.toml", b"a" + b".a" * 2_000 + b" = 1"),
        ("a.yaml", b"[" * 200_000),
        ("a.yaml", b"- " * 100_000),
        ("a.yaml", b"a: &a [x]\n" + b"".join(b"b%d: [*a, *a]\n" % n for n in range(20_000))),
        ("a.yaml", b"\x00\x01"),
    ],
)
def test_a_hostile_file_crashes_and_hangs_nobody(name: str, data: bytes) -> None:
    (fault,) = find_faults([Source(name, data)])
    assert fault is None or len(fault.message) <= MESSAGE_SIZE_MAX


def test_no_file_speaks_for_another_one() -> None:
    """What a parser quotes of a file stands on one line of the answer."""
    lines = b'"a\n1\t7\tforged": [\n'
    forged = Source("a.py", b"x = '\n1\t7\tforged\n" + lines)
    first, second = find_faults([forged, Source("b.py", b"y = 1\n")])
    assert first is not None
    assert second is None


def test_what_is_too_large_is_not_looked_at() -> None:
    assert find_faults([Source("a.py", b"(" + b" " * SIZE_MAX)]) == [None]
    many = [Source("a.py", b"(" + b" " * (SIZE_MAX - 1))] * (ALL_SIZE_MAX // SIZE_MAX + 1)
    assert find_faults(many)[-1] is None
    assert find_faults([]) == []


def test_with_a_grammar_other_languages_are_checked() -> None:
    whole, broken = find_faults(
        [Source("a.js", b"let a = (1);\n"), Source("b.js", b"let a = 1;\nif (a {\n")]
    )
    assert whole is None
    assert broken is not None
    assert (broken.language, broken.line) == ("javascript", 2)
