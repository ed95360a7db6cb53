"""`stallbench dashboards push`: installs the dashboards in Grafana."""

from __future__ import annotations

from typing import Annotated

import typer


def push(
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The address of Grafana, like http://127.0.0.1:3000.")],
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="The token of a service account. Process lists show it; prefer the environment variable STALLBENCH_GRAFANA_TOKEN.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="URL",
            help="Also create a data source for the Prometheus at this address, which Grafana must reach.",
        ),
    ] = None,
) -> None:
    """Install the dashboards in Grafana, in a separate folder. Repeat the command to update them.

    Exit codes: 0 the dashboards are installed, 2 bad input, 3 Grafana cannot be reached or refuses the request.

    For example:

        stallbench dashboards push --url http://127.0.0.1:3000
        stallbench dashboards push --url http://127.0.0.1:3000 --prometheus http://127.0.0.1:9090
    """
    from stallbench.run.observers.dashboards import push_dashboards
    from stallbench.run.observers.grafana import read_grafana, require_http

    if prometheus is not None:
        require_http(prometheus, "--prometheus", "http://127.0.0.1:9090")
    for sentence in push_dashboards(read_grafana(url, token, "--url"), prometheus):
        print(sentence)
