"""Rules about what runs or is kept elsewhere: clouds, registries, forges, databases. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treadle.risk.calls import ProgramCall
from treadle.risk.reasons import Reason

_PUBLISHES: Final[dict[str, str]] = {
    "npm": "publish|unpublish|deprecate|dist-tag|owner|token|login|adduser|access|team|star",
    "pnpm": "publish|unpublish|deprecate|dist-tag",
    "yarn": "publish|npm|login",
    "bun": "publish",
    "twine": "upload|register",
    "cargo": "publish|yank|owner|login",
    "gem": "push|yank|owner|signin",
    "docker": "push|login|buildx",
    "podman": "push|login",
    "buildah": "push",
    "skopeo": "copy|sync|delete|login",
    "poetry": "publish",
    "uv": "publish",
    "hatch": "publish",
    "flit": "publish",
    "pdm": "publish",
    "mvn": "deploy|release:perform",
    "gradle": "publish.*|upload.*",
    "gradlew": "publish.*|upload.*",
    "dotnet": "nuget",
    "nuget": "push",
    "helm": "push",
    "vsce": "publish|unpublish",
    "ovsx": "publish",
    "goreleaser": "release|",
    "lerna": "publish",
    "changeset": "publish",
    "dart": "pub",
    "flutter": "pub",
    "cabal": "upload",
    "luarocks": "upload",
    "mix": r"hex\.publish",
    "semantic-release": ".*",
    "release-it": ".*",
}
_CHANGES: Final[dict[str, str]] = {
    "kubectl": "delete|apply|drain|replace|patch|scale|edit|create|exec|cordon|rollout|set"
    "|cp|taint",
    "oc": "delete|apply|replace|patch|scale|edit|create|exec|rsh|adm|rollout",
    "helm": "uninstall|delete|upgrade|install|rollback",
    "terraform": "destroy|apply|import|state|taint|force-unlock|login",
    "tofu": "destroy|apply|import|state|taint|force-unlock|login",
    "terragrunt": "destroy|apply|run-all|import|state",
    "pulumi": "destroy|up|update|stack|import|state",
    "cdk": "deploy|destroy|bootstrap",
    "sam": "deploy|delete",
    "serverless": "deploy|remove",
    "sls": "deploy|remove",
    "aws": "rm|rb|mb|cp|mv|sync|delete.*|terminate.*|put.*|create.*|update.*|remove.*|run-.*"
    "|stop.*|detach.*|"
    "modify.*|reboot.*|deregister.*|invoke|send-.*|get-secret-value|get-session-token|configure|sso",
    "gcloud": "delete|create|deploy|update|ssh|scp|remove.*|set.*|add.*|stop|reset"
    "|print-access-token|auth",
    "gsutil": "rm|rb|cp|mv|rsync|acl|iam",
    "bq": "rm|load|cp|query|mk",
    "az": "delete|create|update|purge|stop|set|login|deploy|remove|deallocate",
    "doctl": "delete|create|d|rm",
    "heroku": r".*:(destroy|set|unset|reset|restart|promote|rollback)|run|destroy",
    "fly": "deploy|destroy|ssh|secrets|scale|apps",
    "flyctl": "deploy|destroy|ssh|secrets|scale|apps",
    "vercel": "deploy|remove|rm|env|--prod|promote|rollback|secrets|",
    "netlify": "deploy|env:.*|sites:delete",
    "firebase": "deploy|.*:delete|.*:disable",
    "wrangler": "deploy|publish|delete|secret|rollback|kv.*|r2|d1",
    "railway": "up|down|delete|run|variables",
    "ansible": ".*",
    "ansible-playbook": ".*",
    "nomad": "stop|run|job|system",
    "consul": "kv|leave|force-leave",
    "etcdctl": "del|put",
    "docker": "system|volume|rm|rmi|kill|swarm|stack|service|prune|network|down",
    "docker-compose": "down|rm|kill",
    "podman": "system|volume|rm|rmi|kill|prune",
    "eksctl": "delete|create|scale",
    "kops": "delete|update",
    "argocd": "app|cluster|repo",
    "flux": "delete|create|suspend",
    "glab": "merge|delete|create|close|api|accept|run|variable",
    "hub": "release|delete|create|merge|api|push",
    "jira": ".*",
}
"""By program: what one of its arguments is, when it changes something there."""

_GH: Final = re.compile(
    r"(pr (merge|close|review)|release (create|delete|upload|edit)|repo (delete|create"
    r"|edit|archive|rename"
    r"|sync|deploy-key)|secret|variable|auth (token|login|setup-git|refresh)"
    r"|workflow (run|disable|enable)"
    r"|run (delete|cancel|rerun)|ssh-key|gpg-key|gist (create|delete|edit)|issue (delete|transfer)"
    r"|alias|extension|codespace|ruleset|label delete|cache delete|config set)\b"
)
_DATABASES: Final = frozenset(
    {*("psql", "mysql", "mariadb", "sqlite", "mongo", "mongosh", "redis-cli", "clickhouse-client")}
    | {*("cqlsh", "sqlcmd", "duckdb", "cockroach", "influx", "sqlplus", "usql", "pgcli", "litecli")}
)
_DELETES: Final = re.compile(
    r"\b(drop\s+(database|table|schema|user|role|index|view|collection|keyspace)|truncate\b"
    r"|delete\s+from\b(?![^;]{0,300}\bwhere\b)|flushall|flushdb|dropdatabase|\.drop\s*\(|deletemany\s*\(\s*\{\s*\})",
    re.IGNORECASE,
)
_STARTS: Final = re.compile(
    r"\\!|(^|[;\s'\"])(\\copy|\.shell|\.system|system|source|\.load|\.import)\b"
    r"|copy\b.{0,300}\bprogram\b|into\s+(outfile|dumpfile)|load_extension|load_file|xp_cmdshell|pg_read_file"
    r"|config\s+set\s+dir|module\s+load|lo_import|\beval\b",
    re.IGNORECASE | re.DOTALL,
)
_RESETS: Final = re.compile(
    r"\b(db:(drop|reset|purge|truncate_all)|manage\.py\s+(flush|reset_db|sqlflush)|migrate\s+(reset|fresh)"
    r"|db\s+(reset|push\s+--force-reset|execute)|schema:drop|migrate:(fresh|reset|refresh)|db:wipe)\b"
)


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What a program changes elsewhere."""
    name, words = call.name, call.texts
    # `npm --silent publish`, `npm run-script x publish`: a word at any of the first places.
    near = [text.lower() for text in call.operands[:4]] or [""]
    if name in _PUBLISHES and any(re.fullmatch(_PUBLISHES[name], text) for text in near[:2]):
        yield Reason.PUBLISHES
    pattern = _CHANGES.get(name)
    if pattern and any(re.fullmatch(pattern, text) for text in near):
        yield Reason.CLOUD
    if name == "gh":
        yield from _gh(call)
    if "setup.py" in (name, *words) and {"upload", "register"} & {*words}:
        yield Reason.PUBLISHES
    if name == "dropdb" or (name == "mysqladmin" and "drop" in words):
        yield Reason.DATABASE
    joined = " ".join((name, *words))
    if _RESETS.search(joined):
        yield Reason.DATABASE
    if name in _DATABASES and _STARTS.search(" ".join(words)):
        yield Reason.STARTS


def deletes_data(text: str) -> bool:
    """Whether a command with a database's program in it has words that delete from one."""
    return _DELETES.search(text) is not None


def is_database(call: ProgramCall) -> bool:
    """Whether the program talks to a database."""
    return call.name in _DATABASES


def _gh(call: ProgramCall) -> Iterator[Reason]:
    if _GH.match(" ".join(call.operands)):
        yield Reason.CLOUD
    if call.operands[:1] == ("api",):
        method = (call.value("-X", "--method") or "GET").upper()
        if method != "GET" or call.has("-f", "-F", "--field", "--raw-field", "--input"):
            yield Reason.CLOUD
