"""Secrets in texts of names and values: `.env` files, ini, YAML, JSON, XML, netrc, URLs, options.

Programs read the same line in different ways: what stands behind `#` is a comment for one library
and a part of the value for another, quotes and escapes are kept or taken away, a value goes on to
the next line or not. Whatever one of them would make of a line is a secret.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from html import unescape
from typing import Final
from urllib.parse import unquote

from treadle.secrets.credentials import (
    SECRET_LENGTH_MAX,
    is_blank,
    is_other_than_a_credential,
    is_telling,
    names_a_credential,
)

DEPTH_MAX: Final = 3
"""So deep may texts stand in the values of texts: JSON in a quoted value."""

LISTED_LENGTH_MIN: Final = 16
"""Characters of a secret that is one of several, or has only its place to tell that it is one."""

_NAME: Final = re.compile(
    r"""(?<![\w.])(?P<mark>["'`]?)(?:-D|--?)?(?P<name>[A-Za-z_][\w.-]{0,200}+)(?P=mark)
        (?:[ \t]*(?:=>|:=|\+=|[:=]))[ \t]*(?:!!?[\w:-]*[ \t]+|&\w+[ \t]+)?""",
    re.VERBOSE,
)
"""What stands before a value, with a tag or an anchor of YAML."""

_ESCAPED_NAME: Final = re.compile(r'\\"[ \t]*[:=]')
"""JSON in a string."""

_LINE_HEAD: Final = re.compile(
    r"""[ \t]*(?:(?:export|set|setenv|local|readonly|declare -\w+|ENV|-)[ \t]+|[:$])*["'`]?-{0,2}"""
)
_LINE_HEAD_LENGTH_MAX: Final = 64
_BLOCK: Final = re.compile(
    r"[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?\r?\n((?:[ \t]+[^\n]*(?:\n|\Z)|\r?\n)+)"
)
_QUOTED: Final = re.compile(
    r"""(?P<quote>'''|\"""|["'`])(?P<inner>(?:\\.|(?!(?P=quote))[^\\]){0,16384}?)(?P=quote)""",
    re.DOTALL,
)
_PIECE: Final = re.compile(
    r"""\$?'(?P<plain>[^'\n]*)'|\$?"(?P<escaped>(?:[^"\\\n]|\\.)*)"|\\(?P<one>.)|(?P<bare>[^\s"'\\]+)"""
)
"""What a shell puts together to one word."""

_ENDS: Final = re.compile(r"[ \t]*(?:[,;)}\]#]|\r?$|//)", re.MULTILINE)
"""What may follow a quoted value, where it is all there is."""

_OTHER_LINE: Final = re.compile(
    r"^[ \t]*(?:export[ \t]+)?[A-Za-z_][\w.-]*[ \t]*=[ \t]*[^\s=]", re.MULTILINE
)
"""A quote that was never closed must not take the next assignments with it."""

_SCHEME: Final = r"(?:(?i:bearer|basic|token|bot|apikey|digest)[ \t]+)?"
_REST: Final = re.compile(
    r"(?:[^\\\n]|\\[^\r\n]){0,16384}+(?:\\\r?\n(?:[^\\\n]|\\[^\r\n]){0,16384}+){0,8}"
)
_INLINE: Final = re.compile(rf"{_SCHEME}[^\s,\"'&;]{{1,16385}}+")
_WORD: Final = re.compile(rf"{_SCHEME}\S{{1,16385}}+")
_COMMENT: Final = re.compile(r"(?<!\s)\s++(?:#|//|;).*", re.DOTALL)
_CLOSING: Final = ",;)}]\"'`"

_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|\r?\n[ \t]*|.)", re.DOTALL)
_PYTHON_ESCAPE: Final = re.compile(r"\\([\\'\"abfnrtv])")
_QUOTE_ESCAPE: Final = re.compile(r"\\([\\'])")
"""What python-dotenv takes for escapes, by the quotes: a dollar keeps its backslash."""

_LINE_ESCAPE: Final = re.compile(r"\\([nr])")
_ESCAPES: Final = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "f": "\f",
    "b": "\b",
    "0": "\0",
    "s": " ",
    "a": "\a",
    "v": "\v",
}

