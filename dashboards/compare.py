"""*Compare*: variants, or runs of one variant, side by side: a line for each run, a column for each phase."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.board import COMPARE_UID, board
from dashboards.panels import COUNT, JOBS_PER_SECOND, RATIO, SECONDS, Limits, Query, Row, curve, matrix
from dashboards.variables import OF_RUNS, datasource, engine, runs, scenario, variant

_RANGE, _RATE = "[$__range]", "[$__rate_interval]"
_LATE = " Prometheus learns of a new phase up to 5 s late: short phases are blurred."


def _increase(name: str) -> str:
    return f"sum by (run, phase) (increase(stallbench_{name}{{{OF_RUNS}}}{_RANGE}))"


def _most(name: str) -> str:
    return f"max by (run, phase) (max_over_time(stallbench_{name}{{{OF_RUNS}}}{_RANGE}))"


def compare() -> model.Dashboard:
    """Return the dashboard."""
    return board(
        "Stallbench: Compare",
        COMPARE_UID,
        "Runs of one scenario side by side. It needs a Prometheus that has seen all of them. Whether a difference is real, and not "
        "noise, only `stallbench compare` says.",
        since="now-1h",
        variables=[
            datasource(),
            engine(),
            scenario('engine=~"$engine"'),
            variant('engine=~"$engine",scenario="$scenario"'),
            runs('engine=~"$engine",scenario="$scenario",variant=~"$variant"'),
        ],
        rows=[
            Row(
                "By phase",
                [
                    matrix(
                        "Claim time, p95",
                        "A mitigation that works keeps the phase of the fault near the baseline's figure in the same line."
                        + _LATE,
                        SECONDS,
                        Query(
                            "histogram_quantile(0.95, sum by (run, phase, le) "
                            f"(increase(stallbench_claim_seconds_bucket{{{OF_RUNS}}}{_RANGE})))"
                        ),
                        limits=Limits(look=0.01, bad=0.1),
                    ),
                    matrix(
                        "Completed, of what was enqueued",
                        "Below 100 % the queue fell behind in this phase; above, it worked off what was left." + _LATE,
                        RATIO,
                        Query(f"{_increase('jobs_completed_total')} / {_increase('jobs_enqueued_total')}"),
                        limits=Limits(look=0.98, bad=0.9),
                    ),
                    matrix(
                        "Most jobs that waited",
                        "The longest that the queue became in each phase." + _LATE,
                        COUNT,
                        Query(_most("queue_depth")),
                    ),
                    matrix(
                        "Most dead rows",
                        "Dead tuples of a table, or InnoDB's history list. A mitigation may keep claims quick and dead rows many: then "
                        "it hides what it does not mend." + _LATE,
                        COUNT,
                        Query(f"{_most('dead_tuples')} or {_most('history_list_length')}"),
                    ),
                    matrix(
                        "Oldest transaction",
                        "The oldest that any server had. It is the cause, and should be alike in runs that are compared." + _LATE,
                        SECONDS,
                        Query(_most("oldest_transaction_seconds")),
                    ),
                    matrix(
                        "Errors, by kind",
                        "All that each run had. A mitigation that trades waiting for errors shows here.",
                        COUNT,
                        Query(
                            "sum by (run, kind) (max by (run, kind, move, process, tried_again) "
                            f"(max_over_time(stallbench_errors_total{{{OF_RUNS}}}{_RANGE})))"
                        ),
                        columns="kind",
                    ),
                ],
            ),
            Row(
                "As they went",
                [
                    curve(
                        "Claim time, p95",
                        "One run after the other, each at the time at which it ran.",
                        SECONDS,
                        Query(
                            "histogram_quantile(0.95, sum by (run, variant, le) "
                            f"(rate(stallbench_claim_seconds_bucket{{{OF_RUNS}}}{_RATE})))",
                            "{{variant}}: {{run}}",
                        ),
                        limits=Limits(look=0.01, bad=0.1),
                    ),
                    curve(
                        "Completed",
                        "Jobs a second. Compare runs of the same offered rate only.",
                        JOBS_PER_SECOND,
                        Query(
                            f"sum by (run, variant) (rate(stallbench_jobs_completed_total{{{OF_RUNS}}}{_RATE}))",
                            "{{variant}}: {{run}}",
                        ),
                    ),
                    curve(
                        "Jobs that wait",
                        "Ready and not claimed. How steep it rises says how soon a queue is lost; whether it falls again, how it recovers.",
                        COUNT,
                        Query(f"max by (run, variant) (stallbench_queue_depth{{{OF_RUNS}}})", "{{variant}}: {{run}}"),
                        width=24,
                    ),
                ],
            ),
        ],
    )
