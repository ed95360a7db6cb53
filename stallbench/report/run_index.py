"""``index.html`` in a folder of runs: all runs and studies in it, with what happened, and the trend of each scenario over its runs.

Each run and each study writes its own row, ``index.json``, into its folder. The page is made of these small files, so that it costs little however
large the runs are. It is one file without a server: the links are relative, and its script only hides rows.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.atomic_file import replace_file
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.report.outcome_text import describe_outcome, name_verdict
from stallbench.report.templates import open_template
from stallbench.run.folder import STUDY
from stallbench.run.record import RunRecord
from stallbench.verdicts import RunTables, Verdict
from stallbench.verdicts.requirements import format_ms
from stallbench.visible_text import say

ENTRY = "index.json"
"""The file with the row of a run or a study, in its folder."""
_PAGE = "index.html"
_POINTS = 60
"""Of a run's curve at most."""
_MOST_BANDS = 20
_MOST_TEXT = 4000
_MOST_BYTES = 1 << 20
"""What a record has at most, of which the page shows a row; a run with thousands of processes has less."""
_LATEST_NS = 4 * 10**18
_NAMED_BY_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\dZ-", re.ASCII)
_RECORDS = {ENTRY: "", "run.json": "run", STUDY: "study", "conformance.json": "conformance"} | {
    "comparison.json": "comparison",
    "limit.json": "limit",
    "torture.json": "torture",
    "soak.json": "soak",
}
"""By the file that identifies a folder: of what it is. The last ones are of earlier versions."""
_VERDICTS = ("pass", "fail", "unknown")
_WIDTH, _HEIGHT = 132.0, 30.0
_TREND_WIDTH, _TREND_HEIGHT = 420.0, 64.0
_LEAST_MS = 0.1

