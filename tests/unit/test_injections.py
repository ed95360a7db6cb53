"""The life cycle of an injection, with a fault that only records what is asked of it: no server is needed."""

from __future__ import annotations

import time
from typing import Any, ClassVar, cast

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.injection.choices import FaultChoice
from stallbench.injection.context import InjectionContext
from stallbench.injection.faults import Fault, FaultOptions, find_faults
from stallbench.injection.life_cycle import Injections
from stallbench.records.injections import InjectionRecord


class RecordedFault(Fault[FaultOptions]):
    """Appends each operation to `done`."""

    kind = "recorded"
    summary = "nothing happens"
    source = "this test"
    targets = ("server",)

    done: ClassVar[list[str]] = []
    fails_at: str | None = None
    why_ended: str | None = None
    over = False
    momentary = False
    longest_s: float | None = None

    @property
    def is_momentary(self) -> bool:
        return self.momentary

    @property
    def longest_job_s(self) -> float | None:
        return self.longest_s

    def inject(self) -> dict[str, Any]:
        return self._do("inject")

    def tick(self) -> None:
        self._do("tick")

    def is_over(self) -> bool:
        return self.over

    def why_inactive(self) -> str | None:
        return self.why_ended

    def undo(self) -> dict[str, Any]:
        return self._do("undo")

    def _do(self, operation: str) -> dict[str, Any]:
        self.done.append(f"{operation} {self.name}")
        if operation == self.fails_at:
            raise OSError(f"no {operation}")
        return {operation: True}


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> type[RecordedFault]:
    """A fresh kind, which scenarios can choose during the test."""
    kind = type("OneTest", (RecordedFault,), {"done": []})
    monkeypatch.setitem(find_faults(), "recorded", kind)
    return cast("type[RecordedFault]", kind)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def injections(fault: type[RecordedFault], said: list[str]) -> Injections:
    return Injections(cast("InjectionContext", None), say=said.append)


def begin_phase(injections: Injections, *choices: dict[str, Any]) -> None:
    """Begin a phase with these faults at 10 s of the plan, and do what is due at once."""
    faults = [{"kind": "recorded", **choice} for choice in choices or ({},)]
    injections.prepare_phase("bad", 10, faults=[FaultChoice.model_validate(fault) for fault in faults])
    injections.begin_phase("bad")
    injections.run_due()


def go_through_phase(injections: Injections) -> None:
    begin_phase(injections)
    injections.run_due()
    injections.end_phase("bad")


def only(injections: Injections) -> InjectionRecord:
    (record,) = injections.records()
    return record


def test_it_is_planned_active_verified_ended_and_verified_gone(
    injections: Injections, fault: type[RecordedFault], said: list[str]
) -> None:
    begin_phase(injections)
    active = only(injections)
    assert (active.name, active.category, active.phase, active.planned_start_s) == ("recorded-1", "fault", "bad", 10)
    assert active.start_ns is not None
    assert active.verified_ns is not None
    assert (active.end_ns, active.active_to_end) == (None, None)
    injections.run_due()
    injections.end_phase("bad")
    ended = only(injections)
    assert ended.end_ns is not None
    assert ended.verified_gone_ns is not None
    assert (ended.active_to_end, ended.evidence) == (True, {"inject": True, "undo": True})
    assert fault.done == ["inject recorded-1", "tick recorded-1", "undo recorded-1"]
    assert said == ["recorded-1 on primary: nothing happens", "recorded-1 on primary has ended"]


def test_one_that_begins_later_waits_and_the_runner_prints_how_long(injections: Injections, fault: type[RecordedFault]) -> None:
    begin_phase(injections, {"after": "30s", "for": "5s"})
    due_s = injections.run_due()
    assert due_s is not None
    assert 20 < due_s <= 30
    assert (only(injections).start_ns, only(injections).planned_start_s, only(injections).planned_duration_s) == (None, 40, 5)
    with pytest.raises(NotCarriedOutError, match=r"recorded-1 on primary in phase 'bad' should have begun 30 s after"):
        injections.end_phase("bad")
    assert fault.done == []


