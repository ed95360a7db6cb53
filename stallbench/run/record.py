"""``run.json``: the record of a run, from its scenario to its end. One model, which all code writes and reads.

docs/run-folder.md describes the file for readers that do not use this package.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

import stallbench
from stallbench.base.duration import ON_RECORD
from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.format import require_format
from stallbench.base.storage.record_text import read_record_text
from stallbench.errors import BadInputError
from stallbench.processes.record import ProcessRecord
from stallbench.queues.record import QueueRecord
from stallbench.records.injections import InjectionCategory, InjectionRecord
from stallbench.scenario.model import Scenario
from stallbench.servers.record import ServerRecord

FORMAT = 2
MEASUREMENT = 1
"""Version of the measurement. Whoever changes how runs are carried out, or how figures are computed, so that the same queue would have other figures,
adds one: figures that were measured before are then shown as stale (`stallbench.evidence.staleness`).
"""
RunStatus = Literal["running", "completed", "aborted", "failed"]


class _Part(BaseModel):
    """A part of the record. Times in ``_ns`` are wall-clock nanoseconds since 1970, UTC; None if the event did not happen."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BenchRecord(_Part):
    """The process of the bench."""

    version: str
    measurement: int = Field(default=0, description="version of the measurement (`MEASUREMENT`); 0 in a record that does not say")
    pid: int
    process_started_s: float = Field(description="seconds since 1970; with the pid it identifies the process")


class HostRecord(_Part):
    """The machine that the bench ran on."""

    cpus: int
    cpu_model: str
    memory_bytes: int
    kernel: str
    os: str
    disk_free_bytes: int = Field(description="at the start of the run")
    boot_id: str


class PhaseRecord(_Part):
    """A phase: its plan and its actual times."""

    name: str
    measured: bool
    planned_start_s: float = Field(description="after the start of the first phase")
    planned_duration_s: float
    start_ns: int | None = None
    end_ns: int | None = None


class UncertainMetric(_Part):
    """A metric of an observation that is not known exactly, because a look did not see every job."""

    metric: str = Field(description="like `depth.max`")
    why: str = Field(description="what was not seen, and at how many looks")
    is_at_least: bool = Field(description="whether the actual value is certainly not smaller than that of the samples")


