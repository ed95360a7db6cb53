"""``python -m dashboards``: write every dashboard as JSON beside its code."""

from __future__ import annotations

from pathlib import Path

from dashboards import DASHBOARDS
from dashboards.board import as_json

FOLDER = Path(__file__).resolve().parent


def main() -> None:
    """Write them all."""
    for name, make in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(as_json(make()))


if __name__ == "__main__":
    main()
