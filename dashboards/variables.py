"""The variables at the top of a dashboard; each choice narrows the following ones."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from dashboards.series import series

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
OF_RUN = 'scenario="$scenario",run="$run"'
"""Selects the series of the one run that is chosen."""
OF_RUNS = 'engine=~"$engine",scenario="$scenario",variant=~"$variant",run=~"$run"'
"""Selects those of all runs that are chosen."""
OF_SERVER = f'{OF_RUN},server=~"$server"'
"""Selects those of one or more servers of the one run."""


def datasource() -> build.DatasourceVariable:
    """Which Prometheus."""
    return build.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def engine() -> build.QueryVariable:
    """Which engines."""
    return _variable("engine", "Engine", "label_values(stallbench_phase, engine)").multi(True).include_all(True).all_value(".*")


def scenario(given: str = "") -> build.QueryVariable:
    """Which scenario; ``given``: what is chosen before, as a selector."""
    return _variable("scenario", "Scenario", f"label_values(stallbench_phase{{{given}}}, scenario)")


def variant(given: str) -> build.QueryVariable:
    """Which variants; ``control`` is the scenario without one."""
    made = _variable("variant", "Variant", f"label_values(stallbench_phase{{{given}}}, variant)")
    return made.multi(True).include_all(True).all_value(".*")


def one_run(given: str) -> build.QueryVariable:
    """Which run: the newest by default, because a run's name begins with its time."""
    return _variable("run", "Run", f"label_values(stallbench_phase{{{given}}}, run)").sort(model.VariableSort.ALPHABETICAL_DESC)


def runs(given: str) -> build.QueryVariable:
    """Which runs."""
    return one_run(given).multi(True).include_all(True).all_value(".*")


def servers(given: str) -> build.QueryVariable:
    """Which servers of the run."""
    made = _variable("server", "Server", f"label_values({series('oldest_transaction_s')}{{{given}}}, server)")
    return made.multi(True).include_all(True).all_value(".*")


def _variable(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