_OPTION: Final = re.compile(
    r"""(?<![\w-])--?([A-Za-z][\w-]{1,60}+)[ \t]+("[^"\n]*"|'[^'\n]*'|[^\s"'-]\S*)"""
)
"""`--password x`: a value that a space stands before."""

_ELEMENT: Final = re.compile(
    r"<([A-Za-z_][\w.-]{0,100}+)(?:[ \t][^<>]{0,200}+)?>"
    r"(?:\s*+<!\[CDATA\[([^\]]{0,2000}+)\]\]>\s*+|([^<>]{1,16384}+))</"
)
_XML_PAIR: Final = re.compile(
    r"<name>\s*+([\w.-]{1,100}+)\s*+</name>\s*+<value>([^<>]{1,16384}+)</value>", re.IGNORECASE
)
"""A header in the settings of Maven."""

_NAME_IN_VALUE: Final = re.compile(
    r"""["']?(?:name|key)["']?[ \t]*[:=][ \t]*["']?([\w.-]{1,100}+)["']?[\s,]+["']?value["']?
        [ \t]*[:=][ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,"']+)""",
    re.VERBOSE | re.IGNORECASE,
)
"""`{"name": "API_KEY", "value": "x"}`, `<add key="ApiKey" value="x" />`."""

_NETRC: Final = re.compile(r"\b(?:password|passwd|account)\s+(?:\"((?:[^\"\\\n]|\\.)+)\"|(\S+))")
_USERINFO: Final = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]*://([^/\s?#\"']+)@", re.IGNORECASE)
_LOOSE_USERINFO: Final = re.compile(
    r"(?<![\w+.-])(?!https?:)[a-z][a-z0-9+.-]*://"
    r"([^/\s:@?#\"']{0,100}:(?!\d+/)[^\s\"']{1,400})@",
    re.IGNORECASE,
)
"""People forget to escape a slash or a `#` in the password of a database."""

_TOKEN_LENGTH_MIN: Final = 20
"""A user's name of so many characters is a token; its password is a mark then, or nothing."""

_ORACLE: Final = re.compile(
    r"\bjdbc:oracle:\w+:[^\s/@]{0,200}/\"?([^\s\"]{1,200}?)\"?@", re.IGNORECASE
)
_USER_OPTION: Final = re.compile(
    r"(?<![\w-])(?:-[uU][ \t]?|--(?:proxy-)?user[ =])[\"']?[^\s:\"'=-][^\s:\"'=]{0,100}:([^\s\"']+)"
)
_PASSWORD_OPTION: Final = re.compile(
    r"(?<![\w-])(?:sshpass[ \t]+-p|redis-cli[ \t][^\n]{0,100}?-a[ \t]|-u[ \t]?[\w.-]{1,60}[ \t]+-p"
    r"|(?:mysql|mariadb)[\w-]{0,20}[ \t](?:[^\n]{0,100}?[ \t])?-p(?=\S))"
    r"[ \t]?[\"']?([^\s\"']+)"
)
_FALLBACK: Final = re.compile(r"\$\{\w{1,200}+:?[-=]([^{}]*+)\}")
"""`${API_KEY:-x}`: what a shell takes if the variable is not set."""

_PAIR: Final = re.compile(r"[A-Za-z][\w.-]{0,60}+=([^=\s]\S*)")
"""`gemini=x`: keys of several services behind one name."""

_USER: Final = re.compile(r"[\w.@+-]{1,64}")
_QUERY: Final = re.compile(
    r"[?&;](?:sig|signature|code|key|st|auth|hmac|x-amz-signature|x-goog-signature)=([^\s&\"'<>]+)",
    re.IGNORECASE,
)
"""A link that opens what it names: its signature is worth what a password is."""

