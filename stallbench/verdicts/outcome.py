"""What happened to the queue: the same scale for every queue, library and application, computed from the run alone.

Effect, recovery, safety and workers, each with the definition in numbers that docs/outcome.md gives and docs/decisions/0028 explains.
Every bound is a ratio to the first measured phase of the same run. What the data cannot decide is ``unknown``, with the reason. This module has
facts only; `stallbench.report.outcome_text` makes sentences of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from stallbench.pipeline.large_tables import field
from stallbench.records.job_ids import describe_job
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import PhaseRecord, RunRecord
from stallbench.verdicts.processes import OF_THE_QUEUE, exited_unexpectedly

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

SLOWER = 3.0
"""Latency (p95) has to be so many times that of the baseline. In equal phases of one run on a busy machine it differed by up to 2.5 times."""
NOTICED_MS = 50.0
"""And longer by at least this. A process of a busy machine waits so long for a CPU, and nobody who waits for a job notices less."""
STOPPED_S = 3
"""Whole seconds in a row without a completion although jobs waited. A shorter pause is a slow job, a reconnection or a checkpoint."""
LONGER_STALL = 3.0
"""And so many times the longest such pause of the baseline, which a worker that polls every few seconds has without any fault."""
BACKLOG_S = 1.0
"""A queue is behind while more jobs wait than it completes in so many seconds, as in the definition of saturation."""
DEEPER = 2.0
"""And more than so many times the greatest depth of the baseline, which a worker that polls every few seconds has without any fault."""
FEWEST_JOBS = 20
"""With fewer completions a p95 is the slowest job, and one job would decide."""
NORMAL_S = 5
"""The queue is back to normal when so many seconds in a row are normal, as a phase that lasts until it has caught up."""
_NORMAL_OF_THEM = 4
"""Of these seconds, the first and so many in total: one slow second is one of a busy machine."""
_FEWEST_SECONDS = 3
"""Of fewer seconds after the fault nothing can be said."""
AT_ONCE_S = 2.0
"""The resolution: the rest of the second in which the fault ended, and one more."""
_HELP_S = 10.0
"""A queue needs help only if it had this long to complete a job by itself."""
_THIRDS = 3
_SHOWN = 20

Effect = Literal["unaffected", "slower", "falling behind", "stopped", "unknown"]
EFFECTS: tuple[Effect, ...] = ("unaffected", "unknown", "slower", "falling behind", "stopped")
"""The worst last. What is not known is worse than no effect, and better than a known one."""
RecoveryKind = Literal["not applicable", "at once", "after", "unknown", "not in", "needs help"]
RECOVERIES: tuple[RecoveryKind, ...] = ("not applicable", "at once", "unknown", "after", "not in", "needs help")
"""The worst last. ``after`` and ``not in``: so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """When the queue was back to normal, counted from the end of the last fault or longrunner of the phase."""

    kind: RecoveryKind
    seconds: float | None = None
    """Of ``at once`` and ``after``: until it was; of ``not in`` and ``needs help``: for how long the run went on."""
    in_next_phase: bool | None = None
    """Whether it was before the end of the phase that follows; none if that is unknown."""
    because: str = ""
    """Why it is unknown, or needs help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherQueries:
    """What the rest of an application felt: the time of the bystander's queries (p95), and how often one failed."""

    before_ms: float | None
    """In the baseline; none if there is none, or no query was due in it."""
    meanwhile_ms: float
    """In the phase with the fault or longrunner."""
    after_ms: float | None
    """In the phase that follows; none if that is not measured, or has a fault or longrunner, too."""
    failed: int
    """Attempts in the phase with the fault or longrunner. Each query is sent again until it is answered."""


