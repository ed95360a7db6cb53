"""``python -m stallbench.pipeline RUN [--master M] [--spark-conf K=V]``: make a run's tables. ``--prepare``: make the next ones start faster.

The bench uses ``--one-after-the-other``: the process reads folders of runs from standard input and makes their tables one after the other. It
answers ``made`` for each, or ``large`` if the run needs a session with the settings for large runs. After an error it exits without an
answer. It also exits when its input ends.
"""

from __future__ import annotations

import argparse
import os
import sys

from stallbench.pipeline.class_archive_preparation import prepare
from stallbench.pipeline.failures import PipelineError
from stallbench.pipeline.make import make_tables, write_tables
from stallbench.pipeline.run_size import is_small
from stallbench.pipeline.session import open_session
from stallbench.pipeline.spark_options import LOCAL, read_spark_options
from stallbench.setup.components import MissingComponentError


def main() -> None:
    """Make the tables; an error that the user can fix is one line."""
    parser = argparse.ArgumentParser(
        prog="python -m stallbench.pipeline", description="Make the tables of a run from its records."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or its address on any file system that Spark reads")
    parser.add_argument("--master", default=LOCAL, help="Spark's master (default: %(default)s)")
    parser.add_argument(
        "--spark-conf", metavar="NAME=VALUE", action="append", default=[], help="a setting for Spark; can be repeated"
    )
    what.add_argument("--prepare", action="store_true", help="build the archive of Java classes that halves the start")
    what.add_argument("--one-after-the-other", action="store_true", help="read folders of runs from standard input")
    options = parser.parse_args()
    try:
        if options.prepare:
            print(prepare())
        elif options.one_after_the_other:
            _make_one_after_the_other()
        else:
            spark = read_spark_options(options.master, options.spark_conf)
            make_tables(options.run, master=spark.master, settings=spark.settings)
    except (PipelineError, MissingComponentError) as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def _make_one_after_the_other() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Java prints is no answer
    with open_session() as spark:
        for line in sys.stdin:
            folder = line.rstrip("\n")
            if is_small(folder):
                write_tables(spark, folder)
            print("made" if is_small(folder) else "large", file=answers, flush=True)


if __name__ == "__main__":
    main()