def test_one_that_ended_early_records_why(injections: Injections, fault: type[RecordedFault]) -> None:
    begin_phase(injections)
    fault.why_ended = "the proxy no longer has it"
    injections.end_phase("bad")
    assert (only(injections).active_to_end, only(injections).why_ended) == (False, "the proxy no longer has it")


def test_one_that_ends_by_itself_is_undone_before_its_phase_ends(injections: Injections, fault: type[RecordedFault]) -> None:
    begin_phase(injections)
    fault.over = True
    injections.run_due()
    assert only(injections).verified_gone_ns is not None
    injections.end_phase("bad")
    assert fault.done.count("undo recorded-1") == 1


def test_a_momentary_one_is_over_when_it_was_verified_and_cleaned_up_later(
    injections: Injections, fault: type[RecordedFault]
) -> None:
    fault.momentary = True
    begin_phase(injections)
    record = only(injections)
    assert record.verified_ns == record.end_ns == record.verified_gone_ns
    assert record.active_to_end is True
    injections.end_phase("bad")
    assert only(injections) == record
    assert fault.done[-1] == "undo recorded-1"


def test_the_last_one_begun_is_ended_first(injections: Injections, fault: type[RecordedFault]) -> None:
    begin_phase(injections, {}, {"on": "replica-1"})
    injections.end_phase("bad")
    assert [step for step in fault.done if step.startswith("undo")] == ["undo recorded-2", "undo recorded-1"]


@pytest.mark.parametrize(
    ("operation", "verb"), [("inject", "started"), ("tick", "kept up"), ("undo", "ended")], ids=["inject", "tick", "undo"]
)
def test_an_operation_that_fails_ends_the_run_and_names_the_injection(
    injections: Injections, fault: type[RecordedFault], operation: str, verb: str
) -> None:
    fault.fails_at = operation
    expected = rf"fault recorded-1 on primary in phase 'bad' could not be {verb}: no {operation}"
    with pytest.raises(NotCarriedOutError, match=expected):
        go_through_phase(injections)


def test_after_an_aborted_run_whatever_was_begun_is_undone_once(injections: Injections, fault: type[RecordedFault]) -> None:
    fault.fails_at = "inject"
    with pytest.raises(NotCarriedOutError):
        begin_phase(injections)
    injections.undo_all()
    injections.undo_all()
    assert fault.done == ["inject recorded-1", "undo recorded-1"]
    assert (only(injections).verified_ns, only(injections).active_to_end) == (None, None)


def test_what_cannot_be_undone_after_an_aborted_run_is_recorded(injections: Injections, fault: type[RecordedFault]) -> None:
    begin_phase(injections)
    fault.fails_at = "undo"
    injections.undo_all()
    assert only(injections).why_ended == "could not be undone: no undo"
    assert only(injections).verified_gone_ns is None


@pytest.mark.parametrize("longest_s", [None, 8.0])
def test_the_record_has_how_long_jobs_take_that_a_fault_of_any_kind_makes_longer(
    injections: Injections, fault: type[RecordedFault], longest_s: float | None
) -> None:
    fault.longest_s = longest_s
    begin_phase(injections)
    assert only(injections).longest_job_s == longest_s


def test_the_duration_counts_from_when_it_is_active(
    injections: Injections, fault: type[RecordedFault], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that becomes active slowly, or begins late because another one did, would otherwise be over at once, and count as active."""
    inject, slow_s, for_s = fault.inject, 30.0, 5.0
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def inject_slowly(self: RecordedFault) -> dict[str, Any]:
        nonlocal now_s
        now_s += slow_s
        return inject(self)

    monkeypatch.setattr(fault, "inject", inject_slowly)
    begin_phase(injections, {"for": f"{for_s:g}s"})
    assert injections.run_due() == for_s
    assert only(injections).end_ns is None
    now_s += for_s
    injections.run_due()
    assert only(injections).active_to_end is True
