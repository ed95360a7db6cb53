"""What an invalid scenario gets: one line for each issue, with the key, what was found, and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.queues import find_queues
from tests.unit.scenario_text import OF_POSTGRES, SMALL, find_lines, longrunners_here, read

__all__ = ["longrunners_here"]  # a fixture: pytest finds it by its name here

pytestmark = pytest.mark.usefixtures("longrunners_here")

NAME = "a name of up to 63 small letters, digits, - and _, the first a letter"
DURATION = 'a number with us, ms, s, m or h, like "90s"'
IDLE_WRITER = '[{ kind = "idle_writer", on = "primary" }]'
LONGRUNNER = "phases[2].longrunners[0]"
WINDOW = 'a whole number of at least 1, "N/2", "N" or "2N"'
ALL_KEYS = "summary, seed, database, queue, producers, workers, external_processes, collectors, maintenance, phases, expect, comparison, mitigation"
ALL_QUEUES = ", ".join(find_queues())

KEYS_AND_TYPES = [
    ('summary = "A small one."\n', "", 'summary is missing; write it like summary = "What happens, in one sentence."'),
    ('"A small one."', "3", "summary is 3; expected text in quotes"),
    ('"A small one."', '" "', 'summary is " "; expected text that is not empty'),
    ('"A small one."', '"A bell: \\u0007"', "summary contains the character U+0007; expected printable text"),
    ('"A small one."', "2015-05-18", "summary is 2015-05-18, a date or time; no key of a scenario takes one"),
    ('one."\n', 'one."\nseed = -1\n', "seed is -1; expected at least 0"),
    ('one."\n', 'one."\nseed = 1.5\n', "seed is 1.5; expected a whole number"),
    ('one."\n', 'one."\nseed = 99999999999999999999\n', "seed is a whole number of more than 64 bits; expected at most 64"),
    (
        'one."\n',
        'one."\nname = "x"\n',
        f'name: unknown key; allowed are {ALL_KEYS}; did you mean "phases.name"?',
    ),
    (
        "[workers]",
        "[wokers]",
        f'wokers: unknown key; allowed are {ALL_KEYS}; did you mean "workers"?',
    ),
    ("count = 2", "counts = 2", 'workers.counts: unknown key; allowed are count, work, poll; did you mean "count"?'),
    ("count = 2", "rate = 2", 'workers.rate: unknown key; allowed are count, work, poll; did you mean "producers.rate"?'),
    ("count = 2", "seed = 2", 'workers.seed: unknown key; allowed are count, work, poll; "seed" belongs above the first [table]'),
    ("count = 2", '"a b\\n" = 2', 'workers."a b\\n": unknown key; allowed are count, work, poll'),
    ("count = 2", "count = true", "workers.count is true; expected a whole number"),
    ("count = 2", "count = 2.0", "workers.count is 2.0; expected a whole number"),
    ("count = 2", 'count = "two"', 'workers.count is "two"; expected a whole number'),
    ("count = 2", "count = -1", "workers.count is -1; expected at least 0"),
    ("count = 2", "count = 257", "workers.count is 257; expected at most 256"),
    ("count = 2", "count = [2]", "workers.count is an array; expected a whole number"),
    ("rate = 500", "rate = nan", "producers.rate is nan; expected a finite number"),
    ("rate = 500", "rate = inf", "producers.rate is inf; expected a finite number"),
    ("rate = 500", "rate = 2_000_000", "producers.rate is 2000000; expected at most 1,000,000"),
    ("rate = 500", "", "producers.rate is missing; write it like rate = 500, or as a share, like capacity_share = 0.65"),
    ("[producers]\nrate = 500\n", "", "producers is missing; write it like [producers] rate = 500"),
    ("[producers]\nrate = 500\n", "[[producers]]\nrate = 500\n", "producers is an array; expected a table"),
    ("rate = 500", "rate = 500\npayload_bytes = 8", "producers.payload_bytes is 8; expected at least 16"),
    ("[workers]", "[collectors]\nenabled = 1\n[workers]", "collectors.enabled is 1; expected true or false"),
    ("[workers]", '[collectors]\ninterval = "50ms"\n[workers]', 'collectors.interval is "50ms"; expected at least 100ms'),
]

DATABASE = [
    (
        "replicas = 1",
        'engine = "oracle"\nreplicas = 1',
        'database.engine is "oracle"; expected one of postgres, mariadb, mysql, sqlite, redis, beanstalkd, aerospike',
    ),
    ("replicas = 1", "replicas = 9", "database.replicas is 9; expected at most 3"),
    (
        "replicas = 1",
        'replicas = 1\nsmall_disk = "wal"',
        "database.small_disk is given, but database.replicas is 1; it needs 0",
    ),
    ("replicas = 1", 'small_disk = "data"', 'database.small_disk is "data"; expected "wal" or "tables"'),
    ("replicas = 1", "version = 14", "database.version is 14; expected at least 15"),
    ("replicas = 1", "port = 80", "database.port is 80; expected at least 1,024"),
    (
        "replicas = 1",
        "hot_standby_feedback = true",
        "database.hot_standby_feedback is given, but database.replicas is 0; it needs at least 1",
    ),
    (
        "replicas = 1",
        "replication_slot = true",
        "database.replication_slot is given, but database.replicas is 0; it needs at least 1",
    ),
    (
        "replicas = 1",
        "replica_settings.a = 1",
        "database.replica_settings is given, but database.replicas is 0; it needs at least 1",
    ),
    ('"5s" }', '["5s"] }', "database.settings.autovacuum_naptime is an array; expected text, a number, true or false"),
    ('"5s" }', '"5s", Work-Mem = 1 }', "database.settings.Work-Mem: expected a setting's name, like autovacuum_naptime"),
    ('"5s" }', '"5s", port = 1 }', "database.settings.port is set by the bench itself; use database.port"),
    (
        '"5s" }',
        '"5s", log_destination = "csvlog" }',
        "database.settings.log_destination is set by the bench itself; leave it out",
    ),
    ('settings = { autovacuum_naptime = "5s" }', "settings = 3", "database.settings is 3; expected a table"),
]

QUEUE = [
    ('[queue]\nkind = "que"\n', "", 'queue is missing; write it like [queue] kind = "que"'),
    ('kind = "que"', "", 'queue.kind is missing; write it like kind = "que"'),
    ('kind = "que"', "kind = 3", "queue.kind is 3; expected text in quotes"),
    (
        'kind = "que"',
        'kind = "skip-locked"',
        f'queue.kind is "skip-locked"; expected one of {OF_POSTGRES}; did you mean "skip_locked"?',
    ),
    ('kind = "que"', 'kind = "sqs"', f'queue.kind is "sqs"; expected one of {OF_POSTGRES}'),
    ('kind = "que"', 'kind = "que"\nrecheck = "no"', 'queue.recheck is "no"; expected true or false'),
    ('kind = "que"', 'kind = "que"\npriority = 40_000', "queue.priority is 40000; expected at most 32,767"),
    (
        'kind = "que"',
        'kind = "que"\nrechek = false',
        'queue.rechek: unknown key of que; allowed are kind, recheck, queue, priority, claim_after_last, start_over, batch; did you mean "recheck"?',
    ),
    (
        'kind = "que"',
        'kind = "laravel_redis"',
        f'queue.kind is "laravel_redis", which runs on redis, not on postgres; expected one of {OF_POSTGRES}',
    ),
    ('kind = "que"', 'kind = "laravel"\nretry_after = 0', "queue.retry_after is 0; expected at least 1"),
    (
        'kind = "que"',
        'kind = "laravel"\nhint = "primary"',
        'queue.hint is "primary", which postgres does not know; expected "none"',
    ),
    (
        'kind = "que"',
        'kind = "laravel"\nhint = "queue"',
        'queue.hint is "queue"; expected "none" or "queue_index" or "primary"; did you mean "queue_index"?',
    ),
    ('kind = "que"', 'kind = "laravel_optimistic"\nwindow = "3N"', f'queue.window is "3N"; expected {WINDOW}'),
    ('kind = "que"', 'kind = "laravel_optimistic"\nwindow = 0', f"queue.window is 0; expected {WINDOW}"),
    ('kind = "que"', 'kind = "laravel_optimistic"\nwindow = true', f"queue.window is true; expected {WINDOW}"),
    (
        'kind = "que"',
        'kind = "skip_locked"\nrecheck = false',
        "queue.recheck: unknown key of skip_locked; allowed are kind, notify, vacuum_every",
    ),
]

ENGINE = 'replicas = 1\nsettings = { autovacuum_naptime = "5s" }\n\n[queue]\nkind = "que"'
OF_OTHER_ENGINES = [
    (
        'engine = "mariadb"\n\n[queue]\nkind = "laravel"\nhint = "queue_index"\nindex = "none"',
        'queue.hint is "queue_index", but queue.index is "none"',
    ),
    (
        'engine = "sqlite"\n\n[queue]\nkind = "laravel"\nhint = "queue_index"',
        'queue.hint is "queue_index", which sqlite does not know; expected "none"',
    ),
    (
        'engine = "redis"\n\n[queue]\nkind = "laravel"',
        'queue.kind is "laravel", which runs on mariadb, mysql, postgres, sqlite, not on redis; '
        "expected one of fcfs, id_store, laravel_redis, token_store",
    ),
    (
        'engine = "sqlite"\nreplicas = 1\n\n[queue]\nkind = "laravel"',
        "database.replicas is 1, but SQLite has no replicas; expected 0",
    ),
    (
        'engine = "mariadb"\nversion = 17\n\n[queue]\nkind = "laravel"',
        "database.version is for PostgreSQL, but the engine is MariaDB; leave it out",
    ),
    (
        'engine = "mysql"\nreplicas = 1\nsynchronous = true\n\n[queue]\nkind = "laravel"',
        "database.synchronous is for PostgreSQL and MariaDB, but the engine is MySQL; leave it out",
    ),
    (
        'engine = "sqlite"\nsettings = { cache_size = 1 }\n\n[queue]\nkind = "laravel"',
        "database.settings is given, but SQLite has no settings that a scenario can change; leave it out",
    ),
    (
        'engine = "beanstalkd"\n\n[queue]\nkind = "beanstalkd"\ntube = "a b"',
        f'queue.tube is "a b"; expected {NAME}',
    ),
]
"""The small scenario on another engine, without its longrunner, which needs PostgreSQL."""

PHASES = [
    ('duration = "5s"', 'duration = "90 parsecs"', f'phases[1].duration is "90 parsecs"; expected {DURATION}'),
    ('duration = "5s"', "duration = 5", f"phases[1].duration is 5; expected {DURATION}"),
    ('duration = "5s"', 'duration = "-5s"', f'phases[1].duration is "-5s"; expected {DURATION}'),
    ('duration = "5s"', 'duration = "5 s"', f'phases[1].duration is "5 s"; expected {DURATION}'),
    ('duration = "5s"', 'duration = ""', f'phases[1].duration is ""; expected {DURATION}'),
    ('duration = "5s"', 'duration = "0s"', 'phases[1].duration is "0s"; expected more than 0s'),
    ('duration = "5s"', 'duration = "25h"', 'phases[1].duration is "25h"; expected at most 24h'),
    ('duration = "5s"\n', "", 'phases[1].duration is missing; write it like duration = "20s"'),
    ('duration = "5s"', 'duration = "24h"', "phases take 86,411 s together; expected at most 86,400 s, a day"),
    (
        'duration = "5s"',
        'duraton = "5s"',
        [
            'phases[1].duration is missing; write it like duration = "20s"',
            'phases[1].duraton: unknown key; allowed are name, duration, until, jobs, measured, longrunners, faults; did you mean "duration"?',
        ],
    ),
    ('work = "1ms"', 'work = "2h"', 'workers.work is "2h"; expected at most 1h'),
    ('work = "1ms"', 'poll = "0ms"', 'workers.poll is "0ms"; expected more than 0s'),
    ('name = "warmup"', 'name = "run"', 'phases[0].name is "run", which means the whole run; expected another name'),
    ('name = "warmup"', 'name = "Warm up"', f'phases[0].name is "Warm up"; expected {NAME}'),
    (
        'name = "warmup"',
        'name = "baseline"',
        [
            'phases[0].name is "baseline", which is also the name of another phase; expected a different name for each',
            'phases[1].name is "baseline", which is also the name of another phase; expected a different name for each',
        ],
    ),
    ("measured = false", 'measured = "no"', 'phases[0].measured is "no"; expected true or false'),
    (f"longrunners = {IDLE_WRITER}", "longrunners = 3", "phases[2].longrunners is 3; expected an array, like [{ .. }, { .. }]"),
]

LONGRUNNERS = [
    (
        '"idle_writer"',
        '"idle_write"',
        f'{LONGRUNNER}.kind is "idle_write"; expected one of idle_writer, listening_transaction, overlapping_readers, prepared,'
        ' replica_reader, slot, snapshot_reader, stuck_listener; did you mean "idle_writer"?',
    ),
    (', on = "primary" }', ", on = 3 }", f"{LONGRUNNER}.on is 3; expected text in quotes"),
    (
        'on = "primary"',
        'on = "replica-2"',
        f'{LONGRUNNER}.on is "replica-2"; expected one of primary, replica-1; did you mean "replica-1"?',
    ),
    (
        'on = "primary"',
        'on = "replica-1"',
        f'{LONGRUNNER}.on is "replica-1"; expected a primary, where idle_writer runs; there are primary, replica-1',
    ),
    (
        IDLE_WRITER,
        '[{ kind = "replica_reader" }]',
        f'{LONGRUNNER}.on is "primary"; expected a replica, where replica_reader runs; there are primary, replica-1',
    ),
    ('on = "primary"', "each = 3", f"{LONGRUNNER}.each: unknown key of idle_writer; allowed are kind, on, may_be_ended"),
    (
        IDLE_WRITER,
        '[{ kind = "overlapping_readers", reader = 3 }]',
        f"{LONGRUNNER}.reader: unknown key of overlapping_readers; allowed are kind, on, may_be_ended, readers, each;"
        ' did you mean "readers"?',
    ),
    (IDLE_WRITER, '[{ kind = "overlapping_readers", readers = 1 }]', f"{LONGRUNNER}.readers is 1; expected at least 2"),
    (IDLE_WRITER, '[{ kind = "overlapping_readers", each = "2h" }]', f'{LONGRUNNER}.each is "2h"; expected at most 1h'),
    (IDLE_WRITER, '[{ kind = "overlapping_readers", each = 20 }]', f"{LONGRUNNER}.each is 20; expected {DURATION}"),
    (
        IDLE_WRITER,
        '[{ kind = "slot", type = "phisical" }]',
        f'{LONGRUNNER}.type is "phisical"; expected "physical" or "logical"; did you mean "physical"?',
    ),
    (
        IDLE_WRITER,
        '[{ kind = "prepared" }]',
        f'{LONGRUNNER}.kind is "prepared"; expected max_prepared_transactions of at least 1 in database.settings',
    ),
    (
        IDLE_WRITER,
        '[{ kind = "slot", type = "logical" }]',
        f"{LONGRUNNER}.kind is \"slot\"; expected wal_level = 'logical' in database.settings, for a logical slot",
    ),
]

EXPECTATIONS = [
    ("at_least = 5", "at_least = 5\nat_most = 4", "expect[0].at_least is 5, more than at_most, which is 4; no value meets both"),
    ("at_least = 5", "", "expect[0] has no bound; expected at_least, at_most or both"),
    ("at_least = 5", "at_least = nan", "expect[0].at_least is nan; expected a finite number"),
    ("at_least = 5", 'at_least = "5"', 'expect[0].at_least is "5"; expected a number'),
    ("at_least = 5", 'at_least = 5\nbecause = ""', 'expect[0].because is ""; expected text that is not empty'),
    (
        "at_least = 5",
        "at_leats = 5",
        [
            "expect[0].at_leats: unknown key; allowed are metric, phase, relative_to, at_least, at_most, because; did you mean"
            ' "at_least"?',
            "expect[0] has no bound; expected at_least, at_most or both",
        ],
    ),
    (
        '"claim_ms.p95"',
        '"claim_ms.p90"',
        'expect[0].metric is "claim_ms.p90"; expected claim_ms with one of .p50, .p95, .p99, .max, .mean',
    ),
    (
        '"claim_ms.p95"',
        '"claim_ms"',
        'expect[0].metric is "claim_ms"; expected claim_ms with one of .p50, .p95, .p99, .max, .mean',
    ),
    (
        '"claim_ms.p95"',
        '"dead_tuple.max"',
        'expect[0].metric is "dead_tuple.max"; expected a metric that docs/measures.md lists; did you mean "dead_tuples.max"?',
    ),
    ('metric = "claim_ms.p95"\n', "", 'expect[0].metric is missing; write it like metric = "claim_ms.p95"'),
    (
        'phase = "longtx"',
        'phase = "longtxx"',
        'expect[0].phase is "longtxx"; expected one of baseline, longtx; did you mean "longtx"?',
    ),
    (
        'phase = "longtx"',
        'phase = "warmup"',
        'expect[0].phase is "warmup", which is not measured; expected one of baseline, longtx',
    ),
    ('phase = "longtx"', 'phase = "run"', 'expect[0].phase is "run", which is not a phase; leave it out to mean the whole run'),
    (
        'relative_to = "baseline"',
        'relative_to = "base"',
        'expect[0].relative_to is "base"; expected one of baseline, longtx; did you mean "baseline"?',
    ),
    (
        'relative_to = "baseline"',
        'relative_to = "warmup"',
        'expect[0].relative_to is "warmup", which is not measured; expected one of baseline, longtx',
    ),
    (
        'relative_to = "baseline"',
        'relative_to = "longtx"',
        'expect[0].relative_to is "longtx", the phase itself; expected another phase',
    ),
    ("[[expect]]", "[expect]", "expect is a table; expected an array, like [{ .. }, { .. }]"),
]

FAULT = "phases[2].faults[0]"
OF_A_SERVER = "primary, replica-1, replication-replica-1"


def with_fault(fault: str, *lines: str) -> tuple[str, str, list[str]]:
    return f"longrunners = {IDLE_WRITER}", f"faults = [{fault}]", list(lines)


FAULTS: list[Any] = [
    with_fault('{ kind = "down", on = "workers" }', f'{FAULT}.on is "workers"; expected one of {OF_A_SERVER}'),
    with_fault(
        '{ kind = "down", on = "replica-2" }',
        f'{FAULT}.on is "replica-2"; expected one of {OF_A_SERVER}; did you mean "replica-1"?',
    ),
    with_fault(
        '{ kind = "kill", on = "worker-11" }',
        f'{FAULT}.on is "worker-11"; expected one of workers, worker-1, worker-2, producers, producer-1; did you mean "worker-1"?',
    ),
    with_fault('{ kind = "down", after = "1h" }', f"{FAULT}.after is 3600 s, but the phase ends after 10 s; expected less"),
    with_fault(
        '{ kind = "down", after = "2s", for = "9s" }',
        f"{FAULT}.for is 9 s, which ends after the phase; expected at most 8 s, or leave it out",
    ),
    with_fault('{ kind = "down", for = 3 }', f"{FAULT}.for is 3; expected {DURATION}"),
    with_fault('{ on = "primary" }', f'{FAULT}.kind is missing; write it like kind = "latency"'),
    with_fault(
        '{ kind = "latency", latncy = "1s" }',
        f"{FAULT}.latncy: unknown key of latency; allowed are kind, on, after, for, stream, toxicity, latency, jitter;"
        ' did you mean "latency"?',
    ),
    with_fault('{ kind = "latency", toxicity = 1.5 }', f"{FAULT}.toxicity is 1.5; expected at most 1"),
    with_fault('{ kind = "latency", latency = "2m" }', f'{FAULT}.latency is "2m"; expected at most 1m'),
    with_fault('{ kind = "full_disk" }', 'database.small_disk is missing, but full_disk needs it; expected "wal" or "tables"'),
    with_fault('{ kind = "latency", stream = "up" }', f'{FAULT}.stream is "up"; expected "upstream" or "downstream"'),
]


def with_maintenance(task: str, line: str) -> tuple[str, str, str]:
    return 'one."\n', f'one."\nmaintenance = [{task}]\n', f"maintenance[0].{line}"


MAINTENANCE = [
    with_maintenance('{ kind = "watchdg" }', 'kind is "watchdg"; expected one of reindex, watchdog; did you mean "watchdog"?'),
    with_maintenance('{ on = "primary" }', 'kind is missing; write it like kind = "watchdog"'),
    with_maintenance(
        '{ kind = "watchdog", on = "replica-2" }',
        'on is "replica-2"; expected one of primary, replica-1; did you mean "replica-1"?',
    ),
    with_maintenance('{ kind = "reindex", on = "replica-1" }', 'on is "replica-1"; expected one of primary'),
    with_maintenance('{ kind = "watchdog", every = 1 }', f"every is 1; expected {DURATION}"),
    with_maintenance(
        '{ kind = "reindex", older_than = "1s" }', "older_than: unknown key of reindex; allowed are kind, on, every"
    ),
]

TABLE = [*KEYS_AND_TYPES, *DATABASE, *QUEUE, *PHASES, *LONGRUNNERS, *FAULTS, *MAINTENANCE, *EXPECTATIONS]


@pytest.mark.parametrize(
    ("written", "instead", "lines"), TABLE, ids=[f"{number}:{case[1].strip()[:40]}" for number, case in enumerate(TABLE)]
)
def test_an_issue_is_reported_in_one_line(written: str, instead: str, lines: str | list[str], tmp_path: Path) -> None:
    assert SMALL.count(written) == 1, "each case changes one place of the small scenario"
    assert find_lines(tmp_path, SMALL.replace(written, instead)) == ([lines] if isinstance(lines, str) else lines)


def test_an_unknown_key_does_not_hide_what_is_wrong_with_the_whole_table(tmp_path: Path) -> None:
    assert find_lines(tmp_path, SMALL.replace("rate = 500", "raet = 500")) == [
        "producers.raet: unknown key; allowed are kind, count, rate, capacity_share, backlog, payload_bytes, max_batch, users,"
        ' max_failure_ratio; did you mean "rate"?',
        "producers.rate is missing; write it like rate = 500, or as a share, like capacity_share = 0.65",
    ]


def test_a_fault_that_nothing_in_the_scenario_can_have_is_reported(tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "kill", on = "workers" }')
    text = SMALL.replace(written, instead).replace("count = 2", "count = 0").replace("rate = 500", "rate = 0")
    assert find_lines(tmp_path, text) == [
        f'{FAULT}.on is "workers"; expected a worker or producer or scheduler, but the scenario has none'
    ]


def test_an_unknown_kind_of_fault_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "latncy" }')
    (line,) = find_lines(tmp_path, SMALL.replace(written, instead))
    assert line.startswith(f'{FAULT}.kind is "latncy"; expected one of ')
    assert line.endswith('did you mean "latency"?')


FITTING = [
    'engine = "mariadb"\n\n[queue]\nkind = "laravel"\nhint = "primary"\nindex = "none"',
    'engine = "mysql"\n\n[queue]\nkind = "laravel_optimistic"\nhint = "queue_index"\nwindow = "2N"',
    'engine = "redis"\n\n[queue]\nkind = "laravel_redis"\nretry_after = 1',
    'engine = "beanstalkd"\n\n[queue]\nkind = "beanstalkd"\ntube = "jobs"\nttr = 1',
]


def on_other_engine(instead: str) -> str:
    return SMALL.replace(f"longrunners = {IDLE_WRITER}\n", "").replace(ENGINE, instead)


@pytest.mark.parametrize(("instead", "line"), OF_OTHER_ENGINES)
def test_options_are_checked_against_the_engine(instead: str, line: str, tmp_path: Path) -> None:
    assert find_lines(tmp_path, on_other_engine(instead)) == [line]


@pytest.mark.parametrize("instead", FITTING)
def test_options_that_fit_are_accepted(instead: str, tmp_path: Path) -> None:
    read(tmp_path, on_other_engine(instead))