_VALUES: Final = (_ORACLE, _USER_OPTION, _PASSWORD_OPTION)
"""Where a password stands without a name."""

_SAYS_PASSWORD: Final = re.compile(
    r".*(?:passw(?:or)?d|passphrase|pwd|pass|pw|secret|token|authorization)", re.IGNORECASE
)
_NO_PASSWORD: Final = re.compile(r"null|none|nil|true|false|yes|no|undefined|\*+", re.IGNORECASE)


def find_in_text(text: str) -> list[str]:
    """The secrets in a text of names and values, each once, in the order they are found."""
    return list(dict.fromkeys(filter(is_telling, _find(text, 0))))


def holds_a_password(text: str) -> bool:
    """Whether a text names a password, one that is too short to be looked for in texts too."""
    for name, values in _assignments(text):
        if _SAYS_PASSWORD.fullmatch(name) and any(map(_is_written_out, values)):
            return True
    return any(
        _is_written_out(value) and not value.isdigit()
        for pattern in _VALUES
        for value in pattern.findall(text)
    )


def _is_written_out(value: str) -> bool:
    """Whether it is a value, and does not stand for one or say that there is none."""
    value = value.strip("\"'`,}]) ")
    if not value or _NO_PASSWORD.fullmatch(value) or value.startswith(("$", "{", "<", "%", "/")):
        return False
    return "://" not in value


def read_credential(value: str) -> Iterator[str]:
    """What a value that is a credential holds: it, and what is a secret by itself in it.

    `user:password` has a password, in base64 too; several keys stand with commas between them.
    """
    value = value.strip()
    yield value
    if fallback := _FALLBACK.fullmatch(value):
        yield fallback[1]
    if (pair := _PAIR.fullmatch(value)) and _is_long(pair[1]):
        yield pair[1]
    scheme, _, bare = value.partition(" ")
    if bare and scheme.lower() in ("bearer", "basic", "token", "bot", "apikey", "digest"):
        yield from read_credential(bare)
        return
    user, has_password, password = value.partition(":")
    if has_password and _USER.fullmatch(user) and not password.startswith("//"):
        yield from filter(_is_long, [user])
        yield password
    for piece in re.split(r"[][,;|\s]+", value) if len(value) <= SECRET_LENGTH_MAX else ():
        if len(piece) < len(value):
            pair = _PAIR.fullmatch(piece)
            yield from filter(_is_long, (piece, pair[1] if pair else ""))
    with suppress(ValueError):
        decoded = b64decode(value, validate=True).decode() if len(value) % 4 == 0 else ""
        user, has_password, password = decoded.partition(":")
        if decoded.isprintable():
            yield decoded
            yield from [password] * bool(has_password)


def read_all(text: str) -> list[str]:
    """Every value in a text that holds nothing but credentials, whatever their names are."""
    found: list[str] = []
    for line in text.splitlines():
        name, has_value, value = line.partition(": ")
        if has_value and not name.lstrip().startswith(("#", "-")):
            for one in _rest_of_line(value):
                found += read_credential(one)
    with suppress(ValueError, RecursionError):
        for value in _strings(json.loads(text)):
            found += filter(_is_long, read_credential(value))
    return [one for one in dict.fromkeys(found) if is_telling(one)]


def read_sections(text: str) -> list[str]:
    """The values below a name of a credential: of `tokens:` in YAML, of `[pypi-token]` in TOML."""
    above: list[tuple[int, bool]] = []
    found: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if bare.startswith("[") and bare.endswith("]"):
            above = [(-1, names_a_credential(bare.strip("[]")))]
            continue
        # In YAML the items of a list may stand as far left as its name.
        indent = len(line) - len(line.lstrip(" \t")) + bare.startswith("- ")
        while above and above[-1][0] >= indent:
            above.pop()
        parts = re.split(r":(?:\s+|$)|\s*=\s*", bare.removeprefix("- "), maxsplit=1)
        name, value = parts[0].strip("\"'"), parts[1] if len(parts) > 1 else ""
        is_named = bool(above) and above[-1][1]
        if not value and is_named and not bare.endswith(":"):
            found += filter(_is_long, _rest_of_line(bare.removeprefix("- ")))  # on its own line
        elif not value:
            above.append((indent, names_a_credential(name)))
        elif is_named and not is_other_than_a_credential(name):
            found += filter(_is_long, _rest_of_line(value))
    return [one for one in dict.fromkeys(found) if is_telling(one)]


