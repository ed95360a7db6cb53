"""Locust on real servers: every job that it enqueues is in the job log, its users do not wait for one another, and it says whether it passed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from stallbench import PROJECT
from stallbench.engines import EngineName, driver_of
from stallbench.processes.role_command import LOCUST, role_command
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.records.events import Event
from stallbench.records.reading import read_events
from stallbench.run.load import LOCUST_OPTIONS
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.real_processes import PATIENCE_S, RecordingProcess
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

USERS = 4
QUEUE_OF: dict[EngineName, str] = {
    "postgres": "skip_locked",
    "mariadb": "laravel",
    "sqlite": "laravel",
    "redis": "laravel_redis",
    "beanstalkd": "beanstalkd",
}
TRIED = ("postgres", "redis")
"""By `make test`: one with SQL, whose calls wait for a lock, and one without."""
SQLITE_LOCK_S = 1.0
"""Its own patience is 5 s, which must also do for a machine that stands still meanwhile."""
TRIES = 5
LOCUST_ALONE = role_command(LOCUST)

Start = Callable[..., RecordingProcess]


@pytest.fixture
def start(servers: PrivateServers, tmp_path: Path) -> Start:
    """Starts Locust as the bench does, on a queue that is there."""

    def start_one(endpoint: Endpoint, queue: str, **bounds: object) -> RecordingProcess:
        with opened_queue(queue, {}, endpoint, "install") as installed:
            installed.install()
        events = tmp_path / "producer-1.csv"
        told = {"queue": queue, "events": str(events), "rate": 40, "users": USERS, "bounds": bounds}
        process = servers.processes.start(
            "producer-1",
            "producer",
            role_command(LOCUST, *LOCUST_OPTIONS),
            document={
                "name": "producer-1",
                "endpoint": endpoint.with_password(),
                "result": str(tmp_path / "locust.json"),
                **told,
            },
            log=tmp_path / "producer-1.log",
            ready=True,
        )
        process.wait_ready(PATIENCE_S)
        return RecordingProcess(process, events)

    return start_one


def enqueued(locust: RecordingProcess) -> list[int]:
    return [record.job_id for record in locust.of(Event.ENQUEUED) if record.job_id is not None]


def held_by(endpoint: Endpoint, queue: str) -> set[int]:
    with opened_queue(queue, {}, endpoint, "final_snapshot") as opened:
        return {job_id for job_id, _ in opened.job_ids()}


def count_waiting(endpoint: Endpoint) -> int:
    """How many sessions wait for the table that the test has locked."""
    statement = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        if endpoint.engine == "postgres"
        else "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'"
    )
    with driver_of(endpoint.engine).connect(endpoint, "look") as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


@contextmanager
def locked(endpoint: Endpoint, statement: str) -> Iterator[None]:
    """Hold the queue's table, so that each enqueue waits until the block is left."""
    driver = driver_of(endpoint.engine)
    connection = driver.connect(endpoint, "lock")
    cursor = connection.cursor()
    try:
        for part in statement.split("; "):
            cursor.execute(part)
        yield
    finally:
        driver.close(connection)


def lock_until_users_wait_together(locust: RecordingProcess, endpoint: Endpoint, lock: str) -> bool:
    """Lock the queue's table; returns whether calls of several users waited for it at the same time."""
    with locked(endpoint, lock):
        if endpoint.engine == "sqlite":
            time.sleep(SQLITE_LOCK_S)  # there is no server to ask
        else:
            wait_for(lambda: count_waiting(endpoint) >= USERS, f"the wait of all {USERS} users for the table", PATIENCE_S)
    locust.wait_for(Event.ENQUEUED, len(enqueued(locust)) + USERS)
    calls = [
        (record.t_ns - record.duration_ns, record.t_ns)
        for record in read_events(locust.path)
        if record.duration_ns is not None and (endpoint.engine != "sqlite" or record.duration_ns > SQLITE_LOCK_S / 2 * 1e9)
    ]
    return any(sum(begin < other_end and other_begin < end for other_begin, other_end in calls) >= 2 for begin, end in calls)


LOCKS: dict[EngineName, str] = {
    "postgres": "BEGIN; LOCK TABLE skip_locked_jobs IN EXCLUSIVE MODE",
    "mariadb": "LOCK TABLES jobs WRITE",
    "sqlite": "BEGIN EXCLUSIVE",
}


