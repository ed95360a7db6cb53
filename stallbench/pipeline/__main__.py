"""``python -m stallbench.pipeline RUN [--master M]``: makes the tables of a run."""

from __future__ import annotations

import argparse

from stallbench.pipeline.session import open_session
from stallbench.pipeline.tables import make_tables


def main() -> None:
    """Make the tables of the run that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m stallbench.pipeline", description="Makes the tables of a run.")
    parser.add_argument("run", help="the run's folder, on any file system that Spark reads")
    parser.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    chosen = parser.parse_args()
    spark = open_session(chosen.master)
    try:
        make_tables(spark, chosen.run)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
