"""Base of all faults: inject, verify, keep active, undo, and verify that nothing is left."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from stallbench.engines import ENGINES, EngineName
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.context import InjectionContext
from stallbench.injection.faults.combination import Combination
from stallbench.queues import Queue
from stallbench.records.injections import Evidence

FaultTarget = Literal["server", "primary", "replica", "link", "worker", "producer", "scheduler"]
"""What a fault can act on. ``server``: a server, by its name, or its connections to clients. ``primary``, ``replica``: a server of that role.
``link``: the replication to a replica, ``replication-<replica>``. ``worker``, ``producer``: one process, by its name; ``workers``, ``producers``:
all of them. ``scheduler``: the queue's scheduler, if it has one."""


class FaultOptions(BaseModel):
    """Options of a kind, as the scenario gives them. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


OptionsT = TypeVar("OptionsT", bound=FaultOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlace:
    """The surroundings of a fault in a scenario, as far as the fault's options may depend on them."""

    on: str
    queue: type[Queue[Any]]
    queue_options: Mapping[str, Any]
    by_locust: bool
    """Whether Locust's users are the producers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedLoad:
    """What a fault enqueues on top of the scenario's load."""

    rate: float
    """Jobs per second, while it is active."""
    at_once: int
    """Jobs when it begins."""


class Fault(ABC, Generic[OptionsT]):
    """One kind of fault. Every method runs in the bench's main thread, so a long method delays the other faults: start what takes seconds in
    `inject`, and check its progress in `tick`. If the bench is killed, `undo` is not called; everything that the fault has created must then
    disappear with the run's processes and folder, or be recorded for the cleanup (`stallbench.servers.join.create_recorded`).
    """

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on what it does."""
    meanwhile: ClassVar[str] = "{kind} acted on {on}"
    """What happens while it is active, to follow "while", for a reader who does not know the kind. ``{on}`` is what it acts on, ``{were}`` its verb."""
    source: ClassVar[str]
    """Where it has been reported."""
    targets: ClassVar[tuple[FaultTarget, ...]]
    """What it can act on."""
    engines: ClassVar[frozenset[EngineName]] = frozenset(ENGINES)
    on_external: ClassVar[Literal["always", "if allowed", "never"]] = "always"
    """Whether it may act on servers that the bench did not start. ``if allowed``: it affects the other users of the server."""
    ends_server: ClassVar[bool] = False
    """Whether it ends a server process. A soak refuses such a fault, because it observes servers over many cycles."""
    may_end_claims: ClassVar[bool] = False
    """Whether a claim may end with it before its time: the server loses what it had stored, or the clock changes by which claims expire."""
    adds_load: ClassVar[bool] = False
    """Whether it enqueues jobs on top of the scenario's load; its evidence then has ``at_once`` (jobs) and ``rate`` (jobs per second),
    and `find_added_load` returns the same before it begins."""
    needs_of_database: ClassVar[tuple[str, str] | None] = None
    """A key of ``database`` that it requires, and a description of the values allowed."""
    passes_pooler: ClassVar[bool] = False
    """Whether it leads clients to another address past the pooler of ``database.pooler``, which it therefore excludes."""
    explains_errors: ClassVar[frozenset[ErrorKind]] = frozenset()
    """The kinds of errors that it may cause in clients. A run fails on errors of any other kind, even while the fault is active."""
    combination: ClassVar[Combination | None] = None
    """How combined faults (`chaos` of a phase) use it. None: they do not, because it needs a special server, or changes the server permanently."""
    options_type: ClassVar[type[FaultOptions]] = FaultOptions

    def __init__(self, name: str, on: str, options: OptionsT, context: InjectionContext) -> None:
        """Prepare; nothing is injected. ``name``: of this fault in the records. ``on``: the target, as the scenario names it."""
        self.name = name
        self.on = on
        self.options = options
        self.context = context

    @cached_property
    def random(self) -> random.Random:
        """For its random choices. It shares this with no other fault: how often another one draws depends on the machine."""
        return random.Random(f"{self.context.seed} {self.name}")

    @classmethod
    def find_issue(cls, options: OptionsT, place: FaultPlace) -> tuple[str, str] | None:
        """Find a key that contradicts another key or the scenario; return its name, and the rest of the sentence after the name."""
        return None

    @classmethod
    def find_external_issue(cls, options: OptionsT, on: str) -> tuple[str, str] | None:
        """Find an option that is not for a server that the bench did not start; return its name, and the rest of the sentence. ``on``: the target."""
        return None

    @classmethod
    def list_explained_errors(cls, options: Mapping[str, Any]) -> frozenset[ErrorKind]:
        """Return `explains_errors`, or fewer kinds if it depends on the options, which are as ``run.json`` has them."""
        return cls.explains_errors

    @classmethod
    def find_added_load(cls, options: OptionsT) -> AddedLoad | None:
        """Return what it enqueues on top of the scenario's load; none if it enqueues nothing."""
        return None

    @property
    def is_momentary(self) -> bool:
        """Whether it has no duration, like a kill: recovery is measured from when it happened."""
        return False

    @property
    def longest_job_s(self) -> float | None:
        """How long a job takes that it makes longer; none if it does not change how long jobs take.

        So long a worker does not use its connection, and its errors count as those of a fault until so much later.
        """
        return None

    @abstractmethod
    def inject(self) -> Evidence:
        """Make it active, verify that it is, and return the evidence.

        Read the evidence back from the server, the proxy or the kernel. Raises `NotCarriedOutError`, or an error of a driver, if the fault
        cannot be injected or verified.
        """

    def tick(self) -> None:
        """Do what has to be repeated while it is active; called several times a second. Raises as `inject` does."""

    def is_over(self) -> bool:
        """Whether it has ended by itself before its planned end. It is then undone, and recovery is measured from that time. Called after
        `tick`.
        """
        return False

    def why_inactive(self) -> str | None:
        """Return why it is no longer active, or none if it is. Called at its end, just before `undo`."""
        return None

    def undo(self) -> Evidence:
        """Undo it, verify that nothing of it is left, and return the evidence. Raises as `inject` does.

        Called once, also when the run is aborted in the middle of `inject`.
        """
        return {}
