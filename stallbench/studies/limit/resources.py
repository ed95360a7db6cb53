"""How much of each resource a run used, and which one was exhausted first.

A resource is exhausted when its use reaches its threshold. The first is the one that was exhausted at the lowest rate. If nothing was measured, or
if no use reaches its threshold, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stallbench.engines import ENGINES
from stallbench.engines.error_codes import TOO_MANY_CONNECTIONS
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.verdicts.check import RunTables
from stallbench.verdicts.host import read_own_share, read_samples_in

UNKNOWN = "unknown"
_MOST_CPU = 0.9
_MOST_CONNECTIONS = 0.95
_MOST_OF_WORKERS = 0.5
"""Share of the workers' time that one activity takes."""
_MOST_OF_SESSIONS = 0.5
"""Share of the sessions of workers and producers, on average over the phase."""
_WAL_WAITS = "wal"
"""How the wait events of the write-ahead log begin, in small letters: WALSync, and WalSync from PostgreSQL 17 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much of one resource was used."""

    resource: str
    share: float
    """0 to 1; above 1 if connections were refused."""
    threshold: float
    description: str

    @property
    def is_exhausted(self) -> bool:
        """Whether the use has reached its threshold."""
        return self.share >= self.threshold


def find_uses(run: RunTables, phase: str) -> Iterator[Use]:
    """Yield the use of each resource that was measured in ``phase``. Of two resources of equal rank, the earlier one is named."""
    yield from _find_connections(run, phase)
    yield from _find_wal(run, phase)
    yield from _find_workers(run, phase)
    cpu = run.metric("cpu_percent", "mean", phase)
    if cpu is not None:
        own = read_own_share(run, phase)
        by_run = "" if own is None else f", {own:.0%} by this run"
        yield Use(resource="CPU", share=cpu / 100, threshold=_MOST_CPU, description=f"{cpu / 100:.0%} of all cores{by_run}")


def find_first_exhausted(probes: Sequence[tuple[float, Sequence[Use]]]) -> str:
    """Return the resource that was exhausted at the lowest rate of ``probes``, or `UNKNOWN`."""
    for _, uses in sorted(probes, key=lambda probe: probe[0]):
        for use in uses:
            if use.is_exhausted:
                return use.resource
    return UNKNOWN


def _find_connections(run: RunTables, phase: str) -> Iterator[Use]:
    errors = run["errors"]
    refused = int(errors.loc[(errors["phase"] == phase) & errors["kind"].isin(TOO_MANY_CONNECTIONS), "count"].sum())
    primary = next(server for server in run.record.servers if server.role == "primary")
    traits = next((traits for engine, traits in ENGINES.items() if engine == primary.engine), None)
    limit = traits.connection_limit if traits else None
    most = run.metric("connections", "max", phase)
    if refused:
        yield Use(resource="connections", share=1.0, threshold=1.0, description=f"{refused} connections were refused")
    elif most is not None and limit is not None:
        allowed = int(primary.settings.get(limit[0], limit[1]))
        yield Use(
            resource="connections",
            share=most / allowed,
            threshold=_MOST_CONNECTIONS,
            description=f"{most:.0f} of {allowed} connections",
        )


def _find_wal(run: RunTables, phase: str) -> Iterator[Use]:
    """Yield how many of the workers' and producers' sessions wait for the log on average. There is no sample of moments without an active session."""
    scenario, seconds = run.record.scenario, _read_length_s(run, phase)
    waits = read_samples_in(run, "waits", phase)
    backends = waits.loc[waits["source"] == "primary"]
    sessions = scenario.workers.count + scenario.producers.count
    if seconds is None or backends.empty:
        return
    events = backends["subject"].str.removeprefix("wait:").str.partition(":")[2]
    moments = max(seconds / scenario.collectors.interval_s, 1.0)
    waiting = float(backends.loc[events.str.lower().str.startswith(_WAL_WAITS), "number"].sum() / moments)
    yield Use(
        resource="WAL",
        share=waiting / sessions,
        threshold=_MOST_OF_SESSIONS,
        description=f"{waiting:.1f} of {sessions} sessions wait for it on average",
    )


def _find_workers(run: RunTables, phase: str) -> Iterator[Use]:
    """Yield the shares of the workers' time that claims and the work of jobs take."""
    workers, seconds = run.record.scenario.workers, _read_length_s(run, phase)
    if not workers.count or seconds is None:
        return
    available_s = workers.count * seconds
    if (claims := _find_claims(run, phase, available_s)) is not None:
        yield claims
    completed, concurrency = run.metric("completed", "count", phase), _read_concurrency(run)
    if completed is not None and concurrency is not None:
        share = workers.work_s * completed / (available_s * concurrency)
        yield Use(
            resource="workers",
            share=share,
            threshold=_MOST_OF_WORKERS,
            description=f"the work of the jobs takes {share:.0%} of the workers' time",
        )


def _find_claims(run: RunTables, phase: str, available_s: float) -> Use | None:
    """Return the share of the workers' time that claims take; of a library, whose calls are not measured, the time of its statements on the server."""
    mean_ms = run.metric("claim_call_ms", "mean", phase)
    if mean_ms is not None:
        share = mean_ms / 1e3 * run.count_behind("claim_call_ms", "mean", phase) / available_s
        description = f"claims take {share:.0%} of the workers' time, {mean_ms:.3g} ms each"
        return Use(resource="claim statement", share=share, threshold=_MOST_OF_WORKERS, description=description)
    total_ms, each_ms = run.metric("claim_statement_ms", "count", phase), run.metric("claim_statement_ms", "mean", phase)
    if run.record.queue.library is None or total_ms is None or each_ms is None:
        return None
    share = total_ms / 1e3 / available_s
    description = f"the server executes claim statements for {share:.0%} of the worker processes' time, {each_ms:.3g} ms each"
    return Use(resource="claim statement", share=share, threshold=_MOST_OF_WORKERS, description=description)


def _read_concurrency(run: RunTables) -> float | None:
    """Return how many jobs a worker process executes at the same time; none if that has no limit."""
    library = run.record.queue.library
    concurrency = library.settings.get("concurrency", 1) if library else 1
    return None if isinstance(concurrency, str) else float(concurrency)


def _read_length_s(run: RunTables, phase: str) -> float | None:
    found = next((each for each in run.record.phases if each.name == phase), None)
    return None if found is None or not found.start_ns or not found.end_ns else (found.end_ns - found.start_ns) / NS_PER_S