_Text = Annotated[str, BeforeValidator(lambda text: text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}...")]


class IndexEntry(BaseModel):
    """The row of a run or a study."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    format: Literal[1] = 1
    kind: _Text
    """``run``, or the kind of the study."""
    scenario: _Text = ""
    variant: _Text = ""
    queue: _Text = ""
    began_ns: int | None = Field(default=None, ge=0, le=_LATEST_NS)
    verdict: Literal["pass", "fail", "unknown"]
    verdict_name: _Text = ""
    """The words of the verdict."""
    outcome: _Text = ""
    """What happened to the queue, or what the study shows."""
    effect: _Text = ""
    """The worst effect of a run; empty if nothing disturbed it."""
    latency_before_ms: float | None = Field(default=None, ge=0)
    latency_ms: float | None = Field(default=None, ge=0)
    """The p95 of a run's baseline and of its worst phase."""
    curve_ms: tuple[float | None, ...] = Field(default=(), max_length=_POINTS)
    """Latency (p95) over the run, in equal parts of it: the greatest of each part."""
    disturbed: tuple[tuple[float, float], ...] = Field(default=(), max_length=_MOST_BANDS)
    """From where to where faults and longrunners were active, as shares of the curve's length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A curve as the page draws it, in the units of its drawing."""

    lines: Sequence[str]
    """Points of each part without a gap, as SVG has them."""
    bands: Sequence[tuple[float, float]]
    """Left edge and width of each."""
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """A row of the page, as text."""

    folder: str
    address: str
    """Of its page, relative to the index; empty if it has none."""
    began: str
    kind: str
    scenario: str
    queue: str
    verdict: str
    """Empty if there is none."""
    verdict_name: str
    effect: str
    outcome: str
    problem: str
    """Why it has less than others; empty if it has all."""
    curve: Curve | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A run in the trend of its scenario."""

    x: float
    y: float
    effect: str
    address: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The runs of a scenario, one after the other."""

    scenario: str
    queue: str
    runs: int
    points: Sequence[TrendPoint]
    line: str
    first: str
    last: str
    low: str
    high: str
    """The ends of the axis, which is logarithmic."""
    last_effect: str


def write_run_entry(run: RunTables, verdict: Verdict) -> None:
    """Write the row of a run into its folder."""
    record, outcome = run.record, verdict.outcome
    worst = outcome.worst if outcome else None
    curve, disturbed = _summarize_curve(run)
    write_entry(
        run.folder,
        IndexEntry(
            kind="observation" if record.is_observation else "run",
            scenario=record.scenario.name,
            variant=record.scenario.variant or "",
            queue=name_queue(record),
            began_ns=next(
                (phase.start_ns for phase in record.phases if phase.start_ns and 0 <= phase.start_ns <= _LATEST_NS), None
            ),
            verdict=verdict.verdict,
            verdict_name=name_verdict(record, verdict),
            outcome=describe_outcome(record, verdict) or record.scenario.summary,
            effect=worst.effect if worst else "",
            latency_before_ms=_known(worst.latency_before_ms) if worst else None,
            latency_ms=_known(worst.latency_ms) if worst else None,
            curve_ms=curve,
            disturbed=disturbed,
        ),
    )


def write_entry(folder: AnyPath, entry: IndexEntry) -> None:
    """Write the row of a run or a study into its folder."""
    replace_file(folder / ENTRY, entry.model_dump_json())


def name_queue(record: RunRecord) -> str:
    """Return the queue, with the version of a library, and the servers' engine and version."""
    library = record.queue.library
    queue = f"{library.title} {library.version}" if library else record.queue.kind
    servers = list(dict.fromkeys(f"{server.engine} {server.version}" for server in record.servers))
    return f"{queue} on {', '.join(servers)}" if servers else queue


def _known(value: float | None) -> float | None:
    """Return a time of the tables; none if it is none that can be drawn, as in a damaged or forged run."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _summarize_curve(run: RunTables) -> tuple[tuple[float | None, ...], tuple[tuple[float, float], ...]]:
    """Return the curve of the latency and where it was disturbed; both empty if no second has a latency."""
    windows = run["windows"]
    windows = windows[windows["t_s"] >= 0].sort_values("t_s")
    if "latency_ms_p95" not in windows or not len(windows):
        return (), ()
    seconds = int(windows["t_s"].iloc[-1]) + 1
    parts = min(_POINTS, seconds)
    greatest: list[float | None] = [None] * parts
    for t_s, found in zip(windows["t_s"], windows["latency_ms_p95"].astype(float), strict=True):
        if (value := _known(found)) is not None:
            at = int(t_s) * parts // seconds
            greatest[at] = round(max(greatest[at] or 0.0, value), 2)
    injections = run["injections"]
    injections = injections[injections["phase"].notna() & injections["from_s"].notna()]
    shares = [
        (max(0.0, float(from_s) / seconds), 1.0 if math.isnan(to_s) else min(1.0, float(to_s) / seconds))
        for from_s, to_s in zip(injections["from_s"], injections["to_s"].astype(float), strict=True)
    ]
    return tuple(greatest), tuple(share for share in shares if share[0] <= share[1])[:_MOST_BANDS]


def renew_index(runs: Path) -> None:
    """Make ``index.html`` in the folder ``runs`` anew; there is none if there is no run. Prints why it could not be made.

    Two processes that do it at once wait for each other, so that the page has the runs of both.
    """
    try:
        with _locked(runs):
            folders = _list_folders(runs)
            if folders:
                replace_file(runs / _PAGE, _render([_read(folder) for folder in folders]))
            else:
                (runs / _PAGE).unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        say(f"{runs / _PAGE}: cannot be renewed: {error.strerror or error}", to=sys.stderr)


@contextmanager
def _locked(runs: Path) -> Iterator[None]:
    fd = os.open(runs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _list_folders(runs: Path) -> list[Path]:
    """Return the folders of runs and studies, the newest first. Links, like ``latest``, and folders of other things are left out."""
    with os.scandir(runs) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    folders = [runs / name for name in sorted(names, reverse=True)]
    return [
        folder for folder in folders if _NAMED_BY_TIME.match(folder.name) or any((folder / name).is_file() for name in _RECORDS)
    ]


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found in a folder: its row, or as much as its other records say."""

    folder: Path
    entry: IndexEntry
    problem: str = ""
    """Why the row has less than others; empty if it has all."""


def _read(folder: Path) -> _Found:
    """Read the row of a folder. An older folder has none, and a damaged one none that can be read: what its name and records say is shown."""
    try:
        text = _read_text(folder / ENTRY)
    except FileNotFoundError:
        return _read_without_entry(folder)
    except (OSError, ValueError) as error:
        return _damaged(folder, f"{ENTRY}: {_describe(error)}")
    try:
        return _Found(folder, IndexEntry.model_validate_json(text))
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False, include_context=False)[0]
        key = ".".join(map(str, issue["loc"]))
        return _damaged(folder, f"{ENTRY}: {f'{key}: ' if key else ''}{issue['msg']}")


