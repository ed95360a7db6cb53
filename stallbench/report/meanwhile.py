"""Shows what is known of a run, and how far its tables are, while another process makes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pyarrow as pa

from stallbench.base.number_text import format_value
from stallbench.measures import MEASURES
from stallbench.pipeline.tables import MADE_WHOLE, TABLES
from stallbench.run.first_facts import FirstFacts, read_first_facts
from stallbench.run.view import RunView

_POLL_S = 0.5


@contextmanager
def shown_meanwhile(folder: Path, view: RunView) -> Iterator[None]:
    """Print the first facts of the run in ``folder`` once its records are sealed, then show how many of its tables are made, until the block ends."""
    since_ns, over = time.time_ns(), Event()
    with ThreadPoolExecutor(1, thread_name_prefix="meanwhile") as pool:
        shown = pool.submit(_show, folder, view, since_ns, over)
        try:
            yield
        finally:
            over.set()
        shown.result()


def _show(folder: Path, view: RunView, since_ns: int, over: Event) -> None:
    try:
        for sentence in _describe(read_first_facts(folder)):
            view.say(sentence)
    except (OSError, pa.ArrowInvalid) as error:
        view.say(f"the first figures are not known: the sealed records cannot be read: {error}")
    while not over.wait(_POLL_S):
        made = sum(_is_made_since(since_ns, folder, name) for name in TABLES)
        view.show_progress(
            f"{made} of {len(TABLES)} tables are made" if made else "no table is made yet: Spark starts and reads the records"
        )


def _describe(facts: FirstFacts) -> Iterator[str]:
    held = "unknown how many are still in the queue" if facts.held is None else f"{facts.held:,} still in the queue"
    yield f"{facts.enqueued:,} jobs enqueued, {facts.completed:,} completed, {held}"
    latency = MEASURES["latency_ms"]
    width = max((len(each.phase) for each in facts.latencies), default=0)
    for each in facts.latencies:
        values = [
            f"{words} {format_value(value, latency.unit)}"
            for words, value in ((latency.label_of("p50"), each.p50_ms), ("p95", each.p95_ms))
            if value is not None
        ]
        yield f"{each.phase:<{width}}  {', '.join(values) or 'no job was completed'}"
    if facts.why_no_latencies:
        yield facts.why_no_latencies


def _is_made_since(since_ns: int, folder: Path, table: str) -> bool:
    try:
        return (folder / "tables" / table / MADE_WHOLE).stat().st_mtime_ns >= since_ns
    except FileNotFoundError:
        return False