_NO_WORKER_LEFT = Recovery(kind="needs help", in_next_phase=False, because="no worker was left")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOutcome:
    """What happened in a phase with a fault or longrunner, and after it."""

    phase: str
    baseline: str
    """The phase that it is compared with; empty if there is none."""
    injections: tuple[str, ...]
    """Names of the faults and longrunners."""
    from_s: float
    to_s: float
    """When the first of them was active and the last one was gone, in seconds since the first phase began."""
    effect: Effect
    because: str = ""
    """Why the effect is unknown."""
    stopped_s: int = 0
    """The longest time in which nothing was completed although jobs waited."""
    latency_before_ms: float | None = None
    latency_ms: float | None = None
    """The p95 of the baseline and of the phase."""
    waiting_before: int | None = None
    waiting: int | None = None
    """The greatest depth sampled in the baseline and in the phase."""
    recovery: Recovery
    other_queries: OtherQueries | None = None
    """None if no bystander queried the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """How many jobs, and the first ids of them."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """What became of jobs, by their ids."""

    lost: Jobs
    repeated: Jobs
    """Executed or completed more than once without a reason that the queue's promise allows, or kept in the queue after their completion."""
    re_executed: int
    """Jobs that were re-executed after a failure, which the queue's promise permits."""
    rescued: int
    """Of workers that had died: claimed again by another one."""
    rescued_within_s: float | None
    """The longest time from the death to that claim; none if there was none."""
    stranded: Jobs
    """Of workers that had died: not offered again when the queue should have done it."""
    starved: Jobs = Jobs()
    """Ready and never claimed, although workers were idle."""
    awaiting: Jobs
    """Of workers that had died: to be offered again only after the end of the run, as the queue declares. So this was not seen."""
    rescue_s: float | None
    """After how many seconds the queue declares to offer such a job again; none if it does not declare it."""
    given_up: int
    """Still in the queue, without an attempt left."""
    unknown: tuple[str, ...] = ()
    """Which of these are not known: ``lost``, ``repeated``, ``stranded``."""

    @property
    def is_broken(self) -> bool:
        """Whether a job is known to be lost, repeated, stranded or starved."""
        return bool(self.lost.count or self.repeated.count or self.stranded.count or self.starved.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to the queue in a run."""

    effect: Effect | None
    """The worst of all phases; none if no phase had a fault or longrunner."""
    recovery: RecoveryKind | None
    phases: tuple[PhaseOutcome, ...]
    safety: Safety
    exited: tuple[str, ...]
    """Workers and schedulers that exited unexpectedly."""
    gone: tuple[str, ...]
    """Those of them that nothing replaced."""
    left: int | None
    """Jobs that the queue still held when the workers had been stopped; none if that is unknown."""

    @property
    def worst(self) -> PhaseOutcome | None:
        """The phase in which the effect was the worst, then the recovery, then the latency; none if there is none."""
        return max(
            self.phases,
            key=lambda each: (EFFECTS.index(each.effect), RECOVERIES.index(each.recovery.kind), each.latency_ms or 0.0),
            default=None,
        )

    def as_json(self) -> dict[str, object]:
        """Return it for ``verdict.json``."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Normal:
    """What is normal in this run: the bounds that follow from its baseline."""

    phase: str
    latency_before_ms: float
    latency_ms: float
    depth_before: int | None
    depth: float
    stall_s: float
    silence_s: int
    """The longest time without a completion."""


def find_outcome(run: RunTables) -> Outcome:
    """Return what happened to the queue. Raises what the reading of a table raises."""
    phases = tuple(_find_phases(run))
    exited, gone = _find_exited(run.record)
    return Outcome(
        effect=max((each.effect for each in phases), key=EFFECTS.index, default=None),
        recovery=max((each.recovery.kind for each in phases), key=RECOVERIES.index, default=None),
        phases=phases,
        safety=_find_safety(run),
        exited=exited,
        gone=gone,
        left=None if _has_no_snapshot(run) else sum(run.state_count(state) for state in ("queued", "claimed")),
    )


def _has_no_snapshot(run: RunTables) -> bool:
    """Whether it is not known what the queue held at the end."""
    return run["conservation"].empty or bool(run.state_count("unknown"))


def _find_phases(run: RunTables) -> list[PhaseOutcome]:
    injected = run["injections"]
    injected = injected[injected["category"].isin(("fault", "longrunner")) & injected["from_s"].notna()]
    begun = run.record.started_phases
    disturbed = [phase for phase in begun if (injected["phase"] == phase.name).any()]
    measured = run.record.measured_phases
    if not disturbed:
        return []
    normal: _Normal | str
    if not measured or begun.index(measured[0]) >= begun.index(disturbed[0]):
        normal = "no phase without a fault was measured before"
    else:
        normal = _find_normal(run, measured[0].name)
    found = []
    for number, phase in enumerate(disturbed):
        of_phase = injected[injected["phase"] == phase.name]
        later = injected[injected["phase"].isin([each.name for each in disturbed[number + 1 :]])]
        to_s = float(of_phase["to_s"].max()) if of_phase["to_s"].notna().any() else math.inf
        until_s = float(later["from_s"].min()) if len(later) else _end_of(run.record, begun[-1])
        found.append(_judge_phase(run, phase, of_phase, normal, to_s=to_s, until_s=until_s))
    return found


def _judge_phase(
    run: RunTables, phase: PhaseRecord, injected: pd.DataFrame, normal: _Normal | str, *, to_s: float, until_s: float
) -> PhaseOutcome:
    """Return the outcome of a phase. ``normal``: the bounds, or why there are none. ``to_s``, ``until_s``: from when to when it could recover."""
    longest_s = run.metric("stalled_s", "longest", phase.name)
    depth = run.metric("depth", "max", phase.name)
    deserted_s, end_s = _find_deserted_s(run.record), _end_of(run.record, phase)
    effect: Effect = "unknown"
    if isinstance(normal, str):
        because, recovery, known = normal, Recovery(kind="unknown", because=normal), None
    else:
        effect, because = _find_effect(run, phase.name, normal)
        recovery, known = _find_recovery(run, phase, normal, to_s, until_s), normal
    if deserted_s <= end_s:
        effect, because = "stopped", ""
    if deserted_s <= to_s or (deserted_s <= until_s and recovery.kind in ("unknown", "not in")):
        recovery = _NO_WORKER_LEFT
    if effect == "unaffected" and recovery.kind in ("at once", "unknown"):
        recovery = Recovery(kind="not applicable", in_next_phase=True)
    return PhaseOutcome(
        phase=phase.name,
        baseline=known.phase if known else "",
        injections=tuple(str(name) for name in injected["name"]),
        from_s=float(injected["from_s"].min()),
        to_s=min(to_s, end_s),
        effect=effect,
        because=because,
        stopped_s=int(longest_s or 0),
        latency_before_ms=known.latency_before_ms if known else None,
        latency_ms=run.metric("latency_ms", "p95", phase.name),
        waiting_before=known.depth_before if known else None,
        waiting=None if depth is None else int(depth),
        recovery=recovery,
        other_queries=_find_other_queries(run, phase, known.phase if known else None),
    )


def _find_other_queries(run: RunTables, phase: PhaseRecord, baseline: str | None) -> OtherQueries | None:
    meanwhile_ms = run.metric("bystander_ms", "p95", phase.name)
    if meanwhile_ms is None:
        return None
    following = _phase_after(run.record, phase)
    is_quiet = following is not None and not (run["injections"]["phase"] == following.name).any()
    return OtherQueries(
        before_ms=run.metric("bystander_ms", "p95", baseline) if baseline else None,
        meanwhile_ms=meanwhile_ms,
        after_ms=run.metric("bystander_ms", "p95", following.name) if following is not None and is_quiet else None,
        failed=int(run.metric("bystander_errors", "count", phase.name) or 0),
    )


def _find_normal(run: RunTables, phase: str) -> _Normal | str:
    """Return the bounds that follow from the baseline, or why it gives none."""
    jobs = int(run.metric("completed", "count", phase) or 0)
    latency_ms, rate = run.metric("latency_ms", "p95", phase), run.metric("completed", "rate", phase)
    if jobs < FEWEST_JOBS or latency_ms is None or not rate:
        return f"only {jobs:,} jobs were completed in {phase}; {FEWEST_JOBS} are needed"
    seconds = _seconds_of(run, phase)
    depth = seconds["depth"].dropna() if "depth" in seconds else pd.Series(dtype=float)
    if len(depth) and depth.min() > rate * BACKLOG_S:
        return f"at least {depth.min():,.0f} jobs waited throughout {phase}, which hides what is added to their time"
    third = max(1, len(depth) // _THIRDS)
    if len(depth) >= _THIRDS and depth.iloc[-third:].mean() > max(rate * BACKLOG_S, 1.5 * depth.iloc[:third].mean()):
        return f"the queue did not keep up in {phase}"
    deepest = float(depth.max()) if len(depth) else 0.0
    return _Normal(
        phase=phase,
        latency_before_ms=latency_ms,
        latency_ms=max(SLOWER * latency_ms, latency_ms + NOTICED_MS),
        depth_before=int(deepest) if len(depth) else None,
        depth=max(DEEPER * deepest, rate * BACKLOG_S),
        stall_s=run.metric("stalled_s", "longest", phase) or 0.0,
        silence_s=int(_count_silent(seconds["completed"]).max()) if len(seconds) else 0,
    )


def _find_effect(run: RunTables, phase: str, normal: _Normal) -> tuple[Effect, str]:
    """Return the effect in ``phase``, and why it is unknown."""
    if (run.metric("stalled_s", "longest", phase) or 0.0) >= max(STOPPED_S, LONGER_STALL * normal.stall_s):
        return "stopped", ""
    seconds = _seconds_of(run, phase)
    completed, enqueued = (int(run.metric(name, "count", phase) or 0) for name in ("completed", "enqueued"))
    if _falls_behind(seconds, normal, deficit=enqueued - completed):
        return "falling behind", ""
    latency_ms = run.metric("latency_ms", "p95", phase)
    if completed < FEWEST_JOBS or latency_ms is None:
        return "unknown", f"only {completed:,} jobs were completed in {phase}; {FEWEST_JOBS} are needed"
    return ("slower" if latency_ms > normal.latency_ms else "unaffected"), ""


def _falls_behind(seconds: pd.DataFrame, normal: _Normal, *, deficit: int) -> bool:
    """Whether the backlog was too deep in the last third of the phase and at its end, and did not shrink; without samples, whether it grew by as much."""
    depth = seconds["depth"].dropna() if "depth" in seconds else pd.Series(dtype=float)
    if depth.empty:
        return deficit > normal.depth
    third = max(1, len(depth) // _THIRDS)
    last, before = depth.iloc[-third:], depth.iloc[-2 * third : -third]
    return bool(min(last.mean(), last.iloc[-1]) > normal.depth and (before.empty or last.mean() >= before.mean()))


def _find_recovery(run: RunTables, phase: PhaseRecord, normal: _Normal, to_s: float, until_s: float) -> Recovery:
    """Return when the queue was back to normal between ``to_s`` and ``until_s``."""
    seconds = run["windows"].set_index("t_s").sort_index()
    is_normal = _find_normal_seconds(seconds, normal)
    after = is_normal[(is_normal.index >= to_s) & (is_normal.index + 1 <= until_s)]
    if len(after) < _FEWEST_SECONDS:
        return Recovery(kind="unknown", because="the run, or the time until the next fault, ended before that could be seen")
    following = _phase_after(run.record, phase)
    next_end_s = None if following is None else _end_of(run.record, following)
    found_s = _find_first_normal(after)
    if found_s is None:
        watched_s = float(after.index[-1] + 1 - to_s)
        done = seconds.loc[after.index, "completed"].sum()
        is_dead = not done and watched_s >= _HELP_S and run.record.scenario.producers.has_load
        seen = next_end_s is not None and until_s >= next_end_s - 1
        return Recovery(
            kind="needs help" if is_dead else "not in", seconds=watched_s, in_next_phase=False if seen or is_dead else None
        )
    since_s = max(0.0, found_s - to_s)
    in_next = None if next_end_s is None else found_s <= next_end_s
    return Recovery(kind="at once" if since_s <= AT_ONCE_S else "after", seconds=since_s, in_next_phase=in_next)


def _find_normal_seconds(seconds: pd.DataFrame, normal: _Normal) -> pd.Series:
    """Return whether each second is normal: jobs are completed as quickly as in the baseline, no deeper backlog waits, and completions do not stop.

    A second without a completion is as the one before it, unless it is one of more such seconds than the baseline ever had in a row.
    """
    latency_ms = seconds["latency_ms_p95"].astype(float)
    late = (latency_ms > normal.latency_ms).astype(float).where(latency_ms.notna()).ffill().fillna(0)
    depth = seconds["depth"].astype(float).ffill().fillna(0) if "depth" in seconds else pd.Series(0.0, index=seconds.index)
    silent = _count_silent(seconds["completed"]) > max(STOPPED_S - 1, normal.silence_s + 1)
    return ~(late.astype(bool) | (depth > normal.depth) | silent)


def _count_silent(completed: pd.Series) -> pd.Series:
    """Return for each second how many seconds up to it had no completion."""
    is_silent = completed == 0
    return is_silent.groupby((~is_silent).cumsum()).cumsum()


def _find_first_normal(is_normal: pd.Series) -> float | None:
    """Return the first second with which normal seconds begin; none if there is none."""
    values = is_normal.to_numpy(bool)
    for number in map(int, np.flatnonzero(values)):
        following = values[number : number + NORMAL_S]
        enough = _NORMAL_OF_THEM if len(following) == NORMAL_S else len(following)
        if len(following) >= _FEWEST_SECONDS and following.sum() >= enough:
            return float(is_normal.index[number])
    return None


def _find_safety(run: RunTables) -> Safety:
    # With it comes Spark, which a run does not need before it is judged.
    from stallbench.pipeline.overdue import (
        HELD_FOR_THE_DEAD,
        LEFT_BEHIND,
        LEFT_WHILE_IDLE,
        NEVER_CLAIMED,
        NOT_YET_DUE,
        OFFERED_AGAIN,
        OUT_OF_ATTEMPTS,
    )

    record = run.record
    overdue: Mapping[str, Mapping[Any, Any]] = {row["kind"]: row for row in run["overdue"].to_dict("records")}
    left = (HELD_FOR_THE_DEAD, LEFT_WHILE_IDLE, *([LEFT_BEHIND] if record.queue.ordered else []))
    stranded = _add_up([overdue[kind] for kind in left if kind in overdue])
    awaiting = _add_up([overdue[NOT_YET_DUE]] if NOT_YET_DUE in overdue else [])
    unexcused = ~field("excused")
    repeated = sum(batch.num_rows for batch in run.batches("duplicates", ["job_id"], unexcused))
    excused = sum(batch.num_rows for batch in run.batches("duplicates", ["job_id"], field("excused")))
    held = run.state_count("held_after_completion")
    ids = [describe_job(job) for job in run.first("duplicates", _SHOWN, unexcused)["job_id"]]
    is_declared = record.queue.rescue_s is not None or record.queue.claims_survive_connection is False
    unknown = {
        "lost": _has_no_snapshot(run),
        "repeated": not run.count_events("claimed"),
        "stranded": bool(awaiting.count) and not is_declared,
    }
    return Safety(
        lost=Jobs(count=run.state_count("lost"), examples=run.state_examples("lost")),
        repeated=Jobs(count=repeated + held, examples=(*ids, *run.state_examples("held_after_completion"))[:_SHOWN]),
        re_executed=excused,
        rescued=int(overdue[OFFERED_AGAIN]["jobs"]) if OFFERED_AGAIN in overdue else 0,
        rescued_within_s=float(overdue[OFFERED_AGAIN]["longest_s"]) if OFFERED_AGAIN in overdue else None,
        stranded=stranded,
        starved=_add_up([overdue[NEVER_CLAIMED]] if NEVER_CLAIMED in overdue else []),
        awaiting=awaiting,
        rescue_s=record.queue.rescue_s,
        given_up=int(overdue[OUT_OF_ATTEMPTS]["jobs"]) if OUT_OF_ATTEMPTS in overdue else 0,
        unknown=tuple(name for name, is_unknown in unknown.items() if is_unknown),
    )


def _add_up(rows: Sequence[Mapping[Any, Any]]) -> Jobs:
    examples = [describe_job(job) for row in rows for job in row["examples"]]
    return Jobs(count=sum(int(row["jobs"]) for row in rows), examples=tuple(examples[:_SHOWN]))


def _find_exited(record: RunRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the workers and schedulers that exited unexpectedly, and of those that no later process of the same name replaced."""
    processes = [process for role in OF_THE_QUEUE for process in record.processes_of(role)]
    exited = [process for process in processes if exited_unexpectedly(process, record)]
    gone = [
        process.name
        for process in exited
        if not any(other.name == process.name and other.start_ns > process.start_ns for other in processes)
    ]
    return tuple(dict.fromkeys(process.name for process in exited)), tuple(dict.fromkeys(gone))


def _find_deserted_s(record: RunRecord) -> float:
    """Return when the last worker was gone for good, in seconds since the first phase began; infinite if one was left until the load was stopped."""
    _, gone = _find_exited(record)
    workers = record.processes_of("worker")
    ends_s = [math.inf if each.end_ns is None else _since_first_phase(record, each.end_ns) for each in workers]
    last_s = max(ends_s, default=math.inf)
    is_deserted = last_s <= _end_of(record, record.started_phases[-1]) and any(each.name in gone for each in workers)
    return last_s if is_deserted else math.inf


def _seconds_of(run: RunTables, phase: str) -> pd.DataFrame:
    windows = run["windows"]
    return windows[windows["phase"] == phase].sort_values("t_s")


def _phase_after(record: RunRecord, phase: PhaseRecord) -> PhaseRecord | None:
    begun = record.started_phases
    number = begun.index(phase)
    return begun[number + 1] if number + 1 < len(begun) else None


def _end_of(record: RunRecord, phase: PhaseRecord) -> float:
    """Return the end of a phase in seconds since the first one began; infinite if it was not recorded."""
    return math.inf if phase.end_ns is None else _since_first_phase(record, phase.end_ns)


def _since_first_phase(record: RunRecord, t_ns: int) -> float:
    first_ns = record.started_phases[0].start_ns
    assert first_ns is not None
    return (t_ns - first_ns) / NS_PER_S
