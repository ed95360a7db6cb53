"""Makes the tables of a run. Start reading at `write_tables`; `make_tables` calls it in a new Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pandas as pd
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from stallbench.errors import BadInputError
from stallbench.pipeline.call_errors import make_errors
from stallbench.pipeline.claim_growth import count_parts, make_growth_metrics
from stallbench.pipeline.conservation import Unrecorded, count_fates, count_unrecorded, make_conservation, make_lost_metric
from stallbench.pipeline.duplicates import (
    events_of_duplicates,
    find_executions,
    is_duplicate,
    make_duplicates,
    re_executions,
    second_completions,
)
from stallbench.pipeline.early_claims import find_preconditions, make_waiting
from stallbench.pipeline.failures import PipelineError, RunFolderError, explain
from stallbench.pipeline.frames import join_rows
from stallbench.pipeline.holders import make_holders
from stallbench.pipeline.injections import make_injections
from stallbench.pipeline.job_states import make_jobs
from stallbench.pipeline.jobs_by_time import count_jobs
from stallbench.pipeline.measurements import measure_events
from stallbench.pipeline.order import make_order, make_order_metrics, observe_order
from stallbench.pipeline.overdue import make_overdue
from stallbench.pipeline.paths import find_local_folder, name_folder, read_whole_text
from stallbench.pipeline.phases import make_phases
from stallbench.pipeline.positions import choose_partitions
from stallbench.pipeline.ratios import make_ratios
from stallbench.pipeline.read import Records, in_one_task, make_torn, read_records
from stallbench.pipeline.recoveries import list_ended_faults, list_moments, make_recoveries, make_recovery_metrics
from stallbench.pipeline.reused_ids import separate_jobs
from stallbench.pipeline.rounds import make_round_metrics, make_rounds, observe_rounds
from stallbench.pipeline.run_size import estimate_events, is_small
from stallbench.pipeline.s3a import add_s3a, find_credentials, is_s3a
from stallbench.pipeline.sample_figures import summarize_samples
from stallbench.pipeline.session import fit_to, open_session
from stallbench.pipeline.spark_options import LOCAL
from stallbench.pipeline.stalls import make_stalls
from stallbench.pipeline.statement_costs import make_statements
from stallbench.pipeline.statistics import summarize_events
from stallbench.pipeline.stuck_clients import make_stuck_clients
from stallbench.pipeline.table_writer import TableWriter
from stallbench.pipeline.time_axis import TimeAxis, make_time_axis
from stallbench.pipeline.unrecorded_enqueues import explain_unrecorded
from stallbench.pipeline.vacuum_waits import make_vacuum_waits
from stallbench.pipeline.windows import make_windows
from stallbench.records.events import Event
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.sealing import seal
from stallbench.run.record import RunRecord, parse_record

_MOST_DAYS = 31
"""A run whose records are further apart than that has a damaged time."""


def make_tables(run_folder: str | Path, *, master: str = LOCAL, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """Make all tables of a run from its records, in ``tables/`` of its folder, in place of those that are there.

    ``run_folder``: a local path, or an address on any file system that Spark reads. ``master``: Spark's master. ``settings``: Spark's, from the
    user. Raises `RunFolderError` if the folder is not a run's, `PipelineError` if Spark cannot do it,
    `stallbench.setup.components.MissingComponentError` without Java.
    """
    environment: Mapping[str, str] = {}
    if is_s3a(str(run_folder)):
        settings, environment = add_s3a(settings), find_credentials()
    with (
        _sealing_meanwhile(run_folder),
        open_session(master, small=is_small(run_folder), settings=settings, environment=environment) as spark,
    ):
        try:
            write_tables(spark, run_folder)
        except (PySparkException, Py4JError) as error:
            raise PipelineError(f"{run_folder}: its tables could not be made: {explain(error)}") from None


@contextmanager
def _sealing_meanwhile(run_folder: str | Path) -> Iterator[None]:
    """Seal the records of a run on this machine while Java starts. Who reads them waits for that, and reports what went wrong."""
    with ThreadPoolExecutor(1, thread_name_prefix="seal") as pool:
        if (folder := find_local_folder(name_folder(run_folder))) is not None:
            pool.submit(seal, folder)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run while its tables are made."""

    spark: SparkSession
    record: RunRecord
    records: Records
    axis: TimeAxis
    jobs: DataFrame
    """The table, read back."""
    claimed: int
    """How many jobs were claimed."""
    executions: DataFrame | None
    """Of jobs that were executed or completed more than once, if there are any: all their executions,"""
    repeated: DataFrame | None
    """those but the first,"""
    again: DataFrame | None
    """and the second completions."""
    preconditions: DataFrame | None
    """What jobs had to wait for, if any had."""


