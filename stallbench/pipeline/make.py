"""Makes the tables of a run: `make_tables` has a session of its own for it, `write_tables` is the story."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from stallbench.errors import BadInputError
from stallbench.pipeline.call_errors import make_errors
from stallbench.pipeline.claim_growth import make_growth_metrics
from stallbench.pipeline.conservation import count_refused, make_conservation, make_lost_metric, may_have_missed_enqueues
from stallbench.pipeline.duplicates import (
    events_of_duplicates,
    find_executions,
    is_duplicate,
    make_duplicates,
    re_executions,
    second_completions,
)
from stallbench.pipeline.failures import PipelineError, RunFolderError, explain
from stallbench.pipeline.frames import make_rows
from stallbench.pipeline.holders import make_holders
from stallbench.pipeline.injections import make_injections
from stallbench.pipeline.job_states import make_jobs
from stallbench.pipeline.measurements import (
    keep_silent_times,
    measure_deadlocks,
    measure_each_event,
    measure_each_sample,
    measure_latency,
    measure_re_completed,
    measure_re_executions,
    measure_start_delays,
)
from stallbench.pipeline.order import choose_partitions, make_order, make_order_metrics
from stallbench.pipeline.overdue import make_overdue
from stallbench.pipeline.paths import name_folder, read_whole_text
from stallbench.pipeline.phases import make_phases
from stallbench.pipeline.ratios import make_ratios
from stallbench.pipeline.read import make_torn, read_records
from stallbench.pipeline.recoveries import make_recoveries, make_recovery_metrics
from stallbench.pipeline.rounds import MOST_JOBS, make_round_metrics, make_rounds
from stallbench.pipeline.session import LOCAL, fit_to, is_small, open_session
from stallbench.pipeline.stalls import make_stalls
from stallbench.pipeline.statistics import summarize_events, summarize_samples
from stallbench.pipeline.stuck_clients import make_stuck_clients
from stallbench.pipeline.tables import TABLES
from stallbench.pipeline.time_axis import make_time_axis
from stallbench.pipeline.vacuum_waits import make_vacuum_waits
from stallbench.pipeline.waiting import find_preconditions, make_waiting
from stallbench.pipeline.windows import make_windows
from stallbench.pipeline.writing import Writing
from stallbench.run.record import RunRecord, parse_record


def make_tables(run_folder: str | Path, *, master: str = LOCAL) -> None:
    """Make all tables of a run from its records, in ``tables/`` of its folder, in place of those that are there.

    ``run_folder``: a local path, or an address on any file system that Spark reads. ``master``: Spark's master. Raises `RunFolderError` if
    the folder is not a run's, `PipelineError` if Spark cannot do it, `stallbench.setup.components.MissingComponentError` without Java.
    """
    with open_session(master, small=is_small(run_folder)) as spark:
        try:
            write_tables(spark, run_folder)
        except (PySparkException, Py4JError) as error:
            raise PipelineError(f"{run_folder}: its tables could not be made: {explain(error)}") from None


def write_tables(spark: SparkSession, run_folder: str | Path) -> None:
    """Make all tables of a run in a session that is there; raises as `make_tables` does."""
    folder = name_folder(run_folder)
    with Writing(folder) as writing:
        reading = writing.pool.submit(read_records, spark, folder)
        facts = _read_facts(spark, folder, str(run_folder))
        records = reading.result()
        events, samples = records.events, records.samples
        axis = make_time_axis(facts, records.first_ns, records.last_ns)
        fit_to(spark, records.event_count)

        seen = Observation("jobs")
        writing_jobs = writing.start(
            "jobs",
            lambda: _observe(make_jobs(events, records.final_snapshot, facts, records.left_over), seen),
            rows=records.event_count // 4,
        )
        writing.start("torn", lambda: make_torn(spark, records))
        writing.start("injections", lambda: make_injections(spark, facts, axis))
        writing.start("errors", lambda: make_errors(events, axis))
        writing.start("holders", lambda: make_holders(samples, facts, axis))
        writing.start("stuck_clients", lambda: make_stuck_clients(samples, facts, axis))
        writing.start("vacuum_waits", lambda: make_vacuum_waits(samples, axis))

        writing_jobs.result()
        jobs = writing.read_back(spark, "jobs")
        of_duplicates = events_of_duplicates(events, jobs, seen.get["duplicates"])
        executions = find_executions(of_duplicates, facts)
        again = second_completions(of_duplicates)
        preconditions = find_preconditions(events).persist()
        of_events = (
            measure_each_event(events),
            measure_latency(jobs),
            measure_deadlocks(events),
            measure_re_completed(again),
            measure_re_executions(executions),
            measure_start_delays(preconditions, jobs),
            keep_silent_times(spark, axis, records.first_ns),
        )
        counted = summarize_events(reduce(DataFrame.unionByName, of_events), axis)
        sampled = summarize_samples(measure_each_sample(samples), axis)
        measured = counted.unionByName(sampled, allowMissingColumns=True).persist()
        windows = make_windows(measured, axis).persist()
        writing.start("windows", lambda: windows)
        may_miss, refused = may_have_missed_enqueues(records, facts), count_refused(records)
        writing.start("conservation", lambda: make_conservation(jobs, may_miss_enqueues=may_miss, refused=refused))
        writing.start("duplicates", lambda: make_duplicates(jobs, executions, facts))
        order = make_order(jobs, re_executions(executions), choose_partitions(seen.get["claimed"])).persist()
        writing.start("order", lambda: order)
        writing.start("overdue", lambda: make_overdue(spark, events, jobs, facts, axis))
        window = facts.queue.window if seen.get["claimed"] <= MOST_JOBS else None
        rounds = (make_rounds(events, jobs, window) if window else make_rows(spark, [], TABLES["rounds"])).persist()
        writing.start("rounds", lambda: rounds)
        writing.start("waiting", lambda: make_waiting(spark, preconditions, events, jobs))
        recoveries = make_recoveries(
            spark,
            facts,
            axis,
            jobs=jobs,
            windows=windows,
            second_completions=again,
            re_executions=re_executions(executions),
        ).persist()
        writing.start("recoveries", lambda: recoveries)
        phases = make_phases(measured, axis).persist()
        of_phases = (
            phases,
            make_ratios(phases),
            make_order_metrics(order),
            make_round_metrics(rounds),
            make_stalls(windows, jobs, axis),
            make_recovery_metrics(recoveries),
            *([make_growth_metrics(events)] if facts.scenario.producers.backlog and seen.get["claimed"] <= MOST_JOBS else []),
            make_lost_metric(jobs),
        )
        writing.start("phases", lambda: reduce(DataFrame.unionByName, of_phases))
    spark.catalog.clearCache()


def _read_facts(spark: SparkSession, folder: str, name: str) -> RunRecord:
    text = read_whole_text(spark, f"{folder}/run.json")
    if text is None:
        raise RunFolderError(f"{name}: not a run's folder: it has no run.json")
    try:
        return parse_record(text, f"{name}/run.json")
    except BadInputError as error:
        raise RunFolderError(str(error)) from None


def _observe(jobs: DataFrame, seen: Observation) -> DataFrame:
    """Count, while ``jobs`` is being written, what the next steps must know of it."""
    duplicates = F.count_if(is_duplicate()).alias("duplicates")
    return jobs.observe(seen, duplicates, F.count("first_claimed_ns").alias("claimed"))
