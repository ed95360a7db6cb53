"""*Run*: one scenario as it happens. Top to bottom: does it stand, the four curves, the load, and who is to blame."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from dashboards.board import RUN_UID, SERVER_UID, board
from dashboards.panels import BYTES, COUNT, JOBS_PER_SECOND, RATIO, SECONDS, Limits, Panel, Query, Row, curve, figure
from dashboards.variables import OF_RUN, datasource, one_run, scenario

_RATE = "[$__rate_interval]"
_OFFERED = f"sum(max by (process) (stallbench_offered_jobs_per_second{{{OF_RUN}}}))"
_COMPLETED = f"sum(rate(stallbench_jobs_completed_total{{{OF_RUN}}}{_RATE}))"
_DEPTH = f"max(stallbench_queue_depth{{{OF_RUN}}})"


def _quantile(quantile: float, what: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le) (rate(stallbench_{what}_seconds_bucket{{{OF_RUN}}}{_RATE})))"


def run() -> model.Dashboard:
    """Return the dashboard."""
    to_server = (
        build.DashboardLink("Its servers")
        .type(model.DashboardLinkType.LINK)
        .url(f"/d/{SERVER_UID}?${{datasource:queryparam}}&${{scenario:queryparam}}&${{run:queryparam}}&${{__url_time_range}}")
    )
    return board(
        "Stallbench: Run",
        RUN_UID,
        "One scenario as it happens. Blue: phases; red: faults and longrunners in force.",
        since="now-5m",
        variables=[datasource(), scenario(), one_run('scenario="$scenario"')],
        rows=[
            Row("Does the queue stand?", _now()),
            Row("The four curves of a collapse", _four_curves(to_server)),
            Row("Load", _load()),
            Row("Who and what", _causes(to_server)),
            Row("The machine", _machine()),
        ],
    )


def _now() -> list[Panel]:
    return [
        figure(
            "Phase",
            "The phase that the run is in. The first figures are to be read against those of the phase called baseline.",
            COUNT,
            Query(f"max by (name) (stallbench_phase{{{OF_RUN}}})", "{{name}}"),
            shows_name=True,
        ),
        figure(
            "Completed, of what is offered",
            "Below 100 % jobs pile up. Above, a backlog is being worked off. If it is low and claim time is not up, there are too "
            "few workers: that is no collapse.",
            RATIO,
            Query(f"{_COMPLETED} / {_OFFERED}"),
            limits=Limits(look=0.98, bad=0.9),
        ),
        figure(
            "Work that waits",
            "Jobs in the queue, by how long the workers need for them at their speed of now. It grows: the queue does not keep up.",
            SECONDS,
            Query(f"{_DEPTH} / {_COMPLETED}"),
            limits=Limits(look=1, bad=10),
        ),
        figure(
            "Claim time, p95",
            "Of 20 claims 19 are quicker. From 10 ms on workers spend their time on searching; at 100 ms the queue of 2015 was lost.",
            SECONDS,
            Query(_quantile(0.95, "claim")),
            limits=Limits(look=0.01, bad=0.1),
        ),
        figure(
            "Oldest transaction",
            "On any server. While it is open, no row that died since its start can be removed. See who it is below, and end it.",
            SECONDS,
            Query(f"max(stallbench_oldest_transaction_seconds{{{OF_RUN}}})"),
            limits=Limits(look=5, bad=30),
        ),
        figure(
            "Deadlocks, in a minute",
            "Deadlocks that a server broke. Each costs somebody a transaction, and may run a job twice. The report draws their circles.",
            COUNT,
            Query(f"sum(increase(stallbench_deadlocks_total{{{OF_RUN}}}[1m]))"),
            limits=Limits(look=1, bad=60),
        ),
    ]


def _four_curves(to_server: build.DashboardLink) -> list[Panel]:
    return [
        curve(
            "Claim time: how long a worker needs to get a job",
            "From the call to the claimed row. When it rises with the dead rows beside it, claims walk over rows that cannot be "
            "removed: end the oldest transaction. When it rises alone, look for locks on the dashboard Server.",
            SECONDS,
            *(Query(_quantile(quantile, "claim"), name) for quantile, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))),
            limits=Limits(look=0.01, bad=0.1),
        ),
        curve(
            "Dead rows that every claim may have to walk over",
            "PostgreSQL: dead tuples of the queue's tables. InnoDB: history list, in transactions not yet purged. It falls when vacuum "
            "or purge comes by; a line that only rises means that somebody holds the horizon, and no vacuum will help until he is gone.",
            COUNT,
            Query(f"max by (table) (stallbench_dead_tuples{{{OF_RUN}}})", "{{table}}: dead tuples"),
            Query(f"max by (server) (stallbench_history_list_length{{{OF_RUN}}})", "{{server}}: history list"),
            link=to_server,
        ),
        curve(
            "Jobs that wait",
            "Ready and not claimed. A straight rise is a queue that has fallen behind; its slope is what is offered less what is completed.",
            COUNT,
            Query(_DEPTH, "ready jobs"),
        ),
        curve(
            "Oldest transaction",
            "On each server; a replica's counts too, if it sends feedback. Rising by one second a second: one that does not end.",
            SECONDS,
            Query(f"max by (server) (stallbench_oldest_transaction_seconds{{{OF_RUN}}})", "{{server}}"),
            limits=Limits(look=5, bad=30),
            link=to_server,
        ),
    ]


def _load() -> list[Panel]:
    return [
        curve(
            "Offered, enqueued and completed",
            "Offered is what the schedule wants, whatever the queue does. Enqueued below it: the database takes no more, or not in time. "
            "Completed below enqueued: jobs pile up.",
            JOBS_PER_SECOND,
            Query(_OFFERED, "offered"),
            Query(f"sum(rate(stallbench_jobs_enqueued_total{{{OF_RUN}}}{_RATE}))", "enqueued"),
            Query(_COMPLETED, "completed"),
        ),
        curve(
            "How long the oldest job has waited",
            "What a user of the queue feels. It may rise while few jobs wait: then some are passed over.",
            SECONDS,
            Query(f"max(stallbench_oldest_job_seconds{{{OF_RUN}}})", "oldest job"),
            limits=Limits(look=1, bad=10),
        ),
        curve(
            "Enqueue and complete, p95",
            "The other two moves. If they rise together with claims, it is the server or the network; if claims rise alone, it is the queue.",
            SECONDS,
            Query(_quantile(0.95, "enqueue"), "enqueue"),
            Query(_quantile(0.95, "complete"), "complete"),
        ),
        curve(
            "Claims that got nothing",
            "Found nothing: workers are idle. Lost a race: another worker was quicker, and the work of searching was for nothing.",
            "suffix: claims/s",
            Query(f"sum(rate(stallbench_claims_empty_total{{{OF_RUN}}}{_RATE}))", "found nothing"),
            Query(f"sum(rate(stallbench_claims_lost_race_total{{{OF_RUN}}}{_RATE}))", "lost a race"),
        ),
    ]


def _causes(to_server: build.DashboardLink) -> list[Panel]:
    return [
        curve(
            "Who holds the horizon",
            "The oldest holder of each server: vacuum and purge may remove nothing that died since it began. End this one; `held` in the "
            "run's summary says what it cost.",
            SECONDS,
            Query(
                f"max by (application, holder, server) (stallbench_horizon_holder_age_seconds{{{OF_RUN}}})",
                "{{application}} ({{holder}} on {{server}})",
            ),
            limits=Limits(look=5, bad=30),
            link=to_server,
        ),
        curve(
            "Errors since the start, by kind",
            "Calls that raised, by the server's code and the move. Those that rise during a fault and stop with it are expected; "
            "one that goes on is not.",
            COUNT,
            Query(
                f"sum by (kind, move) (max by (kind, move, process, tried_again) (stallbench_errors_total{{{OF_RUN}}}))",
                "{{kind}} in {{move}}",
            ),
        ),
    ]


def _machine() -> list[Panel]:
    return [
        curve(
            "Processor, by process",
            "Of one core. If the host's line is at the top, the figures above are those of a machine that is too small, and not of the queue.",
            RATIO,
            Query(f"max by (exported_process) (stallbench_process_cpu_ratio{{{OF_RUN}}})", "{{exported_process}}"),
            Query(f"max(stallbench_host_cpu_ratio{{{OF_RUN}}})", "host, of all cores"),
        ),
        curve(
            "Memory, by process",
            "A line that rises for as long as the run lasts is a leak, the bench's own processes included.",
            BYTES,
            Query(f"max by (exported_process) (stallbench_process_memory_bytes{{{OF_RUN}}})", "{{exported_process}}"),
        ),
    ]
