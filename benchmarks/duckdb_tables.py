"""What DuckDB takes for jobs, windows, percentiles and order of the same records: ``python -m benchmarks.duckdb_tables RUN``.

DuckDB is not among the locked packages: ``.venv/bin/pip install duckdb``. `benchmarks.pipeline` runs this beside the pipeline. It computes the
central tables only, and does not check lines.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from stallbench.records.events import EVENT_COLUMNS, EVENT_NUMBERS
from stallbench.run.record import read_record

_STATEMENTS = (
    """CREATE TABLE jobs AS SELECT job_id,
    min(CASE event WHEN 'enqueued' THEN intended_ns END) AS intended_ns, min(CASE event WHEN 'enqueued' THEN t_ns END) AS enqueued_ns,
    min(CASE event WHEN 'claimed' THEN t_ns END) AS first_claimed_ns, min(CASE event WHEN 'completed' THEN t_ns END) AS first_completed_ns,
    count(CASE event WHEN 'claimed' THEN 1 END) AS claims, count(CASE event WHEN 'completed' THEN 1 END) AS completions,
    max(CASE event WHEN 'worked' THEN t_ns END) AS worked_ns, arg_max(process, t_ns) AS last_process
    FROM events WHERE job_id IS NOT NULL GROUP BY job_id""",
    """CREATE TABLE windows AS SELECT (t_ns - {start_ns}) // 1000000000 AS t_s, event, count(*) AS events,
    quantile_disc(duration_ns, [0.5, 0.95, 0.99]) AS percentiles_ns FROM events GROUP BY ALL""",
    """CREATE TABLE phases AS SELECT phase.name, event, count(*) AS events, avg(duration_ns) AS mean_ns,
    quantile_disc(duration_ns, [0.5, 0.95, 0.99]) AS percentiles_ns
    FROM events JOIN phase ON t_ns >= phase.start_ns AND t_ns < phase.end_ns GROUP BY ALL""",
    """CREATE TABLE latency AS SELECT (first_completed_ns - {start_ns}) // 1000000000 AS t_s,
    quantile_disc(first_completed_ns - intended_ns, [0.5, 0.95, 0.99]) AS percentiles_ns FROM jobs GROUP BY ALL""",
    """CREATE TABLE orders AS SELECT abs(i - job_idx) AS diff, count(*) AS claims FROM (SELECT
    row_number() OVER (ORDER BY enqueued_ns, job_id) AS job_idx, row_number() OVER (ORDER BY first_claimed_ns, job_id) AS i
    FROM jobs WHERE first_claimed_ns IS NOT NULL AND enqueued_ns IS NOT NULL) GROUP BY ALL""",
)


def main() -> None:
    """Compute the tables of the run that the command line names, and write them as Parquet below it."""
    run = Path(sys.argv[1])
    record = read_record(run / "run.json")
    phases = [(phase.name, phase.start_ns, phase.end_ns) for phase in record.phases if phase.start_ns is not None]
    target = run / "duckdb"
    target.mkdir(exist_ok=True)
    columns = {name: "BIGINT" if name in EVENT_NUMBERS else "VARCHAR" for name in EVENT_COLUMNS}
    with duckdb.connect(config={"temp_directory": str(target / "spilled")}) as connection:
        events = connection.read_csv(f"{run}/events/*.csv", header=False, columns=columns, quotechar="")
        events.create("events")
        connection.execute("CREATE TABLE phase (name VARCHAR, start_ns BIGINT, end_ns BIGINT)")
        connection.executemany("INSERT INTO phase VALUES (?, ?, ?)", phases)
        for statement in _STATEMENTS:
            connection.execute(statement.format(start_ns=phases[0][1]))
        for (name,) in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE table_name NOT IN ('events', 'phase')"
        ).fetchall():
            connection.execute(f"COPY {name} TO '{target}/{name}.parquet'")


if __name__ == "__main__":
    main()
