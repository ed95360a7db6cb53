"""Opens a run: creates its folder, its temporary folder and its reaper. When the block ends, stops everything that the run started."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stallbench.errors import NotCarriedOutError
from stallbench.injection.worker_clocks import are_changed
from stallbench.processes.reaper import start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queue
from stallbench.run.folder import create_run_folder
from stallbench.run.observers import ObserverOptions
from stallbench.run.recorder import RunRecorder
from stallbench.run.run import Run
from stallbench.run.status import ending_recorded
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.servers.addresses import ExternalServers
from stallbench.setup.libfaketime import require_libfaketime


@contextmanager
def open_run(
    scenario: Scenario,
    runs: Path,
    view: RunView,
    external_servers: ExternalServers | None = None,
    observer_options: ObserverOptions | None = None,
    *,
    is_latest: bool = True,
    group: str | None = None,
) -> Iterator[Run]:
    """Yield a new run. When the block ends, stop everything that the run started and record the end in ``run.json``.

    An error of the bench or the database is raised as `NotCarriedOutError`, and the run is recorded as ``failed``. An interrupt is recorded as
    ``aborted`` and raised unchanged. ``is_latest``: whether the name ``latest`` refers to this run.
    ``group``: whose members may join it, besides its own user.
    """
    find_queue(scenario.queue.kind).require_programs(view.say)
    if are_changed(scenario.queue.kind, scenario.faults):
        require_libfaketime()
    folder = create_run_folder(scenario, runs, is_latest=is_latest)
    recorder = RunRecorder(folder.record, scenario)
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix="stallbench-"))
    with start_reaper(token, record=folder.record, scratch=scratch):
        exposure = observer_options.exposure if observer_options else None
        processes = Supervisor(token, exposure.model_dump() if exposure else None, scratch=scratch)
        run = Run(scenario, folder, recorder, processes, scratch, view, external_servers, observer_options, group)
        recorder.follow("processes", run.process_records)
        try:
            with ending_recorded(recorder, run.take_down, also_if_completed=True):
                yield run
        except NotCarriedOutError as error:
            raise NotCarriedOutError(f"the run could not be carried out: {error}\nits records: {folder.path}") from error
