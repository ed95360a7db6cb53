"""`stallbench observe --record-profile` on a real server: the load of real workers and producers, and none of their names."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import pytest
from pydantic import SecretStr

from stallbench.engines.postgres.driver import connect
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.observe.address import ObservedServers
from stallbench.observe.command import observe_continuously
from stallbench.observe.options import ObserveOptions
from stallbench.observe.postgres.load import LoadDiagnostic
from stallbench.observe.postgres.observer import make_postgres_observer
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.processes.exposure import Exposure
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from stallbench.records.reading import read_events
from stallbench.scenario.file import read_scenario
from stallbench.verdicts import RunTables
from stallbench.waiting import wait_until
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.real_processes import start_recording
from tests.integration.test_observe_queues import RIVER

pytestmark = pytest.mark.integration

RATE, WORKERS, WORK_S, PAYLOAD_BYTES = 40.0, 4, 0.05, 700
QUEUE_NAME = "acme_invoices"
NO_EXPOSURE: Exposure | None = None
_FOR_S = 20.0
ENOUGH_READINGS = 10
"""Half of those of an idle machine."""
ARGUMENTS_UNSEEN = "The size of the arguments was not seen"
"""Where no job ran at the moments at which the server was asked, or it did not answer in time."""
_RIVERS_COLUMNS = "ALTER TABLE river_job ADD args jsonb DEFAULT '{}', ADD kind text DEFAULT ''"


def observe(endpoint: Endpoint, profile: Path, *, for_s: float, tables: tuple[str, ...] = ()) -> None:
    observe_continuously(
        ObserveOptions(
            servers=ObservedServers(primary=endpoint, replicas={}),
            every_s=1.0,
            tables=tables,
            log=None,
            once=False,
            for_s=for_s,
            report=False,
            expect=(),
            exposure=NO_EXPOSURE,
            profile=profile,
            runs=profile.parent,
        )
    )


def observe_for_long_enough(endpoint: Endpoint, profile: Path) -> int:
    """Observe, and longer where a slow machine had few readings, as the message for too few asks for, or did not answer all of them in time; returns
    when this began, in ns.
    """
    for for_s in (_FOR_S, 3 * _FOR_S, 9 * _FOR_S):
        began_ns = time.time_ns()
        try:
            observe(endpoint, profile, for_s=for_s)
        except NotCarriedOutError as error:
            if "observe longer" not in str(error):
                raise
        else:
            (readings,) = re.findall(r" in (\d+) readings", profile.read_text())
            if int(readings) >= ENOUGH_READINGS and ARGUMENTS_UNSEEN not in profile.read_text():
                return began_ns
            profile.unlink()
    pytest.fail("no observation was long enough")


@pytest.fixture
def unrestrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an observation read each second, whatever share of a processor that takes: else a slow machine has few readings after minutes."""
    monkeypatch.setattr("stallbench.observe.observer.GREATEST_SHARE", 1.0)


@pytest.fixture
def busy(empty_on: EmptyOn, servers: PrivateServers, tmp_path: Path) -> Iterator[Endpoint]:
    """Que with workers that keep up with a known load, in a database and as a user whose names cannot be words of a comment."""
    admin_endpoint = empty_on("postgres")
    with connect(admin_endpoint, "fixture") as admin:
        admin.execute("CREATE ROLE acme_app SUPERUSER LOGIN PASSWORD 'secret'")
        admin.execute("CREATE DATABASE acme_shop")
    endpoint = admin_endpoint.model_copy(update={"database": "acme_shop", "user": "acme_app", "password": SecretStr("secret")})
    options = {"queue": QUEUE_NAME}
    with opened_queue("que", options, endpoint, "install") as queue:
        queue.install()
    with ExitStack() as stack:
        for number in range(1, WORKERS + 1):
            worker = start_recording(
                servers.processes, "worker", f"worker-{number}", endpoint, "que", tmp_path, work_s=WORK_S, queue_options=options
            )
            stack.callback(worker.process.kill)
        producer = start_recording(
            servers.processes,
            "producer",
            "producer-1",
            endpoint,
            "que",
            tmp_path,
            rate=RATE,
            payload_bytes=PAYLOAD_BYTES,
            queue_options=options,
        )
        stack.callback(producer.process.kill)
        with connect(endpoint, "fixture") as admin:

            def is_counted() -> bool:
                return admin.execute("SELECT n_tup_ins > 0 FROM pg_stat_user_tables WHERE relname = 'que_jobs'").fetchone() == (
                    True,
                )

            assert wait_until(is_counted, within_s=60, every_s=0.2), "the server does not count the producer's inserts"
        yield endpoint
    with connect(admin_endpoint, "fixture") as admin:
        admin.execute("DROP DATABASE acme_shop WITH (FORCE)")
        admin.execute("DROP ROLE acme_app")


