"""``python -m stallbench.collectors [document.json]``: all collectors at one cadence, each into its own file.

One thread takes them in turn: they share two cores with the servers that they watch, and what they take is part of what they
record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg

from stallbench.collectors import Collector, find_collectors
from stallbench.collectors.collector import CollectorsDocument, Watch
from stallbench.records.samples import Sample, SampleLog
from stallbench.role import Stop, read_document, run_role, say

OWN_COST = "own_cost"
_BREAKS = (psycopg.Error, psutil.Error, ValueError, KeyError)


class Cadence:
    """Beats at fixed times from a start; a beat that is missed is left out, not made up for."""

    def __init__(self, interval_s: float, start_s: float) -> None:
        """Beat every ``interval_s`` from ``start_s`` of the monotonic clock."""
        self._interval_s = interval_s
        self._start_s = start_s
        self._beat = 0

    def next_s(self, now_s: float) -> float:
        """Return when the next beat is that has not passed."""
        self._beat = max(self._beat + 1, int((now_s - self._start_s) / self._interval_s) + 1)
        return self._start_s + self._beat * self._interval_s


class Collection:
    """All collectors of a run and their files."""

    def __init__(self, collectors: Sequence[Collector], samples: Path) -> None:
        """Open a file for each of ``collectors`` in the folder ``samples``."""
        self._collectors = [(collector, SampleLog(samples / f"{collector.name}.csv")) for collector in collectors]
        self._own_cost = SampleLog(samples / f"{OWN_COST}.csv")
        self._broken: dict[str, str] = {}

    def sample(self, beat_s: float) -> None:
        """Let each collector measure once, as asked for at ``beat_s`` of the monotonic clock.

        One that breaks does not stop the others; why is printed once, and again when it changes. Raises `OSError` when the
        disk is full.
        """
        costs = []
        for collector, log in self._collectors:
            began_s = time.monotonic()
            t_ns = time.time_ns()
            try:
                samples = list(collector.sample())
            except _BREAKS as error:
                self._tell(collector.name, f"{type(error).__name__}: {error}".strip())
                continue
            self._tell(collector.name, "")
            log.write(t_ns, samples)
            took_ms = (time.monotonic() - began_s) * 1e3
            subject = f"collector:{collector.name}"
            costs.append(Sample("collector", subject, "sample_ms", round(took_ms, 3)))
            costs.append(Sample("collector", subject, "late_ms", round((began_s - beat_s) * 1e3, 3)))
        self._own_cost.write(time.time_ns(), costs)

    def _tell(self, name: str, why: str) -> None:
        if self._broken.get(name, "") != why:
            print(f"{name}: {why or 'samples again'}", file=sys.stderr, flush=True)
            self._broken[name] = why


def main() -> None:
    """Sample until asked to stop, and once more then."""
    document = read_document(CollectorsDocument, sys.argv[1:])
    stop = Stop()
    watch = Watch(document)
    samples = document.run_folder / "samples"
    collection = Collection([kind(watch) for kind in find_collectors().values()], samples)
    start_s = time.monotonic()
    cadence = Cadence(document.interval_s, start_s)
    collection.sample(start_s)
    say(ready={})
    while not stop.asked:
        beat_s = cadence.next_s(time.monotonic())
        if not stop.wait(beat_s - time.monotonic()):
            collection.sample(beat_s)
    collection.sample(time.monotonic())
    watch.close()


if __name__ == "__main__":
    run_role(main)
