"""A small run to inject faults into: servers behind Toxiproxy, a queue, workers and a producer, as the bench starts them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stallbench.injection.choices import MaintenanceChoice
from stallbench.injection.context import InjectionContext
from stallbench.injection.faults import find_faults
from stallbench.injection.life_cycle import Injections
from stallbench.processes.process import Process
from stallbench.queues import find_queue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import EVENT_COLUMNS, Event
from stallbench.records.injections import InjectionRecord
from stallbench.run.folder import RunFolder, create_run_folder
from stallbench.run.load import Load
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Phase
from stallbench.servers.cleanup_journal import CleanupJournal
from tests.integration.running_cluster import StartedCluster
from tests.integration.shared_clusters import CLUSTERS
from tests.waiting import wait_for

PATIENCE_S = 60.0

SCENARIO = """
summary = "A small run."
[database]
engine = "{engine}"
replicas = {replicas}
synchronous = {synchronous}
settings = {settings}
prepared_statements = {prepared_statements}
{database}
[queue]
kind = "{queue}"
{queue_options}
[producers]
rate = 50
{producers}
[workers]
count = {workers}
work = "{work}"
poll = "50ms"
[[phases]]
name = "only"
duration = "1h"
"""


class FaultyRun:
    """Lets a test inject faults and maintenance, wait for their effect, and end them."""

    def __init__(self, scenario: Scenario, started: StartedCluster, folder: RunFolder) -> None:
        """Install the queue and start the load."""
        self.scenario = scenario
        self.cluster = started.cluster
        self.processes = started.processes
        self.folder = folder
        self.scratch = started.scratch
        self.notes: list[str] = []
        self.queue = describe_queue(scenario)
        primary = self.cluster.server("primary")
        with opened_queue(scenario.queue.kind, self.queue.options, primary.direct, "install") as opened:
            opened.install()
        self.load = Load(scenario, self.queue, primary.proxied, processes=self.processes, folder=folder)
        context = InjectionContext(
            cluster=self.cluster,
            load=self.load,
            processes=self.processes,
            queue=self.queue,
            logs=folder.logs,
            job_faults=folder.job_faults,
            scratch=started.scratch,
            journal=CleanupJournal(started.scratch),
            seed=1,
            note=self.notes.append,
        )
        self.injections = Injections(context, say=lambda _: None)
        self._read: dict[Path, int] = {}
        self._events: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.load.start_scheduler()
        self.load.start_workers()
        self.load.start_producers()

    def inject(self, kind: str, on: str = "primary", **options: object) -> InjectionRecord:
        """Inject a fault now and return its record; it is active until `end_faults`."""
        assert kind in find_faults()
        choice = {"kind": kind, "on": on, **options}
        phase = Phase.model_validate({"name": "only", "duration": "1h", "faults": [choice]})
        self.injections.prepare_phase("only", 0, faults=phase.faults)
        self.injections.begin_phase("only")
        self.injections.run_due()
        return self.injections.records()[-1]

    def end_faults(self) -> InjectionRecord:
        """End the active faults and return the last one's record."""
        self.injections.end_phase("only")
        return self.faults()[-1]

    def faults(self) -> list[InjectionRecord]:
        """Return the records of all faults."""
        return [record for record in self.injections.records() if record.category == "fault"]

    def start_maintenance(self, **choice: object) -> None:
        """Start a maintenance process; it works until `end_maintenance`."""
        self.injections.start_maintenance([MaintenanceChoice.model_validate(choice)])

    def end_maintenance(self) -> InjectionRecord:
        """End every injection, maintenance included, and return the record of the maintenance."""
        self.injections.end_all()
        return self.maintenance()

    def maintenance(self) -> InjectionRecord:
        """Return the record of the maintenance that was started last."""
        return [record for record in self.injections.records() if record.category == "maintenance"][-1]

    def wait_until(self, condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
        """Wait until something is so, faults being kept up meanwhile; fails the test if it is not in time."""

        def is_so() -> bool:
            if condition():
                return True
            self.injections.run_due()
            return False

        wait_for(is_so, what, within_s, every_s=0.05)

    def go_on_for(self, duration_s: float) -> None:
        """Let time pass, faults being kept up meanwhile, and at its end: also if the machine stood still for all of it."""
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            self.injections.run_due()
            time.sleep(0.02)
        self.injections.run_due()

    def events(self, event: Event, since_ns: int = 0) -> list[dict[str, str]]:
        """Return all records of an event, of all processes. Each line is read once, however often a test looks."""
        for path in self.folder.events.glob("*.csv"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole_lines, end, _ = file.read().rpartition(b"\n")  # the last may be half written
            self._read[path] = self._read.get(path, 0) + len(whole_lines) + len(end)
            for line in whole_lines.decode().split("\n") if whole_lines else []:
                row = dict(zip(EVENT_COLUMNS, line.split(","), strict=True))
                self._events.setdefault(row["event"], []).append((int(row["t_ns"]), row))
        return [row for t_ns, row in self._events.get(event, []) if t_ns >= since_ns]

    def go_on_until_killed(self, role: str) -> None:
        """Wait until one more process of a role has been killed."""

        def count() -> int:
            return sum(process.poll() == -signal.SIGKILL for process in self.processes.of_role(role))

        before = count()
        self.wait_until(lambda: count() > before, f"the death of a {role}")

    def wait_until_jobs_complete(self, count: int = 20, within_s: float = PATIENCE_S) -> None:
        """Wait until so many more jobs are completed from now on."""
        since_ns = time.time_ns()
        self.wait_until(lambda: len(self.events(Event.COMPLETED, since_ns)) >= count, f"{count} completions", within_s)

    def require_whole(self) -> None:
        """Fail unless no fault is left, and as many workers and producers as at the start do their work: another test can use the run."""
        assert not [record.name for record in self.injections.records() if not is_over(record)], "an injection is left"
        assert not self.processes.exited_unexpectedly()
        roles = (("worker", self.scenario.workers.count), ("producer", self.scenario.producers.count))
        running = {role: {process.name for process in self.load.running(role)} for role, _ in roles}
        assert {role: len(names) for role, names in running.items()} == dict(roles)
        since_ns = time.time_ns()
        for role, event in (("worker", Event.COMPLETED), ("producer", Event.ENQUEUED)):

            def are_at_work(names: set[str] = running[role], event: Event = event) -> bool:
                return names <= {row["process"] for row in self.events(event, since_ns)}

            self.wait_until(are_at_work, f"a job of each {role}")

    def process(self, name: str) -> Process:
        """Return the process of that name that was started last."""
        return [
            process
            for role in ("worker", "producer", "server")
            for process in self.processes.of_role(role)
            if process.name == name
        ][-1]


def is_over(record: InjectionRecord) -> bool:
    """Whether a fault was ended or undone, or could not be started."""
    return record.end_ns is not None or record.verified_gone_ns is not None or record.verified_ns is None


@contextmanager
def faulty_run(
    path: Path,
    *,
    engine: str = "postgres",
    replicas: int = 0,
    synchronous: bool = False,
    queue: str = "skip_locked",
    workers: int = 2,
    work: str = "1ms",
    settings: str = "{}",
    queue_options: str = "",
    prepared_statements: bool = True,
    database: str = "",
    producers: str = "",
) -> Iterator[FaultyRun]:
    """Bring one up in ``path``, and take it down, whatever the test did to it; only servers that are as they were may stay, for other tests.

    ``settings``: of the server, as TOML. ``queue_options``: of the queue, a line of TOML each; ``database``, ``producers``: more of
    these tables.
    """
    file = path / "small.toml"
    values = {"queue": queue, "queue_options": queue_options, "workers": workers, "work": work, "settings": settings}
    switches = {"prepared_statements": str(prepared_statements).lower(), "synchronous": str(synchronous).lower()}
    file.write_text(
        SCENARIO.format(**switches, engine=engine, replicas=replicas, database=database, producers=producers, **values)
    )
    scenario = read_scenario(str(file))
    folder = create_run_folder(scenario, path / "runs")
    with CLUSTERS.lend(scenario.database, folder.logs, find_queue(scenario.queue.kind).second_engine) as started:
        run = FaultyRun(scenario, started, folder)
        try:
            yield run
        finally:
            run.injections.undo_all()
