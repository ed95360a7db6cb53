"""Writes phases, longrunners and faults into a Grafana as annotations, at the times at which they really begin and end.

From a thread of its own: a Grafana that is slow, refuses or is down must not hold the run up.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stallbench.exposition.intervals import Interval
from stallbench.observers.grafana import GrafanaAddress, GrafanaRefusedError

TAG = "stallbench"
_LAST_WORDS_S = 15.0


class Annotations:
    """Those of one run: one a stretch, added when it begins, and made a region when it ends."""

    def __init__(self, address: GrafanaAddress, labels: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Start the thread; nothing is written yet. ``labels``: those of the run. ``say``: tells the user."""
        self._address = address
        self._tags = [TAG, *(labels[name] for name in ("run", "scenario", "variant"))]
        self._say = say
        self._known: dict[tuple[str, str], Interval] = {}
        self._to_write: queue.SimpleQueue[Interval | None] = queue.SimpleQueue()
        self._trouble: str | None = None
        self._has_told = False
        self._thread = threading.Thread(target=self._write_all, name="annotations", daemon=True)
        self._thread.start()

    def observe(self, intervals: Sequence[Interval]) -> None:
        """Take all that have begun, and leave to the thread what is new or has ended."""
        for interval in intervals:
            key = (interval.what, interval.name)
            if self._known.get(key) != interval:
                self._known[key] = interval
                self._to_write.put(interval)
        self._describe_trouble()

    def end(self) -> None:
        """Wait until the last are written, but not for long; asked again, it does nothing."""
        self._to_write.put(None)
        self._thread.join(_LAST_WORDS_S)
        if self._thread.is_alive() and self._trouble is None:
            self._trouble = f"Grafana at {self._address.url} has not taken the last annotations within {_LAST_WORDS_S:.0f} s"
        self._describe_trouble()

    def _describe_trouble(self) -> None:
        if self._trouble is not None and not self._has_told:
            self._has_told = True
            self._say(f"--annotate: the run goes on without annotations: {self._trouble}")

    def _write_all(self) -> None:
        api = self._address.connect()
        ids: dict[tuple[str, str], int] = {}
        while (interval := self._to_write.get()) is not None:
            try:
                self._write(api, ids, interval)
            except GrafanaRefusedError as error:
                self._trouble = str(error)
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
            # All of it: what is left out of a partial update is emptied by this client.
            self._address.ask("change annotations", lambda: api.annotations.update_annotation(ids[key], **content))
        else:
            answer = self._address.ask("add annotations", lambda: api.annotations.add_annotation(**content))
            if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
                raise GrafanaRefusedError(f"what answers at {self._address.url} is no Grafana: an annotation got no id")
            ids[key] = answer["id"]
