"""One run, from the start of the servers to the final snapshot of the queue. Start reading at `Run.carry_out`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.injection.context import InjectionContext
from stallbench.injection.life_cycle import Injections
from stallbench.processes.process import ROLE_STOP_S
from stallbench.processes.record import ProcessRecord
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import Queue, find_queue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.injections import InjectionRecord
from stallbench.run.abort import Abort
from stallbench.run.backlog import take_final_snapshot
from stallbench.run.bystander.process import create_table, is_wanted, start_bystander, stop_bystander
from stallbench.run.external_processes import ExternalProcesses
from stallbench.run.folder import RunFolder
from stallbench.run.intervals import Interval, read_intervals
from stallbench.run.live_figures import LiveFigures, read_live_figures
from stallbench.run.load import Load
from stallbench.run.observers import ObserverOptions, Observers
from stallbench.run.panel import RunProgress
from stallbench.run.phase_end import watch_phase
from stallbench.run.recorder import RunRecorder
from stallbench.run.sampling.process import Sampling
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Phase
from stallbench.servers.addresses import ExternalServers
from stallbench.servers.cleanup_journal import CleanupJournal
from stallbench.servers.cluster import Cluster, start_cluster
from stallbench.servers.join import install, join_cluster

_SHOW_EVERY_S = 1.0


class Run:
    """One run of a scenario. `open_run` creates it and takes it down."""

    def __init__(
        self,
        scenario: Scenario,
        folder: RunFolder,
        recorder: RunRecorder,
        processes: Supervisor,
        scratch: Path,
        view: RunView,
        external_servers: ExternalServers | None = None,
        observer_options: ObserverOptions | None = None,
        group: str | None = None,
    ) -> None:
        """Start nothing yet. ``external_servers``: to run on; if None, the bench starts its own. ``observer_options``: observers, if any.
        ``group``: whose members may join, besides this user.
        """
        self.scenario = scenario
        self.folder = folder
        self.recorder = recorder
        self.view = view
        self._processes = processes
        self._scratch = scratch
        self._cluster: Cluster | None = None
        self._load: Load | None = None
        self._injections: Injections | None = None
        self._sampling: Sampling | None = None
        self._sealing: Thread | None = None
        self._exited_unexpectedly: set[str] = set()
        self._show_at_s = 0.0
        self._abort = Abort(scenario)
        self._why_nobody_is_left = ""
        self._has_bystander = is_wanted(scenario)
        self._injection_numbers: Counter[str] = Counter()
        self._external_processes = ExternalProcesses(folder, group)
        self._external_servers = external_servers
        self._observer_options = observer_options or ObserverOptions()
        self._observers = Observers(self._observer_options, folder, scenario.labels, view.say)
        self._journal = CleanupJournal(scratch)
        self.when_measured: Callable[[], None] = lambda: None  # called after the last phase, before the load is stopped
        self.is_restored = True  # after `take_down`: whether everything on external servers was undone

    def carry_out(self) -> None:
        """Carry the scenario out to its end, and begin to seal its records.

        Raises `NotCarriedOutError` if the result would be meaningless: a server is missing, a longrunner was not verified, or the load is incomplete.
        The records are kept.
        """
        self._observers.start(self._processes, self._scratch)
        self._start_servers()
        self._install_queue()
        self._start_collectors()
        self._start_load()
        self._run_phases()
        self.when_measured()
        self._stop_load()
        self._take_final_snapshot()
        self._start_sealing()

    @property
    def unexpected_exits(self) -> list[str]:
        """Names of the processes that ended although nothing had asked them to."""
        return sorted({each.name for each in self._processes.records() if each.intended == "running"} & self._exited_unexpectedly)

    @property
    def cluster(self) -> Cluster:
        """The servers, once they are started."""
        assert self._cluster is not None, "the servers have not been started"
        return self._cluster

    @property
    def load(self) -> Load:
        """The producers, workers and scheduler, once they are started."""
        assert self._load is not None, "the load has not been started"
        return self._load

    @property
    def injections(self) -> Injections:
        """The faults, longrunners and maintenance, once the load is started."""
        assert self._injections is not None, "the load has not been started"
        return self._injections

    def _start_servers(self) -> None:
        if self._external_servers:
            self._cluster = join_cluster(
                self._external_servers,
                self.scenario.database,
                journal=self._journal,
                logs=self.folder.logs,
                processes=self._processes,
                progress=self.view.say,
            )
        else:
            self._cluster = start_cluster(
                self.scenario.database,
                scratch=self._scratch,
                logs=self.folder.logs,
                processes=self._processes,
                progress=self.view.say,
                second_engine=find_queue(self.scenario.queue.kind).second_engine,
            )
            self._journal.record_sets(self.scenario.queue.kind, self._cluster.server("primary").direct)
        self._record_servers()

    def _record_servers(self) -> None:
        self.recorder.follow("servers", self.cluster.records)
        self.recorder.write()

    def _install_queue(self) -> None:
        with self._opened_queue("install") as queue, self._processes.marking():
            install(queue, self.cluster.server("primary"))
        if self._has_bystander and (refusal := create_table(self.cluster)):
            self._has_bystander = False
            why = f"other queries are not measured: the server refused the bystander's table ({refusal})"
            self.recorder.note(f"{why[0].upper()}{why[1:]}.")
            self.view.say(why)

    def _opened_queue(self, name: str) -> AbstractContextManager[Queue[Any]]:
        """Open the queue on the primary, without the proxy."""
        queue = self.recorder.record.queue
        return opened_queue(queue.kind, queue.options, self.cluster.server("primary").direct, name)

    def _start_collectors(self) -> None:
        self._sampling = Sampling(
            self.cluster,
            self.recorder.record.queue,
            interval_s=self.scenario.collectors.interval_s,
            processes=self._processes,
            folder=self.folder,
        )
        if self.scenario.collectors.enabled:
            self._sampling.start()
        else:
            self.recorder.note("The collectors were disabled: nothing was sampled.")

    def _start_load(self) -> None:
        backlog = self._fill_and_start()
        if self.scenario.external_processes:
            self._external_processes.publish(
                self.scenario,
                self.recorder.record.queue,
                self.cluster,
                expose=exposure.host if (exposure := self._observer_options.exposure) else None,
            )
            self.view.say(self._external_processes.describe_how_to_join())
        if self._has_bystander:
            start_bystander(self.scenario, self.cluster, processes=self._processes, folder=self.folder)
        if not backlog and self.scenario.producers.rate == 0:
            self.recorder.note("There was no load: producers.rate is 0.")
        if self._sampling:
            self._sampling.wait_ready()  # the collectors have started meanwhile
        self.recorder.write()

    def _fill_and_start(self) -> int:
        """Fill the queue, then start the scheduler, the maintenance, the workers and the producers. Returns the size of the backlog."""
        self._load = Load(
            self.scenario,
            self.recorder.record.queue,
            self.cluster.server("primary").proxied,
            processes=self._processes,
            folder=self.folder,
        )
        if backlog := self._load.fill():
            self._check_processes()
            primary = self.cluster.server("primary").direct
            with self._opened_queue("vacuum") as queue:
                driver_of(primary.engine).vacuum_and_analyze(queue.connection, queue.tables)
            self.view.say(f"{backlog:,} jobs are in the queue")
        self._load.start_scheduler()
        self._start_maintenance()
        self._load.start_workers()
        self._load.start_producers()
        return backlog

    def _start_maintenance(self) -> None:
        self._injections = Injections(
            InjectionContext(
                cluster=self.cluster,
                load=self.load,
                processes=self._processes,
                queue=self.recorder.record.queue,
                logs=self.folder.logs,
                job_faults=self.folder.job_faults,
                scratch=self._scratch,
                journal=self._journal,
                seed=self.scenario.seed,
                note=self.recorder.note,
            ),
            say=self.view.say,
            numbers=self._injection_numbers,
        )
        self.recorder.follow("injections", self.injections.records)
        self.injections.start_maintenance(self.scenario.maintenance)

    def _run_phases(self) -> None:
        """Run the phases one after the other, the last ones only if workers are left and every requirement with ``abort`` may still be met."""
        for index, phase in enumerate(self.scenario.phases):
            self._run_phase(index, phase)
            if self._why_over:
                self.recorder.end_early(self._why_over)
                self.view.say(f"the run ends early: {self._why_over}")
                return

    @property
    def _why_over(self) -> str:
        """Why the phases that are left need not begin; empty as long as the run goes on."""
        return self._why_nobody_is_left or self._abort.reason

    def _run_phase(self, index: int, phase: Phase) -> None:
        self.injections.prepare_phase(
            phase.name,
            self.recorder.record.phases[index].planned_start_s,
            longrunners=phase.longrunners,
            faults=phase.faults,
        )
        self.recorder.begin_phase(index)
        self.injections.begin_phase(phase.name)
        if index == 0:
            self.load.go()
        self._show_at_s = 0.0
        watch_phase(
            phase,
            lambda left_s: self._poll(phase, left_s),
            lambda: self._opened_queue("backlog"),
            self.recorder.note,
            is_over=lambda: bool(self._why_over),
        )
        self.recorder.end_phase(index)
        self.injections.end_phase(phase.name, is_early=bool(self._why_over))
        self._abort.end_phase(phase.name)
        self.recorder.write()

    def _poll(self, phase: Phase, left_s: float) -> float | None:
        """Perform the actions that are due during a phase; ``left_s`` seconds are left. Returns the seconds until the next injection, if any."""
        self._check_processes()
        self._observers.update(self._intervals(), self._processes.exposed(), self._external_processes.exposed())
        next_due_s = self.injections.run_due()
        self.recorder.tick()
        if self._sampling:
            self._sampling.follow()
        if (now_s := time.monotonic()) >= self._show_at_s:
            self._show_at_s = now_s + _SHOW_EVERY_S
            times_claims = self.recorder.record.queue.library is None
            read_figures = partial(read_live_figures, self.folder, times_claims=times_claims)
            if self._abort.is_asked:
                figures = read_figures()
                self._look(phase.name, now_s, figures)
                self.view.show(self._find_progress(phase, left_s), lambda: figures)
            else:
                self.view.show(self._find_progress(phase, left_s), read_figures)
        return next_due_s

    def _find_progress(self, phase: Phase, left_s: float) -> RunProgress:
        phases = self.scenario.phases
        number = phases.index(phase)
        planned_s = [each.duration_s for each in phases]
        return RunProgress(
            phase=phase.name,
            number=number + 1,
            phases=len(phases),
            left_s=left_s,
            done_s=sum(planned_s[: number + 1]) - left_s,
            whole_s=sum(planned_s),
            may_end_earlier=any(each.until != "duration" for each in phases[number:]),
            in_force=[f"{each.name} on {each.on}" for each in self._list_disturbances() if each.end_ns is None],
        )

    def _look(self, phase: str, now_s: float, figures: LiveFigures) -> None:
        workers = {process.name for role in ("worker", "scheduler") for process in self._processes.of_role(role)}
        is_disturbed = any(each.end_ns is None for each in self._list_disturbances())
        self._abort.look(phase, now_s, figures, is_disturbed=is_disturbed, gone=workers.intersection(self.unexpected_exits))

    def _intervals(self) -> list[Interval]:
        return read_intervals(self.recorder.record.phases, self._injections.records() if self._injections else [])

    def _list_disturbances(self) -> list[InjectionRecord]:
        """Return the faults and longrunners that have begun."""
        all_ = self._injections.records() if self._injections else []
        return [each for each in all_ if each.category in ("fault", "longrunner") and each.start_ns is not None]

    def _check_processes(self) -> None:
        """Record processes that exited unexpectedly. If every worker has, or the scheduler, the run is over: the queue did not survive what was injected.

        Raises `NotCarriedOutError` if a server or every producer has ended, or a role of the queue before anything was injected.
        """
        self.cluster.check()
        for process in self._processes.exited_unexpectedly():
            if process.name not in self._exited_unexpectedly:
                self._exited_unexpectedly.add(process.name)
                may_end = self._injections is not None and self._injections.may_be_ended(process.name)
                end = f"{process.name} {'ended early, as the scenario allows' if may_end else 'exited unexpectedly'} ({process.exit_cause})"
                self.recorder.note(f"{end}; see logs/{process.log.name}.")
                self.view.say(end)
        for sentence in self._processes.take_hard_ends():
            self.recorder.note(f"{sentence}.")
            self.view.say(sentence)
        for role in ("producer", "worker", "scheduler"):
            names = {process.name for process in self._processes.of_role(role)}
            if names and names <= self._exited_unexpectedly:
                why = f"every {role} has exited: {', '.join(sorted(names))}"
                if role == "producer" or not self._list_disturbances():
                    raise NotCarriedOutError(f"{why}; see {self.folder.logs}")
                self._why_nobody_is_left = self._why_nobody_is_left or why

    def _stop_load(self) -> None:
        for role in ("longrunner", "producer"):
            self._external_processes.stop(role, ROLE_STOP_S)
        self.injections.end_all()
        stop_bystander(self._processes)
        self.load.stop()
        self._external_processes.stop("worker", ROLE_STOP_S)
        self.recorder.write()
        self._check_processes()

    def _take_final_snapshot(self) -> int:
        """Record the jobs that the queue still holds. Returns their number."""
        with self._opened_queue("final_snapshot") as queue:
            count = take_final_snapshot(queue, self.folder.final_snapshot)
        if self._sampling:
            self._sampling.stop()
        self.view.say(f"the queue still holds {count:,} jobs")
        return count

    def _start_sealing(self) -> None:
        """Seal the records, which are complete, while the servers stop."""
        self._sealing = Thread(target=self._seal, name="seal")
        self._sealing.start()

    def _seal(self) -> None:
        from stallbench.records.sealing import seal  # loads Arrow's Parquet, which nothing needs before

        try:
            seal(self.folder.path)
        except OSError as error:
            self.view.say(f"the records are not sealed: {error.strerror or error}; it is tried again for the tables")

    def process_records(self) -> list[ProcessRecord]:
        """Return the records of all processes of the run, those of the bench and external ones."""
        return [*self._processes.records(), *self._external_processes.records()]

    def take_down(self) -> None:
        """Stop everything that the run started, in any state of the run. A second call does nothing."""
        if self._injections is not None:
            self._injections.undo_all()
        self._processes.stop_all()
        self._observers.stop(self._intervals())
        self._external_processes.close()
        if self._sealing is not None:
            self._sealing.join()
        cleanup = self._journal.clean_up()
        self.is_restored = self.is_restored and not cleanup.remaining
        for sentence in cleanup.sentences:
            self.recorder.note(f"{sentence[0].upper()}{sentence[1:]}")
            self.view.say(sentence)
