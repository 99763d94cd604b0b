"""Rules about programs that run code or other programs: interpreters, editors, archivers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treadle.risk.calls import ProgramCall
from treadle.risk.reasons import Reason
from treadle.risk.wrappers import SHELLS

INTERPRETERS: Final = frozenset(
    {
        *(
            "python",
            "pypy",
            "perl",
            "ruby",
            "irb",
            "node",
            "nodejs",
            "deno",
            "bun",
            "php",
            "lua",
            "luajit",
        )
    }
    | {
        *(
            "tclsh",
            "rscript",
            "r",
            "julia",
            "groovy",
            "scala",
            "osascript",
            "guile",
            "racket",
            "swift",
        )
    }
    | {
        *(
            "ghci",
            "ocaml",
            "elixir",
            "erl",
            "sbcl",
            "ipython",
            "tsx",
            "ts-node",
            "m4",
            "bc",
            "dc",
            "sed",
        )
    }
    | {
        *(
            "awk",
            "gawk",
            "mawk",
            "vim",
            "ex",
            "vi",
            "ed",
            "emacs",
            "make",
            "at",
            "batch",
            "xargs",
            "parallel",
        )
    }
)
DECODERS: Final = frozenset(
    {
        *(
            "base64",
            "base32",
            "basenc",
            "xxd",
            "uudecode",
            "openssl",
            "gunzip",
            "zcat",
            "bzcat",
            "xzcat",
        )
    }
    | {*("gpg", "rev", "tr", "iconv", "od", "uncompress", "zstdcat", "unxz", "bunzip", "ascii2uni")}
)
_CODE_OPTIONS: Final = {
    "python": ("-c",),
    "pypy": ("-c",),
    "ipython": ("-c",),
    "perl": ("-e", "-E"),
    "ruby": ("-e",),
    "node": ("-e", "-p", "--eval", "--print", "-pe"),
    "nodejs": ("-e", "-p", "--eval", "--print"),
    "bun": ("-e", "--eval"),
    "deno": ("eval",),
    "php": ("-r",),
    "lua": ("-e",),
    "rscript": ("-e",),
    "julia": ("-e",),
    "elixir": ("-e",),
}
_RUNS: Final = re.compile(
    r"\b(system|popen|subprocess|execv\w*|execl\w*|execSync|execFile\w*|spawn\w*|child_process|pty"
    r"|__import__|importlib|ctypes|shell_exec|passthru|proc_open|os\.exec\w*|posix_spawn|IO\.popen"
    r"|Open3|syscall|runpy|getattr|globals|builtins|compile)\b"
    r"|\b(exec|eval)\b\s*[(\"'{$ ]|`[^`]{1,300}`"
    r"|%x[({\[]|\bqx\b|\bKernel\b|Deno\.(run|Command)|\bopen\s*\(?[^)]{0,200}\|"
)
_SENDS: Final = re.compile(
    r"\b(urlopen|urlretrieve|requests\.\w+\(|httpx\d?\.\w+\(|aiohttp|socket|http\.client|http\.request|smtplib"
    r"|ftplib|telnetlib|fetch\s*\(|XMLHttpRequest|axios|net\.connect|Net::HTTP|LWP|IO::Socket|dgram)\b"
    r"|\bfetch\s*\(|require\(['\"](node:)?(https?|net|dgram|tls)['\"]\)"
)
_HIDDEN: Final = re.compile(
    r"b64decode|b32decode|fromhex|unhexlify|a85decode|zlib\.decompress|marshal|pickle|codecs\.decode|rot13"
    r"|(chr\s*\(.{0,80}){3}|fromCharCode|atob\s*\(|Buffer\.from\([^)]{0,200}(base64|hex)|(\\x[0-9a-fA-F]{2}){3}|pack\s*\("
    r"|unpack"
)
_DELETES: Final = re.compile(
    r"rmtree|rmSync|rimraf|rm_rf|rm_r\b|FileUtils|remove_tree|removedirs|unlinkSync|rmdirSync"
)
_ENVIRONMENT: Final = re.compile(
    r"os\.environ(?!\s*(\[|\.get))|process\.env(?!\s*[.\[])|\bENV\b(?!\s*[\[{.])|%ENV|getenv\(\)|environb"
)
_PATHS: Final = re.compile(r"[\w.~/-]*[~/.][\w./~-]*")

_AWK: Final = re.compile(
    r"system\s*\(|\|\s*&?\s*getline|\|&|\|\s*[\"\w(]|print[^;}]{0,300}>|getline\s*<|@(load|include)|/inet/|ENVIRON"
)
_SED_COMMAND: Final = (
    r"\s*(?:(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)(?:,\s*[+~]?(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?))?\s*!?\s*)?(?:"
    r"[pdqQ=nNDGgHhxPlz{}]\d*|[aic]\\?[^\n]*|y([/|,#])(?:[^\\\n])*?\1(?:[^\\\n])*?\1"
    r"|s([/|,#@!:%;_~+])(?:(?!\2)[^\\\n]|\\.)*\2(?:(?!\2)[^\\]|\\[\s\S])*\2[gpiI\d]*|[btT:]\s*\w*|)\s*"
)
_SED_ONE: Final = re.compile(_SED_COMMAND)
_STARTERS: Final[dict[str, tuple[str, ...]]] = {
    "tar": (
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "-I",
        "--info-script",
        "-F",
        "--new-volume-script",
        "--rsh-command",
        "--rmt-command",
    ),
    "zip": ("-TT", "--unzip-command"),
    "rg": ("--pre", "--hostname-bin"),
    "ag": ("--pager",),
    "bat": ("--pager",),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "man": ("-P", "--pager", "-H", "--html"),
    "vim": ("-c", "--cmd", "-S", "-s", "-u", "-W", "-w"),
    "nvim": ("-c", "--cmd", "-S", "-s", "-u", "-l"),
    "vi": ("-c", "--cmd", "-S", "-s", "-u"),
    "view": ("-c", "--cmd", "-S", "-s", "-u"),
    "ex": ("-c", "--cmd", "-S", "-s", "-u"),
    "emacs": ("--eval", "--execute", "--load", "-l", "--script", "-f", "--funcall", "--batch"),
    "lldb": ("-o", "-O", "-s", "--one-line", "--source"),
    "less": ("-k", "--lesskey-file", "--lesskey-content"),
    "ssh": ("-o", "-F"),
    "scp": ("-S", "-F"),
    "make": ("--eval",),
    "gmake": ("--eval",),
    "gcc": ("-wrapper", "-specs", "-fplugin", "-B"),
    "g++": ("-wrapper", "-specs", "-fplugin", "-B"),
    "rustc": ("-Clinker", "--codegen"),
    "go": ("-exec", "-toolexec", "-vettool", "-overlay"),
    "cargo": ("--config",),
    "cmake": ("-E", "-P"),
    "ctest": ("-S", "--script"),
    "pytest": ("--pdbcls",),
    "pip": ("--python", "--index-url", "-i", "--extra-index-url", "--trusted-host", "--find-links"),
    "node": ("-r", "--require", "--import", "--loader", "--experimental-loader"),
    "perl": ("-d",),
    "npm": ("--script-shell", "--node-options", "--prefix", "--userconfig", "--globalconfig"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "rspec": ("-r", "--require"),
    "mutt": ("-e",),
    "crontab": ("-e",),
    "logrotate": ("-f", "--force"),
    "cpio": ("--rsh-command",),
    "xterm": ("-e",),
    "fzf": ("--preview", "--bind"),
    "eslint": ("--rulesdir", "--resolve-plugins-relative-to", "-c", "--config", "-f", "--format"),
    "jq": ("-L",),
    "pandoc": ("--filter", "-F", "--lua-filter", "--pdf-engine"),
    "ffmpeg": ("-protocol_whitelist",),
    "column": (),
}
_MAKE_VARIABLES: Final = re.compile(
    r"^(SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKEFILES|MAKE|GNUMAKEFLAGS|MFLAGS)\s*(:|\+|\?|!)?:?="
)
_PREFIXED: Final = re.compile(r"^\+|^-\+")


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What other programs or hidden code it runs."""
    if has_starter(call):
        yield Reason.STARTS
    name = call.name
    if name in ("vim", "nvim", "vi", "ex", "view") and any(map(_PREFIXED.match, call.texts)):
        yield Reason.STARTS
    if name in ("ed", "ex") and call.is_filled:
        yield Reason.STARTS
    if name in ("make", "gmake") and any(map(_MAKE_VARIABLES.match, call.texts)):
        yield Reason.STARTS
    if name in ("awk", "gawk", "mawk", "nawk") and any(map(_AWK.search, call.texts)):
        yield Reason.STARTS
    if name in ("sed", "gsed"):
        yield from _sed(call)
    for code in code_of(call):
        yield from in_code(code)
    if name == "python" and call.value("-m") in (
        "pty",
        "code",
        "pdb",
        "timeit",
        "runpy",
        "http.server",
    ):
        yield Reason.STARTS


