"""Brings Grafana's dashboards to a Grafana."""

from __future__ import annotations

from typing import Annotated

import typer


def push(
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Where Grafana is, like http://127.0.0.1:3000.")],
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="Of a service account; better by STALLBENCH_GRAFANA_TOKEN, for what is typed here shows in process lists.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", metavar="URL", help="Make a data source, too: where Grafana finds Prometheus."),
    ] = None,
) -> None:
    """Put the dashboards into a Grafana, in a folder of their own; done again, it changes what has changed.

    Exit codes: 0 they are there, 2 bad input, 3 Grafana refuses or cannot be reached.

    Examples:
        stallbench dashboards push --url http://127.0.0.1:3000

        stallbench dashboards push --url http://127.0.0.1:3000 --prometheus http://127.0.0.1:9090
    """
    from stallbench.observers.dashboards import push_dashboards
    from stallbench.observers.grafana import read_grafana, require_http

    if prometheus is not None:
        require_http(prometheus, "--prometheus", "http://127.0.0.1:9090")
    for sentence in push_dashboards(read_grafana(url, token, "--url"), prometheus):
        print(sentence)
