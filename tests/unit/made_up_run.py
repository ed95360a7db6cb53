"""A made-up run, for tests of verdicts, attribution and report: each test states only what matters to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from stallbench.pipeline.tables import MADE_WHOLE
from stallbench.run.sampling import collectors_for
from stallbench.scenario.file import read_scenario
from stallbench.verdicts import Finding, RunTables, find_checks

START_NS = 1_800_000_000_000_000_000
PHASES = (("baseline", 0, 20), ("longtx", 20, 60), ("recovered", 60, 80))

PRIMARY: dict[str, Any] = {
    "name": "primary",
    "role": "primary",
    "engine": "postgres",
    "version": "18.4",
    "settings": {},
    "start_ns": 1,
    "end_ns": 2,
    "port": 1,
    "proxy_port": 2,
}
"""A server as ``run.json`` has it."""


def make_record(**changes: Any) -> dict[str, Any]:
    """Return a ``run.json`` of a completed run of `longtx` without expectations; ``changes`` replace its keys."""
    return {
        "format": 2,
        "id": "20300101T000000Z-longtx",
        "status": "completed",
        "reason": "",
        "bench": {"version": "0", "pid": 1, "process_started_s": 0.0},
        "seed": 1,
        "scenario": deepcopy(_read_longtx()),
        "queue": {
            "kind": "que",
            "options": {},
            "promise": "at_least_once",
            "ordered": True,
            "tables": ["que_jobs"],
            "indexes": [],
            "summary": "a queue",
            "source": "nowhere",
        },
        "collectors": list(collectors_for("postgres")),
        "versions": {"python": "3"},
        "host": {"cpus": 2, "cpu_model": "cpu", "memory_bytes": 2**30, "kernel": "6", "os": "Debian"}
        | {"disk_free_bytes": 2**40, "boot_id": "boot"},
        "servers": [],
        "phases": [
            {
                "name": name,
                "measured": True,
                "planned_start_s": from_s,
                "planned_duration_s": to_s - from_s,
                "start_ns": START_NS + from_s * 10**9,
                "end_ns": START_NS + to_s * 10**9,
            }
            for name, from_s, to_s in PHASES
        ],
        "injections": [],
        "processes": [make_process("worker-1")],
        "notes": [],
        **changes,
    }


@cache
def _read_longtx() -> dict[str, Any]:
    return read_scenario("longtx", overrides=["expect=[]", "producers.rate=100"]).model_dump(mode="json")


def make_fault(phase: str, *, active_to_end: bool | None = True) -> dict[str, Any]:
    """Return the record of a black hole of five seconds in a phase, 10 s after the run's start."""
    start_ns = START_NS + 10 * 10**9
    return {
        "name": "timeout-1",
        "category": "fault",
        "kind": "timeout",
        "on": "primary",
        "phase": phase,
        "start_ns": start_ns,
        "verified_ns": start_ns,
        "end_ns": start_ns + 5 * 10**9,
        "verified_gone_ns": start_ns + 5 * 10**9,
        "evidence": {"toxic": "timeout"},
        "active_to_end": active_to_end,
        "why_ended": "" if active_to_end else "Toxiproxy no longer has it",
    }


def make_process(name: str, **changes: Any) -> dict[str, Any]:
    """Return the record of a process that ended as it should; its role is its name up to the number."""
    known = {"name": name, "role": name.partition("-")[0], "pid": 1, "start_ns": START_NS, "end_ns": START_NS + 1}
    return {**known, "intended": "stopped", "exit_code": 0, **changes}


def make_windows(dead_at: Any, claim_ms_at: Any) -> pd.DataFrame:
    """Return a row a second; ``dead_at`` and ``claim_ms_at`` are functions of the second."""
    rows = []
    for name, from_s, to_s in PHASES:
        for t_s in range(from_s, to_s):
            claim_ms = claim_ms_at(t_s)
            rows.append(
                {
                    "t_s": t_s,
                    "t_ns": START_NS + t_s * 10**9,
                    "phase": name,
                    "enqueued": 100,
                    "claimed": 100,
                    "completed": 100,
                    "claim_ms_p50": claim_ms,
                    "claim_ms_p95": claim_ms and 2 * claim_ms,
                    "latency_ms_p50": 5.0,
                    "latency_ms_p95": 9.0,
                    "depth": 1.0,
                    "dead_tuples": dead_at(t_s),
                    "oldest_transaction_s": 0.0,
                    "enqueue_ms_p95": 2.0,
                    "notify_lock_waits": 0.0,
                    "deadlocks_count": 0.0,
                }
            )
    return pd.DataFrame(rows)


def make_phases(values: dict[tuple[str, str], float], counts: dict[tuple[str, str], int] | None = None) -> pd.DataFrame:
    """Return the table of phases from values by phase and metric; where they are not given, the load is as intended and all jobs are completed.

    ``counts``: of events or samples behind a value; 1 where it is not given.
    """
    known = counts or {}
    given = {(name, "enqueued.rate"): 100.0 for name, _, _ in PHASES} | {("run", "completed.count"): 8000.0} | values
    rows = [
        {
            "phase": phase,
            "measure": metric.split(".")[0],
            "statistic": metric.split(".")[1],
            "value": value,
            "count": known.get((phase, metric), 1),
        }
        for (phase, metric), value in given.items()
    ]
    return pd.DataFrame(rows)


