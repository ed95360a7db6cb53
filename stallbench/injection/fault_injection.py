"""A fault as an injection."""

from __future__ import annotations

from stallbench.injection.choices import FaultChoice
from stallbench.injection.context import InjectionContext
from stallbench.injection.faults import find_faults
from stallbench.injection.injection import Injection
from stallbench.records.injections import Evidence, InjectionRecord


class FaultInjection(Injection):
    """Runs one `stallbench.injection.faults.Fault` through the life cycle."""

    def __init__(
        self, name: str, choice: FaultChoice, *, phase: str, phase_planned_start_s: float, context: InjectionContext
    ) -> None:
        """Plan the fault that a scenario chooses."""
        kind = find_faults()[choice.kind]
        self._fault = kind(name, choice.on, kind.options_type.model_validate(choice.options), context)
        super().__init__(
            InjectionRecord(
                name=name,
                category="fault",
                kind=choice.kind,
                on=choice.on,
                phase=phase,
                options=self._fault.options.model_dump(mode="json"),
                planned_start_s=phase_planned_start_s + choice.after_s,
                planned_duration_s=choice.for_s,
                longest_job_s=self._fault.longest_job_s,
            ),
            after_s=choice.after_s,
        )
        self.is_momentary = self._fault.is_momentary

    def describe_effect(self) -> str:
        """Return the summary of its kind."""
        return self._fault.summary

    def begin(self) -> None:
        """Inject it."""
        self._evidence = self._fault.inject()

    def verify(self) -> Evidence:
        """Return what `Fault.inject` saw."""
        return self._evidence

    def tick(self) -> None:
        """Call `Fault.tick`."""
        self._fault.tick()

    def has_ended_itself(self) -> bool:
        """Ask the fault."""
        return self._fault.is_over()

    def why_inactive(self) -> str | None:
        """Ask the fault."""
        return self._fault.why_inactive()

    def end(self) -> None:
        """Undo it."""
        self._evidence = self._fault.undo()

    def verify_gone(self) -> Evidence:
        """Return what `Fault.undo` saw."""
        return self._evidence
