"""Rules about variables, names and settings of the shell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treadle.risk.calls import ProgramCall
from treadle.risk.filters import FILTERS, shows_environment
from treadle.risk.lexer import Word
from treadle.risk.reasons import Reason

_DECIDES: Final = re.compile(
    r"^(PATH|LD_\w+|DYLD_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|BASH_ENV|ENV|ZDOTDIR|PROMPT_COMMAND"
    r"|PS[0-4]|SHELL|IFS|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|BASH_CMDS.*|BASH_ALIASES.*|BASH_LOADABLES_PATH"
    r"|CDPATH|GLOBIGNORE|HOME|XDG_\w+|GIT_(?!AUTHOR_|COMMITTER_|TERMINAL_PROMPT|MERGE_AUTOEDIT)\w+"
    r"|\w*_ASKPASS|PYTHON(STARTUP|HOME|INSPECT|BREAKPOINT|USERBASE|PLATLIBDIR|EXECUTABLE|WARNINGS)"
    r"|NODE_OPTIONS|NODE_REPL_EXTERNAL_MODULE|NODE_EXTRA_CA_CERTS|PERL5(OPT|LIB|DB)|PERLLIB|RUBY(OPT|LIB)"
    r"|\w*JAVA_\w*OPT\w*|JDK_JAVA_OPTIONS|JAVA_HOME|MAVEN_\w+|GRADLE_OPTS|LESSOPEN|LESSCLOSE|LESSKEY"
    r"|MANOPT|MANROFFOPT|MAKEFLAGS|MAKEFILES|MFLAGS|GNUMAKEFLAGS|npm_config_\w+|NPM_CONFIG_\w+|PIP_\w+"
    r"|UV_\w+|GEM_\w+|BUNDLE_\w+|RUSTC\w*|RUSTFLAGS|CARGO_\w*|GOFLAGS|GOPROXY|GOROOT|GOENV|DOCKER_\w+"
    r"|KUBECONFIG|(https?|all|ftp|no)_proxy|(HTTPS?|ALL|FTP|NO)_PROXY|SSH_\w+|SSL_CERT_\w+|CURL_\w+"
    r"|REQUESTS_CA_BUNDLE|AWS_\w+|GCONV_PATH|NLSPATH|LOCPATH|MALLOC_\w+|GLIBC_TUNABLES|OPENSSL_\w+"
    r"|TERMINFO\w*|TERMCAP|SYSTEMD_\w+|RIPGREP_CONFIG_PATH|FZF_\w+|PYTEST_(ADDOPTS|PLUGINS)|TAR_OPTIONS"
    r"|GREP_OPTIONS|VIMINIT|EXINIT|GVIMINIT|TREADLE_\w+|ANTHROPIC_\w+|OPENAI_\w+|TCLLIBPATH|RSYNC_\w+"
    r"|FPATH|fpath|path|PROMPT|COMMAND_NOT_FOUND\w*|INPUTRC|HOSTALIASES|RES_OPTIONS|R_PROFILE\w*"
    r"|PHPRC|PHP_INI_SCAN_DIR|LUA_\w+|ERL_\w+|SUDO_\w+|CMAKE_\w+_(LAUNCHER|COMMAND)|ELECTRON_\w+)$"
)
_QUIET: Final = re.compile(
    r"^((GIT_|MAN)?PAGER=(cat)?|(GIT_)?(SEQUENCE_)?EDITOR=(true|:)|VISUAL=(true|:)|SSH_ASKPASS="
    r"|PIP_(NO_INPUT|DISABLE_PIP_VERSION_CHECK|NO_CACHE_DIR|QUIET)=\w*|CARGO_(TERM_COLOR|INCREMENTAL)=\w+"
    r"|UV_(OFFLINE|NO_CACHE|FROZEN|SYSTEM_PYTHON)=\w*|RUSTFLAGS=-D ?warnings"
    r"|GOFLAGS=-mod=(mod|vendor)"
    r"|GIT_OPTIONAL_LOCKS=0|npm_config_(yes|loglevel)=\w+)$"
)
"""Settings of these variables that only make programs quiet."""
_SECRET_NAME: Final = re.compile(
    r"(^|_)(TOKEN|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT|AUTH|(API|ACCESS|PRIVATE"
    r"|SECRET|ENCRYPTION|SIGNING|SSH)_?KEY(_ID)?|APIKEY|DATABASE_URL|DSN)(_|$)",
    re.IGNORECASE,
)
_EXPANSION: Final = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*)")
_HISTORY: Final = re.compile(r"^(HIST(FILE|SIZE|FILESIZE|CONTROL|IGNORE|CMD)|SAVEHIST)$")
_DECLARES: Final = frozenset({"export", "declare", "typeset", "local", "readonly", "set", "setenv"})
_NAMES: Final = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "unset", "let"})


def of_assignment(word: Word) -> Iterator[Reason]:
    """What `NAME=value` in front of a command, or declared by one, says."""
    name = re.split(r"\+?=|\[", word.text, maxsplit=1)[0]
    if _HISTORY.match(name):
        yield Reason.COVERS_UP
    elif _DECIDES.match(name) and not (word.is_known and _QUIET.match(word.text)):
        yield Reason.POISONS


def of_words(texts: tuple[str, ...]) -> Iterator[Reason]:
    """Whether variables that hold credentials by their name are used."""
    for text in texts:
        if any(_SECRET_NAME.search(name) for name in _EXPANSION.findall(text)):
            yield Reason.SECRETS


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a credential, as far as its name goes."""
    return _SECRET_NAME.search(name) is not None


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What a program or builtin does to the environment, or shows of it."""
    name, texts = call.name, call.texts
    if name in _DECLARES:
        yield from _declared(call)
    elif name in _NAMES:
        named = _named(call)
        if any(_DECIDES.match(each) or _HISTORY.match(each) for each in named):
            yield Reason.COVERS_UP if any(map(_HISTORY.match, named)) else Reason.POISONS
    elif name in ("env", "sudo", "doas"):
        yield from _env(call)
    elif name == "printenv":
        if not call.operands:
            yield Reason.ENVIRONMENT
        if any(map(is_secret_name, call.operands)):
            yield Reason.SECRETS
    elif (
        (name == "alias" and texts)
        or (name == "hash" and call.has("-p"))
        or (name == "enable" and call.has("-f", "-n"))
        or (name == "shopt" and "expand_aliases" in texts)
    ):
        yield Reason.REPLACES
    elif name == "history" and call.has("-c", "-d", "-w", "-a"):
        yield Reason.COVERS_UP
    elif _shows(call):
        yield Reason.ENVIRONMENT
    elif name in ("bind", "complete"):
        yield Reason.LATER


def _shows(call: ProgramCall) -> bool:
    """Whether it shows variables that it was not asked for by name."""
    if call.name == "compgen":
        return call.has("-v", "-e")
    if call.name == "ps":
        return any(re.fullmatch("[a-z]*e[a-z]*", text) for text in call.texts)
    if call.name in ("npm", "yarn", "pnpm"):
        return call.operands[:2] in (("run", "env"), ("run-script", "env"))
    if call.name == "systemctl":
        return "show-environment" in call.operands
    return call.name in FILTERS and any(map(shows_environment, _filters(call)))


def _filters(call: ProgramCall) -> tuple[str, ...]:
    """The filter, which comes first if no option takes a value in front of it."""
    return call.operands if any(text.startswith("-") for text in call.texts) else call.operands[:1]


def _declared(call: ProgramCall) -> Iterator[Reason]:
    if not call.operands and (call.name == "set" or not call.has("-f", "-F")):
        yield Reason.ENVIRONMENT
    if call.name == "set":
        if "history" in call.texts:
            yield Reason.COVERS_UP
        return
    for word in call.args:
        if not word.is_known and "=" not in word.text:
            yield Reason.UNKNOWN  # which variable it sets
        elif not word.text.startswith("-"):
            yield from of_assignment(word)
    if call.has("-n"):
        yield Reason.POISONS  # a name for another variable


def _named(call: ProgramCall) -> tuple[str, ...]:
    if call.name == "printf":
        value = call.value("-v")
        return (value,) if value else ()
    if call.name == "let":
        return tuple(re.split(r"\W", text)[0] for text in call.operands)
    return call.operands


def _env(call: ProgramCall) -> Iterator[Reason]:
    is_setting = True
    for word in call.args:
        if not is_setting:
            return
        if re.match(r"[A-Za-z_]\w*=", word.text):
            yield from of_assignment(word)
        elif not word.text.startswith("-"):
            is_setting = word.text == call.value("-u", "-C", "-g")
    if call.name == "env" and is_setting and not call.has("-i", "--ignore-environment", "-S"):
        yield Reason.ENVIRONMENT
