"""Tries mutants with the promises of a queue's operations, each in a process of its own, on one server.

First the queue as it is: which statements and lines each promise reaches. A mutant is tried only with promises that reach what is changed, for it
does the same as the queue in all others, and only until one is broken.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from stallbench import PROJECT
from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.processes.reaper import name_temporary
from stallbench.queues import NoQueueError, Queue, find_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.empty_databases import EmptyDatabases, empty_databases
from stallbench.studies.conformance import interleavings
from stallbench.studies.conformance import promise as promise_module
from stallbench.studies.conformance import promises as promises_module
from stallbench.studies.conformance.operations import try_promise
from stallbench.studies.conformance.promise import OpenQueue, QueuePromise
from stallbench.studies.conformance.promises import PROMISES
from tools.mutants.child import NoAnswerError, NoTimeError, call_in_child
from tools.mutants.sources import QUEUES, Mutant, QueueSource, write_queue

Result = Literal["killed", "survived", "stillborn", "unreached"]

_PATIENCE_S = 15.0
"""In place of `stallbench.studies.conformance.promise.PATIENCE_S`: a sound queue on this machine never needs as much."""
_CHILD_S = 60.0
"""Within which a promise is decided: longer than a wait for what never comes."""
_SETTINGS: Mapping[str, str | int] = {"lock_timeout": "5s", "statement_timeout": "15s", "fsync": "off"}
"""No operation of a sound queue waits for a lock for long in these trials. The server is not killed, so that nothing has to be on the disk."""
_EMPTY = (
    """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()""",
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public",
)
"""Empties a database in a hundredth of the time that another one takes: no queue that is tried creates anything elsewhere."""
_DIGEST = 12
_CACHE = PROJECT / ".cache" / "mutants"
"""What the promises reach of the queues as they are, which takes minutes to find out."""


def digest_trials() -> str:
    """Return what identifies the promises: what has survived others is tried again."""
    texts = [Path(str(module.__file__)).read_text() for module in (promise_module, promises_module, interleavings)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a promise reaches of a queue that is as it should be."""

    statements: frozenset[str]
    """By name."""
    lines: Mapping[str, frozenset[int]]
    """Of each file."""
    seconds: float
    """How long it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A queue with some options, as it should be."""

    options: Mapping[str, object]
    statements: Mapping[str, str]
    """All of its statements, with the placeholders of its options filled."""
    reaches: Mapping[str, Reach]
    """By promise; without `UNOBSERVED`."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """Why a promise is broken."""

    reason: str
    is_timeout: bool = False
    """Whether nothing but the time that the trial took is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What became of a mutant."""

    result: Result
    by: str = ""
    """The promise that it breaks."""
    reason: str = ""
    is_timeout: bool = False
    """Whether nothing but the time that a trial took is wrong with it."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Those of the queue with which the promise was broken, or, if none was, the first ones with which the change is reached."""


class UnsoundError(Exception):
    """A queue that was not changed breaks a promise."""


class _Recorded(dict[str, str]):
    """The statements of a queue; keeps the names of those that it uses."""

    def __init__(self, statements: Mapping[str, str], used: set[str]) -> None:
        super().__init__(statements)
        self._used = used

    def __getitem__(self, name: str) -> str:
        self._used.add(name)
        return super().__getitem__(name)


class _RecordingQueue(OpenQueue):
    """Records which statements are used."""

    def __init__(self, kind: str, options: Mapping[str, object], endpoint: Endpoint, used: set[str]) -> None:
        super().__init__(kind, options, endpoint)
        self._used = used

    def __call__(self, **options: object) -> Queue[Any]:
        queue: Any = super().__call__(**options)
        queue.statements = _Recorded(queue.statements, self._used)
        return queue  # type: ignore[no-any-return]


