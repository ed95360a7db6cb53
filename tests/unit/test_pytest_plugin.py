"""The pytest plugin: what it costs those who do not use it, how it calls the command line, and what it publishes.

The command line is a stand-in here, which leaves the folder of the sample run. tests/end_to_end/test_first_project.py has a real run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from junitparser import JUnitXml

from stallbench import PROJECT

pytestmark = pytest.mark.slow

STAND_IN = """
import json, shutil, sys
from pathlib import Path
runs = Path(sys.argv[sys.argv.index("--runs") + 1])
(runs / "arguments.json").write_text(json.dumps(sys.argv[1:]))
if "no_such" in sys.argv:
    print("there is no variant no_such")
    sys.exit(2)
if "--set" in sys.argv and "queue.kind=\\"broken\\"" in sys.argv:
    print("every worker has ended")
    sys.exit(3)
if "--set" in sys.argv and "queue.kind=\\"unforeseen\\"" in sys.argv:
    raise KeyError("unforeseen")
run = shutil.copytree(sys.argv[0].replace("stand_in.py", "sample"), runs / "20261123T000000Z-longtx")
(runs / "latest").symlink_to(run.name)
if "fails" in sys.argv:
    verdict = json.loads((run / "verdict.json").read_text())
    (run / "verdict.json").write_text(json.dumps({**verdict, "verdict": "fail", "reason": "completed.rate is 3"}))
    sys.exit(1)
"""
CONFTEST = """
import os
import sys
from pathlib import Path
import pytest

@pytest.fixture(scope="session", autouse=True)
def stand_in():
    from stallbench.testing import bench
    bench._COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
    bench.BenchSession.environment = lambda self: dict(os.environ)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def make_project(folder: Path) -> Path:
    """Write a user's project into ``folder``, with the stand-in and its sample run."""
    (folder / "stand_in.py").write_text(STAND_IN)
    (folder / "conftest.py").write_text(CONFTEST)
    sample = folder / "sample"
    sample.mkdir()
    for name in ("run.json", "junit.xml", "summary.md", "report.html"):
        (sample / name).write_bytes((PROJECT / "reports" / "sample" / name).read_bytes())
    verdict = {"verdict": "pass", "reason": "all hold", "findings": [{"check": "expectations", "result": "pass"}]}
    (sample / "verdict.json").write_text(json.dumps(verdict))
    return folder


