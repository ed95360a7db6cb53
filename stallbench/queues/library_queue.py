"""A published library as a queue of the bench: enqueues through the library's own producer API, and reads its tables by SQL.

Jobs are claimed by the library's own worker process, which `stallbench.run.load` starts instead of the bench's. The bench numbers the jobs; the
number travels in the arguments.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.libraries import PREFIX, Library, find_library
from stallbench.libraries.definition import Option
from stallbench.libraries.installation import command_of, environment_of, require_installed
from stallbench.queues.queue import Backlog, Claim, NewJob, OptionRole, Promise, Queue, QueueOptions, WorkerCommand
from stallbench.records.endpoint import Endpoint

_INSTALL_S = 60.0
_ANSWER_S = 60.0
_END_S = 5.0
_READ_BYTES = 65_536
_NUMBERS_PER_PRODUCER = 2**30
"""Times the highest process id (2^22) this is below 2^53: JavaScript reads the numbers exactly."""


class LibraryQueue(Queue[QueueOptions]):
    """A library through its adapter. Subclasses are made by `load_library_queue`."""

    library: ClassVar[Library]
    options_type = QueueOptions
    puts_off_failed = False
    claims_survive_connection = True

    def __init__(self, connection: Any, options: QueueOptions) -> None:
        """Serve ``connection``, by which the bench reads the library's tables; the library has connections of its own."""
        super().__init__(connection, options)
        self._endpoint: Endpoint | None = None
        self._name = ""
        self._producer: subprocess.Popen[bytes] | None = None
        self._received = b""
        self._next_number = os.getpid() * _NUMBERS_PER_PRODUCER + 1

    def introduce(self, endpoint: Endpoint, name: str) -> None:
        """Remember where the library's own processes connect."""
        self._endpoint, self._name = endpoint, name

    @classmethod
    def find_option_issue(cls, options: QueueOptions, engine: str) -> tuple[str, str] | None:
        """Find an option that the library does not have on the engine."""
        for name, option in cls.library.options.items():
            value = getattr(options, name)
            if option.engines and engine not in option.engines and value != option.default:
                return name, f" is {json.dumps(value)}, which {cls.library.title} has only on {', '.join(option.engines)}"
        return None

    @classmethod
    def require_programs(cls, say: Callable[[str], None]) -> None:
        """Install the library, once."""
        require_installed(cls.library, say)

    @classmethod
    def worker_command(cls) -> WorkerCommand:
        """Return the adapter's command for a worker."""
        return WorkerCommand(
            argv=command_of(cls.library, "work"),
            environment=environment_of(cls.library),
            orderly_exit_codes=cls.library.orderly_exit_codes,
        )

    def install(self) -> None:
        """Let the library create its tables; raises `NotCarriedOutError` with what it printed if it cannot."""
        try:
            ended = subprocess.run(
                command_of(self.library, "install"),
                input=self._document(),
                env=self._environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_INSTALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotCarriedOutError(f"{self.library.title} did not create its tables within {_INSTALL_S:.0f} s") from None
        if ended.returncode != 0:
            raise NotCarriedOutError(f"{self.library.title} could not create its tables; it printed last:\n{_tail(ended.stdout)}")

    def prepare_to_enqueue(self) -> None:
        """Start the library's producer: the runtime of its language may need seconds to start."""
        self._start_producer()

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Hand the jobs to the library's producer in one batch, and wait for its answer; raises an error of the engine's driver."""
        numbers = list(range(self._next_number, self._next_number + len(jobs)))
        self._next_number += len(jobs)
        batch = [
            {"n": number, "sum": zlib.crc32(f"{number}:{job.payload}".encode()), "payload": job.payload}
            for number, job in zip(numbers, jobs, strict=True)
        ]
        answer = self._ask({"jobs": batch})
        if not answer.get("ok"):
            raise self._error(str(answer.get("error", "")), str(answer.get("message", "no reason")))
        return numbers

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
        """Count by the definition's statement."""
        ((depth, oldest_s),) = self._query("backlog")
        return Backlog(depth=int(depth), oldest_job_s=None if oldest_s is None else float(oldest_s))

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Read the numbers of the jobs that are not over by the definition's statement."""
        for number, is_claimed in self._query("snapshot"):
            yield int(number), bool(is_claimed)

    @property
    def _driver(self) -> Any:
        assert self._endpoint is not None, "the queue was introduced to its server"
        return driver_of(self._endpoint.engine)

    def _query(self, purpose: Literal["backlog", "snapshot"]) -> list[tuple[Any, ...]]:
        assert self._endpoint is not None, "the queue was introduced to its server"
        cursor = self.connection.cursor()
        with cursor:
            cursor.execute(self.library.sql.of(purpose, self._endpoint.engine))
            return list(cursor.fetchall())

    def _ask(self, request: dict[str, object]) -> dict[str, Any]:
        if self._producer is None or self._producer.poll() is not None:
            self._start_producer()
        assert self._producer is not None
        assert self._producer.stdin is not None
        try:
            self._producer.stdin.write(json.dumps(request).encode() + b"\n")
            self._producer.stdin.flush()
        except BrokenPipeError:
            self._end_producer()
            raise self._error("", f"the producer of {self.library.title} has ended") from None
        return self._read_answer()

    def _start_producer(self) -> None:
        self._received = b""  # what an earlier process has left
        self._producer = subprocess.Popen(
            command_of(self.library, "produce"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment()
        )
        assert self._producer.stdin is not None
        self._producer.stdin.write(self._document())
        self._producer.stdin.flush()
        self._read_answer(until="ready")

    def _read_answer(self, until: str = "") -> dict[str, Any]:
        """Return the next message, or the next one that has the key ``until``; what is no message is the library's own output."""
        assert self._producer is not None
        assert self._producer.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._producer.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self._received:
                    line, _, self._received = self._received.partition(b"\n")
                    message = _parse(line)
                    if message is not None and (not until or until in message):
                        return message
                if not selector.select(_ANSWER_S):
                    self._end_producer()
                    raise self._error("", f"the producer of {self.library.title} did not answer within {_ANSWER_S:.0f} s")
                received = os.read(self._producer.stdout.fileno(), _READ_BYTES)
                if not received:
                    self._end_producer()
                    raise self._error("", f"the producer of {self.library.title} has ended")
                self._received += received

    def _end_producer(self) -> None:
        if self._producer is not None:
            self._producer.kill()
            self._producer.wait(_END_S)
            self._producer, self._received = None, b""

    def _document(self) -> bytes:
        assert self._endpoint is not None, "the queue was introduced to its server"
        document = {
            "name": self._name,
            "endpoint": self._endpoint.with_password(),
            "queue_options": self.options.model_dump(mode="json"),
        }
        return json.dumps(document).encode() + b"\n"

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **environment_of(self.library)}

    def _error(self, code: str, message: str) -> Exception:
        error: Exception = self._driver.make_error(code, message)
        return error


@cache
def load_library_queue(kind: str) -> type[LibraryQueue]:
    """Return the queue ``library:<name>``; raises `stallbench.libraries.LibraryError`."""
    library = find_library(kind.removeprefix(PREFIX))
    fields: dict[str, Any] = {name: _field(option) for name, option in library.options.items()}
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
            "rescues_jobs": library.rescue.by_default,
            "tables": library.tables,
            "indexes": library.indexes,
            "claim_pattern": library.claim_pattern,
        },
    )


def _field(option: Option) -> tuple[Any, Any]:
    """Return an option as a field of the queue's options."""
    value_type: Any = type(option.default)
    if option.role is not None:
        value_type = Annotated[value_type, OptionRole(option.role)]
    return value_type, Field(default=option.default, ge=option.at_least, description=option.description)


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line; none if it is something else that the library printed."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _tail(output: bytes) -> str:
    return "\n".join(f"  {line}" for line in output.decode(errors="replace").splitlines()[-8:])
