"""The command line's addresses of external servers."""

from __future__ import annotations

import pytest

from stallbench.engines.database import Database
from stallbench.errors import BadInputError
from stallbench.servers.addresses import ExternalServers, read_external_servers

PRIMARY = "primary=postgresql://me@db.test:5433/queues"


def read(
    *addresses: str, database: str | None = "queues", toxiproxy: str | None = None, wanted: Database | None = None
) -> ExternalServers | None:
    return read_external_servers(
        addresses, database=database, toxiproxy=toxiproxy, may_change_servers=False, wanted=wanted or Database()
    )


def test_an_address_names_server_user_and_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLBENCH_PASSWORD", "geheim")
    external = read(PRIMARY)
    assert external is not None
    primary = external.servers["primary"]
    assert (primary.host, primary.port, primary.user, primary.database) == ("db.test", 5433, "me", "queues")
    assert primary.password.get_secret_value() == "geheim"
    assert "geheim" not in repr(external)


def test_an_address_without_a_name_is_the_primarys_and_has_the_default_port() -> None:
    external = read("postgres://me@db.test/queues")
    assert external is not None
    assert external.servers["primary"].port == 5432


def test_servers_are_in_the_order_primary_then_replicas() -> None:
    external = read("replica-1=postgresql://me@b.test/queues", PRIMARY, wanted=Database(replicas=1))
    assert external is not None
    assert list(external.servers) == ["primary", "replica-1"]


def test_more_replicas_than_the_scenario_needs_may_be_joined() -> None:
    external = read("replica-1=postgresql://me@b.test/queues", PRIMARY)
    assert external is not None
    assert list(external.servers) == ["primary", "replica-1"]


def test_on_mariadb_an_address_may_leave_the_user_to_each_process() -> None:
    external = read("mariadb://@db.test/queues", wanted=Database(engine="mariadb"))
    assert external is not None
    assert external.servers["primary"].user == ""


def test_a_toxiproxy_is_identified_by_its_api() -> None:
    external = read(PRIMARY, toxiproxy="http://proxy.test")
    assert external is not None
    assert external.toxiproxy == ("proxy.test", 8474)


def test_without_an_address_nothing_is_joined() -> None:
    assert read(database=None) is None


@pytest.mark.parametrize(
    ("addresses", "options", "message"),
    [
        ([PRIMARY.replace("me@", "me:secret@")], {}, "contains a password, which the process list would show; remove it and set"),
        ([PRIMARY.replace("me@", "me:s3c/ret@")], {}, "primary: contains a password"),
        ([PRIMARY], {"database": None}, "names database 'queues', and --database is not given; repeat the name there"),
        ([PRIMARY], {"database": "queue"}, "names database 'queues', and --database says 'queue'"),
        (["primary=mysql://me@db.test/queues"], {}, "--dsn primary: is MySQL; the scenario runs on PostgreSQL"),
        (["primary=postgre://me@db.test/queues"], {}, 'SCHEME postgresql, mariadb or mysql; did you mean "postgres"?'),
        (["primary=postgresql://db.test/queues"], {}, "expected NAME=SCHEME://USER@HOST:PORT/DATABASE"),
        (
            ["primary=postgresql://me@db.test:many/queues"],
            {},
            "--dsn primary: cannot be read as an address: Port could not be cast",
        ),
        (
            ["standby=postgresql://me@db.test/queues"],
            {},
            "there is no server of that name; expected one of primary, replica-1, replica-2",
        ),
        ([PRIMARY, PRIMARY], {}, "--dsn primary: given twice"),
        ([PRIMARY], {"wanted": Database(replicas=1)}, "--dsn replica-1=.. is missing: the scenario needs primary, replica-1"),
        ([PRIMARY], {"toxiproxy": "proxy.test:8474"}, "expected http://HOST:PORT, the address of its API"),
        ([], {}, "--database needs --dsn"),
        ([], {"database": None, "toxiproxy": "http://proxy.test"}, "--toxiproxy needs --dsn"),
    ],
)
def test_an_invalid_option_is_refused_in_one_line(
    addresses: list[str], options: dict[str, str | Database | None], message: str
) -> None:
    with pytest.raises(BadInputError) as refused:
        read(*addresses, **options)  # type: ignore[arg-type]
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value) and "s3c" not in str(refused.value)
