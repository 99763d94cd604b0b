"""Where the console script begins: `--version` answers before anything heavy is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script."""
    if sys.argv[1:] == ["--version"]:
        from treadle import __version__

        sys.stdout.write(f"treadle {__version__}\n")
        return
    from treadle.cli.main import main as run

    run()
