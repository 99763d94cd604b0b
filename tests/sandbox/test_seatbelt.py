"""What Seatbelt is told, and how a command gets there: nothing of it has run on a Mac.

Here the profile is judged by a reader of our own that knows its language as far as it is used, and
a program in the place of `sandbox-exec` runs the command without holding it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from case_tables import for_every_row
from treadle.sandbox.box import Sandbox
from treadle.sandbox.bubblewrap import Mounts
from treadle.sandbox.detect import BACKENDS, BACKENDS_OF, find_backend, try_seatbelt
from treadle.sandbox.launch import Backend, Order, Prepared, Report
from treadle.sandbox.policy import Level, Limits, Network, Policy
from treadle.sandbox.seatbelt import make_profile, quote_path

Form: TypeAlias = "str | bytes | list[Form]"
"""A form of the language; texts in quotes are bytes."""

WORKSPACE: Final = "/Users/ann/work"
MOUNTS: Final = Mounts(
    scratch=("/private/tmp", "/tmp", "/Users/ann"),
    empty=("/private/var/mail",),
    readable=("/Users/ann/.cargo/bin", "/var/folders/x/readable"),
    writable=(WORKSPACE, "/var/folders/x/T/treadle"),
    kept=(f"{WORKSPACE}/.git",),
    shut=(f"{WORKSPACE}/.git/hooks", f"{WORKSPACE}/.git/config"),
    hidden_folders=(f"{WORKSPACE}/own",),
    hidden_files=(f"{WORKSPACE}/.env", "/private/etc/shadow"),
    uncovered=(f"{WORKSPACE}/own/skills/pdf",),
)


def read_forms(text: str) -> list[Form]:
    """All forms of a profile."""
    stack: list[list[Form]] = [[]]
    place = 0
    while place < len(text):
        letter = text[place]
        if letter == "(":
            stack.append([])
        elif letter == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif letter == '"':
            said = ""
            place += 1
            while text[place] != '"':
                place += text[place] == "\\"
                said += text[place]
                place += 1
            stack[-1].append(os.fsencode(said))
        elif not letter.isspace():
            end = next(at for at in range(place, len(text)) if text[at] in " \n()")
            stack[-1].append(text[place:end])
            place = end - 1
        place += 1
    (forms,) = stack
    return forms


def allows(profile: str, operation: str, path: str) -> bool:
    """Whether it lets a command do that to a path: what the last rule that fits says."""
    verdict = False
    for form in read_forms(profile):
        assert isinstance(form, list)
        if form[0] not in ("allow", "deny"):
            continue
        operations = [one for one in form[1:] if isinstance(one, str)]
        filters = [one for one in form[1:] if isinstance(one, list)]
        if not any(operation.startswith(one.removesuffix("*")) for one in operations):
            assert operations
            if operations != ["default"]:
                continue
        if not filters or any(fits(one, os.fsencode(path)) for one in filters):
            verdict = form[0] == "allow"
    return verdict


def fits(one: list[Form], path: bytes) -> bool:
    kind, *rest = one
    if kind not in ("literal", "subpath"):
        return False
    (named,) = rest
    assert isinstance(named, bytes)
    return path == named or (kind == "subpath" and path.startswith(named.rstrip(b"/") + b"/"))


def access(profile: str, path: str) -> str:
    """What a command may do with a path: stat, read, write, remove."""
    operations = {
        "s": "file-read-metadata",
        "r": "file-read-data",
        "w": "file-write-data",
        "d": "file-write-unlink",
    }
    return "".join(short for short, name in operations.items() if allows(profile, name, path))


def test_each_place_is_as_in_bubblewrap_as_far_as_it_goes() -> None:
    profile = make_profile(MOUNTS, has_network=False)
    expected = {
        "/usr/bin/python3": "sr",
        "/private/etc/hosts": "sr",
        "/private/etc/shadow": "",
        "/private/tmp/x": "",
        "/private/var/mail/ann": "",
        "/private/var/folders/x/y/other": "",
        "/private/var/folders/x/readable/a": "sr",
        "/private/var/folders/x/T/treadle/a": "srwd",
        "/Users": "s",
        "/Users/ann": "s",
        "/Users/ann/.ssh/id_rsa": "",
        "/Users/bob/.ssh/id_rsa": "",
        "/System/Volumes/Data/Users/ann/.ssh/id_rsa": "",
        "/Volumes/disk/a": "",
        "/Users/ann/.cargo/bin/cargo": "sr",
        "/Users/ann/worker": "",
        WORKSPACE: "srwd",
        f"{WORKSPACE}/a/b": "srwd",
        f"{WORKSPACE}/.git": "srw",
        f"{WORKSPACE}/.git/index": "srwd",
        f"{WORKSPACE}/.git/config": "sr",
        f"{WORKSPACE}/.git/config.lock": "srwd",
        f"{WORKSPACE}/.git/hooks": "sr",
        f"{WORKSPACE}/.git/hooks/pre-commit": "sr",
        f"{WORKSPACE}/own": "",
        f"{WORKSPACE}/own/journal": "",
        f"{WORKSPACE}/own/skills/other": "",
        f"{WORKSPACE}/own/skills/pdf": "sr",
        f"{WORKSPACE}/own/skills/pdf/run.sh": "sr",
        f"{WORKSPACE}/.env": "",
        "/dev/null": "srw",
        "/dev/disk0": "sr",
    }
    assert {path: access(profile, path) for path in expected} == expected


def test_what_is_denied_for_good_stands_behind_all_that_is_allowed() -> None:
    for has_network in (True, False):
        forms = read_forms(make_profile(MOUNTS, has_network=has_network))
        assert forms[:2] == [["version", "1"], ["deny", "default"]]
        verdicts = [form[0] for form in forms[1:] if isinstance(form, list)]
        # Behind the denial of hidden folders the skills in them, which are only read.
        assert verdicts[-6:] == ["allow", "deny", "deny", "deny", "allow", "deny"]


def test_nothing_can_be_written_where_nothing_is_writable() -> None:
    mounts = Mounts(readable=(WORKSPACE,), scratch=("/Users/ann",))
    profile = make_profile(mounts, has_network=False)
    assert access(profile, f"{WORKSPACE}/a") == "sr"
    assert "file-write*" not in profile


def test_the_network_is_there_or_not_and_sockets_of_agents_never() -> None:
    without = make_profile(MOUNTS, has_network=False)
    assert "network" not in without
    assert "socket" not in without
    rules = [
        form
        for form in read_forms(make_profile(MOUNTS, has_network=True))
        if isinstance(form, list) and "network" in str(form[1])
    ]
    assert rules == [
        ["allow", "network-outbound", ["remote", "ip", b"*:*"]],
        ["allow", "network-inbound", ["local", "ip", b"*:*"]],
        ["allow", "network-bind", ["local", "ip", b"*:*"]],
        ["allow", "network-outbound", ["literal", b"/private/var/run/mDNSResponder"]],
    ]


@for_every_row(
    "name",
    [
        'a"b',
        "a\\",
        '\\"',
        'x") (allow file-write* (subpath "/etc',
        "line\nbreak",
        "tab\t",
        "ä 漢 🧵",
        "a;comment",
        "#t",
        "(paren",
        "${HOME}",
        "*",
    ],
)
def test_no_name_ends_a_text_or_means_another_file(name: str) -> None:
    path = f"{WORKSPACE}/{name}"
    assert read_forms(quote_path(path)) == [os.fsencode(path)]
    profile = make_profile(
        Mounts(writable=(WORKSPACE,), shut=(path,), hidden_files=(f"{path}.env",)),
        has_network=False,
    )
    assert access(profile, path) == "sr"
    assert access(profile, f"{path}.env") == ""
    assert access(profile, f"{path}x") == "srwd"
    assert not allows(profile, "file-write-data", "/private/etc/hosts")


def test_the_links_of_the_system_are_followed() -> None:
    mounts = Mounts(writable=("/tmp/w", "/variable", "/var"), shut=("/tmp/w/s",))
    profile = make_profile(mounts, has_network=False)
    for path, expected in {
        "/private/tmp/w/a": "srwd",
        "/private/tmp/w/s": "sr",
        "/private/var/x": "srwd",
        "/variable/x": "srwd",
        "/private/variable/x": "sr",
    }.items():
        assert access(profile, path) == expected, path


# ---- how a command gets there ----------------------------------------------------------------


def make_stand_in(folder: Path, script: str = 'shift 2; exec "$@"') -> Backend:
    """A program in the place of `sandbox-exec`; it gets `-p`, the profile and the command."""
    program = folder / "sandbox-exec"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return Backend("seatbelt", str(program))


def run(backend: Backend, *argv: str, order: Order | None = None) -> tuple[Report, str]:
    prepared = Prepared(backend, MOUNTS, order or Order(argv, {"A": "b"}, "/"))
    try:
        done = subprocess.run(
            prepared.argv,
            env=dict(prepared.env),
            pass_fds=prepared.pass_fds,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return prepared.report(), done.stdout
    finally:
        prepared.close()


def test_a_command_gets_its_folder_its_variables_and_the_profile(tmp_path: Path) -> None:
    backend = make_stand_in(tmp_path, f'printf %s "$2" >{tmp_path}/profile; shift 2; exec "$@"')
    order = Order(("/bin/sh", "-c", 'pwd; echo "$A"; echo $1', "sh", "a b"), {"A": "b"}, "/usr")
    report, said = run(backend, order=order)
    assert said == "/usr\nb\na b\n"
    assert report == Report(started=True, code=0)
    assert (tmp_path / "profile").read_text() == make_profile(MOUNTS, has_network=False)


def test_how_it_ended_is_reported(tmp_path: Path) -> None:
    backend = make_stand_in(tmp_path)
    assert run(backend, "/bin/sh", "-c", "exit 3")[0] == Report(started=True, code=3)
    assert run(backend, "/bin/sh", "-c", "kill -TERM $$")[0] == Report(started=True, code=-15)
    assert run(backend, "/bin/sh", "-c", "echo x >&$0 2>/dev/null", "9")[0].code != 0
    missing = Backend("seatbelt", str(tmp_path / "missing"))
    assert run(missing, "/bin/true")[0].failed == "No such file or directory"
    gone = Order(("/bin/true",), {}, str(tmp_path / "gone"))
    assert not run(backend, order=gone)[0].started


def test_a_file_cannot_grow_without_end(tmp_path: Path) -> None:
    writes = ("/bin/sh", "-c", f"head -c 9000 /dev/zero >{tmp_path}/big")
    order = Order(writes, {}, "/", Limits(file_size_max=4096))
    assert run(make_stand_in(tmp_path), order=order)[0].code != 0
    assert (tmp_path / "big").stat().st_size == 4096


def test_it_is_not_believed_where_it_holds_nothing(tmp_path: Path) -> None:
    found = try_seatbelt(make_stand_in(tmp_path).program)
    assert (found.name, found.why_not) == (
        "",
        "Seatbelt does not hold commands here (it was read)",
    )
    refusing = make_stand_in(tmp_path, "echo sandbox-exec: no >&2; exit 71")
    assert try_seatbelt(refusing.program).why_not.endswith("(sandbox-exec: no)")
    # Nothing here can hold a command as Seatbelt does: this one says what it says where it holds.
    holding = make_stand_in(tmp_path, "exit 7")
    assert try_seatbelt(holding.program) == holding


def test_it_is_chosen_on_macos_only() -> None:
    assert BACKENDS_OF == {"linux": ("bubblewrap", "landlock"), "darwin": ("seatbelt",)}
    assert "seatbelt" not in BACKENDS
    assert find_backend(("seatbelt",)).name == ""


@pytest.mark.parametrize(
    ("level", "inside"), [(Level.READ_ONLY, "sr"), (Level.WORKSPACE_WRITE, "srwd")]
)
@pytest.mark.parametrize("network", Network)
def test_each_level_reaches_the_profile(
    tmp_path: Path, level: Level, inside: str, network: Network
) -> None:
    workspace = Path(os.path.realpath(tmp_path), "Users", "ws")
    (workspace / "sub").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(workspace)], check=True)
    (workspace / "own").mkdir()
    policy = Policy(level=level, network=network, hidden=(str(workspace / "own"),))
    sandbox = Sandbox(policy, workspace, environ={"PATH": os.environ["PATH"], "HOME": "/nowhere"})
    vars(sandbox)["_backend"] = make_stand_in(tmp_path)
    with sandbox.launch(("/bin/true",), str(workspace), wants_network=False) as launch:
        profile = launch.argv[launch.argv.index("-p") + 1]
        # A command that only reads has to say that it wants it.
        has_network = network is Network.ON and level is Level.WORKSPACE_WRITE
        assert ("network" in profile) == has_network
        base = f"/private{workspace}" if str(workspace).startswith("/tmp/") else str(workspace)
        assert access(profile, f"{base}/sub/new") == inside
        is_open = level is Level.WORKSPACE_WRITE
        for protected in (".git/hooks", ".git/config", ".treadle"):
            assert access(profile, f"{base}/{protected}") == "sr", protected
        assert access(profile, f"{base}/.git/index") == ("srwd" if is_open else "sr")
        assert access(profile, f"{base}/own/x") == ""
        subprocess.run(launch.argv, env=dict(launch.env), pass_fds=launch.pass_fds, check=True)
        assert launch.describe_result("").exit_code == 0
    assert "never tried" in sandbox.standing().confined
    assert launch.notes() == ()
