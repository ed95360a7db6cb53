"""Whether a published result is stale: its scenario, its queue or library, or the measurement has changed since it was measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError
from stallbench.evidence.document import EarlierTable, RunDocument, StudyDocument
from stallbench.libraries import find_library
from stallbench.libraries.installation import hash_locks
from stallbench.queues import NoQueueError, find_queue
from stallbench.queues.code_hash import hash_queue
from stallbench.queues.record import QueueRecord
from stallbench.run.record import MEASUREMENT, RunRecord
from stallbench.scenario.command import name_of
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.verdicts.baseline.comparability import Conditions, describe_differences, find_conditions

OF_EARLIER_VERSIONS = "measured by a version of the bench that kept neither the resolved scenario nor the machine"


def hash_conditions(conditions: Conditions) -> str:
    """Return a hash of all that a scenario says of load, phases, queue and servers."""
    return hashlib.sha256(json.dumps(dict(conditions), sort_keys=True).encode()).hexdigest()[:16]


def find_scenario_of_today(record: RunRecord) -> Scenario:
    """Return the scenario of a run as its file is today, with the same variant and changes. Raises `BadInputError` if there is none."""
    then = record.scenario
    return read_scenario(name_of(then.name, then.file), variant=then.variant, overrides=then.changes)


def find_reasons(document: RunDocument | StudyDocument | EarlierTable) -> tuple[str, ...]:
    """Return why a published result is stale; empty if it is current. Of a comparison, its runs have reasons of their own."""
    if isinstance(document, EarlierTable):
        return (OF_EARLIER_VERSIONS,)
    return find_reasons_of_run(document.record if isinstance(document, RunDocument) else document.first_run)


def find_reasons_of_run(record: RunRecord) -> tuple[str, ...]:
    """Return why what a run has shown is stale; empty if it is current."""
    return tuple(_list_reasons(record))


def _list_reasons(record: RunRecord) -> Iterator[str]:
    if record.bench.measurement != MEASUREMENT:
        yield f"measurement {record.bench.measurement}, today {MEASUREMENT}"
    then = find_conditions(record.scenario)
    try:
        now = find_conditions(find_scenario_of_today(record))
    except BadInputError as error:
        yield f"the scenario is not valid any more: {str(error).partition(chr(10))[0]}"
    else:
        if hash_conditions(now) != hash_conditions(then):
            yield f"the scenario has changed: {describe_differences(now, then, 'then')}"
    yield from _list_reasons_of_queue(record.queue)


def _list_reasons_of_queue(then: QueueRecord) -> Iterator[str]:
    if not then.code:
        yield "the record does not say of which code and packages the queue was"
        return
    try:
        code = hash_queue(find_queue(then.kind))
    except NoQueueError as error:
        yield f"the queue {then.kind} is not there any more: {error}"
        return
    if then.library is None:
        if code != then.code:
            yield "the queue's code or statements have changed"
        return
    library = find_library(then.kind.removeprefix(LIBRARY_PREFIX))
    if hash_locks(library) != then.library.locks:
        now = (
            f"{then.library.version} then, {library.version} today" if library.version != then.library.version else "another lock"
        )
        yield f"the library's packages have changed: {now}"
    if code != then.code:
        yield "the library's adapter or definition has changed"
