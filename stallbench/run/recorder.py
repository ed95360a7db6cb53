"""Writes ``run.json`` during a run: at its start, and again, atomically, at each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from stallbench.base.storage.atomic_file import replace_file
from stallbench.libraries import Library
from stallbench.libraries.installation import hash_locks
from stallbench.queues import find_queue
from stallbench.queues.code_hash import hash_queue
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue import OptionRole
from stallbench.queues.record import LibraryRecord, QueueRecord
from stallbench.queues.second_queue import SECOND_QUEUE
from stallbench.records.injections import InjectionRecord
from stallbench.run.host_facts import read_host_facts, read_library_versions
from stallbench.run.record import PhaseRecord, RunRecord, RunStatus, describe_bench
from stallbench.run.sampling import collectors_for
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Phase

_INJECTIONS = "injections"
_LOOK_EVERY_S = 1.0
"""How often `RunRecorder.tick` reads the parts that change often, such as processes while a fault kills them."""


class RunRecorder:
    """The record of an active run. Parts that other objects own are read from them at each write."""

    def __init__(self, path: Path, scenario: Scenario) -> None:
        """Write the record of a run that starts now."""
        self._path = path
        self._parts: dict[str, Callable[[], Iterable[object]]] = {}
        self._looked_s = float("-inf")
        self.record = RunRecord(
            id=path.parent.name,
            bench=describe_bench(),
            seed=scenario.seed,
            scenario=scenario,
            queue=describe_queue(scenario),
            collectors=tuple(collectors_for(scenario.database.engine)) if scenario.collectors.enabled else (),
            versions=read_library_versions(),
            host=read_host_facts(),
            phases=tuple(plan_phases(scenario.phases)),
        )
        self.write()

    def follow(self, part: str, read: Callable[[], Iterable[object]]) -> None:
        """Call ``read`` at each write, and store its result in the field ``part`` of the record."""
        self._parts[part] = read

    def note(self, sentence: str) -> None:
        """Add a sentence that the report must show. A repeated sentence is ignored."""
        if sentence not in self.record.notes:
            self._change(notes=(*self.record.notes, sentence))

    def begin_phase(self, index: int) -> None:
        """Record that phase ``index`` starts now."""
        self._change_phase(index, start_ns=time.time_ns())

    def end_phase(self, index: int) -> None:
        """Record that phase ``index`` ends now."""
        self._change_phase(index, end_ns=time.time_ns())

    def end_early(self, reason: str) -> None:
        """Record why the phases that are left do not begin."""
        self.note(f"The run was ended early: {reason}.")
        self._change(ended_early=reason)

    def end(self, status: RunStatus, reason: str = "") -> None:
        """Record how the run ended."""
        self._change(status=status, reason=reason)

    def write(self) -> None:
        """Replace the file atomically."""
        self._change()

    def tick(self) -> None:
        """Replace the file if a part that another object owns has changed since it was written. Call it several times a second.

        The begin and the end of an injection are written at once, other parts within a second. So if the bench is killed, the record has the faults
        of the phase, and the processes that replaced others. What a maintenance process reports is written with the next change.
        """
        now_s = time.monotonic()
        has_changed = self._read_injection_times() != _list_times(self.record.injections)
        if now_s >= self._looked_s + _LOOK_EVERY_S:
            self._looked_s = now_s
            others = (part for part in self._parts if part != _INJECTIONS)
            has_changed |= any(tuple(self._parts[part]()) != getattr(self.record, part) for part in others)
        if has_changed:
            self._change()

    def _read_injection_times(self) -> list[tuple[int | None, ...]]:
        read = self._parts.get(_INJECTIONS)
        return _list_times(each for each in read() if isinstance(each, InjectionRecord)) if read else []

    def _change_phase(self, index: int, **times_ns: int) -> None:
        phases = list(self.record.phases)
        phases[index] = phases[index].model_copy(update=times_ns)
        self._change(phases=tuple(phases))

    def _change(self, **changes: Any) -> None:
        parts = {part: tuple(read()) for part, read in self._parts.items()}
        self.record = self.record.model_copy(update={**parts, **changes})
        replace_file(self._path, self.record.model_dump_json(indent=1))


def _list_times(injections: Iterable[InjectionRecord]) -> list[tuple[int | None, ...]]:
    """Return how far each injection has come."""
    return [(each.start_ns, each.verified_ns, each.end_ns, each.verified_gone_ns) for each in injections]


def describe_queue(scenario: Scenario) -> QueueRecord:
    """Return the record of a scenario's queue, with its effective options."""
    queue = find_queue(scenario.queue.kind)
    options = queue.resolve_options(queue.options_type.model_validate(scenario.queue.options), workers=scenario.workers.count)
    library = queue.library.at_the_start(options.model_dump()) if issubclass(queue, LibraryQueue) else None
    expiry_s: float | None = options.value_of(OptionRole.EXPIRY)
    if library is not None:
        expiry_s = library.rescue.after_s if expiry_s is None else expiry_s
        expiry_s = None if expiry_s is None else expiry_s + library.compute_search_s(options.model_dump())
    return QueueRecord(
        kind=scenario.queue.kind,
        options=options.model_dump(mode="json"),
        promise=queue.promise,
        ordered=queue.ordered and not getattr(options, SECOND_QUEUE, False),  # then there is an order within each queue only
        rescues_jobs=queue.rescues_jobs_by(options),
        claims_survive_connection=queue.claims_survive_connection,
        claims_in_batches=queue.claims_in_batches,
        expiry_s=expiry_s,
        attempt_limit=options.value_of(OptionRole.ATTEMPT_LIMIT),
        window=options.value_of(OptionRole.WINDOW),
        advisory_locks=queue.count_advisory_locks(options),
        tables=queue.tables,
        indexes=queue.indexes,
        claim_pattern=queue.claim_pattern,
        code=hash_queue(queue),
        library=_describe_library(library, options.model_dump()) if library else None,
        summary=queue.summary,
        source=library.source if library else queue.source,
    )


def _describe_library(library: Library, options: Mapping[str, Any]) -> LibraryRecord:
    return LibraryRecord(
        title=library.title,
        version=library.version,
        language=library.language,
        completion=library.completion.what,
        rescue=library.rescue.what,
        settings=library.compute_settings(options),
        renews_claims=library.rescue.renews_claims,
        locks=hash_locks(library),
    )


def plan_phases(phases: Iterable[Phase]) -> list[PhaseRecord]:
    """Return the records of the phases, with their planned start times."""
    planned: list[PhaseRecord] = []
    start_s = 0.0
    for phase in phases:
        planned.append(
            PhaseRecord(name=phase.name, measured=phase.measured, planned_start_s=start_s, planned_duration_s=phase.duration_s)
        )
        start_s += phase.duration_s
    return planned
