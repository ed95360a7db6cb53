"""The history of `observe --record`: bounded, sealed, whole after `kill -9`, and what `--at` finds in it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.observe.diagnostic import Finding, NotVisible, Remedy, Section, Severity
from stallbench.observe.document import ReadingDocument, describe_reading, read_observation
from stallbench.observe.history import HistoryBounds, HistoryWriter, find_reading
from stallbench.observe.observer import Observation
from stallbench.observe.past import answer, read_moment

BEGIN = datetime(2026, 11, 27, 14, 5, tzinfo=UTC)


def make_reading(number: int, at: datetime | None = None) -> ReadingDocument:
    """Return the reading of a second."""
    when = at or BEGIN + timedelta(seconds=number)
    no: tuple[()] = ()
    return ReadingDocument(
        at=when, server=f"{number} {random.random()}", gone="", took_s=0, findings=no, queues=no, cannot_see=no, figures=no
    )


def bound(folder: Path, *, keep_s: float = 1e6, keep_bytes: int = 10**9) -> HistoryBounds:
    return HistoryBounds(folder=folder / "history", keep_s=keep_s, keep_bytes=keep_bytes)


def record(bounds: HistoryBounds, numbers: range) -> None:
    with HistoryWriter(bounds) as history:
        for number in numbers:
            history.append(make_reading(number))


def number_at(bounds: HistoryBounds, number: float) -> int:
    return int(find_reading(bounds.folder, BEGIN + timedelta(seconds=number)).document.server.partition(" ")[0])


def test_the_last_reading_before_a_time_is_found_in_every_segment(tmp_path: Path) -> None:
    bounds = bound(tmp_path)
    record(bounds, range(0, 9000, 60))
    assert [number_at(bounds, each) for each in (0, 59.9, 60, 3599, 3600, 8941, 10**6)] == [0, 0, 60, 3540, 3600, 8940, 8940]
    assert find_reading(bounds.folder, BEGIN).next_at == BEGIN + timedelta(seconds=60)
    assert len(list(bounds.folder.glob("*.jsonl.gz"))) == 3
    with pytest.raises(NotCarriedOutError, match="nothing was recorded before 2026-11-27 14:05:00 UTC"):
        number_at(bounds, -1)


def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    bounds = bound(tmp_path)
    record(bounds, range(1))
    assert oct(bounds.folder.stat().st_mode & 0o777) == "0o700"
    assert {path.stat().st_mode & 0o777 for path in bounds.folder.iterdir()} == {0o600}
    bounds.folder.chmod(0o755)
    with pytest.raises(NotCarriedOutError, match="other users may enter it"):
        HistoryWriter(bounds)


def test_it_never_has_more_bytes_than_asked_for(tmp_path: Path) -> None:
    bounds = bound(tmp_path, keep_bytes=20_000)
    with HistoryWriter(bounds) as history:
        for number in range(1000):
            history.append(make_reading(number))
            assert sum(path.stat().st_size for path in bounds.folder.iterdir()) <= bounds.keep_bytes
    assert number_at(bounds, 999) == 999
    with pytest.raises(NotCarriedOutError, match="nothing was recorded before"):
        number_at(bounds, 0)


def test_what_is_older_than_asked_for_is_removed(tmp_path: Path) -> None:
    bounds = bound(tmp_path, keep_s=7200)
    record(bounds, range(0, 20_000, 600))
    with pytest.raises(NotCarriedOutError):
        number_at(bounds, 20_000 - 7200 - 2 * 3600)
    assert number_at(bounds, 20_000 - 7200) > 0


def test_a_clock_that_is_set_back_overwrites_nothing(tmp_path: Path) -> None:
    bounds = bound(tmp_path)
    with HistoryWriter(bounds) as history:
        for seconds in (*range(0, 100, 10), *range(-90, 60, 10)):
            history.append(make_reading(0, BEGIN + timedelta(seconds=seconds)))
    assert len(list(bounds.folder.glob("*.jsonl.gz"))) == 2


def test_two_recorders_do_not_share_a_folder(tmp_path: Path) -> None:
    bounds = bound(tmp_path)
    with HistoryWriter(bounds), pytest.raises(NotCarriedOutError, match="another process records there"):
        HistoryWriter(bounds)


CHILD = """
import sys
from pathlib import Path
from tests.unit.test_observe_history import HistoryWriter, bound, make_reading
with HistoryWriter(bound(Path(sys.argv[1]), keep_bytes=16 * 500)) as history:
    for number in range(int(sys.argv[2]), 10**9):
        history.append(make_reading(number))
        print(number, flush=True)
