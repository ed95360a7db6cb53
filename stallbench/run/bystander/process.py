"""Creates the bystander's table, and starts and stops its process."""

from __future__ import annotations

from stallbench.engines import ENGINES, driver_of
from stallbench.processes.process import ROLE_READY_S, ROLE_STOP_S, Process
from stallbench.processes.supervisor import Supervisor
from stallbench.python_command import python_command
from stallbench.run.bystander.client import ROWS, TABLE
from stallbench.run.folder import RunFolder
from stallbench.scenario.model import Scenario
from stallbench.servers.cluster import Cluster
from stallbench.servers.join import create_recorded, record_declared

ROLE = "bystander"
_CREATE = f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, value integer NOT NULL)"
_FILL = f"INSERT INTO {TABLE} (id, value) VALUES {', '.join(f'({row}, 0)' for row in range(ROWS))}"


def is_wanted(scenario: Scenario) -> bool:
    """Whether a run has a bystander: if the scenario does not leave it out, on an engine with SQL."""
    return scenario.bystander.enabled and ENGINES[scenario.database.engine].has_sql


def create_table(cluster: Cluster) -> str:
    """Create and fill the table; returns why the server refused that, in one line, or nothing. It ends with the servers, or is removed with the queue."""
    primary = cluster.server("primary")
    driver = driver_of(primary.direct.engine)
    try:
        connection = driver.connect(primary.direct, ROLE)
        try:
            cursor = connection.cursor()
            create_recorded(primary, connection, lambda: cursor.execute(_CREATE))
            record_declared(primary, [TABLE], [])
            cursor.execute(_FILL)
        finally:
            driver.close(connection)
    except driver.errors as error:
        return driver.describe(error)
    return ""


def start_bystander(scenario: Scenario, cluster: Cluster, *, processes: Supervisor, folder: RunFolder) -> Process:
    """Start the process, which reaches the database as the clients of the queue do, and wait until it has tried to connect."""
    process = processes.start(
        ROLE,
        ROLE,
        python_command("stallbench.run.bystander"),
        document={
            "name": ROLE,
            "endpoint": cluster.server("primary").proxied.with_password(),
            "events": str(folder.events / f"{ROLE}.csv"),
            "seed": scenario.seed,
        },
        log=folder.logs / f"{ROLE}.log",
        ready=True,
    )
    process.wait_ready(ROLE_READY_S)
    return process


def stop_bystander(processes: Supervisor) -> None:
    """Stop it; what the server has not answered by then is recorded as that."""
    processes.stop(processes.of_role(ROLE), ROLE_STOP_S)
