"""What pytest loads in every session: options, the marker, the fixture ``stallbench``, and the cases of runs in the JUnit file.

This module imports nothing heavy, because pytest also loads it for projects that do not use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from stallbench.testing.bench import Bench, BenchSession

REPORTS_OPTION = "--stallbench-reports"
SUMMARY_OPTION = "--stallbench-summary"
SERVER_OPTION = "--stallbench-server"
FOLDER_PROPERTY = "stallbench"
"""The property of a test, in its report and in the JUnit file, with the folder of a run."""
_MARKER = "stallbench"
_folders = pytest.StashKey[list[tuple[str, Path]]]()
"""What the tests of all test processes have left: the test's id and the folder, in the order in which tests ended."""
_unwritten = pytest.StashKey[str]()
"""Why the summary could not be written."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add where reports are kept, and which servers runs use."""
    group = parser.getgroup("stallbench")
    group.addoption(
        REPORTS_OPTION,
        metavar="DIR",
        help="keep the records and reports of runs of the fixture `stallbench` in DIR; default: reports/stallbench below the root folder",
    )
    group.addoption(
        SUMMARY_OPTION, metavar="FILE", help="append the Markdown summary of each run to FILE, like $GITHUB_STEP_SUMMARY"
    )
    group.addoption(
        SERVER_OPTION,
        choices=("run", "session"),
        default="run",
        help="run: each run starts its own servers (the default). session: the runs of a test process share one server, with an empty database "
        "for each; runs that crash it, or need replicas, start their own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "stallbench(**defaults): default arguments for `run` of the fixture `stallbench`; "
        "every test with the fixture has the marker, so -m 'not stallbench' deselects these tests",
    )
    config.stash[_folders] = []
    if (summary := config.getoption(SUMMARY_OPTION)) and not _can_be_written(_find_summary(config)):
        raise pytest.UsageError(f"{SUMMARY_OPTION} {summary}: no file can be written there; expected the path of a file")


def _find_summary(config: pytest.Config) -> Path:
    return Path(config.invocation_params.dir, config.getoption(SUMMARY_OPTION))


def _can_be_written(path: Path) -> bool:
    """Whether ``path`` is a file, or one can be made there with the folders that it needs."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    return existing.is_dir() == (existing != path) and os.access(existing, os.W_OK)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the fixture."""
    for item in items:
        if "stallbench" in getattr(item, "fixturenames", ()) and item.get_closest_marker(_MARKER) is None:
            item.add_marker(_MARKER)


@pytest.fixture(scope="session")
def stallbench_session(pytestconfig: pytest.Config) -> Iterator[BenchSession]:
    """What the runs of one test process share."""
    from stallbench.testing.bench import BenchSession

    given = pytestconfig.getoption(REPORTS_OPTION)
    reports = Path(pytestconfig.invocation_params.dir, given) if given else pytestconfig.rootpath / "reports" / "stallbench"
    with BenchSession(
        reports, pytestconfig.rootpath, shares_server=pytestconfig.getoption(SERVER_OPTION) == "session"
    ) as session:
        yield session


@pytest.fixture
def stallbench(stallbench_session: BenchSession, request: pytest.FixtureRequest) -> Bench:
    """Runs scenarios on servers that the bench starts, and judges queues: `run` and `conform`."""
    defaults: dict[str, Any] = {}
    for marker in request.node.iter_markers(_MARKER):  # the closest first
        if marker.args:
            raise pytest.UsageError(f"{request.node.nodeid}: the marker stallbench takes arguments by name only, like queue=...")
        defaults = {**marker.kwargs, **defaults}
    properties = request.node.user_properties
    return stallbench_session.bench(request.node.nodeid, defaults, lambda path: properties.append((FOLDER_PROPERTY, str(path))))


class _Collector:
    """Collects the folders of runs from the reports of tests, which also come from other test processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._config.stash[_folders] += [
                (report.nodeid, Path(str(value))) for name, value in report.user_properties if name == FOLDER_PROPERTY
            ]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect in the process that writes the JUnit file and the summary."""
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Collector(session.config), "stallbench-collector")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """After pytest has written its JUnit file, add a case for each finding of each run; then write the Markdown summary."""
    try:
        return (yield)
    finally:
        if found := session.config.stash[_folders]:
            from stallbench.testing.results import add_cases, append_summaries

            if junit := session.config.getoption("xmlpath", None):
                add_cases(Path(os.path.expandvars(junit)).expanduser(), found)  # as pytest reads it
            if session.config.getoption(SUMMARY_OPTION):
                target = _find_summary(session.config)
                try:
                    append_summaries(target, [path for _, path in found])
                except OSError as error:
                    session.config.stash[_unwritten] = f"the summary could not be written to {target}: {error.strerror}"


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Name the report of each run."""
    if found := config.stash[_folders]:
        terminalreporter.section("stallbench")
        for nodeid, folder in found:
            report = folder / "report.html"
            terminalreporter.write_line(f"{nodeid}: {report if report.exists() else folder}")
        if unwritten := config.stash.get(_unwritten, ""):
            terminalreporter.write_line(unwritten, red=True)