def _find(text: str, depth: int) -> Iterator[str]:
    for _, values in _assignments(text):
        for value in values:
            yield from read_credential(value)
        if depth < DEPTH_MAX and (":" in values[0] or "=" in values[0]):
            yield from _find(values[0], depth + 1)
    yield from _without_assignment(text)
    yield from _in_addresses(text)
    if depth < DEPTH_MAX and _ESCAPED_NAME.search(text):
        yield from _find(text.replace('\\"', '"'), depth + 1)
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            yield from _in_tree(json.loads(text), is_credential=False)


def _without_assignment(text: str) -> Iterator[str]:
    """What stands behind a name without a mark between them, or where only secrets stand."""
    for pattern in (_OPTION, _NAME_IN_VALUE, _XML_PAIR):
        for name, value in pattern.findall(text):
            if names_a_credential(name):
                yield from read_credential(value.strip("\"'"))
    for name, data, value in _ELEMENT.findall(text):
        if names_a_credential(name):
            value = value.strip()
            yield from dict.fromkeys((data or unescape(value), data or value))
    for quoted, bare in _NETRC.findall(text):
        yield from _decoded(quoted) if quoted else (bare,)
    for pattern in _VALUES:
        yield from pattern.findall(text)
    for value in _QUERY.findall(text):
        yield from filter(_is_long, dict.fromkeys((value, unquote(value))))


def _assignments(text: str) -> Iterator[tuple[str, list[str]]]:
    """The names of credentials in a text, each with what its value may be."""
    place = 0
    while (found := _NAME.search(text, place)) is not None:
        place = found.end()
        if names_a_credential(found["name"]):
            values, place = _values(text, place, is_first=_is_first(text, found.start()))
            if values:
                yield found["name"], values


def _is_first(text: str, start: int) -> bool:
    """Whether nothing but a keyword stands before it on its line."""
    floor = max(0, start - _LINE_HEAD_LENGTH_MAX)
    line = text.rfind("\n", floor, start) + 1
    return (line > 0 or floor == 0) and _LINE_HEAD.fullmatch(text, line, start) is not None


def _values(text: str, place: int, *, is_first: bool) -> tuple[list[str], int]:
    """What may be the value at a place of a text, and where it ends.

    Args:
        text: names and values.
        place: behind a name and its mark.
        is_first: whether the name is the first on its line: all that follows may be the value.
    """
    block = _BLOCK.match(text, place)
    if block is not None:
        lines = [line.strip() for line in block[1].splitlines()]
        return ["\n".join(lines).strip(), " ".join(lines).strip()], block.end()
    quoted = _QUOTED.match(text, place)
    if quoted is not None and not _OTHER_LINE.search(quoted["inner"]):
        found = list(_unquoted(quoted["quote"], quoted["inner"]))
        if not is_first or _ENDS.match(text, quoted.end()):
            return found, quoted.end()
        rest = _REST.match(text, place)
        return [*found, *_rest_of_line(rest[0] if rest else "")], quoted.end()
    inline = _INLINE.match(text, place)
    found, end = ([inline[0], inline[0].rstrip(_CLOSING)], inline.end()) if inline else ([], place)
    rest = _REST.match(text, place) if is_first else None
    if rest is not None:
        bare = _COMMENT.sub("", rest[0]).strip()
        if is_blank(bare):
            fallback = _FALLBACK.fullmatch(bare)
            return [fallback[1]] if fallback else [], end
        word = _WORD.match(text, place)
        found += (word[0], word[0].rstrip(_CLOSING)) if word else ()
        found += _rest_of_line(rest[0])
    return found, end


