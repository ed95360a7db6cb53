"""What others create in a user's database during a run survives the end of the run, and that of a bench that is killed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines.adapter import OBJECTS_TABLE
from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.errors import EXIT_NOT_CARRIED_OUT
from stallbench.records.endpoint import PASSWORD_VARIABLE
from stallbench.servers.join import open_adapter
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, bench, short
from tests.integration.running_cluster import StartedCluster, running_cluster
from tests.waiting import wait_for

__all__ = ["bench"]
pytestmark = pytest.mark.end_to_end
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartedCluster]:
    """A server that the run did not start."""
    with running_cluster(Database(), tmp_path_factory.mktemp("joined")) as started:
        yield started


def joining(servers: StartedCluster) -> list[str]:
    primary = servers.cluster.server("primary").direct
    address = f"postgresql://{primary.user}@{primary.host}:{primary.port}/{primary.database}"
    return ["--dsn", address, "--database", primary.database, "--allow-server-changes"]


def password_of(servers: StartedCluster) -> dict[str, str]:
    return {PASSWORD_VARIABLE: servers.cluster.server("primary").direct.password.get_secret_value()}


def create_as_others_do(owner: psycopg.Connection[Any]) -> None:
    owner.execute("CREATE TABLE customer_data AS SELECT 1 AS one")
    owner.execute("CREATE VIEW report AS SELECT count(*) AS jobs FROM que_jobs")


def assert_kept_and_remove(owner: psycopg.Connection[Any]) -> None:
    assert owner.execute("SELECT one FROM customer_data").fetchall() == [(1,)]
    assert owner.execute("SELECT jobs >= 0 FROM report").fetchall() == [(True,)]
    owner.execute("DROP VIEW report")
    owner.execute("DROP TABLE customer_data")


PLAIN = """
summary = "A load that nothing disturbs."
[database]
engine = "postgres"
[queue]
kind = "que"
[producers]
rate = 20
[workers]
count = 1
work = "1ms"
[[phases]]
name = "steady"
duration = "8s"
"""
KEPT = "table public.que_jobs is still in database"
WHY = "view public.report depends on table public.que_jobs"


def test_what_others_create_during_a_run_survives_its_end_and_the_run_says_so(
    bench: Bench, joined: StartedCluster, tmp_path: Path
) -> None:
    scenario = tmp_path / "plain.toml"
    scenario.write_text(PLAIN)
    run = bench.start("run", str(scenario), *joining(joined), environment=password_of(joined))
    bench.wait_for_phase("steady")
    with connect(joined.cluster.server("primary").direct, "owner") as owner:
        create_as_others_do(owner)
        out, err = run.communicate(timeout=600)
        try:
            assert run.returncode == EXIT_NOT_CARRIED_OUT, out + err
            assert bench.verdict()["verdict"] == "pass"
            for said in (out, " ".join(bench.record()["notes"])):
                assert KEPT.lower() in said.lower()
                assert WHY in said
                assert "able public.customer_data is in database" in said
            assert owner.execute(f"SELECT kind, name FROM {OBJECTS_TABLE}").fetchall() == [("TABLE", "public.que_jobs")]
        finally:
            assert_kept_and_remove(owner)
    # The next run recognises what the former one had to leave.
    with open_adapter("primary", joined.cluster.server("primary").direct) as adapter:
        adapter.prepare_database()
        assert adapter.empty_database() == []
        assert adapter.find_objects() == set()


def test_what_others_create_survives_a_bench_that_is_killed_and_its_cleanup(bench: Bench, joined: StartedCluster) -> None:
    run = bench.start("run", "longtx", *short(), *joining(joined), environment=password_of(joined))
    bench.wait_for_phase("longtx")
    with connect(joined.cluster.server("primary").direct, "owner") as owner:
        create_as_others_do(owner)
        run.send_signal(signal.SIGKILL)
        run.wait()
        wait_for(lambda: bench.record()["status"] == "aborted", "the end of the reaper's work", 120)
        assert WHY in bench.record()["reason"]
        cleaned = bench.run("clean")
        assert KEPT in cleaned.stdout and WHY in cleaned.stdout
        assert "table public.customer_data is in database" in cleaned.stdout
        kept = re.findall(r"kept (\S+) with the cleanup journal", cleaned.stdout)
        assert_kept_and_remove(owner)
        cleaned = bench.run("clean")
        # Tests beside this one may have a journal of their own that cannot be carried out yet.
        assert set(kept) & set(re.findall(r"removed (\S+) and", cleaned.stdout)), cleaned.stdout
        assert owner.execute(TABLES).fetchall() == []
        assert_nothing_is_left(bench, run.pid)
