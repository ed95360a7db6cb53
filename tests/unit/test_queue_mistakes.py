"""What a user's queue raises while the bench itself calls it ends the run as what could not be carried out, in one line that names the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.queues import find_queue
from stallbench.run.status import ending_recorded

QUEUE = """
import sys
from stallbench.queues.que import Que

class Mistaken(Que):
    def install(self):
        {mistake}
"""


class Recorder:
    """Stands for that of a run."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    def end(self, status: str, reason: str) -> None:
        self.ended.append((status, reason))


def install(recorder: Any, file: Path) -> None:
    """Do what a run does first with its queue."""
    with ending_recorded(recorder, lambda: None, also_if_completed=True):
        find_queue(f"{file}:Mistaken").install(None)  # type: ignore[arg-type] # it needs no connection for its mistake


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ('raise TypeError("no table")', "TypeError: no table"),
        ("assert False", "AssertionError"),
        ("sys.exit(0)", "SystemExit: 0"),
    ],
)
def test_a_mistake_in_a_queue_is_named_and_a_queue_that_exits_does_not_end_the_bench(
    mistake: str, told: str, tmp_path: Path
) -> None:
    """With ``sys.exit(0)`` the run would otherwise seem to have passed."""
    file = tmp_path / "mistaken.py"
    file.write_text(QUEUE.format(mistake=mistake))
    recorder = Recorder()
    with pytest.raises(NotCarriedOutError) as raised:
        install(recorder, file)
    assert str(raised.value) == f"the queue raised {told} ({file}, line 7, in install)"
    assert recorder.ended == [("failed", str(raised.value))]


def test_a_mistake_of_the_bench_stays_one() -> None:
    recorder: Any = Recorder()
    with pytest.raises(KeyError, match="unforeseen"), ending_recorded(recorder, lambda: None, also_if_completed=True):
        raise KeyError("unforeseen")
    assert recorder.ended == [("failed", "unexpected error in the bench")]
