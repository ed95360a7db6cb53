"""Runs of published libraries: set up at first use, loaded by the bench's schedule, and judged like every queue."""

from __future__ import annotations

import json
import re

import pytest

from stallbench.engines import ENGINES, EngineName
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement, require_installed
from stallbench.pipeline.tables import read_table
from stallbench.records.events import Event
from stallbench.records.reading import read_events
from stallbench.setup.server_programs import find_servers
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short

pytestmark = pytest.mark.end_to_end

LOAD = ("producers.rate=20", "workers.count=2")
SETTINGS = {
    "db_scheduler": ("queue.polling_interval=0.2",),
    "delayed_job": ("queue.sleep_delay=0.05",),
    "django_tasks_db": ("queue.interval=0.05", "producers.rate=12"),
    "dramatiq_pg": ("queue.threads=32",),
    "laravel": ("queue.sleep=0.1",),
}
"""What those need that poll seldom by default, and would otherwise leave the last jobs in the queue."""
RESCUED_AT_START = ("dramatiq_pg",)
"""Those whose worker looks for the jobs of dead workers when it starts, as the one does that replaces a killed one."""
QUICK = "graphile_worker"
"""The one that `make test` runs; `make test-libraries` runs all. It is also judged by what it survives, which needs a baseline of twenty jobs and
three seconds after the transaction."""
TO_SURVIVE = ("phases.baseline.duration=2s", "phases.recovery.duration=3s", "phases.recovered.duration=1s", "judge=survives")


def marked(name: str) -> object:
    return name if name == QUICK else pytest.param(name, marks=pytest.mark.libraries)


@pytest.fixture(params=[marked(name) for name in sorted(find_libraries())])
def name(request: pytest.FixtureRequest) -> str:
    library = find_library(request.param)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    require_installed(library, print)
    return str(request.param)


def test_a_library_completes_all_jobs_and_its_claim_statement_is_measured(bench: Bench, name: str) -> None:
    changes = TO_SURVIVE if name == QUICK else ()
    ended = bench.run("run", "longtx", *short(*LOAD, f"queue.kind=library:{name}", *SETTINGS.get(name, ()), *changes))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    if name == QUICK:
        assert "\nSurvived.\n" in ended.stdout, "and nothing is said of what the scenario expects of its own queue"
    record, folder = bench.record(), bench.folder()
    assert record["queue"]["library"]["version"] == find_library(name).version
    conservation = read_table(folder, "conservation").set_index("state")["jobs"]
    assert conservation["completed"] >= 100
    assert conservation.get("lost", 0) == 0, "the last jobs may still be in the queue"
    phases = read_table(folder, "phases")
    of_longtx = phases[phases["phase"] == "longtx"]
    metrics = {f"{row['measure']}.{row['statistic']}": row["value"] for row in of_longtx.to_dict("records")}
    assert metrics["claim_statement_calls.count"] >= 20, "a statement may claim several jobs"
    assert metrics["claim_statement_buffers.per_call"] > 1
    assert 0 < metrics["pickup_ms.p50"] <= metrics["latency_ms.p50"]
    assert "claim_ms.p50" not in metrics, "the time of a library's claim cannot be measured in the worker"
    assert_nothing_is_left(bench, record["bench"]["pid"])


MAY_DEADLOCK = ("delayed_job",)
"""Libraries whose claims deadlock on MariaDB: delayed_job_active_record's issue 63. A worker logs the error and polls again."""
_ONLY_DEADLOCKS = re.compile(
    r"errors: no fault explains \d+ x 1213 \(deadlock\) in claim; all errors: \d+ x 1213 \(deadlock\) in claim$"
)
UNCOUNTED = ("laravel",)
"""Libraries whose driver prepares each statement, which the server's digests do not count."""
ON_OTHER_ENGINES = [
    pytest.param(name, engine, id=f"{name}-{engine}")
    for engine in ("mariadb", "mysql", "sqlite")
    for name, library in sorted(find_libraries().items())
    if engine in library.engines
]