EMPTY = {
    "duplicates": ["job_id", "executions", "completions", "processes", "excused", "reason", "attempts", "attempts_ascend"],
    "holders": [
        "server",
        "holder",
        "kind",
        "pid",
        "application",
        "state",
        "via",
        "catalog_only",
        "from_s",
        "to_s",
        "max_age_s",
        "max_age_xids",
        "oldest_s",
        "longrunner",
    ],
    "stuck_clients": ["server", "session", "pid", "application", "state", "from_s", "to_s", "stuck_s", "longrunner"],
    "vacuum_waits": ["table", "from_s", "to_s", "waited_s", "starved_s", "workers", "busy_with"],
    "statements": ["phase", "statement", "calls", "total_ms", "row_count", "buffers"],
    "injections": ["name", "category", "kind", "target", "phase", "from_s", "to_s"],
    "recoveries": [
        "fault",
        "phase",
        "end_s",
        "to_first_completion_s",
        "to_rate_s",
        "to_empty_backlog_s",
        "next_change",
        "next_change_s",
        "lost",
        "re_completed",
        "re_executed",
        "errors",
    ],
    "rounds": ["round", "jobs"],
    "overdue": ["kind", "jobs", "examples", "longest_s"],
    "waiting": ["rule", "jobs", "claimed", "broken", "examples"],
    "errors": ["phase", "latest_phase", "process", "event", "kind", "operation", "faults", "count"],
}


def write_samples(folder: Path, *, failing: str = "", failed: int = 3, missing: str = "") -> None:
    """Write what the collectors of PostgreSQL leave, three samples each.

    Of the collector called ``failing`` the first ``failed`` samples failed; ``missing`` has no file.
    """
    samples = folder / "samples"
    samples.mkdir(exist_ok=True)
    names = list(collectors_for("postgres"))
    cost = [
        f"{START_NS + second * 10**9},collector,collector:{name},failures,{min(second + 1, failed) if name == failing else 0}\n"
        for second in range(3)
        for name in names
    ]
    (samples / "own_cost.csv").write_text("".join(cost))
    for name in names:
        if name == missing:
            (samples / f"{name}.csv").unlink(missing_ok=True)
        else:
            (samples / f"{name}.csv").touch()
    if "horizon" not in (failing, missing):
        (samples / "horizon.csv").write_text(sample_horizon(range(PHASES[-1][2] + 1)))


def sample_horizon(seconds: Iterable[float]) -> str:
    """Return the samples of a horizon that nothing holds, taken at these seconds of the run."""
    return "".join(f"{START_NS + round(second * 10**9)},primary,server,holders,0\n" for second in seconds)


def make_run(folder: Path, record: dict[str, Any] | None = None, **tables: pd.DataFrame) -> RunTables:
    """Write a run into ``folder``: ``record`` (or a sound one) and ``tables``, with sound ones for those not given."""
    (folder / "run.json").write_text(json.dumps(record or make_record()))
    write_samples(folder)
    given = {name: _to_parquet(table) for name, table in tables.items()}
    for name, content in {**_sound_tables(), **given}.items():
        (folder / "tables" / name).mkdir(parents=True)
        (folder / "tables" / name / "part.parquet").write_bytes(content)
        (folder / "tables" / name / MADE_WHOLE).touch()
    return RunTables(folder)


@cache
def _sound_tables() -> Mapping[str, bytes]:
    """The tables of a sound run, as files: hundreds of tests write the same."""
    tables = {
        "windows": make_windows(lambda _: 0.0, lambda _: 1.0),
        "phases": make_phases({("run", "order_diff.max"): 3.0, ("run", "order_diff.p99"): 0.0}),
        "conservation": pd.DataFrame([{"state": state, "jobs": 8000, "examples": []} for state in ("enqueued", "completed")]),
        "order": pd.DataFrame({"diff": [0, 3], "claims": [99, 1]}),
        "torn": pd.DataFrame({"file": ["worker-1.csv"], "lines": [10], "torn_lines": [0], "last_line_torn": [False]}),
        **{name: pd.DataFrame(columns=columns) for name, columns in EMPTY.items()},
    }
    return {name: _to_parquet(table) for name, table in tables.items()}


def _to_parquet(table: pd.DataFrame) -> bytes:
    file = BytesIO()
    table.to_parquet(file)
    return file.getvalue()


def make_record_with_expectation(**expectation: Any) -> dict[str, Any]:
    """Return the record of a sound run whose scenario has one expectation."""
    record = make_record()
    whole = {"phase": None, "relative_to": None, "at_least": None, "at_most": None, "because": None, **expectation}
    record["scenario"]["expect"] = [whole]
    return record


def find_of(run: RunTables, check: str) -> Finding:
    """Return the only finding of ``check``."""
    (finding,) = find_checks()[check]().judge(run)
    return finding


LIBRARY = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "another worker"}


def record_of_a_death(**queue: Any) -> dict[str, Any]:
    """Return the record of a run in which a worker was killed; ``queue`` replaces what its queue declares."""
    record = make_record(processes=[make_process("worker-1", exit_code=-9, intended="killed")])
    record["queue"] |= {"claims_survive_connection": False, **queue}
    return record


def make_overdue(kind: str, jobs: int) -> pd.DataFrame:
    """Return the table of overdue jobs with one kind."""
    return pd.DataFrame([{"kind": kind, "jobs": jobs, "examples": [7], "longest_s": 3.0}])
