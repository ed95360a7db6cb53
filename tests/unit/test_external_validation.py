"""Scenarios that need servers of the bench's own are refused on external ones, before anything is started."""

from __future__ import annotations

import pytest

from stallbench.errors import BadInputError
from stallbench.scenario.file import read_scenario
from stallbench.scenario.validation.external import require_fit_for_external
from stallbench.servers.addresses import ExternalServers

EXTERNAL = ExternalServers(servers={})
ALLOWED = ExternalServers(servers={}, may_change_servers=True)


@pytest.mark.parametrize("name", ["longtx", "longtx-replica", "network-partition", "worker-crash", "retry-storm"])
def test_most_scenarios_run_on_external_servers(name: str) -> None:
    require_fit_for_external(read_scenario(name), EXTERNAL)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("failover", "promote"),
        ("server-crash", "crash"),
        ("pgbouncer", "pooler"),
        ("autovacuum-starvation", "autovacuum_starvation"),
    ],
)
def test_what_strikes_a_server_itself_is_refused(name: str, kind: str) -> None:
    for external in (EXTERNAL, ALLOWED):
        with pytest.raises(BadInputError, match=rf"faults\[\d\]: {kind} affects a whole server"):
            require_fit_for_external(read_scenario(name), external)


def test_what_others_feel_has_to_be_allowed() -> None:
    scenario = read_scenario("pool-exhaustion")
    with pytest.raises(
        BadInputError, match="idle_connections affects all clients of primary; to allow that, add --allow-server-changes"
    ):
        require_fit_for_external(scenario, EXTERNAL)
    require_fit_for_external(scenario, ALLOWED)


def test_no_role_is_created_on_a_server_of_the_user() -> None:
    """It would stay there if the bench were killed, or be one that the user has under this name."""
    phase = read_scenario("pool-exhaustion").phases[-1].name
    limited = f'phases.{phase}.faults=[{{kind="idle_connections",limit=5}}]'
    scenario = read_scenario("pool-exhaustion", overrides=[limited])
    with pytest.raises(
        BadInputError, match=r"faults\[0\]\.limit creates a role on primary, which the bench does only on servers"
    ):
        require_fit_for_external(scenario, ALLOWED)


def test_how_the_bench_starts_servers_is_no_matter_of_joined_ones() -> None:
    scenario = read_scenario("longtx-replica", overrides=["database.replication_slot=true", "database.version=17"])
    with pytest.raises(BadInputError) as refused:
        require_fit_for_external(scenario, ALLOWED)
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == [
        "database.version",
        "database.replication_slot",
    ]


def test_sessions_of_other_users_are_not_ended() -> None:
    with pytest.raises(BadInputError, match=r"maintenance\[0\]: watchdog affects other clients"):
        require_fit_for_external(read_scenario("longtx", variant="watchdog"), ALLOWED)
    require_fit_for_external(read_scenario("longtx", variant="reindex"), EXTERNAL)


def test_a_second_server_is_not_joined() -> None:
    with pytest.raises(BadInputError, match=r"queue\.kind: redis_batches also needs a redis server"):
        require_fit_for_external(read_scenario("longtx", variant="redis_batches"), ALLOWED)
