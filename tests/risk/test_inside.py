"""What is named by the workspace's own path is inside; what only looks like it is not."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.core.tools import RiskLevel
from treadle.risk.assess import assess

WS = "/srv/me/app"


@for_every_row(
    "command, kinds",
    [
        (f"cd {WS} && pytest", (f"cd {WS}", "pytest")),
        (f"cd '{WS}/sub' && ls", (f"cd {WS}/sub", "ls")),
        (f"cat {WS}/src/a.py", ("cat",)),
        (f"ruff check --config={WS}/ruff.toml {WS}", None),
        (f"{WS}/.venv/bin/pytest", (f"{WS}/.venv/bin/pytest",)),
        (f"timeout 20 cat {WS}/a", ("cat",)),
        (f"cp {WS}/a {WS}/b", None),
        (f"bash -c 'cat {WS}/a > {WS}/b'", None),
        (f"make -C{WS} all", None),
    ],
)
def test_paths_below_the_workspace_do_not_alarm(
    command: str, kinds: tuple[str, ...] | None
) -> None:
    assert assess(command).risk is RiskLevel.CRITICAL or not kinds or "bin" in command
    danger = assess(command, WS)
    assert (danger.risk, danger.reasons) == (RiskLevel.HIGH, ())
    assert kinds is None or danger.kinds == kinds


@for_every_row(
    "command",
    [
        f"cat {WS}/../other",
        f"cat {WS}/sub/../../other",
        f"cat {WS}-other/a",
        f"cat {WS}.bak",
        f"cat {WS}*/a",
        f"cat /x{WS}/a",
        f"cat /root/.ssh{WS}",
        f"cat {WS}/.env",
        f"rm -rf {WS}",
        f"rm -rf {WS}/*",
        f"rm -rf {WS}/.git",
        f"find {WS} -delete",
        f"mv {WS} /tmp/away",
        f"mv -t /tmp {WS}/",
        f"echo x > {WS}/.git/hooks/pre-commit",
        f"echo x > {WS}/../x",
        f"cp {WS}/a /srv/me/b",
        f"scp {WS}/a host:{WS}",
    ],
)
def test_what_is_dangerous_stays_so_and_so_do_paths_that_only_look_like_it(command: str) -> None:
    danger = assess(command, WS)
    assert danger.risk is RiskLevel.CRITICAL
    assert danger.reasons
    assert danger.kinds == ()


@for_every_row("workspace", ["", "/", "relative"])
def test_without_a_workspace_every_absolute_path_is_outside(workspace: str) -> None:
    assert assess("cat /srv/a", workspace).risk is RiskLevel.CRITICAL
    assert assess("mv a b c/; mv -t . a b", workspace).risk is RiskLevel.HIGH