def _read_without_entry(folder: Path) -> _Found:
    """Return the row of a run that was not judged, or that an earlier version judged, or of such a study."""
    name = next((name for name in _RECORDS if (folder / name).is_file()), None)
    if name is None:
        return _damaged(folder, "it has no record")
    try:
        record = _read_object(folder / name)
        verdict = _read_object(folder / "verdict.json") if (folder / "verdict.json").is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        return _damaged(folder, _describe(error))
    scenario, queue = (part if isinstance(part, dict) else {} for part in (record.get("scenario"), record.get("queue")))
    status = str(record.get("status") or "")
    if judged := verdict.get("verdict") in _VERDICTS:
        problem = "judged by an earlier version"
    elif name == "run.json":
        problem = (
            "not judged: it is running, or was killed"
            if status == "running"
            else f"not judged: {status or 'its end is not known'}"
        )
    else:
        problem = f"without a result here: {status or 'its end is not known'}"
    entry = IndexEntry(
        kind=_RECORDS[name],
        scenario=str(scenario.get("name") or ""),
        variant=str(scenario.get("variant") or ""),
        queue=str(queue.get("kind") or ""),
        verdict=verdict["verdict"] if judged else "unknown",
        outcome=str(verdict.get("reason") or record.get("reason") or ""),
    )
    return _Found(folder, entry, problem)


def _damaged(folder: Path, problem: str) -> _Found:
    return _Found(folder, IndexEntry(kind="damaged", verdict="unknown"), problem=f"cannot be read: {problem}")


