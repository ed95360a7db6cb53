"""A published library as a queue of the bench: enqueues through the library's own producer API, and reads its tables by SQL.

Jobs are claimed by the library's own worker process, which `stallbench.run.load` starts instead of the bench's. The bench numbers the jobs; the
number travels in the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import driver_of, loaded_errors
from stallbench.errors import NotCarriedOutError
from stallbench.libraries import DEFINITION, find_library
from stallbench.libraries.adapter import AdapterError, AdapterProducer, JobsRefusedError, install_tables, prune_jobs
from stallbench.libraries.installation import command_of, environment_of, require_installed
from stallbench.libraries.option import Option
from stallbench.queues.completed_jobs import RETAINED
from stallbench.queues.crash_points import LIBRARY_WORKER_POINTS
from stallbench.queues.library_jobs import find_preconditions, make_arguments, take_numbers
from stallbench.queues.library_rows import LibraryRows, explain_lack_of_completed_jobs, explain_lack_of_prune_command, options_of
from stallbench.queues.queue import Backlog, Claim, NewJob, OptionRole, Precondition, Promise, Queue, QueueOptions, RefusedError
from stallbench.queues.second_queue import SECOND_QUEUE, HasSecondQueue
from stallbench.queues.worker_command import WorkerCommand, name_connections
from stallbench.records.endpoint import Endpoint

_RETURNS = {
    "backlog": "one row: the ready jobs, and the age of the oldest in seconds or null",
    "snapshot": "for each job its number, and whether a worker has it",
}


class LibraryQueue(LibraryRows, Queue[QueueOptions], HasSecondQueue):
    """A library through its adapter. Subclasses are made by `load_library_queue`."""

    options_type = QueueOptions
    puts_off_failed = False
    claims_survive_connection = True
    jobs_per_load = 200
    slowest_load_per_s = 40  # a library may send its jobs one by one, each in a transaction

    def __init__(self, connection: Any, options: QueueOptions) -> None:
        """Serve ``connection``, by which the bench reads the library's tables; the library has connections of its own."""
        super().__init__(connection, options)
        self._endpoint: Endpoint | None = None
        self._name = ""
        self._producer: AdapterProducer | None = None
        self._preconditions: Mapping[int, Precondition] = {}

    def introduce(self, endpoint: Endpoint, name: str) -> None:
        """Remember where the library's own processes connect."""
        self._endpoint, self._name = endpoint, name

    @classmethod
    def find_option_issue(cls, options: QueueOptions, engine: str) -> tuple[str, str] | None:
        """Find an option that the library does not have on the engine."""
        for name, option in options_of(cls.library).items():
            value = getattr(options, name)
            if option.engines and engine not in option.engines and value != option.default:
                return name, f" is {json.dumps(value)}, which {cls.library.title} has only on {', '.join(option.engines)}"
        return None

    @classmethod
    def find_crash_point_issue(cls, point: str) -> str | None:
        """Find that the library does not show a crash point to the handler of its jobs, or to the hook of its completion."""
        if point in LIBRARY_WORKER_POINTS:
            return None
        return (
            f' is "{point}", a moment inside of a call of {cls.library.title}, whose own worker does not show it; '
            f"expected one of {', '.join(LIBRARY_WORKER_POINTS)}, or a point of producers"
        )

    @classmethod
    def require_programs(cls, say: Callable[[str], None]) -> None:
        """Install the library, once."""
        require_installed(cls.library, say)

    @classmethod
    def count_advisory_locks(cls, options: QueueOptions) -> int:
        """Return what the definition says."""
        locks = cls.library.advisory_locks
        if locks is None:
            return 0
        return locks.at_most * (int(getattr(options, locks.for_each)) if locks.for_each else 1)

    @classmethod
    def worker_command(cls) -> WorkerCommand:
        """Return the adapter's command for a worker."""
        return WorkerCommand(
            argv=command_of(cls.library, "work"),
            environment=environment_of(cls.library),
            orderly_exit_codes=cls.library.orderly_exit_codes,
        )

    def install(self) -> None:
        """Let the library create its tables, try the definition's statements on them, and add the completed jobs of the option `retained`.

        Raises `NotCarriedOutError` if one of these fails.
        """
        install_tables(self.library, self._document(), name_connections(self._name))
        for purpose, check in (("backlog", self.backlog), ("snapshot", self.is_drained)):
            try:
                check()
            except loaded_errors() as error:
                raise NotCarriedOutError(
                    f"{self.library.folder / DEFINITION}: sql.{purpose} failed: {str(error).strip()}"
                ) from error
        if retained := getattr(self.options, RETAINED, 0):
            self.add_completed_jobs(retained)
            self._driver.vacuum_and_analyze(self.connection, self.tables)

    def prune(self) -> None:
        """Run the library's command; raises `NotCarriedOutError` if it fails."""
        prune_jobs(self.library, self._document(), name_connections(self._name))

    def prepare_to_enqueue(self) -> None:
        """Start the library's producer: the runtime of its language may need seconds to start."""
        try:
            self._running_producer()
        except AdapterError as error:
            raise self._driver.make_error(error.code, str(error)) from error

    def close(self) -> None:
        """End the library's producer."""
        if self._producer is not None:
            self._producer.end()
            self._producer = None

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Hand the jobs to the library's producer in one batch, and wait for its answer.

        Raises `RefusedError` if the adapter says that it took none of them, and otherwise an error of the engine's driver.
        """
        self.unconfirmed_ids = numbers = take_numbers(len(jobs))
        batch = [make_arguments(number, job) for number, job in zip(numbers, jobs, strict=True)]
        try:
            self._running_producer().enqueue(batch)
        except JobsRefusedError as refusal:
            raise RefusedError(str(refusal)) from refusal
        except AdapterError as error:
            raise self._driver.make_error(error.code, str(error)) from error
        self._preconditions = find_preconditions(numbers, jobs)
        return numbers

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """The keys of the jobs of the latest `enqueue`, or the queue of those that are not in the default one."""
        return self._preconditions

    def claim(self) -> Sequence[Claim]:
        """Not possible: the library's own worker claims."""
        raise NotImplementedError(f"{self.library.title} claims in its own worker")

    def complete(self, claim: Claim) -> None:
        """Not possible, as `claim`."""
        raise NotImplementedError(f"{self.library.title} completes in its own worker")

    def fail(self, claim: Claim, error: str) -> None:
        """Not possible, as `claim`."""
        raise NotImplementedError(f"{self.library.title} fails jobs in its own worker")

    def recover(self, error: Exception) -> bool:
        """Keep the connection if it is open; the library recovers its own connections."""
        return not self._driver.is_closed(self.connection)

    def backlog(self) -> Backlog:
        """Count by the definition's statement; raises `NotCarriedOutError` if it returns something else."""
        rows = self._query("backlog")
        try:
            ((depth, oldest_s),) = rows
            return Backlog(depth=int(depth), oldest_job_s=None if oldest_s is None else float(oldest_s))
        except (TypeError, ValueError):
            raise self._unexpected("backlog", rows) from None

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the numbers of the jobs that are not over by the definition's statement; raises `NotCarriedOutError` as `backlog` does."""
        for row in self._query("snapshot"):
            try:
                number, is_claimed = row
                job = int(number)
            except (TypeError, ValueError):
                raise self._unexpected("snapshot", row) from None
            if is_claimed not in (True, False):  # a text like 'f' would be true
                raise self._unexpected("snapshot", row)
            yield job, bool(is_claimed)

    @property
    def _driver(self) -> Any:
        assert self._endpoint is not None, "the queue was introduced to its server"
        return driver_of(self._endpoint.engine)

    def _running_producer(self) -> AdapterProducer:
        """Return the library's producer; starts it if it does not run."""
        if self._producer is None or self._producer.has_ended:
            self.close()
            self._producer = AdapterProducer(self.library, self._document(), name_connections(self._name))
        return self._producer

    def _query(self, purpose: Literal["backlog", "snapshot"]) -> list[tuple[Any, ...]]:
        assert self._endpoint is not None, "the queue was introduced to its server"
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(self.library.sql.of(purpose, self._endpoint.engine))
            columns = [column[0] for column in cursor.description or ()]
            if len(columns) != 2:
                raise self._unexpected(purpose, f"the columns {', '.join(columns)}")
            return list(cursor.fetchall())

    def _unexpected(self, purpose: Literal["backlog", "snapshot"], found: object) -> NotCarriedOutError:
        return NotCarriedOutError(
            f"{self.library.folder / DEFINITION}: sql.{purpose} returned {found}; expected {_RETURNS[purpose]}"
        )

    def _document(self) -> bytes:
        assert self._endpoint is not None, "the queue was introduced to its server"
        document = {
            "name": self._name,
            "endpoint": self._endpoint.with_password(),
            "queue_options": self.options.model_dump(mode="json"),
        }
        return json.dumps(document).encode() + b"\n"


