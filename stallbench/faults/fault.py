"""What every fault does: go wrong, prove it, stay wrong, and be undone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from stallbench.engines import ENGINES, Engine
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.context import InjectionContext

FaultTarget = Literal["server", "primary", "replica", "link", "worker", "producer", "scheduler"]
"""Where a fault strikes. ``server``: one, by its name, or the way of clients to it. ``primary``, ``replica``: a server that is one.
``link``: the replication to a replica, ``replication-<replica>``. ``worker``, ``producer``: one process, by its name,
or with ``workers``, ``producers`` all of them. ``scheduler``: the queue's, if it has one."""


class FaultOptions(BaseModel):
    """Options of a kind, as the scenario gives them. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


OptionsT = TypeVar("OptionsT", bound=FaultOptions)


class Fault(ABC, Generic[OptionsT]):
    """One thing that goes wrong in a phase.

    All of it runs in the bench's main thread. A method that takes long delays the faults beside it, so what takes seconds is started in
    `inject` and looked at in `keep_up`; what the bench is killed in the middle of is gone with the run's processes and its folder.
    """

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on what it does."""
    source: ClassVar[str]
    """Who has met it."""
    places: ClassVar[tuple[FaultTarget, ...]]
    engines: ClassVar[frozenset[Engine]] = frozenset(ENGINES)
    on_external: ClassVar[Literal["always", "if allowed", "never"]] = "always"
    """Whether it may strike servers that the bench did not start. ``if allowed``: others on the same server feel it."""
    ends_server: ClassVar[bool] = False
    """Whether a server does not live through it: what is looked at over many faults, as in a soak, would begin anew each time."""
    adds_load: ClassVar[bool] = False
    """Whether it enqueues jobs on top of the scenario's load; its evidence then has ``at_once`` (jobs) and ``rate`` (jobs a second)."""
    needs_of_database: ClassVar[tuple[str, str] | None] = None
    """A key of ``database`` without which it cannot strike, and what it may be, in words."""
    explains_errors: ClassVar[frozenset[ErrorKind]] = frozenset()
    """The kinds of errors that clients may meet because of it. A run fails on errors of any other kind, also while the fault is active."""
    options_type: ClassVar[type[FaultOptions]] = FaultOptions

    def __init__(self, name: str, on: str, options: OptionsT, context: InjectionContext) -> None:
        """Prepare; nothing goes wrong yet. ``name``: of this fault in the records. ``on``: where, as the scenario says."""
        self.name = name
        self.on = on
        self.options = options
        self.context = context

    @property
    def is_momentary(self) -> bool:
        """Whether it is over as soon as it has happened: recovery counts from there."""
        return False

    @abstractmethod
    def inject(self) -> dict[str, Any]:
        """Let it go wrong, and return the evidence that it did, for the records.

        Raises `NotCarriedOutError`, or an error of a driver, if that cannot be done or cannot be seen to have happened.
        """

    def keep_up(self) -> None:
        """Do what must be done again and again while it lasts; called several times a second. Raises as `inject` does."""

    def is_over(self) -> bool:
        """Whether it has come to its end by itself, before its time: then it is ended, and recovery counts from there. Asked after `keep_up`."""
        return False

    def find_lapse(self) -> str | None:
        """Look whether it is still in force, when its time ends; returns why it is not, in words, or none."""
        return None

    def undo(self) -> dict[str, Any]:
        """Put right what it did, see that it is right, and return what that showed. Raises as `inject` does.

        It is called once, also when the run breaks off in the middle of `inject`.
        """
        return {}
