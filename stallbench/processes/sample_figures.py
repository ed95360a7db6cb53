"""Gauges and counters of the latest samples of the collectors.

A sampled measure is exposed under its `Measure.prometheus_name`; `_NO_MEASURES` lists the samples that are not measures. Names follow Prometheus'
conventions, in base units. Subjects of which there may be very many (backends, deadlocks) have no series.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stallbench.measure_definition import FromSamples
from stallbench.measures import MEASURES
from stallbench.records.samples import Sample

_STALE_S = 15.0
"""A value is dropped if it was not sampled again for this long: a server that is gone has no dead tuples."""
_Key = tuple[str, tuple[tuple[str, str], ...]]
_TRANSIENT = {"wait", "session", "holder"}
"""Kinds of subjects that exist only while a sample finds them: they are dropped after `_TRANSIENT_SAMPLES` samples without them."""
_TRANSIENT_SAMPLES = 2.5
_SCALES = {"ms": 1e-3, "%": 1e-2}
"""From the unit of a measure to Prometheus' base unit; 1 for others."""


@dataclass(frozen=True, slots=True)
class Series:
    """How a sampled metric is exposed."""

    name: str
    help: str
    scale: float = 1.0
    is_counter: bool = False


def _total(name: str, help_: str, scale: float = 1.0) -> Series:
    return Series(name, help_, scale, is_counter=True)


_NO_MEASURES: Mapping[tuple[str, str], Series] = {
    ("table", "inserts"): _total("table_inserts", "Rows inserted."),
    ("table", "deletes"): _total("table_deletes", "Rows deleted."),
    ("table", "autovacuum_count"): _total("autovacuum_runs", "Autovacuum runs that finished."),
    ("table", "last_autovacuum_age_s"): Series("last_autovacuum_age_seconds", "Time since the last autovacuum finished."),
    ("table", "removed_tuples"): Series("vacuum_removed_tuples", "Dead tuples that the last autovacuum removed."),
    ("table", "not_removable_tuples"): Series(
        "vacuum_not_removable_tuples",
        "Dead tuples that the last autovacuum could not remove, because a snapshot may still see them.",
    ),
    ("server", "open_transactions"): Series("open_transactions", "Open transactions."),
    ("server", "holders"): Series("horizon_holders", "Holders of the horizon."),
    ("server", "rollbacks"): _total("rollbacks", "Transactions rolled back."),
    ("wait", "backends"): Series("active_backends", "Active backends by wait event; CPU if they wait for nothing."),
    ("session", "sessions"): Series("sessions", "Connections by their state."),
    ("server", "max_connections"): Series("sessions_limit", "Connections that the server allows."),
    ("replica", "lag_s"): Series("replication_lag_seconds", "Replication lag in time."),
    ("host", "load1"): Series("host_load1", "Load average of the last minute."),
    ("host", "memory_used_bytes"): Series("host_memory_used_bytes", "Memory in use on the host."),
    ("process", "cpu_percent"): Series("process_cpu_ratio", "Use of one core by a process of the run.", 1e-2),
    ("process", "memory_bytes"): Series("process_memory_bytes", "Memory of a process of the run."),
    ("collector", "sample_ms"): Series("collector_sample_seconds", "Duration of a collector's last sample.", 1e-3),
    ("collector", "failures"): _total("collector_failures", "Samples that failed wholly or in part."),
    ("holder", "age_s"): Series("horizon_holder_age_seconds", "Age of the oldest holder of the horizon on each server."),
}


def _list_measures() -> dict[tuple[str, str], Series]:
    """Return the series of every sampled measure that has a Prometheus name."""
    series = {}
    for measure in MEASURES.values():
        source = measure.source
        if isinstance(source, FromSamples) and measure.prometheus_name:
            help_ = f"{measure.meaning[0].upper()}{measure.meaning[1:]}."
            one = Series(measure.prometheus_name, help_, _SCALES.get(measure.unit, 1.0), source.is_counter)
            series[source.subject or "replica", source.metric or measure.name] = one
    return series


SERIES: Mapping[tuple[str, str], Series] = _list_measures() | dict(_NO_MEASURES)
"""By the kind of the subject and the metric, as docs/run-folder.md has them."""

_NAMED_BY = {
    "table": "table",
    "index": "index",
    "wait": "event",
    "session": "state",
    "process": "process",
    "collector": "collector",
}
"""The label that takes the rest of a subject, by the subject's kind."""


class SampleFigures(Collector):
    """Keeps the latest sample of every collector."""

    def __init__(self, interval_s: float) -> None:
        """Start empty. ``interval_s``: the sampling interval."""
        self._transient_stale_s = min(_STALE_S, _TRANSIENT_SAMPLES * interval_s)
        self._lock = threading.Lock()
        self._last: dict[_Key, tuple[float, float]] = {}
        """Value and time by the metric's key and its labels."""
        self._kept: dict[str, set[_Key]] = {}

    def keep(self, collector: str, samples: Sequence[Sample]) -> None:
        """Take the samples of a collector in place of those before, which do not become stale however long they are the last.

        `stallbench observe` samples as seldom as once in minutes, if the user wants it or if that is expensive.
        """
        taken = self._read(samples)
        with self._lock:
            for key in self._kept.get(collector, ()):
                self._last.pop(key, None)
            self._kept[collector] = set(taken)
            self._last |= taken

    def observe(self, samples: Sequence[Sample]) -> None:
        """Take the samples of one collector at one time."""
        taken = self._read(samples)
        with self._lock:
            self._last |= taken

    @staticmethod
    def _read(samples: Sequence[Sample]) -> dict[_Key, tuple[float, float]]:
        """Return those of the samples that are exposed."""
        now_s = time.monotonic()
        latest: dict[_Key, tuple[float, float]] = {}
        for sample in samples:
            kind, _, rest = sample.subject.partition(":")
            if kind not in _NAMED_BY and kind.startswith("replica"):
                kind, rest = "replica", sample.subject
            key = (kind, sample.metric)
            if key not in SERIES or isinstance(sample.value, str):
                continue
            labels = {"server": sample.source}
            if kind == "holder":
                holder = {
                    one.metric: one.value for one in samples if one.source == sample.source and one.subject == sample.subject
                }
                if holder.get("rank") != 0:
                    continue
                labels |= {"holder": str(holder.get("kind", "")), "application": str(holder.get("application", ""))}
            elif kind == "replica":
                labels["server"] = rest
            elif kind in _NAMED_BY:
                labels[_NAMED_BY[kind]] = rest
            latest["/".join(key), tuple(sorted(labels.items()))] = (float(sample.value), now_s)
        return latest

    def collect(self) -> Iterable[Metric]:
        """Return the recent samples."""
        now_s = time.monotonic()
        with self._lock:
            kept = set().union(*self._kept.values())
            self._last = {
                key: value for key, value in self._last.items() if key in kept or now_s - value[1] <= self._stale_s(key[0])
            }
            last = dict(self._last)
        families: dict[str, Metric] = {}
        for (key, labels), (value, _) in sorted(last.items()):
            kind, _, metric = key.partition("/")
            series = SERIES[kind, metric]
            names = [name for name, _ in labels]
            family = families.get(series.name)
            if family is None:
                make = CounterMetricFamily if series.is_counter else GaugeMetricFamily
                family = families[series.name] = make(f"stallbench_{series.name}", series.help, labels=names)
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            family.add_metric([text for _, text in labels], value * series.scale)
        return families.values()

    def _stale_s(self, key: str) -> float:
        return self._transient_stale_s if key.partition("/")[0] in _TRANSIENT else _STALE_S
