"""What the terminal says of a limit: the interval, what is not known of it, and the first exhausted resource."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stallbench.studies.limit.probes import Horizon, Probe
from stallbench.studies.limit.rates import Interval
from stallbench.studies.limit.record import Limit
from stallbench.studies.limit.resources import UNKNOWN
from stallbench.studies.limit.screen import describe_limit, print_limits
from tests.unit.made_up_limit import make_probe, make_searched, plan, use


def test_a_limit_with_a_holder_that_the_server_may_end_says_so() -> None:
    found = Limit(
        horizon="held",
        interval=Interval(low=100, high=110),
        first_exhausted=UNKNOWN,
        is_contradictory=False,
        is_complete=True,
        probes=(make_probe("held", 100), make_probe("held", 110, reason="saturated after 4 s")),
    )
    answer = describe_limit(found, plan("longtx", variant="idle_timeout"), is_over=True)
    assert answer.startswith(
        "With the horizon held for 15 s at most, until the server ends the holder, the limit is between 100 and 110"
    )


@pytest.mark.parametrize(
    ("interval", "reasons", "answer"),
    [
        (
            Interval(low=None, high=110),
            ["", "saturated"],
            "is below 110 jobs/s (latency_ms.p95 < 1s): no lower rate was sustained in",
        ),
        (
            Interval(low=92, high=None),
            ["saturated", ""],
            "is above 92 jobs/s (latency_ms.p95 < 1s): no higher rate was too high in",
        ),
        (Interval(low=None, high=None), ["", "saturated"], "is not known: the runs contradict each other."),
    ],
)
def test_an_end_that_contradicting_runs_leave_open_is_not_called_untried(
    interval: Interval, reasons: list[str], answer: str
) -> None:
    found = Limit(
        horizon="free",
        interval=interval,
        first_exhausted=UNKNOWN,
        is_contradictory=True,
        is_complete=False,
        probes=tuple(make_probe("free", 100, reason=reason) for reason in reasons),
    )
    assert describe_limit(found, plan("longtx"), is_over=True).startswith(f"With the horizon free the limit {answer}")


def test_the_use_that_is_shown_is_that_of_the_rate_at_which_the_resource_was_exhausted() -> None:
    """Other work may have taken the CPU during a rate that was sustained."""
    cpu = {100: use("CPU", 0.91), 110: use("CPU", 0.7), 150: use("CPU", 0.98)}
    probes = [make_probe("free", rate, reason="" if rate == 100 else "saturated after 4 s") for rate in cpu]
    found = Limit(
        horizon="free",
        interval=Interval(low=100, high=110),
        first_exhausted="CPU",
        is_contradictory=False,
        is_complete=True,
        probes=tuple(replace(probe, uses=(cpu[int(probe.rate)],)) for probe in probes),
    )
    assert describe_limit(found, plan("longtx"), is_over=True).endswith("First exhausted: CPU (98% of it).")


def test_the_terminal_says_the_interval_the_resource_and_what_is_left_while_the_horizon_is_held() -> None:
    def probe(horizon: Horizon, rate: float, reason: str = "") -> Probe:
        made = make_probe(horizon, rate, reason=reason)
        return made if horizon == "free" else replace(made, uses=())

    free = [probe("free", rate, reason) for rate, reason in [(400, ""), (440, "saturated after 4 s")] * 2]
    record = make_searched(plan("longtx"), *free, probe("held", 100), probe("held", 110, "saturated after 4 s"))
    console = Console(file=io.StringIO(), width=120)
    print_limits(record, "runs/limit/report.html", console)
    shown = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO
    assert (
        "With the horizon free the limit is between 400 and 440 jobs/s (latency_ms.p95 < 1s). First exhausted: CPU (97% of it)."
        in shown
    )
    assert "With the horizon held for 15 s the limit is between 100 and 110 jobs/s (latency_ms.p95 < 1s). The time ended" in shown
    assert "First exhausted: unknown; no measured resource reached its threshold." in shown
    assert "While the horizon is held, 23% to 28% of the limit remains." in shown
    assert "no: saturated after 4 s" in shown
    assert record.exit_code == 0
