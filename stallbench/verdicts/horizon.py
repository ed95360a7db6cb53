"""What held the horizon? And in which parts of the run was it sampled?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd

from stallbench.engines import ENGINES
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_samples

if TYPE_CHECKING:
    from stallbench.verdicts.check import RunTables

_STAYED_S = 1.0
"""A transaction that held the horizon for a shorter time belongs to a worker."""
_COLLECTORS = ("horizon", "innodb_horizon")
"""The collectors that sample the holders of the horizon. Each of their samples has the metric ``holders``, even if there is no holder."""
_LATE_SAMPLE = 3.0
"""A busy machine delays samples. The time between two samples is a gap only if it is longer than this many times the usual interval."""
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderStay:
    """How long one holder held the horizon."""

    name: str
    """The longrunner's name, else the application's, else the holder's own."""
    description: str
    server: str
    kind: str
    """``backend``, ``prepared``, ``slot`` or ``replica``."""
    key: str
    """The process id of a backend, the name of a slot, the global id of a prepared transaction."""
    from_s: float
    to_s: float
    age_s: float | None
    age_xids: int | None
    oldest_s: float


@dataclass(frozen=True, slots=True)
class _Interval:
    """A part of the run, in seconds since the first phase began."""

    from_s: float
    to_s: float

    @property
    def length_s(self) -> float:
        return self.to_s - self.from_s

    def overlap(self, other: _Interval) -> _Interval:
        """Return the part that is also in ``other``; its length is 0 or negative if there is none."""
        return _Interval(max(self.from_s, other.from_s), min(self.to_s, other.to_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """For which part of a run the horizon was sampled."""

    was_sampled: bool
    """Whether there is at least one sample. Without any, ``gaps`` and ``phases`` are empty."""
    gaps: tuple[_Interval, ...]
    """Parts without samples, in order."""
    phases: tuple[str, ...]
    """Phases without any sample, in order."""
    longest_pause_s: float
    """The longest time between two samples outside the gaps."""

    def describe_gaps(self) -> str:
        """Describe the parts of the run in which the horizon was not sampled; empty if there are no gaps."""
        if not self.gaps:
            return ""
        shown = [f"from {gap.from_s:.0f} s to {gap.to_s:.0f} s" for gap in self.gaps[:_MOST_SHOWN]]
        more = [f"in {len(self.gaps) - _MOST_SHOWN} further intervals"] if len(self.gaps) > _MOST_SHOWN else []
        phases = f", in all of {_enumerate(self.phases)}" if self.phases else ""
        return f"The horizon was not sampled {_enumerate([*shown, *more])}{phases}, so it is not known what held it then."


def read_holders(run: RunTables) -> tuple[HolderStay, ...]:
    """Return what held the horizon, starting with what was the oldest holder for the longest time."""
    table = run["holders"]
    holding = table[~table["catalog_only"].fillna(False).astype(bool)]
    stayed_s = holding["max_age_s"].fillna(holding["to_s"] - holding["from_s"])
    holding = holding[stayed_s >= _STAYED_S]
    ordered = holding.sort_values(["oldest_s", "max_age_xids"], ascending=False)
    return tuple(_read_stay(row) for row in ordered.to_dict("records"))


def _read_stay(row: Mapping[Any, Any]) -> HolderStay:
    name = row["longrunner"] if isinstance(row["longrunner"], str) else row["application"] or str(row["holder"])
    match row["kind"]:
        case "backend":
            about = f"backend {row['pid']:.0f} on {row['server']}, {row['state']}, application {row['application'] or 'unnamed'}"
            if row["via"]:
                about += f", holding the primary's horizon through {str(row['via']).replace('slot:', 'slot ')}"
        case "prepared":
            about = f"prepared transaction {row['holder']} on {row['server']}, which belongs to no session"
        case "slot":
            about = f"replication slot {row['holder']} on {row['server']}, {row['state']}"
        case _:
            about = f"feedback of {row['holder']}; no backend was found there"
    return HolderStay(
        name=str(name),
        description=about,
        server=str(row["server"]),
        kind=str(row["kind"]),
        key=f"{row['pid']:.0f}" if row["kind"] == "backend" else str(row["holder"]),
        from_s=float(row["from_s"]),
        to_s=float(row["to_s"]),
        age_s=None if pd.isna(row["max_age_s"]) else float(row["max_age_s"]),
        age_xids=None if pd.isna(row["max_age_xids"]) else int(row["max_age_xids"]),
        oldest_s=float(row["oldest_s"]),
    )


def find_sampling(run: RunTables, holders: Sequence[HolderStay]) -> Sampling:
    """Return in which parts of the run, from its first phase to its last, the horizon was sampled.

    ``holders``: if a holder was seen before and after a time without samples, it held the horizon during that time, which is then not a gap.
    """
    start_ns = next((phase.start_ns for phase in run.record.started_phases if phase.start_ns is not None), 0)
    times_s = [(t_ns - start_ns) / NS_PER_S for t_ns in sorted(_read_times_ns(run))]
    if not times_s:
        return Sampling(was_sampled=False, gaps=(), phases=(), longest_pause_s=0.0)
    phases = _list_phases(run, start_ns)
    whole = _Interval(0.0, max((phase.to_s for phase in phases.values()), default=0.0))
    # As if there were a sample at both ends of the run: a gap may be before the first sample and after the last one.
    edges_s = [min(whole.from_s, times_s[0]), *times_s, max(whole.to_s, times_s[-1])]
    pauses = [pause for pause in (_Interval(*pair).overlap(whole) for pair in pairwise(edges_s)) if pause.length_s > 0]
    intended_s = max(run.record.scenario.collectors.interval_s, _STAYED_S)
    # A collector samples less often than intended if its query is expensive.
    usual_s = max(intended_s, median(pause.length_s for pause in pauses) if pauses else 0.0)
    unsampled = {name: phase for name, phase in phases.items() if not any(phase.from_s <= t_s < phase.to_s for t_s in times_s)}

    def is_gap(pause: _Interval) -> bool:
        has_whole_phase = any(pause.overlap(phase) == phase for phase in unsampled.values())
        return pause.length_s > _LATE_SAMPLE * (intended_s if has_whole_phase else usual_s)

    stays = [_Interval(stay.from_s, stay.to_s) for stay in holders]
    gaps = tuple(part for pause in pauses for part in _subtract(pause, stays) if is_gap(part))
    return Sampling(
        was_sampled=True,
        gaps=gaps,
        phases=tuple(name for name, phase in unsampled.items() if any(gap.overlap(phase) == phase for gap in gaps)),
        longest_pause_s=max((pause.length_s for pause in pauses if not is_gap(pause)), default=0.0),
    )


def _subtract(whole: _Interval, parts: Sequence[_Interval]) -> list[_Interval]:
    """Return what is left of ``whole`` without ``parts``, in order."""
    left = [whole]
    for part in parts:
        left = [
            rest
            for one in left
            for rest in (_Interval(one.from_s, min(one.to_s, part.from_s)), _Interval(max(one.from_s, part.to_s), one.to_s))
            if rest.length_s > 0
        ]
    return left


def _list_phases(run: RunTables, start_ns: int) -> dict[str, _Interval]:
    """Return the phases that began. One whose end was not recorded ends where the next one begins, or after the last record."""
    begun = [(phase, phase.start_ns) for phase in run.record.started_phases if phase.start_ns is not None]
    seconds = run["windows"]["t_s"]
    last_ns = start_ns + (int(seconds.max()) + 1) * NS_PER_S if len(seconds) else start_ns
    ends_ns = [*(begin_ns for _, begin_ns in begun[1:]), last_ns]
    return {
        phase.name: _Interval((begin_ns - start_ns) / NS_PER_S, ((phase.end_ns or next_ns) - start_ns) / NS_PER_S)
        for (phase, begin_ns), next_ns in zip(begun, ends_ns, strict=False)
    }


def _read_times_ns(run: RunTables) -> Iterator[int]:
    """Yield the time of each sample of the horizon's holders."""
    for path in (run.folder / "samples" / f"{name}.csv" for name in _COLLECTORS):
        yield from (sample.t_ns for sample in read_samples(path) if sample.metric == "holders")


def describe_holders(holders: Sequence[HolderStay]) -> str:
    """Describe the holder that was the oldest for longest, and name the others."""
    oldest, *others = holders
    age = [
        f"{oldest.age_s:,.0f} s" if oldest.age_s is not None else "",
        f"{oldest.age_xids:,} transactions" if oldest.age_xids else "",
    ]
    up_to = f", for up to {' and '.join(part for part in age if part)}" if any(age) else ""
    since = f"{oldest.from_s:.0f} s" if oldest.from_s > -0.5 else f"{-oldest.from_s:,.0f} s before the first phase"
    described = f"From {since} to {oldest.to_s:.0f} s {oldest.name} ({oldest.description}) held the horizon{up_to}."
    if others:
        named = ", ".join(f"{other.name} on {other.server} ({other.from_s:.0f} to {other.to_s:.0f} s)" for other in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        described += f" Other holders: {named}{more}."
    return described


def describe_no_holders(run: RunTables, sampling: Sampling) -> str:
    """Say that nothing held the horizon while it was sampled, or that it was not sampled."""
    engine = ENGINES[run.record.scenario.database.engine]
    if not engine.old_versions:
        return f"The bench samples no horizon on {engine.title}."
    if not sampling.was_sampled:
        return "The horizon was not sampled, so it is not known what held it."
    # What began after a sample and ended before the next one was not seen.
    unseen_s = max(1, round(sampling.longest_pause_s))
    longer = f"longer than {'a second' if unseen_s == 1 else f'{unseen_s} s'}"
    if sampling.gaps:
        return f"While the horizon was sampled, nothing held it for {longer}."
    return f"Nothing held the horizon for {longer}."


def _enumerate(words: Sequence[str]) -> str:
    """Join words as a sentence does: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