def write_tables(spark: SparkSession, run_folder: str | Path) -> None:
    """Make all tables of a run in an existing session; raises as `make_tables` does.

    The counts of the records show what a run does not have (duplicates, errors, faults, ...). Queries for these are left out, because for a small
    run the planning of a query takes as long as its data.
    """
    folder = name_folder(run_folder)
    fit_to(spark, estimate_events(run_folder))
    with TableWriter(spark, folder) as writer:
        reading = writer.pool.submit(read_records, spark, folder)
        record = _read_record(spark, folder, str(run_folder))
        records = reading.result()
        _require_possible_times(records, str(run_folder))
        axis = make_time_axis(record, records.first_ns, records.last_ns)
        fit_to(spark, records.event_count)
        writing_jobs, seen = _start_jobs(writer, record, records)
        _write_tables_of_records(writer, record, records, axis)
        writing_jobs.result()
        if seen.get["enqueued"] < records.count_events(Event.ENQUEUED):
            # Several jobs had the same id. That is rare, and only the table shows it, so it is written once more.
            records = replace(records, events=separate_jobs(records.events).persist())
            writing_jobs, seen = _start_jobs(writer, record, records)
            writing_jobs.result()
        jobs = in_one_task(writer.read_back("jobs"), records.line_count)
        run = _find_repetitions(spark, record, records, axis, jobs, seen)
        faults = list_ended_faults(record, axis)
        counting = writer.pool.submit(
            count_jobs, jobs, axis, moments=list_moments(faults), again=run.again, repeated=run.repeated
        )
        metrics = [*_write_tables_of_jobs(writer, run), *_write_tables_of_some_runs(writer, run)]
        by_time = counting.result()
        writer.collect("overdue", lambda: make_overdue(by_time, records.events, jobs, record, axis, run.preconditions))
        figures = _make_figures(run)
        windows = make_windows(figures, axis, records.first_ns)
        writer.put("windows", windows)
        recoveries = make_recoveries(faults, record, axis, by_time=by_time, windows=windows)
        writer.put("recoveries", recoveries)
        phases = make_phases(figures, axis)
        of_phases = [
            phases,
            make_ratios(phases),
            make_stalls(windows, by_time.changes, axis),
            make_recovery_metrics(recoveries),
            *(find() for find in metrics),
        ]
        writer.put("phases", join_rows(of_phases))
    spark.catalog.clearCache()


def _require_possible_times(records: Records, name: str) -> None:
    """Refuse a run with a damaged time: the tables have a row for each second between the first and the last record."""
    timed = [
        (file.first_ns, file.last_ns, file.name)
        for file in records.files
        if file.first_ns is not None and file.last_ns is not None
    ]
    if not timed:
        return
    first_ns, _, first = min(timed)
    last_ns, last = max((last_ns, file) for _, last_ns, file in timed)
    days = (last_ns - first_ns) / NS_PER_S / 86_400
    if days > _MOST_DAYS:
        raise RunFolderError(
            f"{name}: its records are of {days:,.0f} days, from {first} to {last}; a run has at most {_MOST_DAYS}, so a time in one of "
            "these files is damaged"
        )


