"""Writes the tables in docs/libraries.md: what runs of published libraries showed, from the runs on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from stallbench import PROJECT
from stallbench.comparison.library_run import LibraryRun
from stallbench.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord
from stallbench.comparison.subject import TIME_TO_SATURATION
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError
from stallbench.libraries import Library, find_libraries
from stallbench.libraries.definition import Rescue
from stallbench.run.folder import COMPARISON
from stallbench.scenario.duration import format_duration
from stallbench.storage.atomic_file import replace_file
from stallbench.verdicts.expectations import format_value

PAGE = PROJECT / "docs" / "libraries.md"
README = PROJECT / "README.md"
"""Shows a few columns of the first table."""
HELD = "longtx"
"""The scenario of the first table, and the phase in which the horizon is held."""
BASELINE = "baseline"
FAULTS = ("worker-crash", "rolling-deploy", "server-crash", "failover", "network-partition", "pgbouncer", "stuck-listener")
"""The scenarios of the table of faults."""
_IN_README = ("capacity, jobs/s", "latency p95, ms", "buffers per claim", "time to saturation")
"""The columns of the first table that the README shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure of the first table: from a metric in the baseline, and while the horizon is held."""

    title: str
    metric: str
    in_baseline: bool = True
    while_held: bool = True
    includes_enqueueing: bool = False
    """Whether the time from when a job is due until it is enqueued is part of it."""


COLUMNS = (
    Column(title="pickup p95, ms", metric="pickup_ms.p95", includes_enqueueing=True),
    Column(title="latency p95, ms", metric="latency_ms.p95", includes_enqueueing=True),
    Column(title="claim statement, ms", metric="claim_statement_ms.mean"),
    Column(title="buffers per claim", metric="claim_statement_buffers.per_call"),
    Column(title="dead tuples per job", metric="dead_tuples.per_job", in_baseline=False),
    Column(title="WAL per job, bytes", metric="wal_bytes.per_job", while_held=False),
    Column(title="connections", metric="connections.max", while_held=False),
)


def write_tables(runs: Path, page: Path = PAGE, readme: Path = README) -> list[str]:
    """Replace the tables of ``page`` by what the runs below ``runs`` show, and that of ``readme``; returns a message for each table.

    The first table is of comparisons of `HELD`; for each library the newest one that includes it. A cell of the table of faults is of the
    newest run of its scenario without changes but the queue's. A row or cell that no run on disk has keeps what the page says.

    Raises `BadInputError` if there is no run of a library at all, or if a page has no markers for a table.
    """
    text, short = page.read_text(), readme.read_text()
    comparisons = _read_comparisons(runs)
    found = _find_fault_runs(runs)
    if not comparisons and not found:
        raise BadInputError(f"{runs}: has no run of a library; try: stallbench compare {HELD} --libraries all")
    text = _replace(text, HELD, _held_table(comparisons, runs, _section(text, HELD, page)))
    text = _replace(text, "faults", _fault_table(found, _section(text, "faults", page)))
    text = _replace(text, "rescue", _rescue_table(find_libraries().values()))
    text = _replace(text, "settings", _settings_table(find_libraries().values()))
    _section(short, "libraries", readme)
    short = _replace(short, "libraries", _readme_table(_rows(_section(text, HELD, page))))
    replace_file(page, text)
    replace_file(readme, short)
    return [
        f"{HELD}: from {', '.join(record.id for record in comparisons) or 'no comparison'}",
        f"faults: {len(found)} runs",
    ]


def _read_comparisons(runs: Path) -> list[ComparisonRecord]:
    """Return the comparisons of `HELD` that have a library, the oldest first; one that was interrupted counts with its completed runs."""
    records = [ComparisonFolder(path.parent).read() for path in sorted(runs.glob(f"*/{COMPARISON}"))]
    return [
        record
        for record in records
        if record.scenario.name == HELD
        and record.status != "running"
        and any(name.startswith(LIBRARY_PREFIX) for name in record.names)
    ]


def _find_fault_runs(runs: Path) -> dict[tuple[str, str], LibraryRun]:
    """Return the newest run of each library in each scenario of `FAULTS`, by both names: completed, or ended because no worker was left."""
    found = {}
    for path in sorted(runs.glob("*/run.json")):
        run = LibraryRun(path.parent)
        if not run.name:
            continue
        record = run.tables.record
        is_over = run.has_tables() if record.status == "completed" else run.has_lost_its_workers()
        if is_over and record.scenario.name in FAULTS and not record.scenario.variant:
            found[run.name, record.scenario.name] = run
    return found


def _held_table(comparisons: Sequence[ComparisonRecord], runs: Path, section: str) -> Iterator[str]:
    titles = [column.title for column in COLUMNS]
    yield f"| library | capacity, jobs/s | {' | '.join(titles)} | time to saturation | from |"
    yield f"|---|---|{'---|' * len(COLUMNS)}---|---|"
    footnotes = _Footnotes(section)
    for name, library in find_libraries().items():
        of_it = [(record, carried_out) for record in comparisons if (carried_out := _carried_out(record, name))]
        if of_it:
            record, carried_out = of_it[-1]
            cells = _held_cells(record, carried_out, runs)
            origin = footnotes.refer_to(_describe(record, len(carried_out)))
            yield f"| {library.title_and_version} | {' | '.join(cells)} | {origin} |"
        elif kept := re.search(rf"^\| {re.escape(library.title_and_version)} \|.*\| (\d+) \|$", section, re.MULTILINE):
            yield f"{kept[0].rpartition(' | ')[0]} | {footnotes.keep(int(kept[1]))} |"
    yield from footnotes.lines()


def _held_cells(record: ComparisonRecord, carried_out: Sequence[ComparedRun], runs: Path) -> Iterator[str]:
    of_runs = [LibraryRun(runs / run.folder) for run in carried_out if run.folder]
    capacity = next((each.capacity for each in record.variants if each.name == carried_out[0].variant), None)
    yield "" if capacity is None else format_value(capacity)
    for column in COLUMNS:
        phases = [BASELINE] * column.in_baseline + [HELD] * column.while_held
        cell = " → ".join(_median([run.metric(column.metric, phase) for run in of_runs]) for phase in phases)
        is_late = column.includes_enqueueing and any(run.has_late_producer() for run in of_runs)
        yield f"{cell} †" if is_late else cell
    saturation = next((subject.key for subject in record.subjects if subject.metric == TIME_TO_SATURATION), "")
    values = [run.values.get(saturation) for run in carried_out]
    longest_s = max(phase.planned_duration_s for run in of_runs for phase in run.tables.record.phases if phase.name == HELD)
    known = [value for value in values if value is not None]
    yield "" if not known else (f"{median(known):.0f} s" if median(known) < longest_s - 1 else f"not in {longest_s:.0f} s")


def _readme_table(held: Sequence[Sequence[str]]) -> Iterator[str]:
    """Choose from the rows of the first table, of which the first has the titles."""
    titles, *rows = held
    numbers = [titles.index(title) for title in _IN_README]
    after = {library.title_and_version: _format_rescue(library.rescue) for library in find_libraries().values()}
    yield f"| library | {' | '.join(_IN_README)} | a dead worker's job is re-executed |"
    yield f"|---|{'---|' * len(numbers)}---|"
    for row in rows:
        yield f"| {row[0]} | {' | '.join(row[number] for number in numbers)} | {after[row[0]]} |"


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return format_value(median(known)) if known else "?"


def _carried_out(record: ComparisonRecord, name: str) -> list[ComparedRun]:
    return [run for run in record.runs if run.variant == LIBRARY_PREFIX + name and run.status == "completed" and run.folder]


def _describe(record: ComparisonRecord, rounds: int) -> str:
    load = "; ".join(record.scenario.measured) or "each at its share of its own capacity"
    return f"`{record.id}`: {rounds} {'round' if rounds == 1 else 'rounds'}, {load}"


def _fault_table(found: Mapping[tuple[str, str], LibraryRun], section: str) -> Iterator[str]:
    yield f"| library | {' | '.join(f'`{scenario}`' for scenario in FAULTS)} |"
    yield f"|---|{'---|' * len(FAULTS)}"
    footnotes = _Footnotes(section)
    kept = {row[0]: row[1:] for row in _rows(section)}
    for name, library in find_libraries().items():
        title = f"{library.title_and_version}"
        cells = []
        for number, scenario in enumerate(FAULTS):
            if run := found.get((name, scenario)):
                verdict = run.describe_outcome()
                cells.append(f"{verdict} ({footnotes.refer_to(f'`{run.tables.record.id}`')})")
            else:
                before = kept.get(title, [])[number : number + 1]
                cells.append(footnotes.keep_cell(before[0]) if before else "")
        if any(cells):
            yield f"| {title} | {' | '.join(cells)} |"
    yield from footnotes.lines()


def _rescue_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield "| library | when the job of a dead worker is re-executed, at the defaults | by what |"
    yield "|---|---|---|"
    for library in libraries:
        yield f"| {library.title_and_version} | {_format_rescue(library.rescue)} | {library.rescue.what} |"


def _format_rescue(rescue: Rescue) -> str:
    if not rescue.by_default:
        return "never"
    if rescue.marks_failed:
        return f"never; failed after {format_duration(rescue.after_s or 0)}"
    return f"after {format_duration(rescue.after_s)}" if rescue.after_s else "at once"


def _settings_table(libraries: Iterable[Library]) -> Iterator[str]:
    yield "| library | language | how it claims | settings |"
    yield "|---|---|---|---|"
    for library in libraries:
        settings = ", ".join(f"`{name}` {json.dumps(option.default)}" for name, option in library.options.items())
        yield f"| {library.title_and_version} | {library.language} | {library.summary} | {settings} |"


class _Footnotes:
    """Numbers the sources of a table's cells, those that are kept from the page included."""

    def __init__(self, section: str) -> None:
        self._before = dict(re.findall(r"^(\d+)\. (.+)$", section, re.MULTILINE))
        self._texts: list[str] = []

    def refer_to(self, text: str) -> int:
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text) + 1

    def keep(self, number: int) -> int:
        return self.refer_to(self._before.get(str(number), "?"))

    def keep_cell(self, cell: str) -> str:
        return re.sub(r"\((\d+)\)$", lambda found: f"({self.keep(int(found[1]))})", cell)

    def lines(self) -> Iterator[str]:
        yield ""
        for number, text in enumerate(self._texts, 1):
            yield f"{number}. {text}"


def _rows(section: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| ")]


def _markers(table: str) -> tuple[str, str]:
    return f"<!-- {table}: begin -->\n", f"<!-- {table}: end -->"


def _section(text: str, table: str, page: Path) -> str:
    begin, end = _markers(table)
    if begin not in text or end not in text:
        raise BadInputError(f"{page}: has no markers for the table {table}; add the lines {begin.strip()} and {end}")
    return text.partition(begin)[2].partition(end)[0]


def _replace(text: str, table: str, lines: Iterator[str]) -> str:
    begin, end = _markers(table)
    before, _, rest = text.partition(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]
