"""Laravel's queue on MariaDB, shortened: from the deadlock to its drawing, and the same jobs without one."""

from __future__ import annotations

import pytest

from stallbench.pipeline.claim_growth import STATISTICS
from stallbench.pipeline.tables import read_table
from stallbench.setup.server_programs import find_server
from tests.end_to_end.conftest import Bench, assert_nothing_is_left

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(find_server("mariadb") is None, reason="MariaDB is not on this machine; `make setup` brings it"),
]

JOBS = 500
WORKERS = 6
RETRY_AFTER = "queue.retry_after={}"
"""In whole seconds, of which the first may be all but over: a worker that stands still for three must find its reservation valid."""


def expecting(*bounds: str) -> list[str]:
    """Return the options that make a scenario of Laravel's queue short, with other expectations, of phase ``drain``."""
    expect = ", ".join(f'{{phase="drain", because="so it must be", {bound}}}' for bound in bounds)
    return ["--set", f"producers.backlog={JOBS}", "--set", f"workers.count={WORKERS}", "--set", f"expect=[{expect}]"]


def test_workers_deadlock_and_finished_jobs_run_again(bench: Bench) -> None:
    bounds = ('metric="deadlocks.count", at_least=5', 'metric="re_executions.count", at_least=1')
    ended = bench.run("run", "laravel-deadlock", "--set", RETRY_AFTER.format(6), *expecting(*bounds))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    folder = bench.folder()
    conservation = read_table(folder, "conservation").set_index("state")["jobs"]
    assert conservation["completed"] == JOBS, "late, but each of them"
    errors = read_table(folder, "errors")
    assert set(errors["kind"]) == {"1213"}
    assert set(errors["operation"]) == {"claim", "complete"} or set(errors["operation"]) == {"complete"}
    phases = read_table(folder, "phases").set_index(["phase", "measure", "statistic"])["value"]
    victims = phases["drain", "deadlocks_in_claim", "count"] + phases["drain", "deadlocks_in_complete", "count"]
    assert victims == errors.loc[errors["phase"] == "drain", "count"].sum()
    by_position = {(phase, statistic) for phase, measure, statistic in phases.index if measure == "claim_by_position"}
    assert by_position == {("run", statistic) for statistic in STATISTICS}, "the run began with a backlog"
    page = (folder / "report.html").read_text()
    assert "held by" in page, "the cycle is drawn"
    assert "jobs_queue_index" in page
    assert "How a claim finds its job" in page
    assert "The server broke" in bench.verdict()["attribution"]["sentence"]
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])


@pytest.mark.long  # the queue is tested in tests/integration, its table of rounds in tests/pipeline
def test_the_optimistic_queue_has_no_deadlock_and_no_second_execution(bench: Bench) -> None:
    bounds = ('metric="errors.count", at_most=0', 'metric="re_executions.count", at_most=0')
    ended = bench.run(
        "run", "laravel-deadlock", "--variant", "optimistic_n", "--set", RETRY_AFTER.format(60), *expecting(*bounds)
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert bench.record()["queue"]["options"]["window"] == WORKERS, "N is the number of workers, and recorded as one"
    rounds = read_table(bench.folder(), "rounds")
    assert rounds["jobs"].sum() == JOBS
    assert "Round in which a job was claimed" in (bench.folder() / "report.html").read_text()