class TrialServer:
    """Tries queues on one server."""

    def __init__(self, databases: EmptyDatabases, folder: Path) -> None:
        """Use a server; queues are written below ``folder``."""
        self._databases = databases
        self._folder = folder
        databases.give()  # the first one is the server's own
        self._endpoint = databases.give()
        self._connection = driver_of(self._endpoint.engine).connect(self._endpoint, "mutants")
        self._observed: dict[tuple[str, int], Observed] = {}

    def _empty_database(self) -> Endpoint:
        """Remove what the trial before has left, and return the database."""
        for statement in _EMPTY:
            self._connection.execute(statement)
        return self._endpoint

    def observe(self, source: QueueSource) -> Iterator[Observed]:
        """Yield the queue as it is, with each of its options, when it is first asked for; raises `UnsoundError`."""
        for number, options in enumerate(source.options):
            if (source.kind, number) not in self._observed:
                self._observed[source.kind, number] = recall_observed(source, options) or keep_observed(
                    source, self._observe(source, options)
                )
            yield self._observed[source.kind, number]

    def _observe(self, source: QueueSource, options: Mapping[str, object]) -> Observed:
        kind = write_queue(source, source.read(), self._folder / source.kind)
        answers = {}
        for promise in (each for each in list_promises(source) if each.name not in UNOBSERVED):
            endpoint = self._empty_database()
            began_s = time.monotonic()
            answer = self._ask(lambda: _observe_promise(promise, kind, options, endpoint))  # noqa: B023 - called at once
            answer["seconds"] = time.monotonic() - began_s
            if answer["result"] != "pass":
                raise UnsoundError(f"{source.kind} {dict(options)}: {promise.name}: {answer['reason']}")
            answers[promise.name] = answer
        endpoint = self._empty_database()
        return Observed(
            options=options,
            statements=self._ask(lambda: _read_statements(kind, options, endpoint)),
            reaches={
                name: Reach(
                    statements=frozenset(answer["statements"]),
                    lines={file: frozenset(lines) for file, lines in answer["lines"].items()},
                    seconds=answer["seconds"],
                )
                for name, answer in answers.items()
            },
        )

    def try_sound(self, source: QueueSource, options: Mapping[str, object]) -> list[tuple[str, str]]:
        """Try every promise with the queue as it is, in the same way as mutants; return those that it breaks, with the reason: false alarms."""
        kind = write_queue(source, source.read(), self._folder / source.kind)
        judged = [(promise.name, self._try(promise, kind, options)) for promise in list_promises(source)]
        return [(name, broken.reason) for name, broken in judged if broken is not None]

    def try_seeded(self, kind: str) -> tuple[str, str] | None:
        """Try a queue with a seeded defect until it breaks a promise; return which, and the reason; none if it breaks none."""
        queue = find_queue(kind)
        given = [each for each in PROMISES if each.find_obstacle(queue) is None]
        for promise in sorted(given, key=lambda each: UNOBSERVED.get(each.name, -1)):
            if (broken := self._try(promise, kind, {})) is not None:
                return promise.name, broken.reason
        return None

    def judge(self, mutant: Mutant, *, quick: bool) -> Judgement:
        """Try a mutant until it breaks a promise. ``quick``: without `UNOBSERVED`, which take most of the time of a mutant that survives."""
        source = QUEUES[mutant.queue]
        kind = mutant.write(self._folder / mutant.digest)
        promises = list_promises(source)
        tried: Mapping[str, object] | None = None
        options = source.options[0]
        for sound in self.observe(source):
            endpoint = self._empty_database()
            try:
                looked = self._ask(lambda: _look_at(kind, sound.options, sound.statements, endpoint))  # noqa: B023 - called at once
            except NoAnswerError as error:
                return Judgement(result="stillborn", by="install", reason=str(error))
            if looked["refused"]:
                return Judgement(result="stillborn", by="install", reason=looked["refused"])
            changed = frozenset(looked["changed"])
            reaching = sorted(
                (each for each in promises if each.name in sound.reaches and _reaches(sound.reaches[each.name], mutant, changed)),
                key=lambda each: sound.reaches[each.name].seconds,
            )
            if reaching and tried is None:
                tried = options = sound.options
            if (broken := self._find_broken(reaching, kind, sound.options)) is not None:
                return broken
        unobserved = [each for each in promises if each.name in UNOBSERVED and not quick]
        if (broken := self._find_broken(unobserved, kind, options)) is not None:
            return broken
        return Judgement(result="unreached" if tried is None else "survived", options=options)

    def _find_broken(self, promises: Sequence[QueuePromise], kind: str, options: Mapping[str, object]) -> Judgement | None:
        """Return the first promise that a mutant breaks; none if it keeps all."""
        for promise in promises:
            broken = self._try(promise, kind, options)
            if broken is not None:
                return Judgement(
                    result="killed", by=promise.name, reason=broken.reason, is_timeout=broken.is_timeout, options=options
                )
        return None

    def _try(self, promise: QueuePromise, kind: str, options: Mapping[str, object]) -> _Broken | None:
        """Return why a queue breaks a promise; none if it keeps it. What does not end in time is tried again: the machine may have stood still."""
        for is_last in (False, True):
            endpoint = self._empty_database()
            try:
                answer = self._ask(lambda: _try_promise(promise, OpenQueue(kind, options, endpoint)))  # noqa: B023 - called at once
            except NoTimeError as error:
                self._databases.check()
                if is_last:
                    return _Broken(str(error), is_timeout=True)
                continue
            except NoAnswerError as error:
                self._databases.check()
                return _Broken(str(error))
            if answer["result"] == "pass":
                return None
            self._databases.check()
            return _Broken(str(answer["reason"]))
        raise AssertionError("the last attempt returns")

    def _ask(self, function: Any) -> Any:
        return call_in_child(function, _CHILD_S)


