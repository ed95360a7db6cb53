"""`stallbench observe` as a user starts it: output, exit codes, bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest
import requests

from dashboards.availability import ONLY_ON
from stallbench.base.ports import find_free_port
from stallbench.engines.postgres.driver import connect
from stallbench.measure_definition import FromSamples
from stallbench.measures import MEASURES
from stallbench.observe.expectations import PHASE
from stallbench.observe.sampled_metrics import SampledRun
from stallbench.queues import NewJob
from stallbench.queues.queue_client import open_queue
from stallbench.records.endpoint import Endpoint
from stallbench.verdicts import RunTables
from stallbench.waiting import wait_until
from tests.end_to_end.conftest import Bench, RunHere
from tests.integration.engines import PrivateServers
from tests.integration.observed import OBSERVE_UNRESTRAINED
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.end_to_end

OF_THE_BENCH = ("stallbench_host", "stallbench_process", "stallbench_collector")
NOT_HERE = {
    *(name for name, (engine, _) in ONLY_ON.items() if engine != "postgres"),
    "stallbench_injection_active",  # nothing is injected
    "stallbench_replication_lag_seconds",  # there is no replica
    "stallbench_replication_lag_bytes",
    "stallbench_vacuum_removed_tuples",  # nothing is vacuumed, and the log is not given
    "stallbench_vacuum_not_removable_tuples",
    "stallbench_last_autovacuum_age_seconds",
}
"""Series of the dashboard that this server does not have."""
EXPECTATIONS = """
[[expect]]
metric = "depth.last"
at_most = 2
because = "workers keep up"

