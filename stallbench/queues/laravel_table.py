"""Base of Laravel's database queue and its optimistic variant: the table, and everything except the claim and the deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from stallbench.queues.queue import Backlog, Claim, NewJob, OptionRole, Promise, Queue, QueueOptions
from stallbench.queues.sql_session import open_session
from stallbench.queues.statements import read_statements

_STATEMENTS = read_statements(Path(__file__).with_name("laravel.sql"))
_OTHER_QUEUES = 9
_ROWS_AT_ONCE = 1000
_HINTS = {"none": "", "queue_index": "FORCE INDEX ({index})", "primary": "FORCE INDEX (PRIMARY)"}
_INDEX_NAMES = {"queue": "jobs_queue_index", "queue_reserved_at": "jobs_queue_reserved_at_index"}


class LaravelOptions(QueueOptions):
    """Options of the table and the reservation."""

    index: Literal["queue", "queue_reserved_at", "none"] = Field(
        default="queue", description="index besides the primary key: Laravel 5.5's, the one before 5.4, or none"
    )
    retry_after_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=90, ge=1, alias="retry_after", description="seconds after which a reservation has expired"
    )
    hint: Literal["none", "queue_index", "primary"] = Field(
        default="none",
        description="index that the claim is forced to read, on MariaDB and MySQL; none leaves the choice to the optimizer",
    )
    attempts_type: Literal["tinyint", "smallint"] = Field(
        default="tinyint",
        description="on MariaDB and MySQL: range of a job's attempts counter, to 255, or to 65535 as since Laravel's pull request 59718 (2026)",
    )
    time: Literal["client", "server"] = Field(
        default="client", description="whose clock says what time it is: the process's, as in Laravel, or the database server's"
    )
    transaction: Literal["deferred", "immediate"] = Field(
        default="deferred",
        description="on SQLite: whether a transaction takes the writer's lock at its first write or when it begins (Laravel's `transaction_mode`)",
    )
    busy_timeout_s: float | None = Field(
        default=None,
        alias="busy_timeout",
        ge=0,
        le=600,
        description="on SQLite: seconds for which a statement waits for another writer; none: 5 s, the default of Python's library",
    )
    other_jobs: int = Field(
        default=0,
        ge=0,
        description="jobs of nine other queues in the same table, in groups of a thousand, which only affect the optimizer",
    )


LaravelOptionsT = TypeVar("LaravelOptionsT", bound=LaravelOptions)


class LaravelTableQueue(Queue[LaravelOptionsT]):
    """The ``jobs`` table. Times are whole seconds, by default of the process's clock, as Laravel's are."""

    engines = frozenset({"mariadb", "mysql", "postgres", "sqlite"})
    promise = Promise.AT_LEAST_ONCE
    tables = ("jobs",)
    indexes = ("jobs_queue_index", "jobs_queue_reserved_at_index")
    claim_pattern = r"^SELECT \* FROM jobs .*reserved_at <="
    claims_survive_connection = True
    puts_off_failed = False
    queue_name: ClassVar[str] = "default"
    extra_column: str = ""
    """Statement that adds what this queue needs besides Laravel's own columns."""
    has_delete_mark: bool = False
    has_failed_jobs: bool = False
    """Whether there is a table of failed jobs."""

    def __init__(self, connection: Any, options: LaravelOptionsT) -> None:
        """Prepare the statements for the engine of ``connection``."""
        super().__init__(connection, options)
        self.session = open_session(connection)
        if options.transaction == "immediate":
            self.session.begin_statement = "BEGIN IMMEDIATE"
        if options.busy_timeout_s is not None:
            self.session.run(f"PRAGMA busy_timeout = {round(options.busy_timeout_s * 1000)}")
        hint = _HINTS[options.hint].format(index=_INDEX_NAMES.get(options.index, ""))
        placeholders = {
            "index_hint": hint,
            "row_lock": self.session.row_lock,
            "not_done": "delete_mark = 0" if self.has_delete_mark else "1 = 1",
            "limit": "1",
            "attempts_type": {"tinyint": "tinyint(3)", "smallint": "smallint"}[options.attempts_type],
        }
        self.statements = {name: _fill(statement, placeholders) for name, statement in _STATEMENTS.items()}

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe the session."""
        self.session.observe_answers(call)

    @classmethod
    def find_option_issue(cls, options: LaravelOptionsT, engine: str) -> tuple[str, str] | None:
        """Find options that the engine does not know, and a hint that names a missing index."""
        is_mysql, is_sqlite = engine in ("mariadb", "mysql"), engine == "sqlite"
        issues = (
            (
                options.hint != "none" and not is_mysql,
                "hint",
                f' is "{options.hint}", which {engine} does not know; expected "none"',
            ),
            (
                options.hint == "queue_index" and options.index == "none",
                "hint",
                ' is "queue_index", but queue.index is "none"',
            ),
            (
                options.attempts_type != "tinyint" and not is_mysql,
                "attempts_type",
                f' is "{options.attempts_type}", but {engine} has no smaller type; leave it out',
            ),
            (options.time == "server" and is_sqlite, "time", ' is "server", but SQLite has no server; leave it out'),
            (
                options.transaction != "deferred" and not is_sqlite,
                "transaction",
                f' is "{options.transaction}", which only SQLite knows; leave it out',
            ),
            (
                options.busy_timeout_s is not None and not is_sqlite,
                "busy_timeout",
                " is given, which only SQLite knows; leave it out",
            ),
        )
        return next(((option, problem) for is_wrong, option, problem in issues if is_wrong), None)

    def install(self) -> None:
        """Create the table, its index, and the jobs of other queues."""
        self.session.run(self.statements[f"create_table_{self.session.engine_family}"])
        if self.options.index != "none":
            self.session.run(self.statements[f"index_{self.options.index}"])
        if self.extra_column:
            self.session.run(self.statements[self.extra_column])
        if self.has_failed_jobs:
            self.session.run(self.statements["create_failed_jobs"])
        for begin in range(0, self.options.other_jobs, _ROWS_AT_ONCE):
            rows = min(_ROWS_AT_ONCE, self.options.other_jobs - begin)
            queue = f"other-{begin // _ROWS_AT_ONCE % _OTHER_QUEUES}"
            self.session.insert(self.statements["insert"], [(queue, "{}", 2**31 - 1, self.now_s())] * rows)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs; several share one transaction."""
        created_at_s = self.now_s()
        rows = [(self.queue_name, job.payload, created_at_s, created_at_s) for job in jobs]
        return self.session.insert(self.statements["insert"], rows)

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Do the same as `enqueue`, by the fastest bulk load."""
        created_at_s = self.now_s()
        columns = ("queue", "payload", "attempts", "available_at", "created_at")
        return self.session.load("jobs", columns, [(self.queue_name, job.payload, 0, created_at_s, created_at_s) for job in jobs])

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job available again at once.

        Laravel deletes the row and inserts it again under another id; here it keeps its id, by which the bench identifies it.
        """
        self.session.run(self.statements["release"], self.now_s(), claim.job_id)

    def recover(self, error: Exception) -> bool:
        """Roll back and continue, as Laravel's worker does after an exception, unless the connection is lost."""
        if self.session.is_connection_lost(error):
            return False
        self.session.rollback()
        return True

    def explain(self) -> str:
        """Return the server's plan for the next claim."""
        return self.session.explain(self.statements["next_jobs"], *self._when())

    def backlog(self) -> Backlog:
        """Count what is available."""
        count, oldest_at_s = self.session.run(self.statements["backlog"], *self._when()).rows[0]
        return Backlog(depth=int(count), oldest_job_s=None if oldest_at_s is None else max(0.0, self.clock() - int(oldest_at_s)))

    def is_drained(self) -> bool:
        """Whether all jobs of the queue are done."""
        return not self.session.run(self.statements["any_job"], self.queue_name).rows

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the table; a job is claimed if its reservation has not expired. Failed jobs are included."""
        expired_at_s = self.now_s() - self.options.retry_after_s
        for job_id, reserved_at_s in self.session.stream(self.statements["job_ids"], self.queue_name):
            yield int(job_id), reserved_at_s is not None and int(reserved_at_s) > expired_at_s
        if self.has_failed_jobs:
            for (job_id,) in self.session.stream(self.statements["failed_job_ids"]):
                yield int(job_id), False

    def now_s(self) -> int:
        """Return the time by the clock that the options name, in whole seconds since 1970."""
        if self.options.time == "server":
            return int(self.session.run(self.statements[f"now_{self.session.engine_family}"]).rows[0][0])
        return int(self.clock())

    def _when(self) -> tuple[str, int, int]:
        """Return the parameters by which a job is available: its queue, now, and when an expired reservation was made."""
        at_s = self.now_s()
        return self.queue_name, at_s, at_s - self.options.retry_after_s


def _fill(statement: str, placeholders: dict[str, str]) -> str:
    for name, text in placeholders.items():
        statement = statement.replace(f"{{{name}}}", text)
    return " ".join(statement.split())