def run_pytest(project: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process of its own, with this plugin and xdist alone, whatever else is installed."""
    (project / "test_queue.py").write_text(test)
    plugins = ["-p", "stallbench.testing.plugin", "-p", "no:cacheprovider", *(["-p", "xdist"] if "-n" in options else [])]
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(PROJECT),
        "STALLBENCH_PROJECT": str(project),
    }
    command = [sys.executable, "-m", "pytest", "--rootdir", str(project), "-rA", *plugins, *options]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_a_test_gets_the_verdict_and_its_reports_are_kept(project: Path) -> None:
    ended = run_pytest(
        project,
        """
import pytest

def test_passes(stallbench):
    verdict = stallbench.run("longtx", queue="skip_locked", phases={"longtx": "20s"}, set={"workers.count": 8})
    assert verdict.passed, verdict.reason
    assert verdict.report.name == "report.html"

@pytest.mark.stallbench(scenario="longtx", variant="fails", phases={"longtx": "20s", "baseline": "5s"})
def test_fails(stallbench):
    verdict = stallbench.run(phases={"longtx": "9s"})
    assert verdict.passed, verdict.reason
""",
        "--stallbench-reports=kept",
    )
    assert "AssertionError: completed.rate is 3" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout
    first, second = (json.loads(path.read_text()) for path in sorted((project / "kept").glob("*/arguments.json"), reverse=True))
    kept = project / "kept" / "test_queue.py-test_passes"
    changes = ["--set", 'queue.kind="skip_locked"', "--set", 'phases.longtx.duration="20s"', "--set", "workers.count=8"]
    assert first == ["run", "longtx", *changes, "--runs", str(kept)]
    assert second[:4] == ["run", "longtx", "--variant", "fails"]
    assert second[4:8] == ["--set", 'phases.longtx.duration="9s"', "--set", 'phases.baseline.duration="5s"']
    assert f"test_queue.py::test_passes: {kept / '20261123T000000Z-longtx' / 'report.html'}" in ended.stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_the_junit_file_has_a_case_for_each_finding_and_the_summary_the_run_s(project: Path, options: tuple[str, ...]) -> None:
    if options and importlib.util.find_spec("xdist") is None:
        pytest.skip("xdist is not installed")
    ended = run_pytest(
        project,
        """
def test_queue(stallbench):
    assert stallbench.run("longtx").passed

def test_again(stallbench):
    assert stallbench.run("longtx").passed

def test_without():
    pass
""",
        *("--junitxml=$STALLBENCH_PROJECT/junit.xml", "--stallbench-summary=summary.md", *options),
    )
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr
    suites = list(JUnitXml.fromfile(str(project / "junit.xml")))
    assert suites[0].name == "pytest"
    # With xdist the two runs end in any order.
    assert sorted(suite.name for suite in suites[1:]) == [
        f"stallbench.longtx: test_queue.py::test_{name}" for name in ("again", "queue")
    ]
    names = {(case.classname, case.name) for suite in suites for case in suite}
    assert {("test_queue", "test_queue"), ("test_queue", "test_again"), ("test_queue", "test_without")} <= names
    for test in ("test_queue", "test_again"):
        assert (f"test_queue.{test}.expectations", "dead_tuples.per_job in longtx") in names
        assert (f"test_queue.{test}.conservation", "every job is accounted for") in names
    assert (project / "summary.md").read_text().count("| scenario | longtx |") == 2
    assert sorted(path.name for path in (project / "reports" / "stallbench").iterdir()) == [
        "test_queue.py-test_again",
        "test_queue.py-test_queue",
    ]


def test_what_the_command_refuses_or_cannot_carry_out_is_an_error_with_its_message(project: Path) -> None:
    ended = run_pytest(
        project,
        """
def test_refused(stallbench):
    stallbench.run("longtx", variant="no_such")

def test_not_carried_out(stallbench):
    stallbench.run("longtx", queue="broken")

def test_unforeseen_error(stallbench):
    stallbench.run("longtx", queue="unforeseen")

def test_without_scenario(stallbench):
    stallbench.run()

def test_unknown_argument(stallbench):
    stallbench.run("longtx", queues="skip_locked")
""",
    )
    assert "BadInputError: there is no variant no_such" in ended.stdout
    assert "NotCarriedOutError: every worker has ended" in ended.stdout
    assert re.search("NotCarriedOutError: Traceback.*KeyError: 'unforeseen'", ended.stdout, re.DOTALL), "no verdict was made"
    assert "FileNotFoundError" not in ended.stdout
    assert "BadInputError: run: which scenario?" in ended.stdout
    assert (
        "has no argument queues; expected scenario, queue, variant, phases, set, expect, require, judge, against and tolerance"
        in ended.stdout
    )


@pytest.mark.parametrize("place", [".", "stand_in.py/summary.md"])
def test_a_summary_that_cannot_be_written_is_refused_before_the_first_test(place: str, project: Path) -> None:
    ended = run_pytest(project, "def test_queue(stallbench): pass\n", f"--stallbench-summary={place}")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--stallbench-summary {place}: no file can be written there" in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_tests_with_the_fixture_can_be_left_out(project: Path) -> None:
    ended = run_pytest(
        project,
        "def test_queue(stallbench): pass\ndef test_other(): pass\n",
        *("-m", "not stallbench", "--strict-markers"),
    )
    assert "1 passed, 1 deselected" in ended.stdout
    assert not (project / "reports").exists()


def test_it_costs_nothing_where_it_is_not_used() -> None:
    code = "import pytest, sys; before = set(sys.modules); import stallbench.testing.plugin; print(sorted(set(sys.modules) - before))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    loaded = ended.stdout.replace("'", '"')
    assert json.loads(loaded) == ["stallbench", "stallbench.testing", "stallbench.testing.plugin"]


@dataclass(frozen=True, slots=True)
class Session:
    """One pytest session of several tests."""

    project: Path
    out: str

    def arguments_of(self, test: str) -> list[str]:
        """Return what the test's last run was called with."""
        found: list[str] = json.loads((self.project / "kept" / f"test_queue.py-{test}" / "arguments.json").read_text())
        return found


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session whose tests ask for what the tests below look at; its summary cannot be written."""
    project = make_project(tmp_path_factory.mktemp("session"))
    ended = run_pytest(
        project,
        """
import pytest

@pytest.mark.stallbench(scenario="longtx", queue="skip_locked", phases={"longtx": "9s"})
def test_none(stallbench):
    assert stallbench.run(None, queue=None, phases=None, set=None, expect=None, variant=None).passed

def test_baseline(stallbench):
    assert stallbench.run("longtx", against="baseline.json", tolerance=["30%", "depth.last=5"]).passed

def test_before_and_after(stallbench):
    assert stallbench.run("longtx").passed
    assert stallbench.run("longtx").passed
""",
        *("--stallbench-reports=kept", "--junitxml=junit.xml", "--stallbench-summary=/proc/nowhere/summary.md"),
    )
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr
    return Session(project, ended.stdout + ended.stderr)


def test_an_argument_that_is_none_is_not_given(session: Session) -> None:
    assert session.arguments_of("test_none")[:4] == ["run", "longtx", "--set", 'phases.longtx.duration="9s"']


def test_a_run_of_a_test_is_compared_with_a_baseline(session: Session) -> None:
    against = ["--against", "baseline.json", "--tolerance", "30%", "--tolerance", "depth.last=5"]
    assert session.arguments_of("test_baseline")[2:8] == against


def test_the_second_run_of_a_test_has_its_own_suite_which_counts_its_cases(session: Session) -> None:
    """Otherwise its cases would have the names of those of the first run, in a suite that counts only the first."""
    suites = [suite for suite in JUnitXml.fromfile(str(session.project / "junit.xml")) if "before_and_after" in suite.name]
    assert [suite.name for suite in suites] == [
        "stallbench.longtx: test_queue.py::test_before_and_after",
        "stallbench.longtx: test_queue.py::test_before_and_after, run 2",
    ]
    assert suites[0].tests == suites[1].tests == sum(1 for _ in suites[1])
    assert {case.classname for case in suites[1] if "accounted for" in case.name} == {
        "test_queue.test_before_and_after.run 2.conservation"
    }


def test_a_summary_that_could_not_be_written_at_the_end_is_named_after_the_tests(session: Session) -> None:
    assert "the summary could not be written to /proc/nowhere/summary.md: No such file or directory" in session.out
    assert "Traceback" not in session.out