def decodes(call: ProgramCall) -> bool:
    """Whether what a program prints may be what its words do not show."""
    if call.name in ("printf", "echo"):
        return any("\\" in text for text in call.texts)
    return call.name in DECODERS


def has_starter(call: ProgramCall) -> bool:
    """Whether an option names a program that it will run."""
    options = _STARTERS.get(call.name, ())
    for text in call.texts:
        name = text.partition("=")[0]
        for option in options:
            if option.startswith("--"):
                if len(name) > 4 and option.startswith(name):
                    return True
            elif text == option or (len(option) == 2 and text.startswith(option)):
                return True
    return call.name == "tar" and bool(re.match(r"^-?[a-zA-Z]*[IF]", "".join(call.texts[:1])))


def code_of(call: ProgramCall) -> Iterator[str]:
    """The code that an interpreter is given in its arguments or in a here-document."""
    options = _CODE_OPTIONS.get(call.name, ())
    for place, text in enumerate(call.texts):
        bundled = re.fullmatch(r"-[A-Za-z0-9]*[ecE]", text) and call.name in (
            "perl",
            "ruby",
            "python",
        )
        if text in options or bundled:
            yield from call.texts[place + 1 : place + 2]
        elif any(len(option) == 2 and text.startswith(option) for option in options):
            yield text[2:]
        elif any(text.startswith(f"{o}=") for o in options if o.startswith("--")):
            yield text.partition("=")[2]
    if call.name in INTERPRETERS and call.name not in ("sed", "awk"):
        yield from (each.body for each in call.redirects if each.operator == "<<")
        yield from (each.target.text for each in call.redirects if each.operator == "<<<")


