"""``python -m tools.library_tables``: writes the tables in docs/libraries.md and docs/libraries-in-faults.md, from the runs on disk."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.run.folder import RUNS
from tools.library_tables.tables import write_tables


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(prog="python -m tools.library_tables", description=__doc__)
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FOLDER", help="where the runs are (%(default)s)")
    try:
        print(*write_tables(parser.parse_args().runs), sep="\n")
    except BadInputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
