"""The tables in docs/libraries.md of comparisons in which an idle transaction holds the horizon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from stallbench.comparison.formatting import NOT_RUN
from stallbench.comparison.library_page import Footnotes, format_heading, read_cells
from stallbench.comparison.library_run import BASELINE, LibraryRun
from stallbench.comparison.library_settings import AllowedChanges
from stallbench.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord
from stallbench.comparison.report import format_command
from stallbench.comparison.subject import TIME_TO_SATURATION
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines.traits import Engine
from stallbench.libraries import find_libraries
from stallbench.run.folder import COMPARISON
from stallbench.scenario.overlay import parse_changes
from stallbench.verdicts.expectations import format_value

HELD = "longtx"
"""The phase in which the horizon is held."""
JOBS = {f"phases.{HELD}.jobs": 10_000}
"""How long the phase lasts, as the page states: how much a library degrades depends on it."""
JOBS_ON_MARIADB = {f"phases.{HELD}.jobs": 6_000}
"""As the page states. With this number and with `JOBS`, the phase lasted its minimum of a minute for each library that runs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTable:
    """One of the tables: which comparisons it shows."""

    name: str
    """Of its markers."""
    scenario: str
    at_own_capacity: bool
    """Whether each library has a share of its own capacity, or all have the same load."""
    allowed: AllowedChanges
    engine: Engine = "postgres"
    """Of the scenario."""

    @property
    def columns(self) -> tuple[Figure | CostOfOldVersions, ...]:
        """The figures that it shows of each library."""
        return COLUMNS[self.engine]

    def find_comparisons(self, runs: Path) -> tuple[list[ComparisonRecord], list[str]]:
        """Return the comparisons that it shows, the oldest first, and a message for each that may not be shown.

        One that was interrupted counts with its completed runs.
        """
        found, messages = [], []
        for path in sorted(runs.glob(f"*/{COMPARISON}")):
            record = ComparisonFolder(path.parent).read()
            scenario = record.scenario
            has_libraries = any(name.startswith(LIBRARY_PREFIX) for name in record.names)
            if scenario.name != self.scenario or record.status == "running" or not has_libraries:
                continue
            if _is_at_own_capacity(record) != self.at_own_capacity:
                continue
            if issue := self.allowed.find_issue(scenario.name, scenario.file, scenario.variant, scenario.changes):
                messages.append(f"{record.id} is left out: {issue}")
            else:
                found.append(record)
        return found, messages


