"""What the tables need to know from ``run.json``: when the phases were, who died, what the queue promises, who held the horizon."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from stallbench.injection.record import InjectionRecord
from stallbench.pipeline.failures import RunFolderError

FORMAT = 1
_COMPLETED = "completed"


class _Part(BaseModel):
    """A part of ``run.json``; keys that the tables do not need are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Phase(_Part):
    """A phase as it was planned and as it went."""

    name: str
    measured: bool = True
    planned_start_s: float = 0.0
    start_ns: int | None = None
    end_ns: int | None = None


class ProcessEnd(_Part):
    """How a process of the run ended."""

    name: str
    role: str
    end_ns: int | None = None
    exit_code: int | None = None


class QueueFacts(_Part):
    """What the queue says of itself."""

    promise: str
    rescues_jobs: bool = True
    """Whether a job whose worker is gone is ever given to another."""
    claims_survive_connection: bool | None = None
    expiry_s: float | None = None
    """Seconds after which a claim ends by itself; none if it does not."""
    attempt_limit: int | None = None
    """Attempts after which a job is not offered again; none if there is no limit."""
    window: int | None = None
    """Number of available jobs that a worker chooses from; none if it takes the first."""


class ProducerFacts(_Part):
    """What the producers were told."""

    backlog: int = 0
    """Jobs that were in the queue before the first phase."""


class ScenarioFacts(_Part):
    """What the scenario says, as far as the tables depend on it."""

    producers: ProducerFacts = ProducerFacts()


class RunFacts(_Part):
    """The facts of one run."""

    format: int
    status: str
    queue: QueueFacts
    scenario: ScenarioFacts = ScenarioFacts()
    phases: tuple[Phase, ...] = ()
    injections: tuple[InjectionRecord, ...] = ()
    processes: tuple[ProcessEnd, ...] = ()

    @property
    def faults(self) -> tuple[InjectionRecord, ...]:
        """The injections that are faults."""
        return tuple(injection for injection in self.injections if injection.category == "fault")

    @property
    def longrunners(self) -> tuple[InjectionRecord, ...]:
        """The injections that are longrunners."""
        return tuple(injection for injection in self.injections if injection.category == "longrunner")

    @property
    def started_phases(self) -> tuple[Phase, ...]:
        """The phases that the run came to."""
        return tuple(phase for phase in self.phases if phase.start_ns is not None)

    @property
    def executes_again(self) -> bool:
        """Whether the queue may execute a job again after an execution that went wrong."""
        return self.queue.promise == "at_least_once"

    @property
    def died(self) -> frozenset[str]:
        """Names of the processes that ended otherwise than they were asked to, at least once.

        That is: by a signal, or with a code other than 0; or without anybody having seen its end, in a run that broke off.
        """
        return frozenset(
            process.name
            for process in self.processes
            if process.exit_code not in (None, 0) or (process.end_ns is None and self.status != _COMPLETED)
        )

    def names_of(self, role: str) -> frozenset[str]:
        """Names of the processes of one role."""
        return frozenset(process.name for process in self.processes if process.role == role)


def parse_run_facts(text: str, where: str) -> RunFacts:
    """Read the text of ``run.json``; raises `RunFolderError`, naming ``where`` it stood, when it is not one."""
    try:
        facts = RunFacts.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in fault["loc"])
        raise RunFolderError(f"{where}: not a run's record: {key + ': ' if key else ''}{fault['msg']}") from None
    if facts.format != FORMAT:
        raise RunFolderError(f"{where}: format is {facts.format}; this version of stallbench reads format {FORMAT}")
    _refuse_twice(where, [phase.name for phase in facts.phases])
    return facts


def _refuse_twice(where: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RunFolderError(f"{where}: the phase {twice[0]!r} is there twice; its figures could not be told apart")