def in_code(code: str) -> Iterator[Reason]:
    """What a program text of any language says, as far as its words go."""
    for pattern, reason in (
        (_RUNS, Reason.STARTS),
        (_SENDS, Reason.SENDS),
        (_HIDDEN, Reason.HIDDEN_RUNS),
        (_DELETES, Reason.DELETES),
        (_ENVIRONMENT, Reason.ENVIRONMENT),
    ):
        if pattern.search(code):
            yield reason


def quoted_in(code: str) -> list[str]:
    """The texts in quotes in a program: they may be paths, or commands."""
    return [a or b for a, b in re.findall(r"\"([^\"\n]*)\"|'([^'\n]*)'", code)][:64]


def _sed(call: ProgramCall) -> Iterator[Reason]:
    scripts = [text for place, text in enumerate(call.texts) if _is_script(call.texts, place)]
    if not call.has("-e", "--expression", "-f", "--file"):
        scripts += call.operands[:1]
    for script in scripts:
        if not sed_is_understood(script):
            yield Reason.STARTS


def _is_script(texts: tuple[str, ...], place: int) -> bool:
    return place > 0 and texts[place - 1] in ("-e", "--expression", "-ne", "-ie", "-Ee", "-re")


def sed_is_understood(script: str) -> bool:
    """Whether a script of sed has commands only that neither run nor write anything."""
    script = re.sub(r"([{}])[ \t]+", r"\1", script)
    at = 0
    while at < len(script):
        match = _SED_ONE.match(script, at)
        if match is None:
            return False
        at = match.end()
        if at < len(script):
            if script[at] not in ";\n{}" and script[at - 1] not in "{}":
                return False
            at += script[at] in ";\n"
            if match.end() == match.start() and at == match.start():
                return False
    return True


def runs_input(call: ProgramCall) -> bool:
    """Whether a shell or interpreter takes its program from a pipe or a substitution."""
    if call.name in SHELLS or call.name in INTERPRETERS or call.name in ("eval", "source", "."):
        if any(word.scripts for word in call.args) or any(r.target.scripts for r in call.redirects):
            return True
        takes = (
            not call.operands or "-" in call.texts or "/dev/stdin" in call.texts or call.has("-s")
        )
        return call.is_fed and (takes or call.name in ("xargs", "parallel"))
    return False
