"""A key is found where its user keeps it, and never shown, whatever goes wrong."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from treadle.config.keys import ProviderKey, find_key, make_missing_key_error, make_no_model_error
from treadle.errors import DiskError, NotConfiguredError
from treadle.models.catalog import ProviderEntry, make_catalog, read_defaults

SECRET = "sk-hunter2-0123456789"


def entry(**fields: object) -> ProviderEntry:
    return ProviderEntry("openai-chat", "https://host.invalid/v1", **fields)  # type: ignore[arg-type]


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def refusal(given: ProviderEntry, environ: dict[str, str]) -> str:
    """What is said of a key that is none; whatever is said, the key is not in it."""
    with pytest.raises(NotConfiguredError) as raised:
        find_key(given, environ)
    error = raised.value
    told = f"{error.message}\n{error.hint}"
    assert "hunter2" not in "".join(traceback.format_exception(error)) + told + repr(error)
    return told


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def test_a_variable_comes_before_a_file_and_a_file_before_a_command(key_file: Path) -> None:
    command = python("print('from-command')")
    given = entry(key_env="K", key_file=str(key_file), key_command=command)
    assert find_key(given, {"K": "from-variable"}) == ProviderKey("from-variable", "environment K")
    assert find_key(given, {"K": ""}) == ProviderKey(SECRET, f"file {key_file}")
    given = entry(key_env="K", key_command=command)
    assert find_key(given, {}) == ProviderKey("from-command", f"command {sys.executable}")
    assert find_key(entry(key_env="K"), {"K": " \n"}) is None
    assert find_key(entry(), {"": SECRET}) is None


def test_a_key_does_not_show_itself() -> None:
    key = ProviderKey(SECRET, "environment K")
    shown = f"{key} {key!r} {[key]} {key.__rich_repr__()}"
    assert "hunter2" not in shown
    assert "environment K" in shown


@pytest.mark.parametrize(
    "text", [f"{SECRET}\nX: y", f"{SECRET} x", f"{SECRET}\x00", f"{SECRET}\x7f", f"{SECRET}ä", "\t"]
)
def test_what_could_spoil_a_request_is_no_key(text: str, key_file: Path) -> None:
    if text.strip():
        assert "environment K holds white space or" in refusal(entry(key_env="K"), {"K": text})
    key_file.write_text(text)
    assert f"file {key_file}" in refusal(entry(key_file=str(key_file)), {})


def test_white_space_around_a_key_does_not_count(key_file: Path) -> None:
    key_file.write_text(f"\n  {SECRET}\r\n\n")
    for given, environ in (
        (entry(key_file=str(key_file)), {}),
        (entry(key_env="K"), {"K": f" {SECRET}\n"}),
        (entry(key_command=python("print(' x \\n')")), {}),
    ):
        found = find_key(given, environ)
        assert found is not None
        assert found.value in (SECRET, "x")


# ---- files -------------------------------------------------------------------------------------


def test_a_tilde_is_the_home_of_the_environment(key_file: Path) -> None:
    found = find_key(entry(key_file="~/key"), {"HOME": str(key_file.parent)})
    assert found == ProviderKey(SECRET, f"file {key_file}")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o601, 0o620])
def test_a_file_that_others_may_read_says_how_to_mend_it(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    assert f"chmod 600 {key_file}" in refusal(entry(key_file=str(key_file)), {})


def test_a_link_is_judged_by_what_it_leads_to(key_file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(key_file)
    assert find_key(entry(key_file=str(tmp_path / "link")), {}) is not None
    key_file.chmod(0o644)
    assert "chmod 600" in refusal(entry(key_file=str(tmp_path / "link")), {})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(key_file: Path) -> None:
    os.chown(key_file, 65534, 65534)
    assert "belongs to somebody else" in refusal(entry(key_file=str(key_file)), {})


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert "cannot read the key file" in refusal(entry(key_file=str(path)), {})
    path.mkdir()
    assert "cannot read the key file" in refusal(entry(key_file=str(path)), {})
    path.rmdir()
    os.mkfifo(path, 0o600)
    assert "it is no plain file" in refusal(entry(key_file=str(path)), {})
    assert "cannot read the key file" in refusal(entry(key_file="/a\0b"), {})


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that fails when read")
def test_a_file_that_the_disk_fails_to_read_is_no_matter_of_setup() -> None:
    with pytest.raises(DiskError, match="cannot read /proc/self/mem: Input/output error"):
        find_key(entry(key_file="/proc/self/mem"), {})


def test_an_empty_or_huge_file_holds_no_key(key_file: Path) -> None:
    key_file.write_bytes(b"")
    assert "is empty" in refusal(entry(key_file=str(key_file)), {})
    key_file.write_bytes(b"x" * 100_000)
    assert "larger than" in refusal(entry(key_file=str(key_file)), {})


# ---- commands ----------------------------------------------------------------------------------


def test_a_command_gives_its_first_line() -> None:
    program = f"print({SECRET!r}); print('url: x')"
    found = find_key(entry(key_command=python(program)), {})
    assert found is not None
    assert found.value == SECRET


def test_a_text_is_split_into_words_and_never_given_to_a_shell() -> None:
    found = find_key(entry(key_command="printf '%s' '$HOME;`id`|cat'"), {"PATH": os.defpath})
    assert found == ProviderKey("$HOME;`id`|cat", "command printf")


def test_a_command_that_fails_is_named_with_its_code_and_the_first_line_of_its_errors() -> None:
    program = (
        f"import sys; print({SECRET!r}); print('no\\x1b[31m way\\nsecond', file=sys.stderr);"
        " sys.exit(3)"
    )
    told = refusal(entry(key_command=python(program)), {})
    assert told.startswith(f"the key command {sys.executable} failed")
    assert "exit code 3: no\N{REPLACEMENT CHARACTER}[31m way" in told
    assert "second" not in told


def test_errors_that_repeat_the_key_are_not_told() -> None:
    program = f"import sys; print({SECRET!r}); sys.exit('got {SECRET}')"
    assert "failed with exit code 1\n" in refusal(entry(key_command=python(program)), {})


def test_a_command_that_says_nothing_or_cannot_be_run_is_told() -> None:
    assert "is empty" in refusal(entry(key_command=python("")), {})
    assert "cannot run the key command /no/such" in refusal(entry(key_command="/no/such x"), {})
    assert "cannot run the key command" in refusal(entry(key_command=("a\0",)), {})


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.config.keys.COMMAND_TIMEOUT_S", 0.5)
    program = f"import signal; print({SECRET!r}, flush=True); signal.pause()"
    assert "was not done in" in refusal(entry(key_command=python(program)), {})


@pytest.mark.parametrize("output", [1, 2])
def test_a_command_that_prints_without_end_is_killed_with_what_it_started(
    output: int, tmp_path: Path
) -> None:
    """A child of it holds a FIFO open; nobody holds it any more when the refusal is there."""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    program = (
        "import os, signal, subprocess, sys\n"
        f"held = os.open({str(tmp_path / 'fifo')!r}, os.O_WRONLY)\n"
        "subprocess.Popen(['sleep', '60'], pass_fds=[held])\n"
        f"os.write({output}, b'x' * 100_000)\n"
        "signal.pause()\n"
    )
    try:
        told = refusal(entry(key_command=python(program)), {"PATH": os.defpath})
        assert told.startswith(f"the key command {sys.executable} printed more than 65536 bytes")
        assert select.select([reader], [], [], 60.0)[0]
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_command_may_print_as_much_as_the_bound() -> None:
    program = f"import sys; sys.stdout.write('x\\n' * 32768); sys.stderr.write('y' * {64 * 1024})"
    found = find_key(entry(key_command=python(program)), {})
    assert found is not None
    assert found.value == "x"


IN_A_TERMINAL = """
import fcntl, os, sys, termios
from treadle.config.keys import find_key
from treadle.models.catalog import ProviderEntry

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
asks = "import os; t = os.open('/dev/tty', os.O_RDWR); os.write(t, b'PIN: ')"
asks += "; print(os.read(t, 100).decode(), os.read(0, 100).decode().strip(), sep='')"
for _ in range(2):
    given = ProviderEntry("openai-chat", "", key_command=(sys.executable, "-c", asks))
    try:
        print("found", find_key(given, dict(os.environ)).value, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print("back" if os.tcgetpgrp(0) == os.getpgrp() else "lost", flush=True)
"""


def test_a_command_may_ask_in_the_terminal_and_ctrl_c_there_is_for_everybody() -> None:
    """It is a process group of its own, and yet not stopped as one in the background would be."""
    terminal, inner = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    ) as process:
        os.close(inner)
        shown = b""

        def wait_for(text: bytes) -> None:
            nonlocal shown
            while text not in shown:
                assert select.select([terminal], [], [], 60.0)[0], shown
                shown += os.read(terminal, 1000)
            shown = shown.partition(text)[2]

        wait_for(b"PIN: ")
        os.write(terminal, b"one\n")
        os.write(terminal, b"two\n")
        wait_for(b"found one")
        wait_for(b"back")
        wait_for(b"PIN: ")
        os.write(terminal, b"\x03")
        wait_for(b"interrupted")
        wait_for(b"back")
        assert process.wait(timeout=60) == 0
    os.close(terminal)


def test_a_command_sees_the_environment_and_the_terminal_that_treadle_has() -> None:
    program = "import os; print(os.environ['A'], os.fstat(0).st_ino, sep='/')"
    found = find_key(entry(key_command=python(program)), {"A": "b"})
    assert found is not None
    assert found.value == f"b/{os.fstat(0).st_ino}"


# ---- none --------------------------------------------------------------------------------------


def test_a_person_without_any_key_is_told_in_one_line_what_to_do() -> None:
    error = make_no_model_error(make_catalog(read_defaults()), {})
    assert "ANTHROPIC_API_KEY or OPENAI_API_KEY" in error.message
    assert "`treadle demo` works without" in error.message
    assert "\n" not in error.message
    assert error.hint == ""


def test_a_key_for_a_provider_without_a_default_model_is_noticed() -> None:
    error = make_no_model_error(make_catalog(read_defaults()), {"GROQ_API_KEY": SECRET})
    assert "-m groq:MODEL" in error.message
    assert "hunter2" not in error.message


def test_a_provider_that_needs_a_key_says_how_to_give_it() -> None:
    error = make_missing_key_error("groq", entry(key_env="GROQ_API_KEY"))
    assert error.message == "groq needs a key: set GROQ_API_KEY"
    assert "`treadle demo`" in error.hint
    assert make_missing_key_error("mine", entry()).message == (
        "mine needs a key: give it a key_file, "
        "or, if it takes none, write `needs_key = false` below [providers.mine]"
    )