_UNTIL = {f"phases.{HELD}.until": "duration"}
HELD_TABLES = (
    HeldTable(name="longtx", scenario="longtx", at_own_capacity=True, allowed=AllowedChanges(stated=JOBS, harmless=_UNTIL)),
    HeldTable(
        name="longtx-common", scenario="longtx", at_own_capacity=False, allowed=AllowedChanges(stated=JOBS, harmless=_UNTIL)
    ),
    HeldTable(name="longtx-replica", scenario="longtx-replica", at_own_capacity=True, allowed=AllowedChanges(stated=JOBS)),
    HeldTable(
        name="longtx-innodb",
        scenario="longtx-innodb",
        at_own_capacity=True,
        allowed=AllowedChanges(stated=JOBS_ON_MARIADB),
        engine="mariadb",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a run: from a metric in the baseline, and while the horizon is held."""

    title: str
    metric: str
    in_baseline: bool = True
    while_held: bool = True
    includes_enqueueing: bool = False
    """Whether the time from when a job is due until it is enqueued is part of it."""

    def describe(self, runs: Sequence[LibraryRun]) -> str:
        """Return the median of the runs, in one phase or two."""
        phases = [BASELINE] * self.in_baseline + [HELD] * self.while_held
        cell = " → ".join(_median([run.metric(self.metric, phase) for run in runs]) or "?" for phase in phases)
        is_late = self.includes_enqueueing and any(run.has_late_producer() for run in runs)
        return f"{cell} †" if is_late else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOfOldVersions:
    """How much a metric of the claim statement rose for each thousand by which the mean of old row versions rose while the horizon was held."""

    title: str
    metric: str
    old_versions: str = "dead_tuples"
    """Their measure."""
    times: float = 1

    def describe(self, runs: Sequence[LibraryRun]) -> str:
        """Return the median of the runs; empty if it was not measured, or if there were no more old row versions than before."""
        return _median([self._of(run) for run in runs])

    def _of(self, run: LibraryRun) -> float | None:
        rise = _rise(run, self.metric)
        old_versions = _rise(run, f"{self.old_versions}.mean")
        return (
            1000 * self.times * rise / old_versions
            if rise is not None and old_versions is not None and old_versions > 0
            else None
        )


_US_PER_MS = 1000
_TIMES = (
    Figure(title="pickup p95, ms", metric="pickup_ms.p95", includes_enqueueing=True),
    Figure(title="latency p95, ms", metric="latency_ms.p95", includes_enqueueing=True),
    Figure(title="claim statement, ms", metric="claim_statement_ms.mean"),
)
_CONNECTIONS = Figure(title="connections", metric="connections.max", while_held=False)
COLUMNS: Mapping[Engine, tuple[Figure | CostOfOldVersions, ...]] = {
    "postgres": (
        *_TIMES,
        Figure(title="buffers per claim", metric="claim_statement_buffers.per_call"),
        Figure(title="dead tuples per job", metric="dead_tuples.per_job", in_baseline=False),
        CostOfOldVersions(title="buffers per claim and 1,000 dead tuples", metric="claim_statement_buffers.per_call"),
        CostOfOldVersions(title="µs per claim and 1,000 dead tuples", metric="claim_statement_ms.mean", times=_US_PER_MS),
        Figure(title="WAL per job, bytes", metric="wal_bytes.per_job", while_held=False),
        _CONNECTIONS,
    ),
    "mariadb": (
        *_TIMES,
        Figure(title="history list length per job", metric="history_list_length.per_job", in_baseline=False),
        CostOfOldVersions(
            title="µs per claim and 1,000 of history list length",
            metric="claim_statement_ms.mean",
            old_versions="history_list_length",
            times=_US_PER_MS,
        ),
        _CONNECTIONS,
    ),
}
CAPACITY = "capacity, jobs/s"
LOAD = "load, jobs/s"
SATURATION = "time to saturation"
_FROM = "from"


def make_held_table(table: HeldTable, comparisons: Sequence[ComparisonRecord], runs: Path, section: str) -> Iterator[str]:
    """Yield the lines of a table: of each library the newest of ``comparisons`` that includes it, or the row that ``section`` has.

    A library that does not run on the table's engine, or that the newest comparison left out, has a row with the reason.
    """
    load = [] if table.at_own_capacity else [LOAD]
    titles = ["library", CAPACITY, *load, *(column.title for column in table.columns), SATURATION, _FROM]
    yield from format_heading(titles)
    footnotes = Footnotes(section)
    kept = read_cells(section)
    for name, library in find_libraries().items():
        title = library.title_and_version
        of_it = [(record, carried_out) for record in comparisons if (carried_out := _carried_out(record, name))]
        if table.engine not in library.engines:
            yield _format_reason(titles, title, library.describe_lack_of(table.engine))
        elif of_it:
            record, carried_out = of_it[-1]
            of_runs = [LibraryRun(runs / run.folder) for run in carried_out if run.folder]
            cells = [*_describe_load(record, carried_out, of_runs)[: 1 + len(load)]]
            cells += [column.describe(of_runs) for column in table.columns]
            cells.append(_describe_saturation(record, carried_out, of_runs))
            origin = footnotes.refer_to(_describe(record, len(carried_out)))
            yield f"| {title} | {' | '.join(cells)} | {origin} |"
        elif before := kept.get(title):
            cells = [before.get(column, "") for column in titles[1:-1]]
            yield f"| {title} | {' | '.join(cells)} | {footnotes.keep(before[_FROM])} |"
        elif comparisons and (reason := comparisons[-1].left_out.get(LIBRARY_PREFIX + name)):
            origin = footnotes.refer_to(_describe(comparisons[-1], comparisons[-1].rounds))
            yield _format_reason(titles, title, f"{NOT_RUN}: {reason}", origin)
    if not footnotes:
        yield from ("", "There is no comparison yet.")
    yield from footnotes.lines()


def _format_reason(titles: Sequence[str], title: str, reason: str, origin: int | str = "") -> str:
    empty = [""] * (len(titles) - 3)
    return f"| {' | '.join([title, reason, *empty, str(origin)])} |"


def _is_at_own_capacity(record: ComparisonRecord) -> bool:
    """Whether each library had a share of its own capacity; a given rate is the same for all."""
    changed, _ = parse_changes(record.scenario.changes)
    return record.load == "own" and "rate" not in changed.get("producers", {})


def _carried_out(record: ComparisonRecord, name: str) -> list[ComparedRun]:
    return [run for run in record.runs if run.variant == LIBRARY_PREFIX + name and run.status == "completed" and run.folder]


def _describe_load(record: ComparisonRecord, carried_out: Sequence[ComparedRun], runs: Sequence[LibraryRun]) -> tuple[str, str]:
    capacity = next((each.capacity for each in record.variants if each.name == carried_out[0].variant), None)
    rates = [run.tables.record.scenario.producers.rate for run in runs]
    return "" if capacity is None else format_value(capacity), _median(rates)


def _describe_saturation(record: ComparisonRecord, carried_out: Sequence[ComparedRun], runs: Sequence[LibraryRun]) -> str:
    key = next((subject.key for subject in record.subjects if subject.metric == TIME_TO_SATURATION), "")
    known = [value for run in carried_out if (value := run.values.get(key)) is not None]
    if not known:
        return ""
    longest_s = max(phase.planned_duration_s for run in runs for phase in run.tables.record.phases if phase.name == HELD)
    return f"{median(known):.0f} s" if median(known) < longest_s - 1 else f"not in {longest_s:.0f} s"


def _describe(record: ComparisonRecord, rounds: int) -> str:
    return f"{record.id.partition('-')[0]}: {rounds} {'round' if rounds == 1 else 'rounds'} of `{format_command(record)}`"


def _rise(run: LibraryRun, metric: str) -> float | None:
    before, held = run.metric(metric, BASELINE), run.metric(metric, HELD)
    return held - before if before is not None and held is not None else None


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return format_value(median(known)) if known else ""
