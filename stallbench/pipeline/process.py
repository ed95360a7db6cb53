"""Runs the pipeline in a separate process, so that Java's memory is freed when the tables are made. The process can be kept for further runs.

For a small run, a third or more of the time is the start of Java and Spark and the compilation of the first queries.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import NotCarriedOutError
from stallbench.pipeline.run_size import is_small
from stallbench.pipeline.s3a import add_s3a, is_s3a
from stallbench.pipeline.service import SERVICE_VARIABLE, ask_service
from stallbench.pipeline.spark_options import SparkOptions
from stallbench.processes.parent_death import die_with_parent
from stallbench.processes.reaper import name_temporary
from stallbench.python_command import python_command
from stallbench.run.folder import RunFolder

_ON_THIS_MACHINE = SparkOptions()
_TIMEOUT_S = 1800.0
_EXIT_S = 120.0
_BREAK_OFF_S = 20.0
_RUNS_EACH = 100
"""Runs after which a kept pipeline is replaced by a new one. A small run needs 9 s of processor time from a new one, 3.5 from one that has made
one run, and 2.5 from the tenth to the hundredth. Memory grows to 1.4 GB in fifteen runs and stays there."""


def make_tables(folder: RunFolder, spark: SparkOptions = _ON_THIS_MACHINE) -> None:
    """Make a run's tables by ``spark`` in a process that ends with it; raises `NotCarriedOutError` if they are not made.

    On this machine they may take half an hour. On a cluster there is no limit, because its queue may be long. If a service runs on this
    machine (`stallbench.pipeline.service`) and can make them, it does.
    """
    if spark == _ON_THIS_MACHINE and ask_service(folder.path, _TIMEOUT_S):
        return
    log = folder.path / "logs" / "pipeline.log"
    log.parent.mkdir(exist_ok=True)
    _run(folder.path, spark, log, f"; see {log}")


def make_tables_at(folder: AnyPath, spark: SparkOptions = _ON_THIS_MACHINE) -> None:
    """Make the tables of a run at an address, as `make_tables` does. Spark reads the records and writes the tables there.

    If Spark lacks the libraries for the address, they are downloaded first.
    """
    if is_s3a(str(folder)):
        add_s3a(spark.settings)
    with tempfile.TemporaryDirectory(prefix=name_temporary("pipeline")) as scratch:
        log = Path(scratch) / "pipeline.log"
        try:
            _run(folder, spark, log, "")
        finally:
            replace_file(folder / "logs" / log.name, log.read_text(errors="replace"))


def _run(folder: AnyPath, spark: SparkOptions, log: Path, hint: str) -> None:
    """Run the pipeline on ``folder`` with its output in ``log``; ``hint`` is added to the first line of an error."""
    timeout_s = _TIMEOUT_S if spark.is_local else None
    try:
        log.unlink(missing_ok=True)
        with log.open("x") as file:
            ended = subprocess.run(
                python_command("stallbench.pipeline", str(folder), *spark.as_arguments()),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                env=os.environ,
                check=False,
                preexec_fn=die_with_parent(signal.SIGTERM),  # Java ends with its input
            )
    except subprocess.TimeoutExpired as error:
        raise NotCarriedOutError(f"{folder}: the tables were not made within {error.timeout / 60:.0f} min{hint}") from None
    if ended.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise NotCarriedOutError(f"{folder}: the pipeline ended with code {ended.returncode}{hint}:\n{tail}")


class PipelineProcess:
    """A pipeline that waits for the next run, using almost no processor time, until the block ends.

    If it cannot make a run's tables, because the run is large or because of an error, a new process makes them as by `make_tables`, which then
    reports the error.
    """

    def __init__(self) -> None:
        """Start nothing yet: the first run does."""
        self._process: subprocess.Popen[str] | None = None
        self._runs = 0
        self._is_at_work = False

    def __enter__(self) -> Self:
        """Be kept from here on."""
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        self._end()

    def prepare(self, folder: RunFolder) -> None:
        """Start the process already now, before the records of the run in ``folder`` are complete, unless another will make its tables.

        If it is not needed after all, it ends when Spark has started: an interrupt before that would leave Java behind.
        """
        if not os.environ.get(SERVICE_VARIABLE) and self._process is None and is_small(folder.path):
            self._process = _start()

    def make_tables(self, folder: RunFolder) -> None:
        """Make a run's tables; raises `NotCarriedOutError` if they are not made."""
        if not ask_service(folder.path, _TIMEOUT_S) and not self.offer(folder.path):
            make_tables(folder)

    def offer(self, folder: Path) -> bool:
        """Let the kept process make a run's tables; returns whether it has made them."""
        if self._runs >= _RUNS_EACH:
            self._end()
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._runs += 1
        self._is_at_work = True
        answer = ""
        try:
            process.stdin.write(f"{folder.absolute()}\n")
            process.stdin.flush()
            if select.select([process.stdout], [], [], _TIMEOUT_S)[0]:
                answer = process.stdout.readline().strip()
        except BrokenPipeError:
            pass  # it has ended; the separate process will report why
        if answer not in ("made", "large"):
            self._end()
        self._is_at_work = False
        return answer == "made"

    def _end(self) -> None:
        process, self._process, self._runs = self._process, None, 0
        if process is None:
            return
        if self._is_at_work:
            process.send_signal(signal.SIGINT)  # its tables are not needed any more; it removes its files
        try:
            process.communicate(timeout=_BREAK_OFF_S if self._is_at_work else _EXIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        python_command("stallbench.pipeline", "--one-after-the-other"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for the bench, which ends it
        preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - only a system call; Java ends with its input
    )
