"""What a scenario gets whose longrunners, faults or maintenance are invalid: one line for each issue, as everywhere in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longrunners import find_longrunners
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.queues.crash_points import CrashPoint
from tests.unit.scenario_text import SMALL, find_lines, read

DURATION = 'a number with us, ms, s, m or h, like "90s"'
OF_POSTGRES = ", ".join(name for name, kind in find_maintenance_kinds().items() if "postgres" in kind.engines)
IDLE_WRITER = '[{ kind = "idle_writer", on = "primary" }]'
LONGRUNNER = "phases[2].longrunners[0]"

LONGRUNNERS = [
    (
        '"idle_writer"',
        '"idle_write"',
        f'{LONGRUNNER}.kind is "idle_write"; expected one of {", ".join(find_longrunners())}; did you mean "idle_writer"?',
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
        f"{LONGRUNNER}.reader: unknown key of overlapping_readers; allowed are kind, on, may_be_ended, readers, each, at_once;"
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
    with_fault('{ kind = "notify_trigger", on = "replica-1" }', f'{FAULT}.on is "replica-1"; expected one of primary'),
    with_fault('{ kind = "autovacuum_starvation", on = "replica-1" }', f'{FAULT}.on is "replica-1"; expected one of primary'),
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
    with_fault('{ kind = "power_loss" }', "database.volatile_cache is missing, but power_loss needs it; expected true"),
    with_fault('{ kind = "full_disk" }', 'database.small_disk is missing, but full_disk needs it; expected "wal" or "tables"'),
    with_fault(
        '{ kind = "crash_point", on = "workers", at = "after_clam" }',
        f'{FAULT}.at is "after_clam"; expected one of {", ".join(CrashPoint)}; did you mean "after_claim"?',
    ),
    with_fault(
        '{ kind = "crash_point", on = "workers", at = "after_claim", every_nth = 2, probability = 0.5 }',
        f"{FAULT}.probability is given beside every_nth; expected one of the two",
    ),
    with_fault(
        '{ kind = "crash_point", on = "producers", at = "after_claim" }',
        f'{FAULT}.on is "producers", which does not pass after_claim; expected workers or one of them, like worker-1',
    ),
    with_fault(
        '{ kind = "deploy", on = "workers", ready_for = "1s" }',
        f"{FAULT}.ready_for is given without a surge; expected surge = 1 or more beside it",
    ),
    with_fault(
        '{ kind = "deploy", on = "workers", surge = 2, at_a_time = 2 }',
        f"{FAULT}.at_a_time is given beside a surge; expected one of the two",
    ),
    with_fault(
        '{ kind = "deploy", on = "workers", restart_jitter = true }',
        f"{FAULT}.restart_jitter is given without restart_after; expected the delay before the first restart beside it",
    ),
    with_fault(
        '{ kind = "deploy", on = "workers", max_restart_after = "8s" }',
        f"{FAULT}.max_restart_after is given without restart_after; expected the delay before the first restart beside it",
    ),
    with_fault(
        '{ kind = "idle_connections", count = 3, leave_free = 3 }',
        f"{FAULT}.leave_free is given beside a count; expected one of the two",
    ),
    with_fault(
        '{ kind = "idle_connections", limit = 3, leave_free = 3 }',
        f"{FAULT}.leave_free is given beside a limit; expected one of the two",
    ),
    with_fault('{ kind = "latency", stream = "up" }', f'{FAULT}.stream is "up"; expected "upstream" or "downstream" or "both"'),
]


def with_maintenance(task: str, line: str) -> tuple[str, str, str]:
    return 'one."\n', f'one."\nmaintenance = [{task}]\n', f"maintenance[0].{line}"


MAINTENANCE = [
    with_maintenance(
        '{ kind = "watchdg" }',
        f'kind is "watchdg"; expected one of {OF_POSTGRES}; did you mean "watchdog"?',
    ),
    with_maintenance('{ on = "primary" }', 'kind is missing; write it like kind = "watchdog"'),
    with_maintenance(
        '{ kind = "watchdog", on = "replica-2" }',
        'on is "replica-2"; expected one of primary, replica-1; did you mean "replica-1"?',
    ),
    with_maintenance('{ kind = "reindex", phase = "onyl" }', 'phase is "onyl"; expected one of warmup, baseline, longtx'),
    with_maintenance('{ kind = "reindex", after = "1s" }', "after is given without a phase; add phase, or leave it out"),
    with_maintenance('{ kind = "reindex", on = "replica-1" }', 'on is "replica-1"; expected one of primary'),
    with_maintenance('{ kind = "watchdog", every = 1 }', f"every is 1; expected {DURATION}"),
    with_maintenance(
        '{ kind = "reindex", older_than = "1s" }',
        "older_than: unknown key of reindex; allowed are kind, on, phase, after, every, remove_leftovers, statement_timeout",
    ),
]

TABLE = [*LONGRUNNERS, *FAULTS, *MAINTENANCE]


@pytest.mark.parametrize(
    ("written", "instead", "lines"), TABLE, ids=[f"{number}:{case[1].strip()[:40]}" for number, case in enumerate(TABLE)]
)
def test_an_issue_is_reported_in_one_line(written: str, instead: str, lines: str | list[str], tmp_path: Path) -> None:
    assert SMALL.count(written) == 1, "each case changes one place of the small scenario"
    assert find_lines(tmp_path, SMALL.replace(written, instead)) == ([lines] if isinstance(lines, str) else lines)


def test_a_fault_that_nothing_in_the_scenario_can_have_is_reported(tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "kill", on = "workers" }')
    text = SMALL.replace(written, instead).replace("count = 2", "count = 0").replace("rate = 500", "rate = 0")
    assert find_lines(tmp_path, text) == [
        f'{FAULT}.on is "workers"; expected a worker or producer or scheduler, but the scenario has none'
    ]


def test_a_crash_point_that_no_process_of_the_scenario_passes_is_reported(tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "crash_point", on = "workers", at = "before_claim_acknowledged" }')
    text = SMALL.replace(written, instead).replace('kind = "que"', 'kind = "library:procrastinate"')
    (line,) = find_lines(tmp_path, text)
    assert line == (
        f'{FAULT}.at is "before_claim_acknowledged", a moment inside of a call of Procrastinate, whose own worker does not show it; '
        "expected one of after_claim, during_work, before_completion, after_completion_acknowledged, or a point of producers"
    )
    written, instead, _ = with_fault('{ kind = "crash_point", on = "workers", at = "after_claim", in_turn = true }')
    text = SMALL.replace(written, instead).replace('kind = "que"', 'kind = "library:procrastinate"')
    (line,) = find_lines(tmp_path, text)
    assert line == (
        f"{FAULT}.in_turn is true, which is for points inside of calls, but library:procrastinate has a worker of its own, "
        "which does not pass these; expected every_nth or probability"
    )
    written, instead, _ = with_fault('{ kind = "crash_point", on = "producers", at = "after_enqueue_acknowledged" }')
    text = SMALL.replace(written, instead).replace("rate = 500", 'kind = "locust"\nrate = 500')
    (line,) = find_lines(tmp_path, text)
    assert line.startswith(f'{FAULT}.at is "after_enqueue_acknowledged", which Locust\'s users do not pass')


@pytest.mark.parametrize(
    "queue", ["library:celery", "que", "shared_table"], ids=["library", "queue without keys", "queue with named queues"]
)
def test_keys_of_jobs_that_the_queue_does_not_use_are_reported(queue: str, tmp_path: Path) -> None:
    text = SMALL.replace("rate = 500", 'rate = 500\nkey_every = "100ms"').replace('"que"', f'"{queue}"')
    assert find_lines(tmp_path, text) == [
        f"producers.key_every is given, but the bench enqueues jobs in {queue} without keys, so that none would be refused as a duplicate;"
        " leave it out, or set queue.kind to one of periodic_jobs, staged_jobs, unique_jobs, library:graphile_worker, library:pg_boss, library:pgqueuer,"
        " library:procrastinate, library:river"
    ]


@pytest.mark.parametrize("queue", ["periodic_jobs", "unique_jobs", "library:river"])
def test_keys_of_jobs_that_the_queue_uses_are_accepted(queue: str, tmp_path: Path) -> None:
    read(tmp_path, SMALL.replace("rate = 500", 'rate = 500\nkey_every = "100ms"').replace('"que"', f'"{queue}"'))


def test_keys_of_jobs_in_batches_of_a_library_are_reported(tmp_path: Path) -> None:
    text = SMALL.replace("rate = 500", 'rate = 500\nmax_batch = 2\nkey_every = "100ms"').replace('"que"', '"library:river"')
    assert find_lines(tmp_path, text) == [
        "producers.max_batch is more than 1, and there are keys: a library refuses single jobs, of which its answer to a batch says nothing;"
        " leave it out"
    ]


def test_keys_of_jobs_that_locust_enqueues_are_reported(tmp_path: Path) -> None:
    text = SMALL.replace("rate = 500", 'kind = "locust"\nrate = 500\nkey_every = "1s"').replace('"que"', '"unique_jobs"')
    assert find_lines(tmp_path, text) == [
        "producers.key_every is given, but a user of Locust enqueues jobs without keys; leave it out"
    ]


@pytest.mark.parametrize("queue", ["library:celery", "que", "unique_jobs"])
def test_a_burst_into_a_queue_that_the_table_does_not_have_is_reported(queue: str, tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "burst", on = "producers", at_once = 9, queue = "noisy" }')
    assert find_lines(tmp_path, SMALL.replace(written, instead).replace('"que"', f'"{queue}"')) == [
        f'{FAULT}.queue is "noisy", but the bench enqueues all jobs in {queue} in one queue; leave it out, or set queue.kind to shared_table, '
        "library:oban, library:pg_boss, library:pgqueuer, library:procrastinate, library:river"
    ]
    read(tmp_path, SMALL.replace(written, instead.replace("noisy", "default")).replace('"que"', f'"{queue}"'))
    read(tmp_path, SMALL.replace(written, instead).replace('"que"', '"shared_table"'))


@pytest.mark.parametrize(
    ("options", "name", "problem"),
    [
        ("", "noisy", "the workers serve the default queue only; add second_queue = true to [queue]"),
        ("\nsecond_queue = true", "loud", "the second queue is called noisy; expected that"),
    ],
)
def test_a_burst_into_a_queue_that_the_workers_of_a_library_do_not_serve_is_reported(
    options: str, name: str, problem: str, tmp_path: Path
) -> None:
    written, instead, _ = with_fault(f'{{ kind = "burst", on = "producers", at_once = 9, queue = "{name}" }}')
    text = SMALL.replace(written, instead).replace('"que"', f'"library:river"{options}')
    assert find_lines(tmp_path, text) == [f'{FAULT}.queue is "{name}", but {problem}']
    read(
        tmp_path, SMALL.replace(written, instead.replace(name, "noisy")).replace('"que"', '"library:river"\nsecond_queue = true')
    )


def test_a_clock_that_cannot_be_changed_is_reported(tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "clock_skew", on = "worker-1", ahead = "8s" }')
    text = SMALL.replace(written, instead)
    assert find_lines(tmp_path, text.replace('"que"', '"library:river"')) == [
        f'{FAULT}.kind is "clock_skew", but the workers of library:river are programs in Go, which ask the kernel for the time,'
        " where the bench cannot change it; leave it out, or set queue.kind to another queue"
    ]
    assert read(tmp_path, text.replace('"que"', '"library:procrastinate"')).queue.kind == "library:procrastinate"


def test_connections_that_a_library_opens_itself_are_reported(tmp_path: Path) -> None:
    text = SMALL.replace("rate = 500", "rate = 500\nconnection_per_call = true").replace(
        'kind = "que"', 'kind = "library:procrastinate"'
    )
    assert find_lines(tmp_path, text) == [
        "producers.connection_per_call is true, but library:procrastinate opens and keeps its own connections; leave it out"
    ]


def test_an_unknown_kind_of_fault_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    written, instead, _ = with_fault('{ kind = "latncy" }')
    (line,) = find_lines(tmp_path, SMALL.replace(written, instead))
    assert line.startswith(f'{FAULT}.kind is "latncy"; expected one of ')
    assert line.endswith('did you mean "latency"?')