def _describe(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _read_object(path: Path) -> dict[str, Any]:
    content = json.loads(_read_text(path))
    if not isinstance(content, dict):
        raise ValueError(f"{path.name}: is no object")  # noqa: TRY004 - as of a file with other content
    return content


def _read_text(path: Path) -> str:
    """Return the text of a regular file of a usual size; raises `OSError` or `ValueError`. A pipe would be waited for without end."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path.name}: is no file")
        if found.st_size > _MOST_BYTES:
            raise ValueError(f"{path.name}: has {found.st_size:,} bytes, expected at most {_MOST_BYTES:,}")
        return file.read(_MOST_BYTES).decode()


def _render(found: Sequence[_Found]) -> str:
    return open_template("index.html.j2", autoescape=True).render(
        rows=[_make_row(one) for one in found],
        trends=list(_list_trends(found)),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        width=_WIDTH,
        height=_HEIGHT,
        trend_width=_TREND_WIDTH,
        trend_height=_TREND_HEIGHT,
    )


def _make_row(found: _Found) -> IndexRow:
    entry = found.entry
    return IndexRow(
        folder=found.folder.name,
        address=_find_address(found.folder),
        began=_format_began(found),
        kind=entry.kind,
        scenario=_name_scenario(entry),
        queue=entry.queue,
        verdict="" if found.problem and entry.verdict == "unknown" else entry.verdict,
        verdict_name=entry.verdict_name,
        effect=entry.effect,
        outcome=entry.outcome,
        problem=found.problem,
        curve=_draw(entry),
    )


def _find_address(folder: Path) -> str:
    """Return the address of the page in a folder: with ``./``, so that no name can be read as the scheme of an address."""
    return f"./{quote(folder.name)}/report.html" if (folder / "report.html").is_file() else ""


def _format_began(found: _Found) -> str:
    if found.entry.began_ns is not None:
        return datetime.fromtimestamp(found.entry.began_ns / NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M")
    stamp = _NAMED_BY_TIME.match(found.folder.name)
    return "{}-{}-{} {}:{}".format(*stamp.groups()) if stamp else ""


def _name_scenario(entry: IndexEntry) -> str:
    return f"{entry.scenario}, variant {entry.variant}" if entry.variant else entry.scenario


def _draw(entry: IndexEntry) -> Curve | None:
    """Return the latency over the run, on an axis of its own that is logarithmic; none if it has no value."""
    values = [value for value in entry.curve_ms if value is not None]
    if not values:
        return None
    place = _Axis(values, _HEIGHT)
    step = _WIDTH / len(entry.curve_ms)
    points = [None if value is None else f"{(at + 0.5) * step:.1f},{place(value):.1f}" for at, value in enumerate(entry.curve_ms)]
    lines = [" ".join(point for point in points[begin:end] if point) for begin, end in _find_parts(points)]
    bands = [(from_ * _WIDTH, max(1.0, (to - from_) * _WIDTH)) for from_, to in entry.disturbed if 0 <= from_ <= to <= 1]
    return Curve(lines=lines, bands=bands, about=f"{format_ms(min(values))} to {format_ms(max(values))}")


def _find_parts(points: Sequence[str | None]) -> Iterator[tuple[int, int]]:
    """Yield where each part without a gap begins and ends."""
    begin = None
    for at, point in enumerate([*points, None]):
        if point is not None and begin is None:
            begin = at
        elif point is None and begin is not None:
            yield begin, at
            begin = None


class _Axis:
    """A vertical axis, logarithmic, with a margin for the width of the line."""

    def __init__(self, values: Sequence[float], height: float) -> None:
        """Let the axis reach from the least to the greatest of ``values``, in ms, and over a decade at least, with them in its middle."""
        low, high = max(_LEAST_MS, min(values)), max(_LEAST_MS, *values)
        margin = max(1.0, math.sqrt(10 * low / high))
        self.low, self.high = low / margin, high * margin
        self._height = height

    def __call__(self, value: float) -> float:
        """Return how far below the top a value is drawn."""
        share = math.log(max(self.low, value) / self.low) / math.log(self.high / self.low)
        return self._height - 3 - share * (self._height - 6)


def _list_trends(found: Sequence[_Found]) -> Iterator[Trend]:
    """Yield the trend of each scenario, variant and queue that was run more than once and disturbed its queue, in the order of the newest run."""
    groups: dict[tuple[str, str], list[_Found]] = {}
    for one in found:
        if one.entry.latency_ms is not None and one.entry.kind == "run":
            groups.setdefault((_name_scenario(one.entry), one.entry.queue), []).append(one)
    for (scenario, queue), newest_first in groups.items():
        if len(newest_first) > 1:
            yield _make_trend(scenario, queue, newest_first[::-1])


def _make_trend(scenario: str, queue: str, runs: Sequence[_Found]) -> Trend:
    values = [one.entry.latency_ms or 0.0 for one in runs]
    axis = _Axis(values, _TREND_HEIGHT)
    step = (_TREND_WIDTH - 12) / (len(runs) - 1)
    points = [
        TrendPoint(
            x=6 + at * step,
            y=axis(value),
            effect=one.entry.effect,
            address=_find_address(one.folder),
            about=f"{_format_began(one)}: {format_ms(value)}, {one.entry.effect}",
        )
        for at, (one, value) in enumerate(zip(runs, values, strict=True))
    ]
    return Trend(
        scenario=scenario,
        queue=queue,
        runs=len(runs),
        points=points,
        line=" ".join(f"{point.x:.1f},{point.y:.1f}" for point in points),
        first=format_ms(values[0]),
        last=format_ms(values[-1]),
        low=format_ms(axis.low),
        high=format_ms(axis.high),
        last_effect=runs[-1].entry.effect,
    )
