"""The steps of the workflows in examples/ci, unchanged, in a clean container: they install the bench and test a queue.

What GitHub and GitLab do themselves (checkout, cache, artifacts) is not part of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from stallbench import PROJECT
from tests.wheel import build_wheel

CI = PROJECT / "examples" / "ci"
IMAGE = os.environ.get("STALLBENCH_TEST_CI_IMAGE", "python:3.11-slim-bookworm")
"""The smaller of Debian's images with Python: what the examples need beyond it, their steps have to install."""
WHEEL_FOLDER = "/wheel"
ReadScript = Callable[[str], tuple[str, dict[str, str], str]]
"""From the path of the wheel to a shell script, its environment, and the folder of the checkout."""

pytestmark = [
    pytest.mark.compose,
    pytest.mark.timeout(3600),  # it installs Java, Spark and the servers
    pytest.mark.skipif("STALLBENCH_TEST_COMPOSE" not in os.environ, reason="needs a Docker engine: make test-compose"),
]


def github_script(wheel: str) -> tuple[str, dict[str, str], str]:
    job = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"]["queue"]
    workspace = "/home/runner/work/queue"
    environment = {name: value.replace("${{ github.workspace }}", workspace) for name, value in job["env"].items()}
    steps = [step["run"].replace("${{ vars.STALLBENCH_WHEEL }}", wheel) for step in job["steps"] if "run" in step]
    return "\n".join(steps), {**environment, "GITHUB_STEP_SUMMARY": f"{workspace}/summary.md"}, workspace


def gitlab_script(wheel: str) -> tuple[str, dict[str, str], str]:
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["queue"]
    checkout = "/builds/queue"
    environment = {name: value.replace("$CI_PROJECT_DIR", checkout) for name, value in job["variables"].items()}
    return "\n".join([*job["before_script"], *job["script"]]), {**environment, "STALLBENCH_WHEEL": wheel}, checkout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize("read_script", [github_script, gitlab_script], ids=["github", "gitlab"])
def test_the_steps_install_the_bench_and_test_a_queue(read_script: ReadScript, wheel: Path, tmp_path: Path) -> None:
    script, environment, checkout = read_script(f"{WHEEL_FOLDER}/{wheel.name}")
    stallbench = Path(sys.executable).with_name("stallbench")
    created = subprocess.run([stallbench, "init", "bench"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert created.returncode == 0, created.stderr
    command = ["docker", "run", "--rm", "--init", "--network=host", f"--workdir={checkout}", "--interactive"]
    command += [f"--volume={tmp_path}:{checkout}", f"--volume={wheel.parent}:{WHEEL_FOLDER}:ro"]
    command += [f"--env={name}={value}" for name, value in environment.items()]
    try:
        ended = subprocess.run(
            [*command, IMAGE, "bash", "-e", "-o", "pipefail"], input=script, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        cases = list(ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase"))
        assert [case for case in cases if case.get("name") == "test_the_queue_keeps_up_while_a_transaction_is_idle"]
        assert [case for case in cases if str(case.get("classname")).endswith(".conservation")], (
            "a case for each check of the run"
        )
        assert list(tmp_path.glob("stallbench-reports/**/report.html"))
        (summary,) = [*tmp_path.glob("summary.md"), *tmp_path.glob("stallbench-reports/summary.md")]
        assert "| verdict | survived |" in summary.read_text()
        assert (tmp_path / ".stallbench-cache" / "stallbench").is_dir(), "the folder that both keep between jobs"
    finally:  # the container's root has written files that only root can remove
        subprocess.run(
            ["docker", "run", "--rm", f"--volume={tmp_path}:/made", IMAGE, "chmod", "-R", "a+rwX", "/made"],
            check=False,
            capture_output=True,
        )
