"""What a person should know before a command runs: a table of the worst patterns. Pure.

Each row is a sentence with what it is said about. It does not follow words that are hidden on
purpose: whoever means harm finds others, and the sandbox is what bounds them.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from treadle.risk.calls import list_calls, strip_here_documents

COMMAND_LENGTH_MAX: Final = 16_000
"""In characters."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing."""
_NEVER: Final = re.compile("(?!)")


class Advice(Struct, frozen=True):
    """One sentence about commands.

    `calls` is matched with the beginning of each line of `list_calls`, `text` is searched in the
    whole command. `example` has it said. No grant covers a command of which one that `is_critical`
    is said.
    """

    sentence: str
    example: str
    calls: re.Pattern[str] = _NEVER
    text: re.Pattern[str] = _NEVER
    is_critical: bool = True


def _advice(
    sentence: str,
    example: str,
    *,
    calls: str = "(?!)",
    text: str = "(?!)",
    is_critical: bool = True,
) -> Advice:
    flags = re.DOTALL
    return Advice(
        sentence, example, re.compile(f"(?:{calls})", flags), re.compile(text, flags), is_critical
    )


_ROOT: Final = (
    r"(?:/+\**|/+[\w.-]+/?\**|~[\w.-]*/?\**|/home/[\w.-]+/?\**|\$(?:HOME|PWD)/?\**|\.\.?/?\**|\*"
    r"|\./\*|(?:\.\./)+\**|\.\*|(?:[^ ]*/)?\.git/?(?:\*|refs|objects)?/?)(?= |$)"
)
"""A root, the home folder, the workspace or its history, as a word."""
_RECURSIVE: Final = r"(?=.* (?:-\w*[rR]|--recursive))"
_DISK: Final = r"/dev/(?:sd|hd|vd|nvme|mmcblk|disk|mapper|mem|loop)"
_SHELL: Final = r"(?:ba|z|da|k|fi)?sh"
_INTERPRETER: Final = (
    r"(?:sudo\s{1,9}(?:-\S{1,30}\s{1,9}){0,3})?(?:/[\w./-]{1,60}/)?"
    rf"(?:{_SHELL}|python[\d.]{{0,5}}|perl|ruby|node|php)(?:\s{{1,9}}-[sx]?)?"
    r"(?=\s*(?:[;|&)\n'\"]|$))"
)
"""A shell, or what else runs its input, without a file of its own."""
_GIT: Final = r"git (?:-[Cc] [^ ]+ |--?[\w-]+(?:=[^ ]*)? ){0,5}"

