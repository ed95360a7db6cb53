"""What an invalid scenario gets: one line for each issue, with the key, what was found, and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.engines import ENGINES
from stallbench.queues import find_queues
from tests.unit.scenario_text import ALL_KEYS, OF_POSTGRES, SMALL, find_lines, read

NAME = "a name of up to 63 small letters, digits, - and _, the first a letter"
DURATION = 'a number with us, ms, s, m or h, like "90s"'
IDLE_WRITER = '[{ kind = "idle_writer", on = "primary" }]'
WINDOW = 'a whole number from 1 to 100000, "N/2", "N" or "2N"'
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
    ("count = 2", "counts = 2", 'workers.counts: unknown key; allowed are count, work, poll, max_poll; did you mean "count"?'),
    (
        "count = 2",
        "rate = 2",
        'workers.rate: unknown key; allowed are count, work, poll, max_poll; did you mean "producers.rate"?',
    ),
    (
        "count = 2",
        "seed = 2",
        'workers.seed: unknown key; allowed are count, work, poll, max_poll; "seed" belongs above the first [table]',
    ),
    ("count = 2", '"a b\\n" = 2', 'workers."a b\\n": unknown key; allowed are count, work, poll, max_poll'),
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
        f'database.engine is "oracle"; expected one of {", ".join(ENGINES)}',
    ),
    ("replicas = 1", "replicas = 9", "database.replicas is 9; expected at most 3"),
    (
        "replicas = 1",
        'replicas = 1\nsmall_disk = "wal"',
        "database.small_disk is given, but database.replicas is 1; it needs 0",
    ),
    (
        "replicas = 1",
        "replicas = 1\nvolatile_cache = true",
        "database.volatile_cache is given, but database.replicas is 1; it needs 0",
    ),
    (
        "replicas = 1",
        'small_disk = "wal"\nvolatile_cache = true',
        "database.volatile_cache is given, and so is database.small_disk; leave one of them out",
    ),
    ("replicas = 1", 'small_disk = "data"', 'database.small_disk is "data"; expected "wal" or "tables"'),
    ("replicas = 1", "version = 13", "database.version is 13; expected a major version of PostgreSQL from 14 on, like 17"),
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
        f'queue.kind is "skip-locked"; did you mean "skip_locked"? Expected one of {OF_POSTGRES}',
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
    ('kind = "que"', 'kind = "laravel_optimistic"\nwindow = 100001', f"queue.window is 100001; expected {WINDOW}"),
    ('kind = "que"', 'kind = "laravel_optimistic"\nwindow = true', f"queue.window is true; expected {WINDOW}"),
    (
        'kind = "que"',
        'kind = "skip_locked"\nrecheck = false',
        "queue.recheck: unknown key of skip_locked; allowed are kind, notify, notification, listen, listeners, listen_jitter, vacuum_every",
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
        f"expected one of {', '.join(kind for kind, queue in find_queues().items() if 'redis' in queue.engines)}",
    ),
    (
        'engine = "sqlite"\nreplicas = 1\n\n[queue]\nkind = "laravel"',
        "database.replicas is 1, but SQLite has no replicas; expected 0",
    ),
    (
        'engine = "mariadb"\nversion = "ten"\n\n[queue]\nkind = "laravel"',
        'database.version is ten; expected a version of MariaDB, like "10.11" or "9"',
    ),
    (
        'engine = "mariadb"\nversion = "10.11"\npackaged = true\n\n[queue]\nkind = "laravel"',
        "database.packaged is for PostgreSQL, but the engine is MariaDB; leave it out",
    ),
    (
        'engine = "mariadb"\npooler = "session"\n\n[queue]\nkind = "laravel"',
        "database.pooler is for PostgreSQL, but the engine is MariaDB; leave it out",
    ),
    (
        'engine = "redis"\nversion = "7"\n\n[queue]\nkind = "laravel_redis"',
        "database.version is for PostgreSQL and MariaDB and MySQL, but the engine is Redis; leave it out",
    ),
    (
        'engine = "postgres"\npackaged = true\n\n[queue]\nkind = "laravel"',
        "database.packaged is true, but there is no database.version; give the version, like 17",
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
            'phases[1].duraton: unknown key; allowed are name, duration, until, jobs, measured, longrunners, faults, chaos; did you mean "duration"?',
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

TABLE = [*KEYS_AND_TYPES, *DATABASE, *QUEUE, *PHASES]


@pytest.mark.parametrize(
    ("written", "instead", "lines"), TABLE, ids=[f"{number}:{case[1].strip()[:40]}" for number, case in enumerate(TABLE)]
)
def test_an_issue_is_reported_in_one_line(written: str, instead: str, lines: str | list[str], tmp_path: Path) -> None:
    assert SMALL.count(written) == 1, "each case changes one place of the small scenario"
    assert find_lines(tmp_path, SMALL.replace(written, instead)) == ([lines] if isinstance(lines, str) else lines)


def test_an_unknown_key_does_not_hide_what_is_wrong_with_the_whole_table(tmp_path: Path) -> None:
    assert find_lines(tmp_path, SMALL.replace("rate = 500", "raet = 500")) == [
        "producers.raet: unknown key; allowed are kind, count, rate, capacity_share, backlog, payload_bytes, payload_content,"
        ' max_batch, linger, key_every, connection_per_call, users, max_failure_ratio; did you mean "rate"?',
        "producers.rate is missing; write it like rate = 500, or as a share, like capacity_share = 0.65",
    ]


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
