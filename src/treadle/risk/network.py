"""Rules about the network: what is sent, fetched, published and changed elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treadle.risk.calls import ProgramCall
from treadle.risk.reasons import Reason

FETCHERS: Final = frozenset(
    {*("curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "axel")}
    | {*("lwp-request", "get", "ftp", "tftp", "nc", "ncat", "netcat", "socat", "telnet", "wget2")}
    | {*("scp", "sftp", "iwr", "invoke-webrequest", "curlie", "gsutil", "gh")}
)
"""What they print may come from another machine."""

_LOCAL: Final = re.compile(
    r"^(https?://)?(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(:\d+)?([/?#][^@]*)?$", re.IGNORECASE
)
_SENDERS: Final = frozenset(
    {*("nc", "ncat", "netcat", "socat", "telnet", "mail", "mailx", "mutt", "sendmail", "msmtp")}
    | {*("ngrok", "cloudflared", "lt", "localtunnel", "bore", "croc", "magic-wormhole", "wormhole")}
    | {*("sftp", "ftp", "tftp", "lftp", "rclone", "s3cmd", "smbclient", "transfer", "iodine")}
)
_ASKS: Final = frozenset({"dig", "nslookup", "host", "ping", "whois", "drill", "traceroute"})
"""They say a name to others; a name that is made when they run may be anything."""
_CURL_SENDS: Final = (
    *("-d", "-F", "-T", "--data", "--data-raw", "--data-binary", "--data-ascii", "--form"),
    *("--data-urlencode", "--upload-file", "--json", "--form-string", "--url-query", "--mail-rcpt"),
)
_CURL_REDIRECTED: Final = (
    *("-x", "--proxy", "--preproxy", "--connect-to", "--resolve", "--unix-socket", "--socks5"),
    *("--abstract-unix-socket", "--doh-url", "-K", "--config"),
)
_WGET_SENDS: Final = ("--post-data", "--post-file", "--body-data", "--body-file", "--method")
_WGET_STARTS: Final = ("-e", "--execute", "--use-askpass", "--config")
_REMOTE_PATH: Final = re.compile(r"^([\w.-]+@)?[\w.-]+:(?!//)|^[a-z]+://", re.IGNORECASE)


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What a program does over the network."""
    name = call.name
    if name == "curl":
        yield from _curl(call)
    elif name in ("wget", "wget2"):
        yield from _wget(call)
    elif name in ("http", "https", "xh", "curlie"):
        method = {"post", "put", "patch", "delete"} & {text.lower() for text in call.texts}
        if (method or any("=" in t or "@" in t for t in call.operands)) and not _is_local(call):
            yield Reason.SENDS
    elif name in ("scp", "rsync"):
        if any(_REMOTE_PATH.match(text) for text in call.operands):
            yield Reason.SENDS
        if call.has("--rsh", "-e", "--rsync-path", "-S") or (call.has("-o") and name == "scp"):
            yield Reason.STARTS
    elif name in _SENDERS or (name == "openssl" and "s_client" in call.texts[:1]):
        yield Reason.SENDS
    if name in _ASKS and not all(word.is_known for word in call.args):
        yield Reason.SENDS
    if name in FETCHERS and any(
        word.scripts or (not word.is_known and "://" in word.text) for word in call.args
    ):
        yield Reason.SENDS


def _is_local(call: ProgramCall) -> bool:
    hosts = [text for text in call.operands if "://" in text or _LOCAL.match(text)]
    return bool(hosts) and all(map(_LOCAL.match, hosts)) and all(w.is_known for w in call.args)


def _curl(call: ProgramCall) -> Iterator[Reason]:
    method = (call.value("-X", "--request") or "GET").upper()
    sends = call.has(*_CURL_SENDS) or method not in ("GET", "HEAD", "OPTIONS")
    if sends and not _is_local(call):
        yield Reason.SENDS
    if any(text in _CURL_REDIRECTED or _begins(text, _CURL_REDIRECTED) for text in call.texts):
        yield Reason.SENDS
    if any("@" in text and _is_file_value(call, text) for text in call.texts) and not _is_local(
        call
    ):
        yield Reason.SENDS


def _begins(text: str, options: tuple[str, ...]) -> bool:
    return text.startswith(tuple(f"{option}=" for option in options if option.startswith("--")))


def _is_file_value(call: ProgramCall, text: str) -> bool:
    return text.startswith("@") or (bool(re.match(r"^\w+=@", text)) and call.has("-F", "--form"))


def _wget(call: ProgramCall) -> Iterator[Reason]:
    if call.has(*_WGET_SENDS) and not _is_local(call):
        yield Reason.SENDS
    if call.has(*_WGET_STARTS):
        yield Reason.STARTS


def fetched_files(call: ProgramCall) -> Iterator[str]:
    """The names of the files that a program would fetch into."""
    if call.name not in FETCHERS and call.name != "git":
        return
    value = call.value("-o", "--output", "-O", "--output-document")
    if value and value != "-":
        yield value
    yield from (re.split("[?#]", t)[0].rstrip("/").rpartition("/")[2] for t in call.operands)