"""
"""Seals every few readings, and removes old ones."""


def test_whatever_moment_a_recorder_is_killed_at_every_reading_stays(tmp_path: Path) -> None:
    bounds, last = bound(tmp_path, keep_bytes=16 * 500), -1
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", CHILD, tmp_path, str(last + 1)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(random.randint(1, 60)):
            last = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        last = max([last, *map(int, child.stdout.read().split())])
        child.wait()
        child.stdout.close()
        kept = range(max(0, last - 10), last + 1)
        assert [number_at(bounds, each) for each in kept] == [*kept]
    with HistoryWriter(bounds):
        assert not list(bounds.folder.glob("*.open"))
    assert [number_at(bounds, each) for each in kept] == [*kept]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-4], "is damaged: it is sealed, and its end is missing"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "is damaged: "),
        (lambda _: b"no gzip", "is damaged: "),
    ],
    ids=["cut", "changed", "something else"],
)
def test_a_damaged_segment_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    bounds = bound(tmp_path)
    record(bounds, range(9))
    (path,) = bounds.folder.glob("*.jsonl.gz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NotCarriedOutError, match=f"{path.name}: {message}"):
        number_at(bounds, 0)


FINDING = Finding(
    severity=Severity.CRITICAL,
    subject="horizon",
    about="7",
    sentence="Session 7 holds the horizon.",
    statement="SELECT pg_terminate_backend(7);",
    caution="ends it",
    other_ways=(Remedy(statement="SELECT 2;", where="there"),),
)


def test_the_report_is_the_one_of_then(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = Section(
        title="Tables", columns=("table", "end"), rows=(("jobs", "VACUUM jobs;"),), has_statements=True, subject="tables"
    )
    quiet = Section(title="Quiet", says_nothing=True, subject="locks", summary=("jobs: 5 ready",))
    unseen = NotVisible(what="locks", why="no right", remedy="GRANT")
    seen = Observation(
        at=BEGIN, title="PostgreSQL 17", sections=(quiet, section), findings=(FINDING,), not_visible=(unseen,), took_s=0.1
    )
    document = describe_reading(seen, shows_all=True)
    restored = read_observation(ReadingDocument.model_validate_json(document.model_dump_json()))
    assert (restored.findings, restored.not_visible, restored.sections[1]) == (seen.findings, seen.not_visible, section)
    bounds = bound(tmp_path)
    with HistoryWriter(bounds) as history:
        history.append(document)
    answer(bounds.folder, BEGIN + timedelta(minutes=10), shows_all=False, as_json=False)
    printed = capsys.readouterr().out
    assert (
        "the reading of 2026-11-27 14:05:00 UTC, 10 min before.\nNothing was recorded after it.\nIts statements were for that time"
        in printed
    )
    assert "jobs: 5 ready" in printed
    assert "SELECT pg_terminate_backend(7);" in printed
    assert "VACUUM jobs;" not in printed
    answer(bounds.folder, BEGIN, shows_all=False, as_json=True)
    assert capsys.readouterr().out == document.model_dump_json() + "\n"


NOW = datetime.fromisoformat("2026-11-28T12:00").astimezone()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11:59", "2026-11-28T11:59:00"),
        ("14:05", "2026-11-27T14:05:00"),
        ("yesterday 9:05:30", "2026-11-27T09:05:30"),
        ("2026-11-02T14:05", "2026-11-02T14:05:00"),
        ("2026-11-02 14:05 +02:00", "2026-11-02T12:05:00+00:00"),
        ("2026-11-02 14:05Z", "2026-11-02T14:05:00+00:00"),
        ("90m ago", "2026-11-28T10:30:00"),
    ],
)
def test_a_moment_is_read_as_its_user_means_it(text: str, expected: str) -> None:
    assert read_moment(text, NOW) == datetime.fromisoformat(expected).astimezone(UTC)


@pytest.mark.parametrize("text", ["", "tomorrow", "25:00", "today 13:00", "2026-02-30 10:00", "soon ago"])
def test_a_moment_that_is_none_or_not_over_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=f'^--at "{text}": '):
        read_moment(text, NOW)
