"""`stallbench observe` on MariaDB, as a user starts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from tests.end_to_end.conftest import RunHere
from tests.end_to_end.test_observe import EXPECTATIONS
from tests.integration.engines import private_servers

pytestmark = pytest.mark.end_to_end


def test_a_mariadb_server_is_reported_and_judged(run_here: RunHere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MYSQL_PWD", "secret")
    expectations = tmp_path / "expectations.toml"
    of_postgres = '[[expect]]\nmetric = "dead_tuples.max"\nat_most = 100\nbecause = "MariaDB has none"\n'
    expectations.write_text(EXPECTATIONS + of_postgres)
    with (
        private_servers(tmp_path) as servers,
        servers.empty("mariadb") as endpoint,
        opened_queue("laravel", {}, endpoint, "fixture") as queue,
    ):
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 5)
        with queue.connection.cursor() as cursor:
            cursor.execute("GRANT SELECT, PROCESS ON *.* TO reader@'127.0.0.1' IDENTIFIED BY 'secret'")
        address = f"mariadb://reader@{endpoint.host}:{endpoint.port}/{endpoint.database}"
        done = run_here("observe", "--dsn", address, "--once", "--all")
        assert done.returncode == 0, done.stderr
        assert "Who holds purge back" in done.stdout
        arguments = ("--dsn", address, "--for", "4s", "--every", "1s", "--expect", str(expectations))
        ended = run_here("observe", *arguments, "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Failed: depth.last in the whole run is 5; expected at most 2" in ended.stdout
    assert (
        "not in the first reading: dead_tuples.max; an expectation of it is unknown unless it is measured later" in ended.stderr
    )
    (folder,) = (tmp_path / "runs").glob("*-observe")
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "fail"
