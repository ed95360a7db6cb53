"""*Run*: one scenario while it runs. From top to bottom: does the queue keep up, the four curves, the load, the causes, the machine."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from dashboards.board import RUN_UID, SERVER_UID, board
from dashboards.panels import BYTES, COUNT, JOBS_PER_SECOND, RATIO, SECONDS, Limits, Panel, Query, Row, curve, figure
from dashboards.series import series
from dashboards.variables import OF_RUN, datasource, one_run, scenario

_RATE = "[$__rate_interval]"
_OFFERED = f"sum(max by (process) (stallbench_offered_jobs_per_second{{{OF_RUN}}}))"
_COMPLETED = f"sum(rate({series('completed')}_total{{{OF_RUN}}}{_RATE}))"
_DEPTH = f"max({series('depth')}{{{OF_RUN}}})"


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
        "One scenario while it runs. Blue: phases; red: active faults and longrunners.",
        since="now-5m",
        variables=[datasource(), scenario(), one_run('scenario="$scenario"')],
        rows=[
            Row("Does the queue keep up?", _now()),
            Row("The four curves of a degradation", _four_curves(to_server)),
            Row("Load", _load()),
            Row("Causes", _causes(to_server)),
            Row("The machine", _machine()),
        ],
    )


def _now() -> list[Panel]:
    return [
        figure(
            "Phase",
            "The current phase. Compare the figures beside it with those of the phase baseline.",
            COUNT,
            Query(f"max by (name) (stallbench_phase{{{OF_RUN}}})", "{{name}}"),
            shows_name=True,
        ),
        figure(
            "Completed jobs, share of the scheduled rate",
            "Below 100 % the backlog grows; above 100 % it drains. If it is low and claim time has not increased, there are too "
            "few workers; the queue has not degraded.",
            RATIO,
            Query(f"{_COMPLETED} / {_OFFERED}"),
            limits=Limits(look=0.98, bad=0.9),
        ),
        figure(
            "Backlog, in seconds of work",
            "Jobs in the queue divided by the current completion rate. If it grows, the queue does not keep up.",
            SECONDS,
            Query(f"{_DEPTH} / {_COMPLETED}"),
            limits=Limits(look=1, bad=10),
        ),
        figure(
            "Claim time, p95",
            "19 of 20 claims are faster. From 10 ms on, workers spend their time searching; at 100 ms the queue of the article of 2015 no longer kept up.",
            SECONDS,
            Query(_quantile(0.95, "claim")),
            limits=Limits(look=0.01, bad=0.1),
        ),
        figure(
            "Oldest transaction",
            "On any server. While it is open, rows that died after its start cannot be removed. Find its session under Holders of the horizon, and end it.",
            SECONDS,
            Query(f"max({series('oldest_transaction_s')}{{{OF_RUN}}})"),
            limits=Limits(look=5, bad=30),
        ),
        figure(
            "Deadlocks per minute",
            "Deadlocks that a server broke. Each rolls back a transaction, and may cause a repeated execution. The report draws their cycles.",
            COUNT,
            Query(f"sum(increase({series('deadlocks')}_total{{{OF_RUN}}}[1m]))"),
            limits=Limits(look=1, bad=60),
        ),
    ]


def _four_curves(to_server: build.DashboardLink) -> list[Panel]:
    return [
        curve(
            "Claim time: how long a worker needs to get a job",
            "From the call to the claimed row. If it rises with the dead rows beside it, claims read past rows that cannot be "
            "removed: end the oldest transaction. If it rises alone, look for locks on the dashboard Server.",
            SECONDS,
            *(Query(_quantile(quantile, "claim"), name) for quantile, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))),
            limits=Limits(look=0.01, bad=0.1),
        ),
        curve(
            "Dead rows that a claim may have to read past",
            "PostgreSQL: dead tuples of the queue's tables. InnoDB: history list, in transactions not yet purged. It falls when vacuum "
            "or purge runs. If it only rises, a session holds the horizon, and no vacuum helps until that session ends.",
            COUNT,
            Query(f"max by (table) ({series('dead_tuples')}{{{OF_RUN}}})", "{{table}}: dead tuples"),
            Query(f"max by (server) ({series('history_list_length')}{{{OF_RUN}}})", "{{server}}: history list"),
            link=to_server,
        ),
        curve(
            "Queue depth",
            "Ready jobs. A straight rise shows that the queue has fallen behind; its slope is the scheduled rate minus the completed rate.",
            COUNT,
            Query(_DEPTH, "ready jobs"),
        ),
        curve(
            "Oldest transaction",
            "On each server. A replica's transaction holds the primary's horizon only if the replica sends feedback. A line that rises by one "
            "second per second is a transaction that does not end.",
            SECONDS,
            Query(f"max by (server) ({series('oldest_transaction_s')}{{{OF_RUN}}})", "{{server}}"),
            limits=Limits(look=5, bad=30),
            link=to_server,
        ),
    ]


def _load() -> list[Panel]:
    return [
        curve(
            "Scheduled, enqueued and completed",
            "Scheduled is the intended rate; it does not depend on the queue. If enqueued is below scheduled, the database does not accept "
            "jobs in time. If completed is below enqueued, the backlog grows.",
            JOBS_PER_SECOND,
            Query(_OFFERED, "scheduled"),
            Query(f"sum(rate({series('enqueued')}_total{{{OF_RUN}}}{_RATE}))", "enqueued"),
            Query(_COMPLETED, "completed"),
        ),
        curve(
            "Age of the oldest ready job",
            "Users of the queue notice this age. If it rises while few jobs are ready, some jobs are passed over.",
            SECONDS,
            Query(f"max({series('oldest_job_s')}{{{OF_RUN}}})", "oldest job"),
            limits=Limits(look=1, bad=10),
        ),
        curve(
            "Enqueue and complete, p95",
            "The other two operations. If they rise together with claims, look at the server or the network; if claims rise alone, look at the queue.",
            SECONDS,
            Query(_quantile(0.95, "enqueue"), "enqueue"),
            Query(_quantile(0.95, "complete"), "complete"),
        ),
        curve(
            "Claims without a job",
            "Found nothing: workers are idle. Lost a race: another worker was faster, and the search was wasted.",
            "suffix: claims/s",
            Query(f"sum(rate({series('empty')}_total{{{OF_RUN}}}{_RATE}))", "found nothing"),
            Query(f"sum(rate({series('lost_race')}_total{{{OF_RUN}}}{_RATE}))", "lost a race"),
        ),
    ]


def _causes(to_server: build.DashboardLink) -> list[Panel]:
    return [
        curve(
            "Holders of the horizon",
            "The oldest holder on each server: vacuum and purge cannot remove rows that died after it began. End this session. The run's "
            "report shows its effect.",
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
            "Errors by the server's code and the operation. Errors that start and stop with a fault are expected; "
            "errors that continue are not.",
            COUNT,
            Query(
                f"sum by (kind, operation) (max by (kind, operation, process, retried) ({series('errors')}_total{{{OF_RUN}}}))",
                "{{kind}} in {{operation}}",
            ),
        ),
    ]


def _machine() -> list[Panel]:
    return [
        curve(
            "Processor, by process",
            "Share of one core. If the host's line is at 100 %, the figures above show a machine that is too small, not the queue.",
            RATIO,
            Query(f"max by (exported_process) (stallbench_process_cpu_ratio{{{OF_RUN}}})", "{{exported_process}}"),
            Query(f"max({series('cpu_percent')}{{{OF_RUN}}})", "host, of all cores"),
        ),
        curve(
            "Memory, by process",
            "A line that rises during the whole run is a leak; this includes the bench's own processes.",
            BYTES,
            Query(f"max by (exported_process) (stallbench_process_memory_bytes{{{OF_RUN}}})", "{{exported_process}}"),
        ),
    ]