def _unquoted(quote: str, inner: str) -> Iterator[str]:
    """What stands between quotes, as it is and as libraries read it."""
    yield inner
    if "\\" in inner:
        yield _LINE_ESCAPE.sub(lambda found: _ESCAPES[found[1]], inner)  # Node's dotenv
        yield from _decoded(inner)
        own = _PYTHON_ESCAPE if quote == '"' else _QUOTE_ESCAPE
        yield own.sub(lambda found: _ESCAPES.get(found[1], found[1]), inner)
        if quote == "'":
            # A shell knows no escapes here: the value ends at the first quote.
            yield inner.partition("'")[0]
    if "\n" in inner:
        yield inner.replace("\r\n", "\n")
        yield "\n".join(line.strip() for line in inner.splitlines())


def _decoded(text: str) -> Iterator[str]:
    """A text with escapes as libraries read it."""
    yield _ESCAPE.sub(_unescaped, text)
    with suppress(ValueError):
        yield str(json.loads(f'"{text}"'))


def _unescaped(found: re.Match[str]) -> str:
    one = found[1]
    if len(one) > 1 and one[0] in "ux":
        return chr(int(one[1:], 16))
    return "" if one.strip() == "" and "\n" in one else _ESCAPES.get(one, one)


def _rest_of_line(line: str) -> Iterator[str]:
    """What programs make of all that stands behind a name on its line."""
    line = line.strip()
    bare = _COMMENT.sub("", line).rstrip()
    quoted = _QUOTED.match(bare)
    if quoted is not None and quoted.end() == len(bare):
        yield from _unquoted(quoted["quote"], quoted["inner"])
        return
    yield bare
    yield line.partition("#")[0].rstrip()
    yield bare.rstrip(_CLOSING)
    if any(one in bare for one in "\"'\\"):
        yield "".join(_piece(found) for found in _PIECE.finditer(bare))
        yield from _decoded(bare)
    if "''" in bare[1:-1] and bare[0] == bare[-1] == "'":
        yield bare[1:-1].replace("''", "'")  # YAML


def _piece(found: re.Match[str]) -> str:
    if found["escaped"] is not None:
        return re.sub(r"\\([\"$`\\])", r"\1", found["escaped"])
    return next((one for one in found.groupdict().values() if one is not None), "")


def _in_addresses(text: str) -> Iterator[str]:
    """Passwords, and tokens in the place of a user's name, of the addresses in a text."""
    for userinfo in (*_USERINFO.findall(text), *_LOOSE_USERINFO.findall(text)):
        user, _, password = userinfo.partition(":")
        yield from dict.fromkeys((unquote(password), password))
        if len(user) >= _TOKEN_LENGTH_MIN:
            yield user


def _in_tree(tree: object, *, is_credential: bool) -> Iterator[str]:
    """What stands below a name of a credential, in JSON: `{"github-oauth": {"github.com": "x"}}`.

    Args:
        tree: what JSON holds.
        is_credential: whether its name says that it is one.
    """
    pairs: Iterable[tuple[str, object]] = ()
    if isinstance(tree, dict):
        pairs = tree.items()
    elif isinstance(tree, list):
        pairs = (("", one) for one in tree)
    for name, value in pairs:
        if isinstance(value, str):
            if value.lstrip()[:1] in ("{", "["):
                yield from _find(value, DEPTH_MAX)
            if is_credential and not is_other_than_a_credential(name):
                yield from filter(_is_long, read_credential(value))
            if names_a_credential(name):  # it may stand on the line after its name
                yield from read_credential(value)
        else:
            is_named = bool(name) and names_a_credential(name)
            yield from _in_tree(value, is_credential=is_named)


def _strings(tree: object) -> Iterator[str]:
    """All values of JSON that are texts."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _strings(one)


def _is_long(value: str) -> bool:
    """Whether it looks like a token: nothing but its place may say that it is a secret."""
    return (
        len(value) >= LISTED_LENGTH_MIN
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
    )
