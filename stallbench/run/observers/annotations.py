"""Writes phases, longrunners and faults to Grafana as annotations, with the times at which they actually begin and end.

It uses a separate thread, because a Grafana that is slow, down or refuses must not delay the run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stallbench.run.intervals import Interval
from stallbench.run.observers.grafana import GrafanaAddress, GrafanaRefusedError

TAG = "stallbench"
_LAST_WRITES_S = 15.0


class Annotations:
    """The annotations of one run: one for each interval, added when it begins, and extended to its end when it ends."""

    def __init__(self, address: GrafanaAddress, labels: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Start the thread; nothing is written yet. ``labels``: those of the run. ``say``: shows the user a message."""
        self._address = address
        self._tags = [TAG, *(labels[name] for name in ("run", "scenario", "variant"))]
        self._say = say
        self._known: dict[tuple[str, str], Interval] = {}
        self._to_write: queue.SimpleQueue[Interval | None] = queue.SimpleQueue()
        self._problem: str | None = None
        self._has_reported = False
        self._thread = threading.Thread(target=self._write_all, name="annotations", daemon=True)
        self._thread.start()

    def observe(self, intervals: Sequence[Interval]) -> None:
        """Pass what has begun or ended since the last call on to the thread. ``intervals``: all that have begun."""
        for interval in intervals:
            key = (interval.what, interval.name)
            if self._known.get(key) != interval:
                self._known[key] = interval
                self._to_write.put(interval)
        self._report_problem()

    def end(self) -> None:
        """Wait a short time until the last annotations are written. A second call does nothing."""
        self._to_write.put(None)
        self._thread.join(_LAST_WRITES_S)
        if self._thread.is_alive() and self._problem is None:
            self._problem = f"Grafana at {self._address.url} did not accept the last annotations within {_LAST_WRITES_S:.0f} s"
        self._report_problem()

    def _report_problem(self) -> None:
        if self._problem is not None and not self._has_reported:
            self._has_reported = True
            self._say(f"--annotate: the run continues without annotations: {self._problem}")

    def _write_all(self) -> None:
        api = self._address.connect()
        ids: dict[tuple[str, str], int] = {}
        while (interval := self._to_write.get()) is not None:
            try:
                self._write(api, ids, interval)
            except GrafanaRefusedError as error:
                self._problem = str(error)
                return

    def _write(self, api: Any, ids: dict[tuple[str, str], int], interval: Interval) -> None:
        key = (interval.what, interval.name)
        content: dict[str, Any] = {
            "time_from": interval.start_ns // 1_000_000,
            "time_to": (interval.end_ns if interval.end_ns is not None else interval.start_ns) // 1_000_000,
            "tags": [*self._tags, interval.what],
            "text": interval.text,
        }
        if key in ids:
            # All fields: this client empties a field that a partial update leaves out.
            self._address.ask("change annotations", lambda: api.annotations.update_annotation(ids[key], **content))
        else:
            answer = self._address.ask("add annotations", lambda: api.annotations.add_annotation(**content))
            if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
                raise GrafanaRefusedError(
                    f"what answers at {self._address.url} is not Grafana: it returned no id for an annotation"
                )
            ids[key] = answer["id"]
