"""The compose file has a service for every scenario that can run on servers which the bench has not started, and no other; so has MySQL's."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import yaml

from stallbench.errors import BadInputError
from stallbench.queues import find_queue
from stallbench.scenario.file import find_scenarios, read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.validation.external import require_fit_for_external
from stallbench.servers.addresses import ExternalServers

FOLDER = Path(__file__).resolve().parents[2]
COMPOSE = (FOLDER / "docker-compose.yml").read_text()
SERVICE = re.compile(
    r"^  scenario-(?P<service>[\w-]+): \{ <<: \*on-(?P<servers>[\w-]+), command: \[(?P<name>[\w-]+)(, --variant=\w+)?\] \}$", re.M
)
OF_THE_SERVER = dict(re.findall(r"^ +- -c(\w+)=(\S+)$", COMPOSE, re.M))
"""What the compose file starts PostgreSQL with: settings that only a start sets."""
MOST_REPLICAS = 1
ONLY_AT_START = {"max_connections", "max_prepared_transactions", "wal_level", "max_wal_senders", "max_worker_processes"}


def test_the_image_of_toxiproxy_is_the_same_everywhere_by_its_digest() -> None:
    files = ("docker-compose.yml", "containers/mysql.yml", "containers/with-servers.Dockerfile", "containers/kubernetes/run.yaml")
    found = [re.findall(r"ghcr\.io/shopify/toxiproxy\S*?(?=[}\s])", (FOLDER / name).read_text()) for name in files]
    assert all(found)
    (image,) = {each for names in found for each in names}
    assert re.fullmatch(r"ghcr\.io/shopify/toxiproxy:[\d.]+@sha256:[0-9a-f]{64}", image)


def without_variants(path: Path) -> Scenario:
    """Read no more than is needed here: `test_scenarios` checks each scenario wholly, which takes its time."""
    content = tomllib.loads(path.read_text())
    content.pop("variants", None)
    return Scenario.model_validate({**content, "name": path.stem, "file": str(path), "variant": None, "changes": ()})


def can_run_in_containers(scenario: Scenario) -> bool:
    database = scenario.database
    try:
        require_fit_for_external(scenario, ExternalServers(servers={}, may_change_servers=True))
    except BadInputError:
        return False
    return (
        database.engine in ("postgres", "mariadb")
        and database.replicas <= MOST_REPLICAS
        and all(OF_THE_SERVER.get(name) == str(value) for name, value in database.settings.items() if name in ONLY_AT_START)
    )


def servers_of(scenario: Scenario) -> str:
    """Return the servers that a scenario gets; MariaDB's are always two."""
    engine = scenario.database.engine
    return f"{engine}-with-replica" if engine == "postgres" and scenario.database.replicas else engine


def test_every_scenario_that_can_run_in_containers_has_its_service() -> None:
    wanted = {
        (f"scenario-{name}", servers_of(scenario), name)
        for name, path in find_scenarios().items()
        if can_run_in_containers(scenario := without_variants(path))
    }
    there = {(f"scenario-{found['service']}", found["servers"], found["name"]) for found in SERVICE.finditer(COMPOSE)}
    assert "max_connections" in OF_THE_SERVER
    assert there == wanted, f"in docker-compose.yml add {sorted(wanted - there)} and remove {sorted(there - wanted)}"
    assert len(re.findall(r"^  scenario-", COMPOSE, re.M)) == len(there), "a service that is written otherwise"


def test_ports_are_bound_to_loopback_and_no_password_is_written_down() -> None:
    ports = re.findall(r'ports: \["([^"]+)"\]', COMPOSE)
    assert len(ports) == COMPOSE.count("ports:") == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not re.search(r"(?i)password[\w]*:[ \t]*\S", COMPOSE)


def test_grafana_is_given_what_is_provisioned() -> None:
    assert "./dashboards/provisioning:/etc/grafana/provisioning:ro" in COMPOSE
    assert "./dashboards:/dashboards:ro" in COMPOSE
    provider = (FOLDER / "dashboards/provisioning/dashboards/stallbench.yml").read_text()
    assert "path: /dashboards\n" in provider
    source = (FOLDER / "dashboards/provisioning/datasources/prometheus.yml").read_text()
    (address,) = re.findall(r"url: http://([\w-]+):(\d+)", source)
    assert re.search(rf"^  {address[0]}:$", COMPOSE, re.M)
    assert "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: /dashboards/run.json" in COMPOSE
    assert (FOLDER / "dashboards/run.json").exists()


def test_mysql_s_services_are_those_that_its_scenario_names() -> None:
    """`containers/mysql.yml` is read after docker-compose.yml, whose services and volumes it may use."""
    here = yaml.safe_load(COMPOSE)
    added = yaml.safe_load((FOLDER / "containers" / "mysql.yml").read_text())["services"]
    assert not added.keys() & here["services"].keys(), "it changes none of the others"
    scenario = added["scenario-on-mysql"]
    host_of = dict(re.findall(r"--(dsn|toxiproxy)=\S*?//@?([\w-]+):", "\n".join(scenario["entrypoint"])))
    assert set(host_of.values()) <= added.keys()
    assert all(each in {**here["services"], **added} for service in added.values() for each in service.get("depends_on", ()))
    (proxy,) = json.loads((FOLDER / "containers" / "toxiproxy-mysql.json").read_text())
    assert (proxy["name"], proxy["upstream"].partition(":")[0]) == ("primary", host_of["dsn"])
    for service in added.values():
        for source in (volume.partition(":")[0] for volume in service["volumes"]):
            assert source in here["volumes"] or source == "./runs" or (FOLDER / source).exists()
    assert os.access(FOLDER / "containers" / "mysql-primary.sh", os.X_OK)
    assert "ports" not in str(added)
    assert not re.search(r"(?i)password[\w]*:[ \t]*\S", (FOLDER / "containers" / "mysql.yml").read_text())


def test_the_default_scenario_of_mysql_can_run_there() -> None:
    (name,) = re.findall(r"SCENARIO:-([\w-]+)\}", (FOLDER / "containers" / "mysql.yml").read_text())
    scenario = read_scenario(name, overrides=['database.engine="mysql"'])
    assert "mysql" in find_queue(scenario.queue.kind).engines
    require_fit_for_external(scenario, ExternalServers(servers={}, may_change_servers=True))