@cache
def load_library_queue(kind: str) -> type[LibraryQueue]:
    """Return the queue ``library:<name>``; raises `stallbench.libraries.LibraryError`."""
    library = find_library(kind.removeprefix(LIBRARY_PREFIX))
    fields: dict[str, Any] = {name: _field(option) for name, option in options_of(library).items()}
    expires = any(option.role == "expiry" for option in library.options.values())
    return type(
        f"Library_{library.name}",
        (LibraryQueue,),
        {
            "kind": kind,
            "library": library,
            "summary": library.summary,
            "source": library.source,
            "engines": frozenset(library.engines),
            "options_type": create_model(f"{library.name}_options", __base__=QueueOptions, **fields),
            "promise": Promise(library.promise),
            "ordered": library.ordered,
            "claims_survive_connection": not (library.rescue.by_default and library.rescue.after_s is None and not expires),
            "rescues_jobs": library.rescue.by_default,
            "tables": library.tables,
            "indexes": library.indexes,
            "creates": library.creates,
            "other_job_states": ("ready",) if library.other_jobs else (),
            "no_other_jobs": library.no_other_jobs or "its definition has no other_jobs",
            "no_job_age": library.no_job_age,
            "no_completed_jobs": explain_lack_of_completed_jobs(library),
            "no_prune_command": explain_lack_of_prune_command(library),
            "claim_pattern": library.claim_pattern,
            "used_job_fields": frozenset(["key"] * bool(library.unique_jobs) + ["queue"] * bool(library.second_queue)),
            "second_queue": library.second_queue,
            "serves_second_queue": SECOND_QUEUE not in library.options,
        },
    )


def _field(option: Option) -> tuple[Any, Any]:
    """Return an option as a field of the queue's options."""
    value_type: Any = Literal[option.one_of] if option.one_of else type(option.default)
    if option.role is not None:
        value_type = Annotated[value_type, OptionRole(option.role)]
    return value_type, Field(default=option.default, ge=option.at_least, description=option.description)
