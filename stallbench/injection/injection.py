"""One injection of any category: the operations of its life cycle. `stallbench.injection.life_cycle` calls them in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from stallbench.records.injections import Evidence, InjectionRecord


class Injection(ABC):
    """A fault, a longrunner or a maintenance process: planned, active, verified, ended, verified gone.

    Every operation runs in the bench's main thread. Each raises an error of the environment (`NotCarriedOutError`, `OSError`, an error of
    a driver) when the servers, the proxy or the machine do not do what they should; such an error ends the run.
    """

    is_momentary = False
    """Whether it has no duration, like a kill: recovery is measured from when it happened. `end` cleans up after it."""

    def __init__(self, record: InjectionRecord, *, after_s: float = 0.0) -> None:
        """Plan it. ``after_s``: how long after the start of its phase it begins."""
        self.record = record
        self.after_s = after_s
        self.begins_at_s: float | None = None
        """On the monotonic clock; none until its phase has begun."""
        self.ends_at_s: float | None = None
        """On the monotonic clock; none until it is active, and if it lasts until its phase, or the run, ends."""
        self.is_ended = False

    @property
    def is_active(self) -> bool:
        """Whether it was begun and not ended, so that its effect may have to be undone."""
        return self.record.start_ns is not None and not self.is_ended

    @property
    def description(self) -> str:
        """Category, name, target and phase, for messages."""
        where = f"{self.record.category} {self.record.name} on {self.record.on}"
        return where if self.record.phase is None else f"{where} in phase {self.record.phase!r}"

    def update(self, **fields: Any) -> None:
        """Change ``fields`` of the record."""
        self.record = self.record.model_copy(update=fields)

    @abstractmethod
    def describe_effect(self) -> str:
        """Return what it does, to be shown when it has been verified to be active."""

    @abstractmethod
    def begin(self) -> None:
        """Begin it. This may return before it is active: `verify` waits for that."""

    @abstractmethod
    def verify(self) -> Evidence:
        """Wait until it is active and return the evidence; raises if it is not active in time."""

    def tick(self) -> None:  # noqa: B027 - most have nothing to repeat
        """Do what has to be repeated while it is active; called several times a second."""

    def has_ended_itself(self) -> bool:
        """Whether it is over before its planned end, as its kind intends. `end` is then called, and recovery is measured from that time."""
        return False

    @abstractmethod
    def why_inactive(self) -> str | None:
        """Return why it is no longer active, or none if it is. Asked once, just before `end`."""

    @abstractmethod
    def end(self) -> None:
        """End it and undo what it did. Also called when the run was aborted in the middle of `begin` or `verify`."""

    @abstractmethod
    def verify_gone(self) -> Evidence:
        """Wait until nothing of it is left and return the evidence; raises if something is left."""
