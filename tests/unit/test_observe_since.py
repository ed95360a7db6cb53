"""What `stallbench observe --since` reads of a log of PostgreSQL, and the times that it takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from stallbench.errors import BadInputError
from stallbench.observe.past import read_moment
from stallbench.observe.postgres.since.server_log import _find_zone, _read_messages

SINCE = datetime(2026, 11, 27, 13, tzinfo=UTC)
LOG = """\
2026-11-27 12:59:59.000 UTC [9] LOG:  process 9 still waiting for ShareLock on transaction 1 after 1000.1 ms
2026-11-27 13:05:00.000 UTC [9] LOG:  process 9 still waiting for ShareLock on transaction 1 after 1000.1 ms
2026-11-27 13:05:00.000 UTC [9] STATEMENT:  LOG:  process 9 still waiting for ShareLock on transaction 1 after 9000.1 ms
2026-11-27 13:06:00.000 UTC [9] LOG:  process 9 acquired ShareLock on transaction 1 after 61000.5 ms
2026-11-27 13:07:00.000 UTC [8] app@db ERROR:  deadlock detected
2026-11-27 13:07:00.000 UTC [8] app@db DETAIL:  Process 8 waits for ShareLock on transaction 2; blocked by process 9.
\tProcess 9 waits for ShareLock on transaction 1; blocked by process 8.
2026-11-27 13:07:01.000 UTC [8] app@db ERROR:  syntax error at or near "deadlock detected"
2026-11-27 13:08:00.000 UTC [7] LOG:  automatic vacuum of table "app.public.jobs": index scans: 0
\tpages: 0 removed, 100 remain
\ttuples: 0 removed, 900 remain, 800 are dead but not yet removable, oldest xmin: 77
2026-11-27 13:09:00.000 UTC [6] LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp6.0", size 2097152
\tLOG:  process 9 acquired ShareLock on transaction 1 after 99000.5 ms
"""


def read(tmp_path: Path, text: str, zone: str = "UTC") -> dict[str, tuple[int, str]]:
    path = tmp_path / "postgresql.log"
    path.write_text(text)
    _, found = _read_messages(path, 0, _find_zone(zone), SINCE)
    return {kind: (one.count, one.describe()) for kind, one in found.items()}


def test_messages_of_the_time_are_counted_by_kind_with_their_greatest_figure(tmp_path: Path) -> None:
    assert read(tmp_path, LOG) == {
        "a session waited for a lock": (2, "up to 61 s"),
        "a deadlock": (1, ""),
        "a temporary file": (1, "2.0 MB together"),
        "an automatic vacuum": (1, "left up to 800 dead rows"),
    }


def test_times_are_of_the_server_s_zone(tmp_path: Path) -> None:
    line = "2026-11-27 14:05:00 CET [9] LOG:  process 9 acquired ShareLock on transaction 1 after 2000 ms\n"
    assert read(tmp_path, line, "Europe/Berlin") == {"a session waited for a lock": (1, "up to 2.0 s")}
    assert not read(tmp_path, line.replace("14:05", "13:05"), "Europe/Berlin")
    assert _find_zone("Nowhere/At_all") is UTC


@pytest.mark.parametrize(
    "text", ["", "no log at all\n", "LOG:  without a time\n", "9999-99-99 99:99:99 UTC [1] LOG:  deadlock\n"]
)
def test_a_log_without_times_has_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "postgresql.log"
    path.write_text(text)
    assert _read_messages(path, 0, UTC, SINCE) == (None, {})


def test_a_day_is_its_beginning_and_the_option_is_named() -> None:
    now = datetime(2026, 11, 28, 9, tzinfo=ZoneInfo("UTC"))
    assert read_moment("yesterday 00:00 UTC", now, "--since") == now.replace(hour=0) - timedelta(days=1)
    assert read_moment("2026-11-27", now, "--since") == read_moment("2026-11-27 00:00", now, "--since")
    with pytest.raises(BadInputError, match='--since "soon"'):
        read_moment("soon", now, "--since")
