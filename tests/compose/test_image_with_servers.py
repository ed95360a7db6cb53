"""The image of containers/with-servers.Dockerfile: a CI job runs scenarios and tests in it without installing anything."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
IMAGE = f"stallbench-with-servers-test-{os.getpid()}"
SHORT = ["--set=phases.longtx.duration=4s", "--set=phases.baseline.duration=3s", "--set=producers.rate=100", "--set=expect=[]"]
USERS = ("stallbench", "root")

pytestmark = [
    pytest.mark.compose,
    pytest.mark.timeout(3600),  # it builds an image with Java, Spark and six servers
    pytest.mark.skipif("STALLBENCH_TEST_COMPOSE" not in os.environ, reason="needs a Docker engine: make test-compose"),
]


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    toxiproxy = "--build-arg=TOXIPROXY_IMAGE=ghcr.io/shopify/toxiproxy:2.12.0"  # a stand-in has no digest
    built = docker("build", "--network=host", "--file=containers/with-servers.Dockerfile", toxiproxy, f"--tag={IMAGE}", ".")
    assert built.returncode == 0, built.stderr[-3000:]
    yield IMAGE
    docker("image", "rm", IMAGE)


@pytest.mark.parametrize("user", USERS)
def test_a_scenario_runs_without_installing_anything(image: str, user: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run = ("run", "--rm", "--init", "--network=none", f"--user={user}", f"--volume={tmp_path}:/work", image)
    ended = docker(*run, "run", "longtx", *SHORT)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    folder = tmp_path / "reports" / "runs" / "latest"
    name = folder.readlink()
    assert json.loads((folder.parent / name / "verdict.json").read_text())["verdict"] == "pass"
    assert (folder.parent / name / "report.html").stat().st_size > 10_000


def test_it_has_all_that_doctor_looks_for(image: str) -> None:
    ended = docker("run", "--rm", "--network=none", image, "doctor")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_users_own_queue_is_tested_by_pytest(image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    steps = "stallbench init bench && python -m pytest -q bench --stallbench-reports=reports"
    container = ("run", "--rm", "--init", "--network=none", f"--volume={tmp_path}:/work", "--entrypoint=sh", image)
    ended = docker(*container, "-c", steps)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert list(tmp_path.glob("reports/**/report.html"))
