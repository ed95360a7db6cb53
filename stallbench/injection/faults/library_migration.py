"""The migration of a published library, by the library's own code; a failed attempt is repeated."""

from __future__ import annotations

import time
from pathlib import Path

from stallbench.engines.error_codes import codes_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.context import InjectionContext
from stallbench.injection.faults.fault import FaultPlace
from stallbench.libraries.definition import VERSION
from stallbench.libraries.migration import MigrationAttempt
from stallbench.queues import find_queue
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.worker_command import name_connections
from stallbench.records.injections import ENDED_BY_DEADLOCK, Evidence
from stallbench.servers.join import record_declared


def find_library_issue(queue: type[LibraryQueue], place: FaultPlace) -> tuple[str, str] | None:
    """Find that the library has no migration, or that its tables are new from the start."""
    library = queue.library
    if library.migration is None:
        why = library.no_migration or "its definition has no [migration]"
        return "kind", f' is "migration", which "{queue.kind}" cannot have: {why}'
    before, after = library.find_upgrade(place.queue_options)
    versions = [str(one) for one in library.options[VERSION].one_of]  # from the oldest to the newest
    older = versions[: versions.index(after)]
    if before not in older:
        found = "as after it" if before == after else f"which is not older than {after}"
        expected = f"expected queue.{VERSION} to be one of {', '.join(older)}"
        return "kind", f' is "migration", but the tables have version {before} from the start, {found}; {expected}'
    return None


class LibraryMigration:
    """Migrates the tables of a library while its workers run. Workers that start afterwards are of the newer version.

    A second one in the same run carries out what the library has for after the deployment of the newer version.
    """

    def __init__(self, name: str, context: InjectionContext, on: str, *, retry_after_s: float) -> None:
        """Start nothing yet. ``name``: of the fault. ``on``: the server. ``retry_after_s``: from a failed attempt to the next."""
        queue = find_queue(context.queue.kind)
        assert issubclass(queue, LibraryQueue)
        self._library = queue.library
        self._context = context
        self._name = name
        self._retry_after_s = retry_after_s
        self._on = on
        self._document = {
            "name": name,
            "endpoint": context.cluster.server(on).direct.with_password(),
            "queue_options": context.queue.options,
            "upgraded": context.load.is_upgraded,
        }
        self._attempt: MigrationAttempt | None = None
        self._attempts = 0
        self._deadlocks = 0
        self._failures: list[str] = []
        self._next_s = 0.0
        self._done_s: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether an attempt has succeeded."""
        return self._done_s is not None

    @property
    def _log(self) -> Path:
        return self._context.logs / f"{self._name}.log"

    def begin(self) -> Evidence:
        """Start the first attempt."""
        self._began_s = time.monotonic()
        before, after = self._library.find_upgrade(self._context.queue.options)
        self._try()
        return {"from": before, "to": after}

    def tick(self) -> None:
        """Read the result of an attempt that has ended, or start the next one."""
        if self.is_done or (self._attempt is not None and self._attempt.is_running):
            return
        if self._attempt is not None:
            self._read_result(self._attempt)
        elif time.monotonic() >= self._next_s:
            self._try()

    def end(self) -> Evidence:
        """Kill an attempt that still runs. The tables stay as they are: libraries do not migrate back under load."""
        if self._attempt is not None and not self._attempt.is_running:
            self._read_result(self._attempt)  # a run whose workers have all ended does not wait for the next look
        elif self._attempt is not None:
            self._attempt.end()
        failures = {"failed": len(self._failures), "first_failure": self._failures[0]} if self._failures else {}
        return {
            "done": self.is_done,
            "attempts": self._attempts,
            ENDED_BY_DEADLOCK: self._deadlocks,
            **failures,
            "took_s": round((self._done_s or time.monotonic()) - self._began_s, 3),
        }

    def _try(self) -> None:
        self._attempts += 1
        with self._context.processes.marking():
            self._attempt = MigrationAttempt(self._library, self._document, name_connections(self._name), self._log)

    def _read_result(self, attempt: MigrationAttempt) -> None:
        failure = attempt.find_failure()
        self._attempt = None
        if failure is None:
            self._done_s = time.monotonic()
            self._context.load.is_upgraded = True
            queue = find_queue(self._context.queue.kind)
            record_declared(self._context.cluster.server(self._on), queue.tables, queue.creates)
            return
        self._deadlocks += failure.code in codes_of(ErrorKind.DEADLOCK)
        self._failures.append(f"{failure.code} {failure.message}".lstrip())
        self._next_s = time.monotonic() + self._retry_after_s
