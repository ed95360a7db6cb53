"""What a reader of a comparison must know before relying on a figure: what is missing from it, and why."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from stallbench.comparison.conclusion import conclude_comparison
from stallbench.comparison.record import ComparisonFolder
from stallbench.comparison.screen import print_comparison
from tests.unit.made_up_comparison import make_made_up_comparison


def show(folder: ComparisonFolder) -> str:
    """Make both pages, and return what the terminal shows, without line breaks."""
    record, results = conclude_comparison(folder)
    console = Console(file=io.StringIO(), width=200)
    print_comparison(record, results, "report.html", console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_what_was_left_out_is_named_on_the_terminal_and_in_both_pages(tmp_path: Path) -> None:
    folder = make_made_up_comparison(tmp_path, {"postgres:17": 8.0, "postgres:18": 1.0})
    reason = "database.settings.transaction_timeout needs PostgreSQL 17 or later; this is 16"
    changes = {"left_out": {"postgres:16": reason}, "versions": "postgres:16..18"}
    folder.write(folder.read().model_copy(update=changes))
    note = f"postgres:16 is left out: {reason}."
    assert note in show(folder)
    for page in ("report.html", "summary.md"):
        assert note in (folder.path / page).read_text()
