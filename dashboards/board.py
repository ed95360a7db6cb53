"""What the dashboards have in common: their frame, and how they become JSON."""

from __future__ import annotations

import json

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.annotation_queries import annotation_queries
from dashboards.panels import Row

TAG = "stallbench"
RUN_UID, COMPARE_UID, SERVER_UID = "stallbench-run", "stallbench-compare", "stallbench-server"


def board(
    title: str,
    uid: str,
    description: str,
    *,
    since: str,
    variables: list[build.QueryVariable | build.DatasourceVariable],
    rows: list[Row],
) -> model.Dashboard:
    """Return a dashboard of ``rows``, with a time range from ``since`` (in Grafana's notation) and links to the others."""
    frame = (
        build.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("browser")
        .time(since, "now")
        .refresh("5s")
        .timepicker(build.TimePicker().refresh_intervals(["1s", "5s", "10s", "30s", "1m"]))
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            build.DashboardLink("Of the same run")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for variable in variables:
        frame.with_variable(variable)
    for row in rows:
        frame.with_row(build.Row(row.title))
        for panel in row.panels:
            frame.with_panel(panel)
    made = frame.build()
    for number, placed in enumerate(made.panels or [], start=1):
        placed.id_val = number
    is_of_one_run = any(variable.name == "run" and not variable.multi for variable in made.templating.list_val or [])
    made.annotations.list_val = annotation_queries() if is_of_one_run else []
    return made


def as_json(dashboard: model.Dashboard) -> str:
    """Return a dashboard as its file contains it; the text depends on the code only."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