def measure_load(folder: Path, since_ns: int) -> tuple[float, float]:
    """Return how many jobs per second were enqueued since then, and for how many seconds a worker had one: on a slow machine not as planned."""
    until_ns = time.time_ns()
    events = [event for path in folder.glob("*.csv") for event in read_events(path) if since_ns <= event.t_ns <= until_ns]
    enqueued = [event for event in events if event.event is Event.ENQUEUED]
    began = {event.job_id: event.t_ns for event in events if event.event is Event.CLAIMED}
    held_s = [(each.t_ns - began[each.job_id]) / 1e9 for each in events if each.event is Event.COMPLETED and each.job_id in began]
    return len(enqueued) / (until_ns - since_ns) * 1e9, mean(held_s)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("unrestrained")
def test_a_known_load_is_recorded_without_a_name(busy: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    began_ns = observe_for_long_enough(busy, path)
    rate, held_s = measure_load(tmp_path, began_ns)
    scenario = read_scenario(str(path), variant="longtx")
    text = path.read_text()
    bursts = [one for one in scenario.phases[-1].faults if one.kind == "burst"]
    jobs = scenario.producers.rate * scenario.phases[-1].duration_s
    jobs += sum(one.options["rate"] * (one.for_s or scenario.phases[-1].duration_s - one.after_s) for one in bursts)
    # PostgreSQL's sessions report their counts once a second.
    assert jobs / scenario.phases[-1].duration_s == pytest.approx(rate, rel=0.15), text
    assert scenario.workers.count == WORKERS, text
    # Some ten to twenty looks at two running jobs on average; a claim and a completion take time, too.
    assert held_s / 2 < scenario.workers.work_s < held_s * 2.5, text
    assert scenario.producers.payload_bytes == pytest.approx(PAYLOAD_BYTES, rel=0.1), text
    assert scenario.queue.kind == "que"
    assert "kind-1: 100%" in text
    names = (
        "que_jobs",
        QUEUE_NAME,
        busy.host,
        busy.user,
        busy.database,
        str(busy.port),
        "worker-1",
        "producer-1",
        "Stallbench",
        "job_class",
    )
    assert not [name for name in names if name and name in text.replace(" stallbench", "")]


@pytest.mark.long
@pytest.mark.usefixtures("unrestrained")
def test_a_recorded_load_is_repeated_on_a_server_of_the_bench(busy: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    observe_for_long_enough(busy, path)
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "stallbench.cli", "run", str(path), "--runs", str(runs)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    run = RunTables((runs / "latest").resolve())
    assert run.metric("enqueued", "rate", "load") == pytest.approx(RATE, rel=0.15)
    share = run.metric("completed", "share", "load")
    assert share is not None
    assert share > 0.9, "as many workers as were recorded keep up with it, as those did"
    assert run.record.scenario.producers.payload_bytes == pytest.approx(PAYLOAD_BYTES, rel=0.1)
    assert len(run.record.processes_of("worker")) == WORKERS


def test_a_user_who_may_not_see_the_statements_of_others_counts_the_running_jobs(busy: Endpoint) -> None:
    with connect(busy, "fixture") as admin:
        admin.execute("CREATE ROLE acme_reader LOGIN PASSWORD 'secret'; GRANT SELECT ON que_jobs TO acme_reader")
    queues = QueuesDiagnostic()
    subject = LoadDiagnostic(queues)
    reader = busy.model_copy(update={"user": "acme_reader"})
    observer = make_postgres_observer(ObservedServers(primary=reader, replicas={}), queues, None, subject)
    try:
        for _ in range(6):
            observer.read(reads_everything=True)
            time.sleep(0.3)
    finally:
        observer.close()
        with connect(busy, "fixture") as admin:
            admin.execute("DROP OWNED BY acme_reader; DROP ROLE acme_reader")
    assert {one.worker_sessions for one in subject.readings} == {None}
    running = [one.running for one in subject.readings if one.running is not None]
    assert 1 <= max(running) <= WORKERS


@pytest.fixture
def river(empty_on: EmptyOn) -> Endpoint:
    """A database with River's table."""
    endpoint = empty_on("postgres")
    with connect(endpoint, "fixture") as connection:
        connection.execute(RIVER)
        connection.execute(_RIVERS_COLUMNS)
    return endpoint


def test_a_library_s_own_times_and_kinds_are_read_as_figures(river: Endpoint, tmp_path: Path) -> None:
    queues = QueuesDiagnostic()
    subject = LoadDiagnostic(queues)
    observer = make_postgres_observer(ObservedServers(primary=river, replicas={}), queues, None, subject)
    secret = "the-secret-of-acme"
    try:
        with connect(river, "application") as application:
            for _ in range(6):
                application.execute(
                    "INSERT INTO river_job (state, kind, args, attempted_at, finalized_at) "
                    "SELECT 'completed', CASE WHEN mod(n, 4) = 0 THEN 'acme.Rare' ELSE 'acme.Usual' END, jsonb_build_object('a', %s::text), "
                    "now() - interval '200 ms', now() FROM generate_series(1, 40) AS n",
                    (secret,),
                )
                application.execute("INSERT INTO river_job (state, kind, attempted_at) VALUES ('running', 'acme.Usual', now())")
                application.execute("SELECT pg_stat_force_next_flush()") if application.info.server_version >= 150_000 else None
                observer.read(reads_everything=True)
                time.sleep(1)
    finally:
        observer.close()
    subject.require_queue()
    path = tmp_path / "profile.toml"
    subject.write(path, every_s=1.0)
    scenario, text = read_scenario(str(path)), path.read_text()
    assert scenario.queue.kind == "status_column"
    assert scenario.workers.work_s == pytest.approx(0.2, rel=0.01)
    assert scenario.workers.count == 6
    assert "kind-1: 76%" in text
    assert "kind-2: 24%" in text
    assert not [name for name in ("acme", secret, "river") if name in text]


@pytest.mark.long
def test_nothing_is_invented_of_an_idle_queue(river: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(
        NotCarriedOutError, match=r"no profile was written.*no job was enqueued.*the number of workers.*the work time"
    ):
        observe(river, tmp_path / "profile.toml", for_s=30.0)
    assert not (tmp_path / "profile.toml").exists()


def test_a_queue_that_cannot_be_recorded_is_refused_at_once(river: Endpoint, tmp_path: Path) -> None:
    with connect(river, "fixture") as connection:
        connection.execute("CREATE TABLE own_jobs (id int); CREATE ROLE outsider LOGIN PASSWORD 'secret'")
    began_s = time.monotonic()
    try:
        with pytest.raises(BadInputError, match="is not the table of a known library"):
            observe(river, tmp_path / "profile.toml", for_s=600, tables=("own_jobs",))
        with pytest.raises(BadInputError, match=r"records one queue; found River .*, unknown queue"):
            observe(river, tmp_path / "profile.toml", for_s=600, tables=("river_job", "own_jobs"))
        outsider = river.model_copy(update={"user": "outsider", "password": SecretStr("secret")})
        with pytest.raises(BadInputError, match="may not read River"):
            observe(outsider, tmp_path / "profile.toml", for_s=600)
    finally:
        with connect(river, "fixture") as connection:
            connection.execute("DROP OWNED BY outsider; DROP ROLE outsider")
    assert time.monotonic() - began_s < 300, "it did not observe first"
