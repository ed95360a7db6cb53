"""``python -m benchmarks.planned RUN [--profile]``: counts what Spark plans and executes for the tables of a run, which it makes anew.

A *query* is one execution of a DataFrame, as Spark counts them. An *operator* is a node of its physical plan (a scan, a filter, an exchange, ...).
Jobs, stages and tasks are what it is carried out as. ``--profile`` adds a line for each query: when it began, in seconds since the first one, how long
it took, how many operators it has, and the line of code that asked for it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from stallbench.pipeline.make import write_tables
from stallbench.pipeline.run_size import is_small
from stallbench.pipeline.session import open_session

_WITHIN_MS = 10_000


def main() -> None:
    """Make the tables of the run, and print the counts as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--profile", action="store_true", help="also print each query")
    options = parser.parse_args()
    with open_session(small=is_small(options.run)) as spark:
        write_tables(spark, options.run)
        context: Any = spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty(_WITHIN_MS)
        if options.profile:
            _print_queries(spark)
        print(json.dumps(_count(spark, context)))


def _count(spark: SparkSession, context: Any) -> dict[str, int]:
    jobs = context.statusStore().jobsList(None)
    every_job = [jobs.apply(number) for number in range(jobs.size())]
    return {
        "queries": _queries(spark).executionsCount(),
        "operators": sum(_count_operators(spark, query) for query in _list_queries(spark)),
        "jobs": len(every_job),
        "stages": sum(job.stageIds().size() - job.numSkippedStages() for job in every_job),
        "tasks": sum(job.numCompletedTasks() for job in every_job),
    }


def _print_queries(spark: SparkSession) -> None:
    queries = _list_queries(spark)
    for query in queries:
        began_s = (query.submissionTime() - queries[0].submissionTime()) / 1000
        took_s = (query.completionTime().get().getTime() - query.submissionTime()) / 1000
        print(f"{began_s:7.2f} {took_s:6.2f} {_count_operators(spark, query):4}  {query.description()}")


def _list_queries(spark: SparkSession) -> list[Any]:
    found = _queries(spark).executionsList()
    return sorted((found.apply(number) for number in range(found.size())), key=lambda query: int(query.submissionTime()))


def _count_operators(spark: SparkSession, query: Any) -> int:
    return int(_queries(spark).planGraph(query.executionId()).allNodes().size())


def _queries(spark: SparkSession) -> Any:
    return spark._jsparkSession.sharedState().statusStore()


if __name__ == "__main__":
    main()
