"""Computes the metrics of an observation from its samples, as the pipeline does, without Spark: a cron job needs no Java to judge a few figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple, NoReturn

from stallbench.measure_definition import FromSamples, Measure
from stallbench.measures import MEASURES
from stallbench.pipeline.failures import NoTableError
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_samples
from stallbench.records.samples import SampleRecord
from stallbench.verdicts.check import RunTables


class Moment(NamedTuple):
    """What was measured of one measure at one time, on all servers and subjects together."""

    t_ns: int
    value: float
    increase: float | None
    """Of a counter since the sample before; none at its first sample."""


@dataclass(frozen=True, slots=True)
class _Single:
    t_ns: int
    origin: tuple[str, str]
    value: float


class SampledRun(RunTables):
    """The record of an observation, with the metrics that come from its samples; it has no tables."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder."""
        super().__init__(folder)
        self._samples = folder / "samples"
        self._moments: dict[str, list[Moment]] = {}

    def metric(self, measure: str, statistic: str, phase: str | None) -> float | None:
        """Return the metric's value in the observation, its only phase; none if there are no data for it."""
        found = MEASURES[measure]
        if statistic in found.quotients:
            above, below = self.metric(measure, "count", phase), self.metric(found.divided_by, "count", phase)
            return above / below if above is not None and below else None
        phases = self.record.phases
        start_ns, end_ns = phases[0].start_ns, phases[-1].end_ns
        if start_ns is None or end_ns is None:
            return None
        moments = [one for one in self._read(found) if start_ns <= one.t_ns < end_ns]
        return _summarize(moments, statistic, (end_ns - start_ns) / NS_PER_S)

    def is_sampled(self, measure: str) -> bool:
        """Whether there is a sample of the measure, at whatever time, and one of what it is divided by."""
        names = [measure, *([divided_by] if (divided_by := MEASURES[measure].divided_by) else [])]
        return all(any(True for _ in self._read_singles(MEASURES[name])) for name in names)

    def __getitem__(self, name: str) -> NoReturn:
        raise NoTableError(f"{self.folder}: an observation that was only judged has no table {name}")

    def _read(self, measure: Measure) -> list[Moment]:
        if measure.name not in self._moments:
            self._moments[measure.name] = list(_combine(self._read_singles(measure), measure))
        return self._moments[measure.name]

    def _read_singles(self, measure: Measure) -> Iterator[_Single]:
        assert isinstance(measure.source, FromSamples), "the file of expectations was checked"
        for path in sorted(self._samples.glob("*.csv")):
            for sample in read_samples(path):
                if _is_of(sample, measure.name, measure.source) and (value := _read_number(sample.value)) is not None:
                    yield _Single(sample.t_ns, (sample.source, sample.subject), value)


def _is_of(sample: SampleRecord, name: str, source: FromSamples) -> bool:
    is_of_subject = not source.subject or sample.subject.partition(":")[0] == source.subject
    return is_of_subject and sample.metric == (source.metric or name)


def _read_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _combine(singles: Iterable[_Single], measure: Measure) -> Iterator[Moment]:
    """Yield one moment for each time, in order. A counter that has become smaller was restarted at 0."""
    assert isinstance(measure.source, FromSamples)
    before: dict[tuple[str, str], float] = {}
    at: dict[int, list[tuple[float, float | None]]] = {}
    for single in sorted(singles, key=lambda one: one.t_ns):
        last = before.get(single.origin)
        increase = None if last is None else single.value if single.value < last else single.value - last
        before[single.origin] = single.value
        at.setdefault(single.t_ns, []).append((single.value, increase))
    for t_ns, found in at.items():
        values = [value for value, _ in found]
        increases = [increase for _, increase in found if increase is not None]
        yield Moment(
            t_ns,
            sum(sorted(values)) if measure.source.combine == "sum" else max(values),
            sum(sorted(increases)) if increases else None,
        )


def _summarize(moments: Sequence[Moment], statistic: str, duration_s: float) -> float | None:
    """Return a statistic of ``moments``, which are in the order of their times; none if there are too few of them."""
    if not moments:
        return None
    values = [one.value for one in moments]
    if statistic in ("count", "rate"):
        increases = [one.increase for one in moments if one.increase is not None]
        if not increases or not duration_s:
            return None
        return sum(increases) / (duration_s if statistic == "rate" else 1)
    if statistic == "slope":
        return _find_slope([one.t_ns / NS_PER_S - moments[0].t_ns / NS_PER_S for one in moments], values)
    simple = {"first": values[0], "last": values[-1], "min": min(values), "max": max(values), "mean": statistics.fmean(values)}
    return simple.get(statistic)  # per_job: an observation sees no jobs


def _find_slope(times_s: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the slope by least squares, per second; none if all times are the same."""
    if len(set(times_s)) < 2:
        return None
    return statistics.linear_regression(times_s, values).slope