[[expect]]
metric = "oldest_transaction_s.max"
at_most = 60
"""
SERVER_DASHBOARD = Path(__file__).resolve().parents[2] / "dashboards" / "server.json"
NOBODY_LISTENS = "postgresql://reader@127.0.0.1:9/app"


def address_of(endpoint: Endpoint) -> str:
    return f"postgresql://{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"


def start(*arguments: str, password: str = "", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *OBSERVE_UNRESTRAINED, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGPASSWORD": password, **environment},
    )


def test_one_report_is_printed_and_the_password_is_not(
    server: Endpoint, run_here: RunHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = server.password.get_secret_value()
    monkeypatch.setenv("PGPASSWORD", password)
    done = run_here("observe", "--dsn", address_of(server), "--once")
    assert done.returncode == 0, done.stderr
    assert "add --all" in done.stdout
    assert f"read-only as {server.user}" in done.stdout
    assert password not in done.stdout + done.stderr


def test_the_password_file_is_read(server: Endpoint, tmp_path: Path, run_here: RunHere, monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"{server.host}:{server.port}:*:{server.user}:{server.password.get_secret_value()}\n")
    passwords.chmod(0o600)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    done = run_here("observe", "--dsn", address_of(server), "--once")
    assert done.returncode == 0, done.stderr


def test_in_a_file_changes_follow_the_first_report_until_it_is_stopped(server: Endpoint) -> None:
    process = start("--dsn", address_of(server), "--every", "1s", password=server.password.get_secret_value())
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "add --all" in line:
                break
        with connect(server, "application") as connection:
            connection.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
            try:
                new = next(line for line in process.stdout if "left_behind" in line)
            finally:
                connection.execute("SELECT pg_drop_replication_slot('left_behind')")
        assert "warning" in new
        assert "SELECT pg_catalog.pg_drop_replication_slot('left_behind');" in new
        assert "over" in next(line for line in process.stdout if "left_behind" in line)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dsn", "postgresql://me:secret@db/app"], 2, "--dsn primary: contains a password, which the process list would show"),
        (["--dsn", "mysql://me:secret@db/app"], 2, "--dsn primary: contains a password, which the process list would show"),
        (
            ["--dsn", "postgresql://me:sec/secret@db/app"],
            2,
            "--dsn primary: contains a password, which the process list would show",
        ),
        (["--dsn", "postgres//db/app"], 2, "--dsn primary: cannot be read"),
        (["--dsn", "postgresql://db/app?sslmod=require"], 2, "--dsn primary: cannot be read"),
        (["--dsn", "postgresql://db/app?options=-cwork_mem%3D1GB"], 2, "parameter options is not supported"),
        (["--dsn", "oracle://me@db/app"], 2, "expected SCHEME://USER@HOST:PORT/DATABASE"),
        (["--dsn", "replica1=postgresql://me@db/app"], 2, "the server to observe is missing"),
        (["--dsn", NOBODY_LISTENS, "--every", "5"], 2, "--every 5: expected a number with"),
        (["--dsn", NOBODY_LISTENS, "--every", "1ms"], 2, "expected 1s to 60s"),
        (["--dsn", NOBODY_LISTENS, "--log", "/no/such/file"], 2, "--log /no/such/file: there is no such file"),
        (["--dsn", NOBODY_LISTENS, "--report"], 2, "--report needs --for"),
        (["--dsn", NOBODY_LISTENS, "--once", "--for", "1m"], 2, "--once cannot be combined with --for"),
        (["--dsn", NOBODY_LISTENS, "--for", "1m", "--expect", "no.toml"], 2, "--expect no.toml: there is no such file"),
        (["--dsn", NOBODY_LISTENS, "--expose", "127.0.0.1"], 2, "expected ADDRESS:PORT, like 127.0.0.1:9187"),
        (["--dsn", NOBODY_LISTENS, "--record-profile", "profile.toml"], 2, "--record-profile needs --for"),
        (["--dsn", NOBODY_LISTENS, "--for", "1m", "--record-profile", "profile.json"], 2, "a scenario's file is named"),
        (["--dsn", NOBODY_LISTENS, "--once"], 3, "reader@127.0.0.1:9/app cannot be read"),
        (["--dsn", NOBODY_LISTENS], 3, "reader@127.0.0.1:9/app cannot be read"),
    ],
)
def test_bad_input_is_one_message_with_an_exit_code(run_here: RunHere, arguments: list[str], code: int, words: str) -> None:
    done = run_here("observe", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_a_recorded_observation_is_judged_like_a_run(server: Endpoint, bench: Bench, tmp_path: Path) -> None:
    queue = open_queue("que", {}, server, "fixture")
    with queue.connection:
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 5)
    expectations = tmp_path / "expectations.toml"
    expectations.write_text(EXPECTATIONS)
    asked = ("--dsn", address_of(server), "--for", "8s", "--every", "1s", "--expect", str(expectations))
    process = bench.start("observe", *asked, "--report", environment={"PGPASSWORD": server.password.get_secret_value()})
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1, err
    assert "depth.last in the whole run is 5; expected at most 2" in out
    results = {finding["subject"]: finding["result"] for finding in bench.verdict()["findings"]}
    assert results == {"depth.last in the whole run": "fail", "oldest_transaction_s.max in the whole run": "pass"}
    suites = ElementTree.fromstring((bench.folder() / "junit.xml").read_text())
    assert len(suites.findall(".//testcase")) == 2
    assert len(suites.findall(".//failure")) == 1
    page = (bench.folder() / "report.html").read_text()
    assert "Tables: public.que_jobs" in page
    assert "stallbench observe --dsn ADDRESS --for 8s --report" in page
    assert "jobs/s" not in page.partition("<body")[2].partition("<script")[0], "nothing is said of what was not measured"
    assert_the_same_is_found_without_the_pipeline(bench.folder())


NO_JAVA = {"JAVA_HOME": "/nonexistent", "PATH": "/nonexistent", "SPARK_HOME": "/nonexistent"}


@pytest.mark.parametrize(("jobs", "code", "result"), [(1, 0, "pass"), pytest.param(5, 1, "fail", marks=pytest.mark.long)])
def test_expectations_are_judged_without_java(
    server: Endpoint, run_here: RunHere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int, code: int, result: str
) -> None:
    for name, value in {"PGPASSWORD": server.password.get_secret_value(), **NO_JAVA}.items():
        monkeypatch.setenv(name, value)
    queue = open_queue("que", {}, server, "fixture")
    with queue.connection:
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * jobs)
    expectations = tmp_path / "expectations.toml"
    expectations.write_text(EXPECTATIONS)
    arguments = ("--dsn", address_of(server), "--for", "4s", "--every", "1s", "--expect", str(expectations))
    ended = run_here("observe", *arguments, "--runs", str(tmp_path / "runs"))
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert f"depth.last in the whole run is {jobs}; expected at most 2" in ended.stdout
    assert ("Passed: " if result == "pass" else "Failed: ") in ended.stdout
    (folder,) = (tmp_path / "runs").glob("*-observe")
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == result
    suites = ElementTree.fromstring((folder / "junit.xml").read_text())
    assert len(suites.findall(".//testcase")) == 2
    assert len(suites.findall(".//failure")) == (result == "fail")
    assert not (folder / "tables").exists()


def assert_the_same_is_found_without_the_pipeline(folder: Path) -> None:
    """Every metric of every sampled measure is what the tables have, which Spark makes from the same samples."""
    tables, sampled = RunTables(folder), SampledRun(folder)
    compared = 0
    for measure in MEASURES.values():
        if isinstance(measure.source, FromSamples):
            for statistic in measure.statistics:
                expected = tables.metric(measure.name, statistic, PHASE)
                equal = None if expected is None else pytest.approx(expected, rel=1e-6, abs=1e-9)
                assert sampled.metric(measure.name, statistic, PHASE) == equal, f"{measure.name}.{statistic}"
                compared += expected is not None
    assert compared > 50


@pytest.mark.parametrize(
    "report", [(), pytest.param(("--report",), marks=pytest.mark.long)], ids=["expectations alone", "with the report"]
)
def test_a_server_that_goes_away_before_the_end_does_not_pass(
    servers: PrivateServers, bench: Bench, tmp_path: Path, report: tuple[str, ...]
) -> None:
    control = servers.start("postgres", {"fsync": False})
    assert control.process is not None
    expectations = tmp_path / "expectations.toml"
    expectations.write_text('[[expect]]\nmetric = "oldest_transaction_s.max"\nat_most = 60\n')
    endpoint = control.endpoint
    arguments = ("--dsn", address_of(endpoint), "--for", "5s", "--every", "1s", "--expect", str(expectations), *report)
    process = bench.start("observe", *arguments, environment={"PGPASSWORD": endpoint.password.get_secret_value()})
    try:
        assert process.stdout is not None
        next(line for line in process.stdout if "add --all" in line)
        control.process.kill()
    finally:
        out, err = process.communicate(timeout=600)
    assert process.returncode == 1, out + err
    assert "Unknown: the server could not be read at the end" in out
    assert "Traceback" not in out + err


def test_prometheus_gets_what_the_server_dashboard_asks_for(server: Endpoint, tmp_path: Path) -> None:
    queue = open_queue("que", {}, server, "fixture")
    with queue.connection:
        queue.install()
    address = f"127.0.0.1:{find_free_port()}"
    arguments = ("--dsn", address_of(server), "--every", "1s", "--expose", address, "--runs", str(tmp_path))
    process = start(*arguments, password=server.password.get_secret_value())
    try:
        wanted = {name for name in re.findall(r"stallbench_[a-z_]+", SERVER_DASHBOARD.read_text()) if not is_left_out(name)}
        served: set[str] = set()

        def is_all_served() -> bool:
            with suppress(requests.ConnectionError):
                served.update(
                    re.findall(
                        r"^(stallbench_[a-z_]+)", requests.get(f"http://{address}/metrics", timeout=PATIENCE_S).text, re.MULTILINE
                    )
                )
            return wanted <= served

        assert wait_until(is_all_served, within_s=60, every_s=0.5), f"not served: {wanted - served}"
        (targets,) = (tmp_path / "targets").glob("*.json")
        (target,) = wait_for(lambda: json.loads(targets.read_text()), "the address in the file, which is empty at first")
        assert target["targets"] == [address]
        assert target["labels"]["scenario"] == "observe"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not targets.exists()
    finally:
        process.kill()
        process.communicate()


def is_left_out(name: str) -> bool:
    """Whether an observation of this server has no such figure."""
    return name.startswith(OF_THE_BENCH) or name in NOT_HERE
