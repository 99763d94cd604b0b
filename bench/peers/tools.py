"""What the tools of all four bots do to the world: they write a line into a file."""

from __future__ import annotations

from pathlib import Path


def charge_order(folder: Path, order: int) -> str:
    """Charge an order; then hang, if the folder says so, as a slow payment service does."""
    with (folder / "effects.txt").open("a") as file:
        file.write(f"charged {order}\n")
    if (folder / "hang").exists():
        (folder / "hang").read_text()  # a FIFO to which nobody writes
    return f"order {order} is charged"


def refund_order(folder: Path, order: int) -> str:
    """Pay an order back."""
    with (folder / "effects.txt").open("a") as file:
        file.write(f"refunded {order}\n")
    return f"order {order} is paid back"
