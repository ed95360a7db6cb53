"""``python -m stallbench.pipeline RUN [--master M]``: make a run's tables. ``--prepare``: make the next ones start faster."""

from __future__ import annotations

import argparse
import sys

from stallbench.parts import MissingPartError
from stallbench.pipeline.failures import PipelineError
from stallbench.pipeline.make import make_tables
from stallbench.pipeline.session import LOCAL
from stallbench.pipeline.training import prepare


def main() -> None:
    """Make the tables; what the user can mend is said in one line."""
    parser = argparse.ArgumentParser(
        prog="python -m stallbench.pipeline", description="Make the tables of a run from its records."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or its address on any file system that Spark reads")
    parser.add_argument("--master", default=LOCAL, help="Spark's master (default: %(default)s)")
    what.add_argument("--prepare", action="store_true", help="build the archive of Java classes that halves the start")
    options = parser.parse_args()
    try:
        if options.prepare:
            print(prepare())
        else:
            make_tables(options.run, master=options.master)
    except (PipelineError, MissingPartError) as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
