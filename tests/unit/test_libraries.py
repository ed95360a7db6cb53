"""What a library's definition must say, and what a user is told when it is not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.errors import BadInputError
from stallbench.libraries import LibraryError, find_libraries, find_library
from stallbench.libraries.definition import read_library
from stallbench.libraries.installation import installation_of, kinds_of
from stallbench.queues import find_queue
from stallbench.queues.queue import Promise
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import ScenarioError, read_scenario
from stallbench.studies.soak.plan import require_fit_for_soak
from tests.libraries.made_up import APPLICATION, read_changed


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_a_definition_agrees_with_its_lock(name: str) -> None:
    library = find_library(name)
    package, version = library.package, library.version
    locks = "".join(path.read_text() for kind in kinds_of(library) for path in kind.files(library.folder))
    of_python, of_npm = f"{package}=={version} ", f'"{package}": "{version}"'
    of_go, of_java, of_debian = f"{package} v{version} h1:", f"{package}:{version} sha256:", f"{package}={version}*"
    assert any(pin in locks for pin in (of_python, of_npm, of_go, of_java, of_debian))
    assert '"resolved"' not in locks, "a lock has hashes, and no addresses"
    assert " --index-url" not in locks
    if library.language not in ("php", "ruby"):  # packages of Debian, which apt verifies by their signatures
        assert "--hash=sha256:" in locks or " h1:" in locks or " sha256:" in locks


@pytest.mark.parametrize("name", ["river", "db_scheduler"])
def test_a_compiled_adapter_is_compiled_anew_when_it_or_the_contract_changes(name: str, tmp_path: Path) -> None:
    library = find_library(name)
    (kind,) = kinds_of(library)
    sources = {path.parent.name for path in kind.files(library.folder)}
    assert sources == {name, library.language}, "the adapter's, and the contract's"
    folder = tmp_path / name
    shutil.copytree(library.folder, folder)
    (adapter,) = folder.glob("[Aa]dapter.*")
    adapter.write_text(adapter.read_text() + "\n// changed\n")
    assert installation_of(library) != installation_of(read_library(folder / "library.toml"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            'language = "python"',
            'language = "cobol"',
            "language: Input should be 'python', 'javascript', 'go', 'java', 'php' or 'ruby'",
        ),
        ('title = "Procrastinate"', "", "title: Field required"),
        ("procrastinate_fetch_job", "(", "claim_pattern: is no regular expression"),
        ('title = "Procrastinate"', 'title = "Procrastinate', "not TOML"),
        ("[rescue]", "[rescues]", "rescue: Field required"),
        (
            "[settings]",
            '[other_jobs]\nready = "INSERT"\ncount = "SELECT"\nremove = "DELETE"\n[settings]',
            "other_jobs.ready: String should match pattern",
        ),
        (
            "[start]",
            'python_at_least = ">=3.12"\n[start]',
            'python_at_least: is ">=3.12"; expected a version of Python 3',
        ),
    ],
)
def test_an_invalid_definition_is_one_line_for_each_issue(tmp_path: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(LibraryError, match=r"library\.toml: ") as raised:
        read_changed(tmp_path, before, after)
    assert message in str(raised.value)


def test_a_library_that_is_not_there_is_named_with_those_that_are() -> None:
    names = ", ".join(sorted(find_libraries()))
    said = rf"there is no library 'rivr'; did you mean \"river\"\? Expected one of {names}, or the path of a folder"
    with pytest.raises(ScenarioError, match=said):
        read_scenario("longtx", overrides=["queue.kind=library:rivr"])


def test_an_option_that_the_library_does_not_declare_is_refused() -> None:
    with pytest.raises(ScenarioError, match='did you mean "concurrency"'):
        read_scenario("longtx", overrides=["queue.kind=library:procrastinate", "queue.concurency=3"])


def test_a_text_that_the_option_does_not_allow_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r'queue.finish is "archived"; expected .*archive.* or .*delete'):
        read_scenario("longtx", overrides=["queue.kind=library:pgmq", "queue.finish=archived"])


def test_an_option_that_the_library_does_not_have_on_the_engine_is_refused() -> None:
    queue = 'queue={kind="library:db_scheduler", lock_and_fetch=true}'
    with pytest.raises(ScenarioError, match=r"lock_and_fetch is true, which db-scheduler has only on postgres"):
        read_scenario("laravel-deadlock", overrides=[queue])
    read_scenario("longtx", overrides=[queue])


def test_a_library_is_recorded_with_its_version_and_its_options_in_force() -> None:
    scenario = read_scenario(
        "longtx", overrides=["queue.kind=library:graphile_worker", "queue.concurrency=4", "producers.rate=1"]
    )
    record = describe_queue(scenario)
    assert record.options == {
        "concurrency": 4,
        "poll_interval": 2.0,
        "complete_batch_delay": -1.0,
        "periodic": 0,
        "version": "0.18.0",
        "upgrade_to": "0.18.0",
    }
    assert record.library is not None
    assert (record.library.title, record.library.version, record.library.language) == ("graphile-worker", "0.18.0", "javascript")
    after_4_hours_and_a_sweep = 14_400 + 600
    assert (record.expiry_s, record.rescues_jobs, record.promise) == (after_4_hours_and_a_sweep, True, Promise.AT_LEAST_ONCE)
    assert record.source == "graphile-worker 0.18.0 (javascript), https://worker.graphile.org"


def test_the_recorded_version_is_the_one_with_which_the_run_starts() -> None:
    changes = ['queue={kind="library:graphile_worker", version="0.16.6"}', "producers.rate=1"]
    record = describe_queue(read_scenario("longtx", overrides=changes))
    assert record.library is not None
    assert record.library.version == "0.16.6"
    assert record.source.startswith("graphile-worker 0.16.6 (javascript)")


def test_an_expiry_and_an_attempt_limit_that_a_scenario_sets_are_the_recorded_ones() -> None:
    changes = ['queue={kind="library:laravel", retry_after=4, tries=3}']
    record = describe_queue(read_scenario("laravel-deadlock", overrides=changes))
    assert (record.expiry_s, record.attempt_limit) == (4, 3)


@pytest.mark.parametrize(
    ("kind", "survives"),
    [(f"library:{APPLICATION}", False), ("library:river", True), ("library:procrastinate", True), ("library:laravel", True)],
    ids=["rescued at once", "after an hour", "never", "an option"],
)
def test_the_claims_of_a_library_survive_unless_their_jobs_are_rescued_at_once(kind: str, survives: bool) -> None:
    assert find_queue(kind).claims_survive_connection is survives


def test_advisory_locks_that_a_library_needs_depend_on_its_options() -> None:
    changes = ["queue.kind=library:dramatiq_pg", "queue.threads=3", "producers.rate=1"]
    assert describe_queue(read_scenario("longtx", overrides=changes)).advisory_locks == 6
    assert describe_queue(read_scenario("longtx", overrides=["queue.kind=library:pgmq", "producers.rate=1"])).advisory_locks == 0


def test_statements_are_those_of_the_engine() -> None:
    sql = find_library("laravel").sql
    assert "json_value" in sql.of("snapshot", "mariadb")
    assert "json_value" not in sql.of("snapshot", "postgres")
    assert find_library("procrastinate").sql.of("snapshot", "postgres") == find_library("procrastinate").sql.snapshot


def test_a_definition_must_have_the_statements_of_all_its_engines(tmp_path: Path) -> None:
    engines = ('engines = ["postgres"]', 'engines = ["postgres", "mariadb"]', "not_on = { mariadb", "not_on = { mysql")
    with pytest.raises(LibraryError, match=r"sql: has statements of postgres; the engines are postgres, mariadb"):
        read_changed(tmp_path, "snapshot = ", "snapshot.postgres = ", *engines)


def test_the_bench_does_not_claim_in_place_of_a_library() -> None:
    queue_type = find_queue("library:procrastinate")
    queue = queue_type(None, queue_type.options_type())
    with pytest.raises(NotImplementedError, match="Procrastinate claims in its own worker"):
        queue.claim()


def test_a_soak_refuses_a_library() -> None:
    scenario = read_scenario("longtx-again", overrides=['queue={kind="library:procrastinate"}'])
    with pytest.raises(BadInputError, match=r"queue\.kind is library:procrastinate, whose workers cannot be suspended"):
        require_fit_for_soak(scenario)


def test_a_worker_of_the_bench_cannot_take_the_place_of_a_library_s(tmp_path: Path) -> None:
    endpoint = {"engine": "postgres", "host": "127.0.0.1", "port": 1, "user": "u", "password": "p", "database": "d"}
    document = {
        "name": "worker-9",
        "endpoint": endpoint,
        "queue": "library:pgqueuer",
        "queue_options": {},
        "events": str(tmp_path / "e"),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "workers"], input=json.dumps(document), cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert "library:pgqueuer claims in its own worker" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_how_often_a_library_searches_for_the_jobs_of_dead_workers_may_follow_from_an_option() -> None:
    pg_boss = find_library("pg_boss")
    assert pg_boss.compute_search_s({}) == 120
    assert pg_boss.compute_search_s({"supervise_interval": 5}) == 10
    assert find_library("oban").compute_search_s({"rescue_interval": 1}) == 32
    assert find_library("db_scheduler").compute_search_s({}) == pytest.approx(600, abs=1)


@pytest.mark.parametrize(
    ("name", "rescue_s", "renews_claims"),
    [
        ("laravel", 90 + 3, False),
        ("pgqueuer", 30 + 30, True),
        ("graphile_worker", 14_400 + 600, False),
        ("dramatiq_pg", 1200, False),
    ],
    ids=["when it polls", "when it polls, after the last heartbeat", "by a sweep", "now and then, at random"],
)
def test_the_job_of_a_dead_worker_is_taken_when_an_idle_worker_looks_for_it(
    name: str, rescue_s: float, renews_claims: bool
) -> None:
    record = describe_queue(read_scenario("longtx", overrides=[f"queue.kind=library:{name}", "producers.rate=1"]))
    assert (record.rescue_s, record.renews_claims) == (rescue_s, renews_claims)


def test_the_option_of_a_search_must_be_a_number_of_the_library(tmp_path: Path) -> None:
    after_s = "by_default = false"
    message = 'rescue.search_s.option is "nothing"; expected one with a number: concurrency, polling_interval'
    with pytest.raises(LibraryError, match=re.escape(message)):
        read_changed(tmp_path, after_s, f'{after_s}\nsearch_s = {{ option = "nothing" }}')


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_every_library_says_how_it_is_started(name: str) -> None:
    assert find_library(name).start is not None


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("postgres", "not_on: postgres is one of engines"),
        ("oracle", "not_on: there is no engine oracle; expected postgres, aerospike"),
    ],
)
def test_a_reason_for_another_engine_is_only_of_an_engine_that_exists(tmp_path: Path, engine: str, message: str) -> None:
    with pytest.raises(LibraryError, match=message):
        read_changed(tmp_path, "not_on = { mariadb", f"not_on = {{ {engine}")


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_a_library_that_does_not_run_on_mariadb_says_why(name: str) -> None:
    library = find_library(name)
    assert ("mariadb" in library.engines) != ("mariadb" in library.not_on)
