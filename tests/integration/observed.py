"""A reading at a real server, as `stallbench observe` takes it, for its tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stallbench.observe.address import ObservedServers
from stallbench.observe.diagnostic import Finding, Section
from stallbench.observe.innodb.observer import make_innodb_observer
from stallbench.observe.innodb.queues import InnoDBQueuesDiagnostic
from stallbench.observe.observer import Observation, Observer
from stallbench.observe.postgres.load import LoadDiagnostic
from stallbench.observe.postgres.observer import make_postgres_observer
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.records.endpoint import Endpoint

OBSERVE_UNRESTRAINED = (
    "-P",
    "-c",
    "from stallbench import cli; from stallbench.observe import observer; observer.GREATEST_SHARE = 1.0; cli.main()",
    "observe",
)
"""The arguments of Python for `stallbench observe` that reads as often as it is told to, whatever share of a processor that takes: else a busy machine
has a reading a minute."""


@contextmanager
def observer_of(
    endpoint: Endpoint,
    replicas: Mapping[str, Endpoint] | None = None,
    tables: tuple[str, ...] = (),
    *,
    records_load: bool = False,
    log: Path | None = None,
) -> Iterator[Observer]:
    queues = QueuesDiagnostic(tables)
    servers = ObservedServers(primary=endpoint, replicas=replicas or {})
    observer = make_postgres_observer(servers, queues, log, LoadDiagnostic(queues) if records_load else None)
    try:
        yield observer
    finally:
        observer.close()


@contextmanager
def innodb_observer_of(endpoint: Endpoint, tables: tuple[str, ...] = ()) -> Iterator[Observer]:
    observer = make_innodb_observer(ObservedServers(primary=endpoint, replicas={}), InnoDBQueuesDiagnostic(tables))
    try:
        yield observer
    finally:
        observer.close()


def look_at(endpoint: Endpoint, replicas: Mapping[str, Endpoint] | None = None, tables: tuple[str, ...] = ()) -> Observation:
    with observer_of(endpoint, replicas, tables) as observer:
        return observer.read()


def section_of(observation: Observation, title: str) -> Section:
    (section,) = [one for one in observation.sections if one.title.startswith(title)]
    return section


def text_of(section: Section) -> str:
    return "\n".join([*(" | ".join(row) for row in section.rows), *section.sentences])


def finding_about(observation: Observation, words: str) -> Finding:
    found = [one for one in observation.findings if words in one.sentence]
    assert found, f"no finding about {words!r} among {[one.sentence for one in observation.findings]}"
    return found[0]


def cannot_see(observation: Observation) -> str:
    return "\n".join(f"{one.what}: {one.why} {one.remedy}" for one in observation.not_visible)