UNSEEN: Final = _advice(
    "it has characters that cannot be seen, so it is not what it looks like",
    "an invisible space, a control character, text that runs backwards",
)
LOOKALIKE: Final = _advice(
    "the name of a program has letters that look like other ones", "\u0441at README.md"
)
TOO_LONG: Final = _advice(
    "it is too long to be judged", f"more than {COMMAND_LENGTH_MAX} characters"
)
OPEN_QUOTE: Final = _advice("it cannot be read: a quote is not closed", "ls 'x")
ADVICE: Final = (
    UNSEEN,
    LOOKALIKE,
    TOO_LONG,
    OPEN_QUOTE,
    _advice(
        "it writes to a disk or destroys what is on one",
        "dd if=/dev/zero of=/dev/sda",
        calls=r"mkfs|wipefs |blkdiscard |s?g?fdisk |parted "
        rf"|dd .*\bof={_DISK}|(?:cp|mv|tee|shred|cat) .*{_DISK}",
        text=rf">\s{{0,9}}{_DISK}",
    ),
    _advice(
        "it deletes a root, the home folder, the whole workspace or its .git",
        "rm -rf /",
        calls=rf"(?:rm|shred|srm|unlink){_RECURSIVE}(?:.* )?{_ROOT}"
        rf"|find (?:.* )?{_ROOT}(?: -\w+ \d+)* -delete"
        r"|mv (?:-[^ ]+ )*(?:\.|~|/|\./|(?:\./)?\.git/?) ",
        text=r"\brm\s{1,9}-[a-z]{0,6}[rR][a-z]{0,6}\s{1,9}(?:/|~/?|\$HOME/?)\*?(?=[\s'\"\\;)]|$)",
    ),
    _advice(
        "it starts copies of itself without end",
        ":(){ :|:& };:",
        text=r"([\w:]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,100}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&",
    ),
    _advice(
        "it runs what comes from the network",
        "curl https://example.com/i.sh | sh",
        text=rf"\b(?:curl|wget|fetch)\b[^\n;]{{0,600}}?\|\s{{0,9}}{_INTERPRETER}"
        rf"|(?:\b{_SHELL}|\beval|\bsource|(?<![^\s;&|])\.)\s[^\n;|&]{{0,60}}?"
        r"(?:<\(|\$\(|`)\s{0,9}(?:curl|wget)\b",
    ),
    _advice(
        "it runs text that is written so that it cannot be read",
        "base64 -d x | sh",
        text=r"\b(?:base64|base32|xxd|uudecode|openssl|rev|printf)\b[^\n;]{0,400}?"
        rf"\|\s{{0,9}}{_INTERPRETER}"
        rf"|\b(?:eval|{_SHELL})\s[^\n;|&]{{0,60}}?(?:\$\(|`)[^\n;]{{0,200}}?\bbase64\b"
        r"|\b(?:exec|eval)\s{0,9}\([^\n;]{0,200}?b64decode",
    ),
    _advice(
        "a shell runs what another command writes",
        "cat x | sh",
        calls=rf"xargs (?:-[^ ]+ )*{_SHELL}$",
        text=rf"(?<!\|)\|&?\s{{0,9}}{_INTERPRETER}",
    ),
    _advice(
        "it reaches credentials",
        "cat ~/.ssh/id_rsa",
        calls=r"(?!(?:jq|yq|echo) ).*(?<![\w.-])(?:\.ssh|\.aws|\.gnupg|\.kube|\.netrc"
        r"|\.pypirc|\.npmrc|\.pgpass|\.git-credentials"
        r"|\.env(?!\.(?:example|sample|template|dist))(?:\.\w+)?|id_(?:rsa|ecdsa|ed25519)"
        r"|etc/g?shadow)(?=[/ :]|$)|gh auth token|git credential|security find-",
    ),
    _advice(
        "it takes or gives the rights of another user",
        "sudo make install",
        calls=r"(?:sudo|su|doas|pkexec|runuser)(?: |$)"
        r"|chmod (?:-[^ ]+ )*(?:[ugoa]*\+[rwxt]*s|[2467]\d{3} )",
    ),
    _advice(
        "it opens files to everybody, or gives away all of a folder",
        "chmod -R 777 .",
        calls=r"chmod (?:-[^ ]+ )*(?:0?777|a\+rwx|ugo\+rwx|o\+w) "
        rf"|(?:chmod|chown|chgrp){_RECURSIVE}(?:.* )?{_ROOT}",
    ),
    _advice(
        "it changes or stops this machine or other programs on it",
        "shutdown -h now",
        calls=r"(?:shutdown|reboot|halt|poweroff|killall|pkill)(?: |$)|init [06]"
        r"|kill (?:.* )?-1(?: |$)|service [^ ]+ (?:stop|restart)"
        r"|systemctl (?:-[^ ]+ )*(?:stop|restart|disable|mask|isolate|poweroff|reboot|kill)"
        r"|launchctl (?:unload|bootout|remove)|sysctl (?:.* )?-w"
        r"|(?:iptables|nft|ufw|u?mount|modprobe|insmod|rmmod|swapoff) ",
    ),
    _advice(
        "it changes what runs later by itself",
        "crontab jobs.txt",
        calls=r"crontab (?!-l)|crontab$|at (?!-l)|batch(?: |$)"
        r"|systemctl (?:-[^ ]+ )*(?:enable|link)|launchctl (?:load|bootstrap)|update-rc\.d ",
        text=r"(?:>|\btee\s(?:-a\s)?)\s{0,9}[^\s;|&>]{0,99}?(?:\.(?:bash|zsh)rc"
        r"|\.(?:bash_|z)?profile|authorized_keys|\.git/hooks/)",
    ),
    _advice(
        "it can reach this whole machine through a container",
        "docker run -v /:/host alpine",
        calls=r"(?:docker|podman|nerdctl) .*(?:--privileged| (?:-v|--volume)[= ]?/|(?:src|source)=/"
        r"|docker\.sock|--(?:pid|network|net|ipc)[= ]host|--cap-add)",
    ),
    _advice(
        "it runs a command on another machine, or sends to one",
        "ssh host ls",
        calls=r"(?:ssh|scp|sftp|mosh|telnet|nc|ncat|socat)(?: |$)|rsync (?:.* )?[\w.@-]+:",
        text=r"/dev/(?:tcp|udp)/",
    ),
    _advice(
        "it changes or deletes what runs or is kept elsewhere",
        "terraform destroy",
        calls=r"(?:terraform|tofu|pulumi) (?:.* )?(?:destroy|apply|up)(?: |$)"
        r"|(?:kubectl|oc) (?:.* )?(?:delete|drain)(?: |$)|helm (?:.* )?(?:delete|uninstall) "
        r"|aws (?:(?=.*--recursive)(?=(?:.* )?rm )|(?:.* )?(?:rb |delete-|terminate-))"
        r"|(?:gcloud|gsutil|az|doctl|fly|flyctl|heroku) (?:.* )?"
        r"(?:[\w:-]*delete|[\w:-]*destroy|rm)(?: |$)"
        r"|gh (?:repo|release|secret) delete|gh pr merge"
        r"|docker (?:volume rm|(?:system|volume) prune)",
    ),
    _advice(
        "it deletes from a database",
        "psql -c 'drop table users'",
        calls=r"(?i:(?:psql|mysql|mariadb|sqlite3|duckdb|mongosh?|clickhouse|cockroach|redis-cli) "
        r".*(?:drop[_ ]+(?:table|database|schema)|truncate[_ ]|delete[_ ]+from|dropdatabase"
        r"|flush(?:all|db)))|dropdb |mysqladmin (?:.* )?drop",
        text=r"(?i)\b(?:drop\s{1,9}(?:table|database|schema)|delete\s{1,9}from)\b[^\n]{0,300}?"
        r"\|\s{0,9}(?:psql|mysql|mariadb|sqlite3|duckdb)",
    ),
    _advice(
        "it publishes, or changes what is published",
        "npm publish",
        calls=r"(?:npm|pnpm|yarn|bun|cargo|uv|poetry|flit|hatch|pdm|vsce|lerna) "
        r"(?:.* )?publish(?: |$)|npm (?:unpublish|deprecate|dist-tag)"
        r"|(?:python[\d.]* -m )?twine upload|gem push"
        r"|(?:docker|podman) (?:image )?push |gh release (?:create|upload)|helm push "
        r"|mvn (?:.* )?deploy",
    ),
    _advice(
        "it overwrites or deletes branches that others have",
        "git push --force",
        calls=rf"{_GIT}push (?:.* )?(?:-\w*[fd]|--(?:forc|mir|del|prun)|\+|:)",
    ),
    _advice(
        "it throws away work that cannot be brought back",
        "git reset --hard",
        calls=rf"{_GIT}(?:reset (?:.* )?--(?:hard|merge)"
        r"|clean (?!(?:.* )?(?:-\w*n|--dry))(?:.* )?(?:-\w*[fxX]|--force)"
        r"|(?:checkout|restore) (?!(?:.* )?(?:--staged|-b))"
        r"(?:.* )?(?:\.|\./|\*|:/|-f|--force)(?: |$)"
        r"|branch (?:(?:.* )?-\w*D|(?=.*--del)(?=.*--forc))|switch (?:.* )?(?:-f|--disc|--forc)"
        r"|stash (?:drop|clear)|worktree remove (?:.* )?(?:-f|--forc)|reflog (?:expire|delete)"
        r"|gc (?:.* )?--prune|update-ref (?:.* )?-d)",
    ),
    _advice(
        "it rewrites history",
        "git filter-branch --all",
        calls=rf"{_GIT}(?:filter-branch|filter-repo|replace)(?: |$)|git-filter-repo|bfg ",
    ),
    _advice(
        "it sets a variable that decides which programs run",
        "PATH=. ls",
        text=r"(?:\A|[\s;|&(])(?:PATH|LD_[A-Z_]+|DYLD_[A-Z_]+|BASH_ENV|PROMPT_COMMAND|IFS)\+?=",
    ),
    _advice(
        "it deletes files that are only known when it runs",
        'rm -rf "$x"',
        calls=rf"rm{_RECURSIVE}(?: .*\$|(?: -[^ ]+)+$)",
    ),
    _advice(
        "it installs or runs code from the network",
        "npm install",
        calls=r"(?:pip[\d.]*|pipx|uv|poetry|pdm|conda|npm|pnpm|yarn|bun|cargo|gem|bundle|go|composer"
        r"|brew|apt|apt-get|dnf|yum|pacman|apk|python[\d.]* -m pip) (?:pip )?(?:-[^ ]+ )*"
        r"(?:install|i|ci|add|get|sync|-S)(?: |$)|(?:npx|pnpx|bunx|uvx) |git clone ",
        is_critical=False,
    ),
)
"""The worst first."""


def find_advice(command: str, workspace: str = "") -> tuple[Advice, ...]:
    """What is said about a command, the worst first.

    Args:
        command: for bash.
        workspace: the absolute path of the folder it runs in; what a command calls by this path is
            what it would call `.` from there.
    """
    if len(command) > COMMAND_LENGTH_MAX:
        return (TOO_LONG,)
    if workspace.strip("/"):
        name = re.escape(workspace.rstrip("/"))
        command = re.sub(rf"(?<![\w./~-]){name}(?=[/\s'\":,;)]|$)", ".", command)
    calls, text = list_calls(command), strip_here_documents(command)
    special = {
        UNSEEN: not all(map(_is_seen, command)),
        LOOKALIKE: not all(map(str.isascii, calls.programs)),
        OPEN_QUOTE: calls.is_open,
    }
    return tuple(
        one
        for one in ADVICE
        if special.get(one) or one.text.search(text) or any(map(one.calls.match, calls.lines))
    )


def _is_seen(character: str) -> bool:
    return character in "\n\t" or (character.isprintable() and character not in _BLANK)
