"""What the server's log has of a time, by kind of message; without the log, which of its files have that time.

Messages are counted, and nobody is named: whoever may execute ``RAISE LOG`` can write any of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stallbench.base.number_text import format_bytes, format_count
from stallbench.engines.postgres.server_log import ServerLog
from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section
from stallbench.observe.formatting import format_age, format_moment

_MOST_BYTES = 128 << 20
"""Of the log, its end. It takes seconds to read."""
_MOST_FILES = 10
_SETTINGS = """
SELECT name, setting FROM pg_catalog.pg_settings
WHERE name IN ('log_timezone', 'lc_messages', 'log_destination', 'logging_collector', 'log_directory', 'data_directory')
"""
"""The view has those that the user may see."""
_LOCATION_SETTINGS_ROLE = "pg_read_all_settings"
_MAY_LIST = "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_ls_logdir()', 'EXECUTE')"
_FILES = """
SELECT name, size, modification FROM pg_catalog.pg_ls_logdir() WHERE modification >= %s ORDER BY modification LIMIT %s
"""
_LINE = re.compile(
    r"(?P<prefix>.{0,400}?)\b(?P<severity>LOG|ERROR|FATAL|PANIC|WARNING|DETAIL|HINT|QUERY|CONTEXT|STATEMENT|LOCATION|BACKTRACE|NOTICE|INFO|DEBUG\d?):  "
    r"(?P<text>.*)"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_REMOVABLE = re.compile(r"(?P<count>\d+) are dead but not yet removable")
_KINDS: Mapping[str, re.Pattern[str]] = {
    "a session waited for a lock": re.compile(r"process \d+ (?:still waiting for|acquired) .* after (?P<ms>[\d.]+) ms"),
    "a deadlock": re.compile(r"deadlock detected"),
    "a statement was cancelled by a time limit": re.compile(r"canceling statement due to (?:statement|lock) timeout"),
    "a query was cancelled for replay": re.compile(
        r"(?:canceling statement|terminating connection) due to conflict with recovery"
    ),
    "a session was ended": re.compile(r"terminating connection due to (?!conflict with recovery).*"),
    "no connection was left": re.compile(
        r"sorry, too many clients already|remaining connection slots are reserved.*|too many connections for .*"
    ),
    "a slow statement": re.compile(r"duration: (?P<ms>[\d.]+) ms\b.*"),
    "a temporary file": re.compile(r"temporary file: path .*, size (?P<bytes>\d+)"),
    "an automatic vacuum": re.compile(r"automatic (?:aggressive )?vacuum .*of table .*"),
    "checkpoints came too often": re.compile(r"checkpoints are occurring too frequently.*"),
    "a replication slot was invalidated": re.compile(
        r"invalidating obsolete replication slot .*|terminating process \d+ to release replication slot.*"
    ),
    "the server was started or ended": re.compile(
        r"starting PostgreSQL .*|received .* shutdown request|database system was (?:interrupted|not properly shut down).*|"
        r"server process \(PID \d+\) was terminated by signal .*"
    ),
}
"""By what it is, the messages of the server, in English, each as a whole."""


@dataclass(slots=True)
class _Found:
    """The messages of one kind."""

    first: datetime
    last: datetime
    count: int = 0
    most_ms: float = 0.0
    bytes: int = 0
    not_removable: int = 0

    def describe(self) -> str:
        """Return the greatest figure of the messages."""
        if self.most_ms:
            return f"up to {format_age(self.most_ms / 1000)}"
        if self.bytes:
            return f"{format_bytes(self.bytes)} together"
        return f"left up to {format_count(self.not_removable)} dead rows" if self.not_removable else ""


class ServerLogDiagnostic(Diagnostic):
    """Reads the log if it is on this machine; else says where it is."""

    name = "server_log"
    what = "the server's log"
    position = 6

    def __init__(self, since: datetime, log: Path | None) -> None:
        """``since``: the beginning of the time that was asked for. ``log``: the log, if this machine has it."""
        self._since = since
        self._log = log

    def read(self, reading: Reading) -> Section:
        """Return what the log has of the time, or which files have it."""
        settings: dict[str, str] = dict(reading.server.execute(_SETTINGS).fetchall())
        if self._log is not None:
            return self._read_log(settings.get("log_timezone", "UTC"), settings.get("lc_messages", "C"))
        collects = settings.get("logging_collector") == "on"
        may_list = reading.server.execute(_MAY_LIST).fetchone() == (True,)
        files = reading.server.execute(_FILES, (self._since, _MOST_FILES)).fetchall() if collects and may_list else []
        rows = tuple((name, format_bytes(size), format_moment(at)) for name, size, at in files)
        return Section(
            title="Files of the server's log with that time" if rows else "The server's log",
            columns=("file", "size", "last written") if rows else (),
            rows=rows,
            sentences=(_describe_place(settings, collects=collects),),
            not_visible=(
                NotVisible(
                    what="what the server's log says",
                    why="it is not read through the server",
                    remedy="stallbench observe --dsn ADDRESS --since TIME --log FILE, on the machine that has the file",
                ),
            ),
        )

    def _read_log(self, timezone: str, language: str) -> Section:
        assert self._log is not None, "it is on this machine"
        try:
            from_byte = max(0, self._log.stat().st_size - _MOST_BYTES)
            times, found = _read_messages(self._log, from_byte, _find_zone(timezone), self._since)
        except OSError as error:
            why = f"{self._log} cannot be read: {error.strerror or error}"
            return Section(title="The server's log", says_nothing=True, not_visible=(NotVisible(what=self.what, why=why),))
        not_visible = []
        if times is None:
            why = f"no line of {self._log} has a time that can be read"
            remedy = "a log in text, with %m or %t in log_line_prefix"
            not_visible.append(NotVisible(what="what the server's log says", why=why, remedy=remedy))
        elif times[0] > self._since:
            older = "the part before is longer than what is read" if from_byte else "older messages are in another file"
            what = f"what the log says before {format_moment(times[0])}"
            not_visible.append(NotVisible(what=what, why=f"{self._log} begins later; {older}"))
        if not language.startswith(("C", "POSIX", "en")):
            why = f"the server writes them in another language (lc_messages is {language})"
            not_visible.append(NotVisible(what="messages of the server's log", why=why))
        rows = tuple(
            (kind, format_count(one.count), format_moment(one.first), format_moment(one.last), one.describe())
            for kind, one in found.items()
        )
        until = f" until {format_moment(times[1])}, its last line" if times else ""
        return Section(
            title=f"What the server's log has since {format_moment(self._since)}",
            columns=("what", "messages", "first", "last", "") if rows else (),
            rows=rows,
            sentences=(
                f"Read from {self._log}{until}. Anybody who can execute statements can write such messages, too (RAISE LOG)."
                if rows
                else f"{self._log} has none of the messages that are known here{until}.",
            ),
            not_visible=tuple(not_visible),
        )


def _read_messages(
    log: Path, from_byte: int, zone: tzinfo, since: datetime
) -> tuple[tuple[datetime, datetime] | None, dict[str, _Found]]:
    """Return the times of the first and last line, none without one, and what was found of each kind from ``since`` on, in the order of `_KINDS`."""
    found: dict[str, _Found] = {}
    times: tuple[datetime, datetime] | None = None
    vacuum: _Found | None = None
    for at, severity, text in _read_lines(log, from_byte, zone):
        if at is None:
            if vacuum and (kept := _REMOVABLE.search(text)):
                vacuum.not_removable = max(vacuum.not_removable, int(kept["count"]))
            continue
        vacuum = None
        times = (times[0] if times else at, at)
        if at < since or severity not in ("LOG", "ERROR", "FATAL", "PANIC", "WARNING"):
            continue
        for kind, pattern in _KINDS.items():
            if not (match := pattern.match(text)):
                continue
            one = found.setdefault(kind, _Found(first=at, last=at))
            one.last, one.count = at, one.count + 1
            figures = match.groupdict()
            one.most_ms = max(one.most_ms, float(figures.get("ms") or 0))
            one.bytes += int(figures.get("bytes") or 0)
            vacuum = one if kind == "an automatic vacuum" else None
            break
    return times, {kind: found[kind] for kind in _KINDS if kind in found}


def _read_lines(log: Path, from_byte: int, zone: tzinfo) -> Iterator[tuple[datetime | None, str, str]]:
    """Yield time, severity and text of each line; a line without a time goes on with the one before."""
    for line in ServerLog(log, from_byte).read_lines():
        match = None if line.startswith((r"\t", "\t")) else _LINE.fullmatch(line)
        stamp = _TIME.search(match["prefix"]) if match else None
        if match is None or stamp is None:
            yield None, "", line
            continue
        try:
            at = datetime.fromisoformat(stamp.group()).replace(tzinfo=zone).astimezone(UTC)
        except (ValueError, OverflowError):
            yield None, "", line
            continue
        yield at, match["severity"], match["text"]


def _find_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _describe_place(settings: Mapping[str, str], *, collects: bool) -> str:
    if not collects:
        return (
            f"The server writes its log to {settings.get('log_destination', 'stderr')} and keeps no files of it: whatever started it has them "
            "(journalctl -u postgresql, /var/log/postgresql, or the log of the container)."
        )
    directory, data_directory = settings.get("log_directory"), settings.get("data_directory")
    if directory is None:
        return f"The server keeps it in files, in a folder that only members of {_LOCATION_SETTINGS_ROLE} can see."
    folder = Path(directory) if directory.startswith("/") or data_directory is None else Path(data_directory) / directory
    return f"The server keeps it in {folder}."
