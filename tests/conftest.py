"""What the test processes have in common: the order of the files, where their servers write, and one Spark that makes the tables of whole runs.

Files are distributed as a whole, those with the longest tests first, so that no process works on alone at the end. All tests of the pipeline go to
one process, which has the only other Spark.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stallbench.processes.parent_death import die_with_parent
from stallbench.waiting import wait_until

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

LONGEST_FIRST = ("tests/pipeline/", "tests/end_to_end/", "tests/integration/", "tests/security/")
_TOGETHER = "tests/pipeline/"
_START_S = 60.0
_END_S = 120.0
_KEY = "pipeline_service"
_WITHOUT = "--own-pipelines"
_service = pytest.StashKey[Path]()
_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 8 * 2**30
"""More than twice of what the servers of all tests were seen to write at the same time, in four test processes."""


def pytest_configure(config: pytest.Config) -> None:
    """Let tests write to memory if there is room: a fifth of the processor time of a test on PostgreSQL is that of its files, and unit tests make a
    hundred thousand, of which every record is flushed to the disk.

    The folders of failed tests (``tmp_path``) are moved to the disk at the end, where they can be looked at. Who sets ``TMPDIR`` decides.
    """
    if hasattr(config, "workerinput") or "TMPDIR" in os.environ:
        tempfile.gettempdir()  # asked once, before a test changes the environment
        return
    if not (_MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _NEEDED_BYTES):
        return
    on_disk = Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="stallbench-tests-", dir=_MEMORY))
    folder.chmod(0o1777)  # as /tmp: PostgreSQL's own user has to get to its folder
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    config.add_cleanup(lambda: _keep_failed(folder, on_disk))


def _keep_failed(folder: Path, on_disk: Path) -> None:
    """Remove ``folder``, except for what pytest has left in it of failed tests."""
    left = list(folder.glob("pytest-of-*/pytest-[0-9]*"))
    if left:
        kept = tempfile.mkdtemp(prefix="failed-tests-", dir=on_disk)
        subprocess.run(["cp", "-a", *left, kept], check=False)  # sockets and pipes too, which shutil does not copy
        print(f"what the failed tests wrote: {kept}")
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_pipeline_service() -> Iterator[Path]:
    """Start `stallbench.pipeline.service` and end it, also when this process is killed; Spark starts with the first run."""
    path = Path(tempfile.gettempdir()) / f"pipeline-of-tests-{secrets.token_hex(8)}"
    process = subprocess.Popen(
        [sys.executable, "-m", "stallbench.pipeline.service", str(path)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests, which end it
        preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - only a system call, before any thread is started
    )
    try:
        assert wait_until(path.exists, within_s=_START_S, every_s=0.05), "the pipeline's service did not start"
        yield path
    finally:
        process.terminate()
        process.wait(_END_S)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Tests of whole runs can do without the service."""
    parser.addoption(_WITHOUT, action="store_true", help="let each command start a Spark of its own, as users' commands do")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Start the service before the first test process."""
    if config.getoption(_WITHOUT):
        return
    stack = ExitStack()
    config.add_cleanup(stack.close)
    config.stash[_service] = stack.enter_context(running_pipeline_service())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a test process where the service is."""
    if _service in node.config.stash:
        node.workerinput[_KEY] = str(node.config.stash[_service])


@pytest.fixture(scope="session")
def pipeline_service(pytestconfig: pytest.Config) -> Iterator[Path | None]:
    """Where the service listens that all test processes share; a lone process has its own. None with ``--own-pipelines``."""
    of_worker: dict[str, Any] = getattr(pytestconfig, "workerinput", {})
    if pytestconfig.getoption(_WITHOUT):
        yield None
    elif _KEY in of_worker:
        yield Path(of_worker[_KEY])
    else:
        with running_pipeline_service() as path:
            yield path


@pytest.fixture(scope="session", autouse=True)
def interrupts_reach_the_bench() -> None:
    """Let SIGINT through: tests that run in the background of a script inherit that it is ignored, and would hand that on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Distribute files, in the order in which they are collected, and all of the pipeline's as one."""
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):  # type: ignore[misc] # it carries no types
        def _split_scope(self, nodeid: str) -> str:
            return _TOGETHER if nodeid.startswith(_TOGETHER) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return Files(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those that take longest first."""
    order = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: next((order[folder] for folder in LONGEST_FIRST if item.nodeid.startswith(folder)), len(order)))