@pytest.mark.parametrize(
    "engine", [pytest.param(engine, marks=() if engine in TRIED else pytest.mark.long) for engine in QUEUE_OF]
)
def test_each_job_is_in_the_queue_and_in_the_job_log_and_slow_calls_of_users_overlap(
    empty_on: EmptyOn, start: Start, engine: EngineName, tmp_path: Path
) -> None:
    endpoint, queue = empty_on(engine), QUEUE_OF[engine]
    locust = start(endpoint, queue)
    locust.wait_for(Event.ENQUEUED, 20)
    if engine in LOCKS:
        # Without a query for waiting sessions, it is possible that Locust itself was paused for as long as the lock was held.
        tries = TRIES if engine == "sqlite" else 1
        assert any(lock_until_users_wait_together(locust, endpoint, LOCKS[engine]) for _ in range(tries))
    locust.end()
    judgement = json.loads((tmp_path / "locust.json").read_text())
    jobs = enqueued(locust)
    assert len(set(jobs)) == len(jobs)
    assert set(jobs) == held_by(endpoint, queue)
    assert (judgement["result"], judgement["requests"], judgement["failures"]) == ("pass", len(jobs), 0)


def test_what_was_enqueued_before_kill_9_is_in_the_job_log(empty_on: EmptyOn, start: Start) -> None:
    endpoint = empty_on("postgres")
    locust = start(endpoint, "skip_locked")
    locust.wait_for(Event.ENQUEUED, 20)
    locust.process.kill()
    recorded, held = set(enqueued(locust)), held_by(endpoint, "skip_locked")
    assert recorded <= held
    assert len(held - recorded) <= USERS, "more than the calls that the users were in"


def test_it_fails_by_its_own_bounds(empty_on: EmptyOn, start: Start, tmp_path: Path) -> None:
    locust = start(empty_on("postgres"), "skip_locked", at_most_ms={"p95": 0.001})
    locust.wait_for(Event.ENQUEUED, 4)
    locust.process.stop(PATIENCE_S)
    judgement = json.loads((tmp_path / "locust.json").read_text())
    assert (locust.process.exit_code, judgement["result"]) == (1, "fail")
    assert judgement["reasons"][0].endswith("ms; expected at most 0.001")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_alone_with_its_web_page_and_two_workers(empty_on: EmptyOn, tmp_path: Path) -> None:
    endpoint = empty_on("postgres")
    port, master_port = free_port(), str(free_port())
    page = f"http://127.0.0.1:{port}"
    dsn = f"postgresql://{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    # Locust's master ends the test if it hears nothing of its workers for 3 s, for which a machine may well stand still.
    patient = tmp_path / "patient.py"
    patient.write_text("import locust.runners\n\nlocust.runners.HEARTBEAT_LIVENESS = 60\n")
    locustfiles = f"{PROJECT / 'producers' / 'locustfile.py'},{patient}"
    with (tmp_path / "log").open("w+") as log:
        locust = subprocess.Popen(
            [
                *(*LOCUST_ALONE, "-f", locustfiles, "--scenario", "baseline", "--dsn", dsn),
                *("--database", endpoint.database, "--install"),
                *("--rate", "40", "--users", "4", "--processes", "2", "--master-bind-port", master_port),
                *("--master-port", master_port, "--web-host", "127.0.0.1", "--web-port", str(port)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, PASSWORD_VARIABLE: endpoint.password.get_secret_value()},
            start_new_session=True,
        )
        try:
            wait_for_answer(
                lambda: read(f"{page}/stats/requests")["state"] == "ready" and len(read(f"{page}/stats/requests")["workers"]) == 2
            )
            asked = requests.post(f"{page}/swarm", data={"user_count": 4, "spawn_rate": 10}, timeout=PATIENCE_S).json()
            assert asked["success"], asked
            wait_for_answer(lambda: read(f"{page}/stats/requests")["stats"][-1]["num_requests"] >= 20)
            requests.post(f"{page}/stop", timeout=PATIENCE_S)
            locust.terminate()
            assert locust.wait(PATIENCE_S) == 0
        except (AssertionError, requests.RequestException):
            log.flush()
            pytest.fail((tmp_path / "log").read_text())
        finally:
            if locust.poll() is None:
                os.killpg(locust.pid, signal.SIGKILL)
                locust.wait()
    printed = (tmp_path / "log").read_text()
    assert "Traceback" not in printed, printed
    assert f"Locust: pass: {len(held_by(endpoint, 'skip_locked')):,} requests, 0 failed" in printed


def read(page: str) -> Any:
    return requests.get(page, timeout=PATIENCE_S).json()


def wait_for_answer(ask: Callable[[], Any]) -> Any:
    """Ask until there is an answer that is not nothing."""

    def try_to_ask() -> Any:
        with suppress(requests.RequestException, KeyError, IndexError):
            return ask()
        return None

    return wait_for(try_to_ask, "an answer", 2 * PATIENCE_S, every_s=0.1)


def test_a_web_page_on_a_port_that_is_taken_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "external").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = subprocess.run(
            [*LOCUST_ALONE, "--join", str(tmp_path), "--web-host", "127.0.0.1", "--web-port", str(taken.getsockname()[1])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert ended.returncode == 2
    assert "choose another with --web-port" in ended.stderr
    assert "Traceback" not in ended.stderr
