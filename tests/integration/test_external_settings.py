"""Settings of external servers: they are changed, and reset to what their owner had set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.engines.innodb.adapter import InnoDBAdapter
from stallbench.engines.postgres.adapter import PostgresAdapter
from stallbench.engines.postgres.driver import connect
from stallbench.servers.cluster import Cluster
from tests.integration.conftest import Connection, EmptyOn
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

NAME = "autovacuum_naptime"


@pytest.fixture
def owner(cluster: Cluster) -> Iterator[Connection]:
    """The owner's connection; the owner's setting is reset at the end."""
    with connect(cluster.server("primary").direct, "owner") as connection:
        yield connection
        connection.execute(f"ALTER SYSTEM RESET {NAME}")
        connection.execute("SELECT pg_reload_conf()")
        wait_for(lambda: connection.execute(f"SHOW {NAME}").fetchone() == ("1min",), "the former setting")


@pytest.fixture
def adapter(cluster: Cluster) -> Iterator[PostgresAdapter]:
    adapter = PostgresAdapter("primary", cluster.server("primary").direct)
    yield adapter
    adapter.close()


def change_and_undo(adapter: PostgresAdapter) -> list[tuple[str, bool]]:
    """Change the setting as a run does and undo it; returns value and `is_overridden` before, during and after the change."""
    seen = []

    def read() -> tuple[str, bool]:
        ((value,),) = adapter.execute(f"SHOW {NAME}")
        seen.append((str(value), adapter.is_overridden(NAME)))
        return seen[-1]

    before, was_overridden = read()
    adapter.change_setting(NAME, "5s")
    read()
    adapter.reset_setting(NAME, before, was_overridden=was_overridden)
    read()
    return seen


def test_a_setting_that_the_owner_had_not_overridden_is_reset(adapter: PostgresAdapter) -> None:
    assert change_and_undo(adapter) == [("1min", False), ("5s", True), ("1min", False)]


def test_a_setting_that_the_owner_had_overridden_has_the_owners_value_again(owner: Connection, adapter: PostgresAdapter) -> None:
    owner.execute(f"ALTER SYSTEM SET {NAME} = '33s'")
    owner.execute("SELECT pg_reload_conf()")
    wait_for(lambda: adapter.execute(f"SHOW {NAME}") == [("33s",)], "the owner's setting")
    assert change_and_undo(adapter) == [("33s", True), ("5s", True), ("33s", True)]


def test_on_mariadb_a_size_may_have_the_suffix_of_option_files(empty_on: EmptyOn) -> None:
    adapter = InnoDBAdapter("primary", empty_on("mariadb"))
    try:
        ((before,),) = adapter.execute("SELECT @@global.sort_buffer_size")
        adapter.change_setting("sort_buffer_size", "3M")
        assert adapter.find_differing({"sort_buffer_size": "3M"}) == {}
        adapter.reset_setting("sort_buffer_size", str(before), was_overridden=False)
        assert adapter.execute("SELECT @@global.sort_buffer_size") == [(before,)]
    finally:
        adapter.close()