class RunRecord(_Part):
    """The content of ``run.json``."""

    format: Literal[2] = 2
    id: str = Field(description="the folder's name")
    status: RunStatus = Field(
        default="running", description="aborted: interrupted, or the bench was killed; failed: could not be carried out"
    )
    reason: str = Field(
        default="", description="why it was aborted or failed; of an observation, why the server could not be read at its end"
    )
    ended_early: str = Field(
        default="",
        description="why the phases that were left did not begin: every worker had exited, or a requirement with `abort` could not be met any more",
    )
    bench: BenchRecord
    seed: int = Field(description="seed of every random choice")
    scenario: Scenario
    queue: QueueRecord
    collectors: tuple[str, ...] | None = Field(
        default=None, description="names of those that sample; null in a record that does not list them"
    )
    versions: dict[str, str] = Field(default={}, description="of Python and the libraries whose behaviour can change a result")
    host: HostRecord
    servers: tuple[ServerRecord, ...] = ()
    phases: tuple[PhaseRecord, ...] = Field(min_length=1)
    injections: tuple[InjectionRecord, ...] = ()
    processes: tuple[ProcessRecord, ...] = ()
    is_observation: bool = Field(
        default=False, description="whether a server was only observed: the bench started no process and generated no load"
    )
    uncertain_metrics: tuple[UncertainMetric, ...] = Field(
        default=(), description="of an observation; an expectation of one of them that would otherwise hold may be unknown"
    )
    notes: tuple[str, ...] = Field(default=(), description="sentences that the report must show")

    @model_validator(mode="after")
    def _require_different_phases(self) -> Self:
        names = [phase.name for phase in self.phases]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two phases are named {twice[0]!r}; their figures could not be distinguished")
        return self

    @property
    def faults(self) -> tuple[InjectionRecord, ...]:
        """The injections that are faults."""
        return self._injected("fault")

    @property
    def longrunners(self) -> tuple[InjectionRecord, ...]:
        """The injections that are longrunners."""
        return self._injected("longrunner")

    @property
    def maintenance(self) -> tuple[InjectionRecord, ...]:
        """The injections that are maintenance."""
        return self._injected("maintenance")

    def _injected(self, category: InjectionCategory) -> tuple[InjectionRecord, ...]:
        return tuple(injection for injection in self.injections if injection.category == category)

    @property
    def started_phases(self) -> tuple[PhaseRecord, ...]:
        """The phases that were started."""
        return tuple(phase for phase in self.phases if phase.start_ns is not None)

    def place_phases(self, last_ns: int) -> list[tuple[PhaseRecord, int, int]]:
        """Return the phases that were started, each with its start and its end; ``last_ns`` is the time of the last record.

        A phase whose end was not recorded, because the bench was killed, ends where the next one begins or after the last record.
        """
        begun = [(phase, phase.start_ns) for phase in self.phases if phase.start_ns is not None]
        next_ns = [start_ns for _, start_ns in begun[1:]] + [max([last_ns, *(start_ns for _, start_ns in begun)]) + 1]
        return [(phase, start_ns, phase.end_ns or end_ns) for (phase, start_ns), end_ns in zip(begun, next_ns, strict=False)]

    @property
    def measured_phases(self) -> tuple[PhaseRecord, ...]:
        """The phases that were started and whose figures count."""
        return tuple(phase for phase in self.started_phases if phase.measured)

    @property
    def dead_processes(self) -> frozenset[str]:
        """Names of the processes that, at least once, ended by a signal, ended with a code other than 0, or have no recorded end."""
        return frozenset(
            process.name
            for process in self.processes
            if process.exit_code not in (None, 0, *process.orderly_exit_codes) or self.has_unrecorded_end(process)
        )

    @property
    def dead_workers(self) -> list[str]:
        """Names of the workers among `dead_processes`."""
        return sorted({process.name for process in self.processes_of("worker")} & self.dead_processes)

    def has_unrecorded_end(self, process: ProcessRecord) -> bool:
        """Whether the end of ``process`` was not recorded, so that it may have died at any moment. If a process of the bench has no recorded end, it
        ended with the bench, unless the run completed: then it ran until after the record was written. An external process records its own end: if
        there is none, it was killed or lost the run's folder.
        """
        return process.end_ns is None and (self.status != "completed" or process.external)

    def processes_of(self, role: str) -> tuple[ProcessRecord, ...]:
        """Return the processes of one role, including external ones."""
        return tuple(process for process in self.processes if process.role == role)


def describe_bench() -> BenchRecord:
    """Return the process that writes a record, so that other processes can check whether it still runs."""
    import psutil

    return BenchRecord(
        version=stallbench.__version__,
        measurement=MEASUREMENT,
        pid=os.getpid(),
        process_started_s=psutil.Process().create_time(),
    )


def read_record(path: AnyPath) -> RunRecord:
    """Read a ``run.json``; raises `OSError` if it cannot be read, `BadInputError` as `parse_record` does."""
    return parse_record(read_record_text(path), str(path))


def parse_record(text: str, where: str) -> RunRecord:
    """Read the text of a ``run.json``. Raises `BadInputError`, which names the path ``where``, if it is invalid or has another format."""
    with suppress(ValueError, RecursionError):  # then it is no JSON, which the validation says
        advice = "run the scenario again, or read it with the version that wrote it"
        require_format(json.loads(text), FORMAT, where, advice)
    try:
        return RunRecord.model_validate_json(text, by_name=True, by_alias=False, context={ON_RECORD: True})
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in issue["loc"])
        message = issue["msg"].removeprefix("Value error, ")
        raise BadInputError(f"{where}: not a run's record: {key + ': ' if key else ''}{message}") from None
