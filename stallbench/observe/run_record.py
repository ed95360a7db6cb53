"""``run.json`` of an observation, so that the usual pipeline, verdict and report read it like a run's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.engines.collectors.document import WatchedQueue
from stallbench.engines.database import Database
from stallbench.observe.address import ObservedServers
from stallbench.observe.expectations import PHASE
from stallbench.queues import Promise
from stallbench.queues.record import QueueRecord
from stallbench.run.folder import RunFolder, create_run_folder
from stallbench.run.host_facts import read_host_facts, read_library_versions
from stallbench.run.record import RunRecord, RunStatus, UncertainMetric, describe_bench
from stallbench.run.recorder import plan_phases
from stallbench.scenario.expectation import Expectation
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Collectors, Phase, Producers, QueueChoice
from stallbench.servers.record import ServerRecord
from stallbench.visible_text import make_visible


class ObservationRecord:
    """The record of an observation that is going on."""

    def __init__(
        self,
        runs: Path,
        servers: ObservedServers,
        queue: WatchedQueue,
        *,
        title: str,
        version: str,
        duration_s: float,
        every_s: float,
        expect: Sequence[Expectation] = (),
    ) -> None:
        """Make the folder below ``runs`` and write the record of an observation that begins now. Raises `NotCarriedOutError`."""
        engine = servers.primary.engine
        scenario = Scenario(
            name="observe",
            file="",
            summary=f"Observed: {title}.",
            database=Database(engine=engine, replicas=len(servers.replicas)),
            queue=QueueChoice(kind=queue.kind),
            producers=Producers(rate=0),
            collectors=Collectors.model_construct(interval_s=every_s),
            phases=(Phase.model_construct(name=PHASE, duration_s=duration_s),),
            expect=tuple(expect),
        )
        self.folder: RunFolder = create_run_folder(scenario, runs)
        now_ns = time.time_ns()
        roles = {"primary": servers.primary, **servers.replicas}
        phase = plan_phases(scenario.phases)[0].model_copy(update={"start_ns": now_ns})
        self._record = RunRecord(
            id=self.folder.path.name,
            bench=describe_bench(),
            seed=scenario.seed,
            scenario=scenario,
            queue=QueueRecord(
                kind=queue.kind,
                promise=Promise.AT_LEAST_ONCE,
                ordered=False,
                tables=tuple(make_visible(table, in_one_line=True) for table in queue.tables),
                indexes=queue.indexes,
                claim_pattern=queue.claim_pattern,
                summary="the queue of an application, which the bench only observed",
                source="the observed database",
            ),
            versions=read_library_versions(),
            host=read_host_facts(),
            servers=tuple(
                ServerRecord(
                    name=name,
                    role="primary" if name == "primary" else "replica",
                    engine=engine,
                    version=version if name == "primary" else "",
                    port=endpoint.port,
                    proxy_port=None,
                    settings={},
                    start_ns=now_ns,
                    end_ns=None,
                )
                for name, endpoint in roles.items()
            ),
            phases=(phase,),
            is_observation=True,
        )
        self._write()

    def end(
        self, status: RunStatus, reason: str = "", notes: Sequence[str] = (), uncertain: Sequence[UncertainMetric] = ()
    ) -> None:
        """Record how the observation ended. ``reason``: why it failed or, if it was completed, why the server could not be read at the end.

        ``uncertain``: the metrics of jobs that were not all seen.
        """
        phase = self._record.phases[0].model_copy(update={"end_ns": time.time_ns()})
        self._record = self._record.model_copy(
            update={
                "status": status,
                "reason": reason,
                "phases": (phase,),
                "uncertain_metrics": tuple(uncertain),
                "notes": tuple(notes),
            }
        )
        self._write()

    def _write(self) -> None:
        replace_file(self.folder.record, self._record.model_dump_json(indent=1))
