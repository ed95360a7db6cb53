"""Runs the life cycle of every fault, longrunner and maintenance process of a run: planned, active, verified, ended, verified gone.

An injection that cannot be verified ends the run, because the run would not show what it should.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from stallbench.engines import loaded_errors
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.injection.choices import FaultChoice, LongrunnerChoice, MaintenanceChoice
from stallbench.injection.context import InjectionContext
from stallbench.injection.fault_injection import FaultInjection
from stallbench.injection.injection import Injection
from stallbench.injection.longrunner_injection import LongrunnerInjection
from stallbench.injection.maintenance_injection import MaintenanceInjection
from stallbench.records.injections import InjectionRecord

ResultT = TypeVar("ResultT")


class Injections:
    """All injections of a run."""

    def __init__(self, context: InjectionContext, say: Callable[[str], None], numbers: Counter[str] | None = None) -> None:
        """Prepare; nothing is injected. ``say`` is called with a sentence whenever an injection begins or ends.

        ``numbers``: how many of each kind earlier runs with the same processes had. Names continue from these numbers, because the processes identify
        injections by name.
        """
        self._context = context
        self._say = say
        self._numbers = Counter() if numbers is None else numbers
        self._all: list[Injection] = []
        self._maintenance: Sequence[MaintenanceChoice] = ()

    def records(self) -> list[InjectionRecord]:
        """Return the records of all injections, in the order in which they were planned."""
        return [injection.record for injection in self._all]

    def may_be_ended(self, name: str) -> bool:
        """Whether ``name`` is an injection that the servers may end early."""
        return any(record.name == name and record.may_be_ended for record in self.records())

    def start_maintenance(self, choices: Sequence[MaintenanceChoice]) -> None:
        """Plan, start and verify the maintenance of the whole run. Maintenance of a phase begins in that phase. Raises `NotCarriedOutError`."""
        self._maintenance = choices
        whole_run = [choice for choice in choices if choice.phase is None]
        planned = [MaintenanceInjection(self._name(choice.kind), choice, context=self._context) for choice in whole_run]
        self._all += planned
        self._start(planned)

    def prepare_phase(
        self,
        phase: str,
        planned_start_s: float,
        *,
        longrunners: Sequence[LongrunnerChoice] = (),
        faults: Sequence[FaultChoice] = (),
    ) -> None:
        """Plan the injections of a phase, and start and verify its longrunners: they are active before the phase begins.

        Raises `NotCarriedOutError`.
        """
        planned_longrunners = [
            LongrunnerInjection(
                self._name(choice.kind),
                choice,
                phase=phase,
                phase_planned_start_s=planned_start_s,
                context=self._context,
            )
            for choice in longrunners
        ]
        planned_faults = [
            FaultInjection(
                self._name(choice.kind),
                choice,
                phase=phase,
                phase_planned_start_s=planned_start_s,
                context=self._context,
            )
            for choice in faults
        ]
        maintenance = [
            MaintenanceInjection(self._name(choice.kind), choice, context=self._context, phase_planned_start_s=planned_start_s)
            for choice in self._maintenance
            if choice.phase == phase
        ]
        self._all += [*planned_longrunners, *planned_faults, *maintenance]
        self._start(planned_longrunners)

    def begin_phase(self, phase: str) -> None:
        """Schedule the faults and the maintenance of a phase, which begins now; `run_due` injects each when its time has come."""
        now_s = time.monotonic()
        for injection in self._of(phase):
            if injection.record.start_ns is None:
                injection.begins_at_s = now_s + injection.after_s

    def run_due(self) -> float | None:
        """Begin, keep up and end the injections that are due; return the seconds until the next one begins or ends, or none.

        Raises `NotCarriedOutError` if an injection cannot be begun, verified, kept up or ended.
        """
        for injection in self._all:
            now_s = time.monotonic()
            if injection.is_active:
                if injection.ends_at_s is not None and now_s >= injection.ends_at_s:
                    self._end(injection)
                else:
                    self._tick(injection)
            elif _is_scheduled(injection) and now_s >= (injection.begins_at_s or 0.0):
                self._start([injection])
        now_s = time.monotonic()
        due_s = [injection.begins_at_s for injection in self._all if _is_scheduled(injection)]
        due_s += [injection.ends_at_s for injection in self._all if injection.is_active]
        return min((max(0.0, at_s - now_s) for at_s in due_s if at_s is not None), default=None)

    def end_phase(self, phase: str, *, is_early: bool = False) -> None:
        """End the injections of a phase in the reverse order of their beginning. Raises `NotCarriedOutError`, also if one has not begun by now.

        ``is_early``: the run ends with this phase, before its time: an injection that has not begun is no part of the run.
        """
        if is_early:
            self._all = [injection for injection in self._all if injection.record.start_ns is not None]
        for injection in self._of(phase):
            if injection.record.start_ns is None:
                raise NotCarriedOutError(
                    f"{injection.description} should have begun {injection.after_s:g} s after the start of the phase, "
                    "but the phase ended before that"
                )
        self._end_active(self._of(phase))

    def end_all(self) -> None:
        """End every injection that is still active, in the reverse order of their beginning. Raises `NotCarriedOutError`."""
        self._end_active(self._all)

    def undo_all(self) -> None:
        """After an aborted run: undo what is still active, as far as possible; a record says what could not be undone.

        What is left then is in processes and folders that are removed at the end of the run.
        """
        for injection in reversed(self._all):
            if injection.is_active:
                injection.is_ended = True
                try:
                    injection.end()
                    evidence = injection.verify_gone()
                except Exception as error:
                    if not _is_from_environment(error):
                        raise
                    injection.update(why_ended=f"could not be undone: {error}")
                else:
                    injection.update(verified_gone_ns=time.time_ns(), evidence=injection.record.evidence | evidence)

    def _name(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}-{self._numbers[kind]}"

    def _of(self, phase: str) -> list[Injection]:
        return [injection for injection in self._all if injection.record.phase == phase]

    def _start(self, injections: Sequence[Injection]) -> None:
        """Begin all of ``injections``, then verify each."""
        for injection in injections:
            injection.update(start_ns=time.time_ns())
            _carry_out(injection, injection.begin, "started")
        for injection in injections:
            evidence = _carry_out(injection, injection.verify, "verified to be active")
            now_ns = time.time_ns()
            injection.update(verified_ns=now_ns, evidence=evidence)
            if injection.record.planned_duration_s is not None:  # from now on: it may have become active late, or slowly
                injection.ends_at_s = time.monotonic() + injection.record.planned_duration_s
            if injection.is_momentary:
                injection.update(active_to_end=True, end_ns=now_ns, verified_gone_ns=now_ns)
            self._say(f"{injection.record.name} on {injection.record.on}: {injection.describe_effect()}")

    def _tick(self, injection: Injection) -> None:
        _carry_out(injection, injection.tick, "kept up")
        if _carry_out(injection, injection.has_ended_itself, "checked"):
            self._end(injection)

    def _end_active(self, injections: Sequence[Injection]) -> None:
        for injection in reversed(injections):
            if injection.is_active:
                self._end(injection)

    def _end(self, injection: Injection) -> None:
        """Check whether it is still active, end it, and verify that it is gone; after a momentary one, only clean up."""
        if not injection.is_momentary:
            why_inactive = _carry_out(injection, injection.why_inactive, "checked")
            injection.update(active_to_end=why_inactive is None, why_ended=why_inactive or "", end_ns=time.time_ns())
        injection.is_ended = True
        _carry_out(injection, injection.end, "ended")
        evidence = _carry_out(injection, injection.verify_gone, "verified to be gone")
        if not injection.is_momentary:
            injection.update(verified_gone_ns=time.time_ns(), evidence=injection.record.evidence | evidence)
            self._say(f"{injection.record.name} on {injection.record.on} has ended")


def _is_scheduled(injection: Injection) -> bool:
    return injection.record.start_ns is None and injection.begins_at_s is not None


def _carry_out(injection: Injection, operation: Callable[[], ResultT], done: str) -> ResultT:
    """Carry out an operation of an injection; an error of the environment becomes a `NotCarriedOutError` that names the injection."""
    try:
        return operation()
    except Exception as error:
        if not _is_from_environment(error):
            raise
        raise NotCarriedOutError(f"{injection.description} could not be {done}: {error}") from error


def _is_from_environment(error: Exception) -> bool:
    """Whether the servers, the proxy or the machine caused an error, and not a defect of the bench."""
    return isinstance(error, (OSError, StallbenchError, *loaded_errors()))
