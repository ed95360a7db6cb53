"""*Compare*: variants, or runs of one variant, side by side: a line for each run, a column for each phase."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.board import COMPARE_UID, board
from dashboards.panels import COUNT, JOBS_PER_SECOND, RATIO, SECONDS, Limits, Query, Row, curve, matrix
from dashboards.series import series
from dashboards.variables import OF_RUNS, datasource, engine, runs, scenario, variant

_RANGE, _RATE = "[$__range]", "[$__rate_interval]"
_LATE = " Prometheus sees a new phase up to 5 s late, so short phases are blurred."


def _increase(name: str) -> str:
    return f"sum by (run, phase) (increase({name}{{{OF_RUNS}}}{_RANGE}))"


def _most(name: str) -> str:
    return f"max by (run, phase) (max_over_time({name}{{{OF_RUNS}}}{_RANGE}))"


def compare() -> model.Dashboard:
    """Return the dashboard."""
    return board(
        "Stallbench: Compare",
        COMPARE_UID,
        "Runs of one scenario side by side. It needs a Prometheus that has scraped all of them. Only `stallbench compare` computes whether a difference is "
        "significant.",
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
                        "If a mitigation works, the figure of the phase with the fault is close to the baseline's figure in the same line."
                        + _LATE,
                        SECONDS,
                        Query(
                            "histogram_quantile(0.95, sum by (run, phase, le) "
                            f"(increase({series('claim_ms')}_bucket{{{OF_RUNS}}}{_RANGE})))"
                        ),
                        limits=Limits(look=0.01, bad=0.1),
                    ),
                    matrix(
                        "Completed jobs, share of the enqueued jobs",
                        "Below 100 % the queue fell behind in this phase; above 100 % its backlog drained." + _LATE,
                        RATIO,
                        Query(f"{_increase(series('completed') + '_total')} / {_increase(series('enqueued') + '_total')}"),
                        limits=Limits(look=0.98, bad=0.9),
                    ),
                    matrix(
                        "Waiting jobs, maximum",
                        "The greatest depth of the queue in each phase." + _LATE,
                        COUNT,
                        Query(_most(series("depth"))),
                    ),
                    matrix(
                        "Dead rows, maximum",
                        "Dead tuples of a table, or InnoDB's history list. If a mitigation keeps claims fast while dead rows accumulate, "
                        "it hides the cause and does not remove it." + _LATE,
                        COUNT,
                        Query(f"{_most(series('dead_tuples'))} or {_most(series('history_list_length'))}"),
                    ),
                    matrix(
                        "Oldest transaction",
                        "The oldest on any server. It is the cause, so it should be similar in the runs that you compare."
                        + _LATE,
                        SECONDS,
                        Query(_most(series("oldest_transaction_s"))),
                    ),
                    matrix(
                        "Errors, by kind",
                        "All errors of each run. They show whether a mitigation only replaces waiting by errors.",
                        COUNT,
                        Query(
                            "sum by (run, kind) (max by (run, kind, operation, process, retried) "
                            f"(max_over_time({series('errors')}_total{{{OF_RUNS}}}{_RANGE})))"
                        ),
                        columns="kind",
                    ),
                ],
            ),
            Row(
                "Over time",
                [
                    curve(
                        "Claim time, p95",
                        "Each run at the time at which it ran.",
                        SECONDS,
                        Query(
                            "histogram_quantile(0.95, sum by (run, variant, le) "
                            f"(rate({series('claim_ms')}_bucket{{{OF_RUNS}}}{_RATE})))",
                            "{{variant}}: {{run}}",
                        ),
                        limits=Limits(look=0.01, bad=0.1),
                    ),
                    curve(
                        "Completed",
                        "Jobs per second. Compare only runs with the same scheduled rate.",
                        JOBS_PER_SECOND,
                        Query(
                            f"sum by (run, variant) (rate({series('completed')}_total{{{OF_RUNS}}}{_RATE}))",
                            "{{variant}}: {{run}}",
                        ),
                    ),
                    curve(
                        "Waiting jobs",
                        "Ready jobs. The rise shows how soon a queue saturates; the decline shows how fast it recovers.",
                        COUNT,
                        Query(f"max by (run, variant) ({series('depth')}{{{OF_RUNS}}})", "{{variant}}: {{run}}"),
                        width=24,
                    ),
                ],
            ),
        ],
    )
