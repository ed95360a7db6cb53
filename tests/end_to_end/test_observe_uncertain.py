"""An expectation of the number or the age of jobs that were not all seen: `stallbench observe` does not let it pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.postgres.job_counts import MOST_COUNTED
from stallbench.records.endpoint import Endpoint
from tests.end_to_end.conftest import RunHere
from tests.end_to_end.test_observe import address_of

pytestmark = pytest.mark.end_to_end

EXPECTATIONS = """
[[expect]]
metric = "depth.max"
at_most = 20000

[[expect]]
metric = "depth.last"
at_least = 1

[[expect]]
metric = "oldest_job_s.last"
at_most = 60
"""


def test_more_jobs_than_are_counted_and_ages_that_no_one_knows_do_not_pass(
    server: Endpoint, run_here: RunHere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", server.password.get_secret_value())
    with connect(server, "application") as connection:
        connection.execute(f"CREATE TABLE own_jobs AS SELECT generate_series(1, {3 * MOST_COUNTED}) AS n")
    expectations = tmp_path / "expectations.toml"
    expectations.write_text(EXPECTATIONS)
    arguments = (
        "--dsn",
        address_of(server),
        "--table",
        "public.own_jobs",
        "--for",
        "3s",
        "--every",
        "1s",
        "--expect",
        str(expectations),
        "--runs",
        str(tmp_path / "runs"),
    )
    ended = run_here("observe", *arguments)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (folder,) = (tmp_path / "runs").glob("*-observe")
    found = {one["subject"]: one for one in json.loads((folder / "verdict.json").read_text())["findings"]}
    assert {subject: one["result"] for subject, one in found.items()} == {
        "depth.max in the whole run": "unknown",
        "depth.last in the whole run": "pass",
        "oldest_job_s.last in the whole run": "unknown",
    }, ended.stdout
    assert "unknown queue (public.own_jobs) has more than 10,000" in found["depth.max in the whole run"]["reason"]
    assert (
        "was not measured: the age of the jobs of unknown queue (public.own_jobs) is not known"
        in (found["oldest_job_s.last in the whole run"]["reason"])
    )