def _start_jobs(writer: TableWriter, record: RunRecord, records: Records) -> tuple[Future[None], Observation]:
    """Start to write the table of jobs; returns what to wait for, and what is counted meanwhile."""
    seen = Observation()
    return writer.start("jobs", lambda: _observe(make_jobs(records, record), seen), rows=records.event_count // 4), seen


def _write_tables_of_records(writer: TableWriter, record: RunRecord, records: Records, axis: TimeAxis) -> None:
    """Write the tables that need no job."""
    samples = records.sampled
    has_errors = records.count_events(Event.ERROR, Event.RETRIED) > 0
    writer.put("torn", make_torn(records))
    writer.put("injections", make_injections(record, axis))
    writer.collect("errors", lambda: make_errors(records.events, axis, record) if has_errors else ())
    writer.put("holders", make_holders(samples, record, axis) if records.has_holders else ())
    writer.put("stuck_clients", make_stuck_clients(samples, record, axis) if records.has_stuck_clients else ())
    writer.put("statements", make_statements(samples, axis) if records.has_statements else ())
    writer.put("vacuum_waits", make_vacuum_waits(samples, axis) if records.has_overdue_vacuums else ())


def _find_repetitions(
    spark: SparkSession, record: RunRecord, records: Records, axis: TimeAxis, jobs: DataFrame, seen: Observation
) -> _Run:
    """Collect the run's tables, with the repeated executions and the second completions of jobs."""
    executions = repeated = again = None
    if seen.get["duplicates"]:
        of_duplicates = events_of_duplicates(records.events, jobs, seen.get["duplicates"]).persist()
        executions, again = find_executions(of_duplicates, record), second_completions(of_duplicates)
        repeated = re_executions(executions)
    return _Run(
        spark=spark,
        record=record,
        records=records,
        axis=axis,
        jobs=jobs,
        claimed=seen.get["claimed"],
        executions=executions,
        repeated=repeated,
        again=again,
        preconditions=find_preconditions(records.events).persist() if records.has_preconditions else None,
    )


def _make_figures(run: _Run) -> pd.DataFrame:
    """Return the figures of everything that was measured, in each second and each interval."""
    measurements = measure_events(
        run.records, jobs=run.jobs, executions=run.executions, again=run.again, preconditions=run.preconditions
    )
    return join_rows([summarize_events(measurements, run.axis), summarize_samples(run.records.sampled, run.axis)])


def _write_tables_of_jobs(writer: TableWriter, run: _Run) -> Iterator[Callable[[], pd.DataFrame]]:
    """Write the tables that every run has of its jobs; yields how to get their rows of ``phases``."""

    def conserve() -> pd.DataFrame:
        fates = count_fates(run.jobs)
        unrecorded = explain_unrecorded(run.jobs, run.records, run.record) if count_unrecorded(fates) else Unrecorded()
        refused = run.records.count_events(Event.REFUSED)
        conservation = make_conservation(fates, unrecorded=unrecorded, refused=refused)
        writer.put("conservation", conservation)
        return make_lost_metric(conservation)

    yield writer.pool.submit(conserve).result
    seen, partitions = Observation(), choose_partitions(run.claimed)
    order = writer.start("order", lambda: observe_order(make_order(run.jobs, run.repeated, partitions), partitions, seen))
    yield lambda: make_order_metrics(_once_written(order, seen))


def _write_tables_of_some_runs(writer: TableWriter, run: _Run) -> Iterator[Callable[[], pd.DataFrame]]:
    """Write the tables that only some runs have rows for; yields how to get their rows of ``phases``."""
    events, executions, preconditions = run.records.events, run.executions, run.preconditions
    claims = run.records.count_events(Event.CLAIMED)
    picks = claims + run.records.count_events(Event.LOST_RACE)
    partitions = choose_partitions(picks)
    if executions is None:
        writer.put("duplicates")
    else:
        writer.start("duplicates", lambda: make_duplicates(run.jobs, executions, run.record, run.records.last_recorded_ns))
    writer.collect("waiting", lambda: () if preconditions is None else make_waiting(preconditions, events, run.jobs))
    if (window := run.record.queue.window) is None:
        writer.put("rounds")
    else:
        seen = Observation()
        rounds = writer.start(
            "rounds", lambda: observe_rounds(make_rounds(events, run.jobs, window, picks=picks, partitions=partitions), seen)
        )
        yield lambda: make_round_metrics(_once_written(rounds, seen))
    if run.record.scenario.producers.backlog:
        yield writer.pool.submit(lambda: make_growth_metrics(count_parts(events, claims, partitions))).result


def _once_written(table: Future[None], seen: Observation) -> Mapping[str, int | None]:
    """Wait for a table, and return what was counted while it was being written."""
    table.result()
    return seen.get


def _read_record(spark: SparkSession, folder: str, name: str) -> RunRecord:
    text = read_whole_text(spark, f"{folder}/run.json")
    if text is None:
        raise RunFolderError(f"{name}: not a run's folder: it has no run.json")
    try:
        return parse_record(text, f"{name}/run.json")
    except BadInputError as error:
        raise RunFolderError(str(error)) from None


def _observe(jobs: DataFrame, seen: Observation) -> DataFrame:
    """Count what the next steps need to know about ``jobs``, while the table is being written."""
    duplicates = F.count_if(is_duplicate()).alias("duplicates")
    return jobs.observe(seen, duplicates, F.count("first_claimed_ns").alias("claimed"), F.count("enqueued_ns").alias("enqueued"))