@contextmanager
def start_trial_server() -> Iterator[TrialServer]:
    """Start a server for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix=name_temporary("mutants")) as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        with empty_databases(Database(engine="postgres", settings=dict(_SETTINGS)), None, logs) as databases:
            yield TrialServer(databases, Path(folder) / "queues")


def _find_cached(source: QueueSource, options: Mapping[str, object]) -> Path:
    """Return where what was observed of a queue is kept: until it, or a promise, is changed."""
    texts = json.dumps([digest_trials(), source.kind, options, source.read()], sort_keys=True)
    return _CACHE / f"{source.kind}-{hashlib.sha256(texts.encode()).hexdigest()[:_DIGEST]}.json"


def recall_observed(source: QueueSource, options: Mapping[str, object]) -> Observed | None:
    """Return what was observed by an earlier process."""
    path = _find_cached(source, options)
    if not path.is_file():
        return None
    known = json.loads(path.read_text())
    reaches = {
        name: Reach(
            statements=frozenset(each["statements"]),
            lines={file: frozenset(lines) for file, lines in each["lines"].items()},
            seconds=each["seconds"],
        )
        for name, each in known["reaches"].items()
    }
    return Observed(options=options, statements=known["statements"], reaches=reaches)


def keep_observed(source: QueueSource, observed: Observed) -> Observed:
    """Keep it for later processes, and return it."""
    reaches = {
        name: {
            "statements": sorted(each.statements),
            "lines": {file: sorted(lines) for file, lines in each.lines.items()},
            "seconds": each.seconds,
        }
        for name, each in observed.reaches.items()
    }
    path = _find_cached(source, observed.options)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"statements": observed.statements, "reaches": reaches}))
    return observed


_ELSEWHERE = ("work_at_the_same_time", "work_in_a_process")
UNOBSERVED = {
    promise.name: _ELSEWHERE.index(called)
    for promise in PROMISES
    for called in _ELSEWHERE
    if called in promise.check.__code__.co_names
}
"""Promises whose reach is not known, because they use other threads or processes; in this order they are tried after the others, which are quicker."""


def list_promises(source: QueueSource) -> Sequence[QueuePromise]:
    """Return the promises that a queue gives and keeps, in the order in which sound queues are tried with them."""
    queue = find_queue(source.kind)
    given = [each for each in PROMISES if each.find_obstacle(queue) is None and each.name not in source.broken]
    return sorted(given, key=lambda promise: UNOBSERVED.get(promise.name, -1))


def _reaches(reach: Reach, mutant: Mutant, changed: frozenset[str]) -> bool:
    if mutant.file.endswith(".sql"):
        return bool(changed & reach.statements)
    first, last = mutant.lines
    return any(first <= line <= last for line in reach.lines.get(mutant.file, ()))


def _try_promise(promise: QueuePromise, open_one: OpenQueue) -> dict[str, str]:
    """Return result and reason; in a child process."""
    for module in (promise_module, promises_module):
        vars(module)["PATIENCE_S"] = _PATIENCE_S
    outcome = try_promise(promise, open_one)
    return {"result": outcome.result, "reason": outcome.reason}


def _observe_promise(promise: QueuePromise, kind: str, options: Mapping[str, object], endpoint: Endpoint) -> dict[str, Any]:
    """Return also which statements and lines it reaches; in a child process."""
    folder, used = f"{Path(kind.rpartition(':')[0]).parent}/", set[str]()
    lines: dict[str, set[int]] = {}

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(folder):  # called at every call in the process
            return None
        lines.setdefault(frame.f_code.co_filename.removeprefix(folder), set()).add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    threading.settrace(trace)
    answer = _try_promise(promise, _RecordingQueue(kind, options, endpoint, used))
    sys.settrace(None)
    return {**answer, "statements": sorted(used), "lines": {name: sorted(numbers) for name, numbers in lines.items()}}


def _read_statements(kind: str, options: Mapping[str, object], endpoint: Endpoint) -> dict[str, str]:
    """Return the queue's statements; in a child process."""
    queue: Any = OpenQueue(kind, options, endpoint)()
    return dict(queue.statements)


def _look_at(kind: str, options: Mapping[str, object], sound: Mapping[str, str], endpoint: Endpoint) -> dict[str, Any]:
    """Return the statements of a mutant that are changed, and why it cannot be tried at all, if so; in a child process."""
    try:
        queue: Any = OpenQueue(kind, options, endpoint)()
        queue.install()
    except NoQueueError as error:
        return {"refused": str(error), "changed": []}
    except Exception as error:  # noqa: BLE001 - whatever a mutant raises where nothing is tried yet
        return {"refused": f"{type(error).__name__}: {str(error).strip()}", "changed": []}
    changed = [name for name, text in queue.statements.items() if sound.get(name) != text]
    for name in changed:
        refused = _prepare(queue, queue.statements[name])
        if refused and not _prepare(queue, sound.get(name, "")):
            return {"refused": refused, "changed": changed}
    return {"refused": "", "changed": changed}


def _prepare(queue: Queue[Any], statement: str) -> str:
    """Return why the server refuses a statement; empty if it does not. Some are only parts of others, and refused as they should be."""
    numbers = iter(range(1, statement.count("?") + 1))
    text = re.sub(r"\?", lambda _: f"${next(numbers)}", statement)
    result = queue.connection.pgconn.prepare(b"", text.encode())
    return str(result.error_message.decode(errors="replace")).strip()