@pytest.mark.libraries
@pytest.mark.parametrize(("name", "engine"), ON_OTHER_ENGINES, indirect=["name"])
def test_a_library_on_another_engine_than_postgresql_completes_a_backlog(bench: Bench, name: str, engine: EngineName) -> None:
    has_server = ENGINES[engine].has_server
    if has_server and next(find_servers(engine), None) is None:
        pytest.skip(f"{engine} is not installed")
    settings = [f'kind="library:{name}"', *(each.removeprefix("queue.") for each in SETTINGS.get(name, ()))]
    queue = f"queue={{{', '.join(each for each in settings if not each.startswith('producers.'))}}}"
    changes = ["--set", queue, "--set", f"database.engine={engine}"]
    workers = 2 if has_server else 1  # on SQLite, a claim of Laravel's fails while another connection writes
    changes += ["--set", "producers.backlog=300", "--set", f"workers.count={workers}", "--set", "expect=[]"]
    ended = bench.run("run", "laravel-deadlock", *changes)
    verdict = json.loads((bench.folder() / "verdict.json").read_text())
    failed = [f"{each['check']}: {each['reason']}" for each in verdict["findings"] if each["result"] in ("fail", "unknown")]
    unexpected = [each for each in failed if not (name in MAY_DEADLOCK and _ONLY_DEADLOCKS.match(each))]
    assert not unexpected, ended.stdout + ended.stderr
    assert "300 completed" in ended.stdout
    phases = read_table(bench.folder(), "phases")
    calls = phases[(phases["measure"] == "claim_statement_calls") & (phases["phase"] == "drain")]["value"].sum()
    assert (calls > 0) == (has_server and name not in UNCOUNTED)
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])


@pytest.mark.long
def test_the_job_of_a_killed_worker_is_found_wherever_the_library_left_it(bench: Bench, name: str) -> None:
    """Only one library gives it to another worker within this run; the next quickest does so after half a minute."""
    kill = 'phases.longtx.faults=[{kind="kill", on="worker-1", after="2s"}]'
    load = (*LOAD, f"queue.kind=library:{name}", *SETTINGS.get(name, ()), "workers.work=500ms", "producers.rate=30")
    ended = bench.run("run", "longtx", *short(*load, "phases.longtx.longrunners=[]", kill, "judge=survives"))
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    required = {each["subject"]: each for each in bench.verdict()["findings"] if each["check"] == "requirements"}
    snapshot = [line.split(",") for line in (bench.folder() / "final_snapshot.csv").read_text().splitlines()]
    left = [int(number) for number, state in snapshot if state == "claimed"]
    jobs = read_table(bench.folder(), "jobs").set_index("job_id")
    if find_library(name).promise == "at_most_once":
        assert not left
        assert "lost" in set(jobs["state"])
        return
    events = read_events(bench.folder() / "events" / "worker-1.csv")
    executed = {event.job_id for event in events if event.job_id is not None}
    if name in RESCUED_AT_START:
        assert not left
        assert any(jobs["claims"][job] == 2 for job in executed)
        return
    of_the_dead = [job for job in left if job in executed]  # a library may have claimed more than it had started
    assert of_the_dead, (left, ended.stdout)
    assert all(jobs["claims"][job] == 1 for job in of_the_dead)
    if not find_library(name).rescue.by_default:
        assert ended.returncode == 1
        assert f"{len(of_the_dead)} lost" in ended.stdout
        assert f"Did not survive: {len(of_the_dead)} job" in ended.stdout
        return
    of_rescue = required["no job is stranded beyond the declared rescue"]
    assert of_rescue["result"] == "pass", of_rescue
    assert find_library(name).rescue.marks_failed or of_rescue["reason"].endswith("as declared (not seen)"), of_rescue


SOON_RESCUED = {
    "delayed_job": ("queue.max_run_time=2", "queue.sleep_delay=0.05"),
    "laravel": ("queue.retry_after=2", "queue.tries=3", "queue.sleep=0.1"),
    "oban": ("queue.rescue_after=2", "queue.rescue_interval=1"),
    "pg_boss": ("queue.expire_in=2", "queue.supervise_interval=1"),
    "pgmq": ("queue.vt=2",),
    "pgqueuer": ("queue.heartbeat_timeout=2",),
}
"""Documented options by which a rescue can be observed within a short run."""
RESCUE_IN = "phases.recovered.duration=35s"
"""If Oban's leader is the one that dies, another is elected within half a minute."""


@pytest.mark.libraries
@pytest.mark.parametrize("name", SOON_RESCUED, indirect=True)
def test_the_job_of_a_killed_worker_is_executed_again_when_its_shortened_claim_has_expired(bench: Bench, name: str) -> None:
    kill = 'phases.longtx.faults=[{kind="crash_point", on="worker-1", at="during_work", every_nth=1}]'
    load = (*LOAD, f"queue.kind=library:{name}", *SOON_RESCUED[name], "producers.rate=5")
    ended = bench.run("run", "longtx", *short(*load, "phases.longtx.longrunners=[]", RESCUE_IN, kill))
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    jobs = read_table(bench.folder(), "jobs").set_index("job_id")
    begun = {
        event.job_id
        for event in read_events(bench.folder() / "events" / "worker-1.csv")
        if event.event is Event.CLAIMED and event.job_id is not None and jobs["claims"][event.job_id] > 1
    }
    assert begun, ended.stdout
    assert all(jobs["state"][job] == "completed" for job in begun)


@pytest.mark.libraries
def test_a_producer_enqueues_again_after_its_connection_was_ended(bench: Bench, name: str) -> None:
    """An application connects again, by its framework or by a pool; how long its library is without the connection differs."""
    fault = 'phases.longtx.faults=[{kind="terminate_backends", on="primary", of="producers", for="1s"}]'
    load = (*LOAD, f"queue.kind=library:{name}", *SETTINGS.get(name, ()))
    ended = bench.run("run", "longtx", *short(*load, "phases.longtx.longrunners=[]", fault))
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    (injection,) = bench.record()["injections"]
    events = read_events(bench.folder() / "events" / "producer-1.csv")
    assert any(event.event is Event.ENQUEUED and event.t_ns > injection["end_ns"] for event in events)


AT_WORK = {"django_tasks_db": ("producers.rate=5", "workers.work=200ms")}
"""What those need that are connected only while they claim and work: Django closes the connection after each task and each poll."""
LIVE_ON = ("graphile_worker", "river")
"""Some whose workers connect again; others exit, which `docs/libraries-in-faults.md` says."""


@pytest.mark.libraries
def test_the_connections_of_workers_are_found_by_the_worker_s_name(bench: Bench, name: str) -> None:
    """A pool that is given to graphile-worker needs error handlers for itself and for its clients: without them its workers exit, too."""
    fault = 'phases.longtx.faults=[{kind="terminate_backends", on="primary", of="workers", every="100ms", for="2s"}]'
    load = (*LOAD, f"queue.kind=library:{name}", *SETTINGS.get(name, ()), *AT_WORK.get(name, ()), "phases.longtx.longrunners=[]")
    ended = bench.run("run", "longtx", *short(*load, fault))
    record = bench.record()
    assert record["injections"], ended.stdout + ended.stderr
    assert {"worker-1", "worker-2"} & set(record["injections"][0]["evidence"]["terminated"])
    if name in LIVE_ON:
        assert {each["intended"] for each in record["processes"] if each["role"] == "worker"} == {"stopped"}, ended.stdout


@pytest.mark.libraries
def test_no_worker_takes_the_jobs_of_another_queue_in_the_same_table(bench: Bench, name: str) -> None:
    if find_library(name).other_jobs is None:
        pytest.skip("its queues have tables of their own, or its workers take the jobs of all queues")
    durations = [f"phases.{phase}.duration={text}" for phase, text in (("baseline", "2s"), ("backlog", "8s"))]
    backlog = 'phases.backlog.faults=[{kind="other_jobs",on="primary",count=25000}]'
    settings = (f"queue.kind=library:{name}", *SETTINGS.get(name, ()), *durations, backlog, "expect=[]", "producers.rate=12")
    ended = bench.run("run", "deep-backlog", *(f"--set={setting}" for setting in settings))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (fault,) = bench.record()["injections"]
    assert fault["evidence"]["jobs"] == 25_000
    assert fault["verified_gone_ns"], "all were still there, and were removed"
    assert read_table(bench.folder(), "conservation").set_index("state")["jobs"].get("lost", 0) == 0


@pytest.mark.libraries
def test_the_deletion_of_completed_jobs_by_the_library_itself_is_judged(bench: Bench) -> None:
    require_installed(find_library("pg_boss"), print)
    queue = 'queue={kind="library:pg_boss",retained=20000,supervise_interval=15}'
    durations = {"warmup": "2s", "retained": "5s", "deletion": "25s", "deleted": "5s"}
    changes = (queue, *(f"phases.{phase}.duration={text}" for phase, text in durations.items()))
    ended = bench.run("run", "retention", "--variant", "library", *(f"--set={change}" for change in changes))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (expected,) = [finding for finding in bench.verdict()["findings"] if finding["check"] == "expectations"]
    assert (expected["subject"], expected["result"]) == ("live_tuples.last in deleted", "pass")
    assert bench.record()["queue"]["options"]["retained"] == 20_000
