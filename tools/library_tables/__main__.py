"""``python -m tools.library_tables``: writes the tables in docs/libraries.md, docs/libraries-in-faults.md and README.md, from ``evidence/``."""

from __future__ import annotations

import sys

from stallbench.errors import BadInputError
from stallbench.evidence.collection import Collection
from tools.generated_blocks import write_blocks
from tools.library_tables.tables import PAGES, README, make_blocks


def main() -> None:
    """Write them."""
    try:
        blocks, messages = make_blocks(Collection())
        write_blocks([*PAGES, README], blocks)
    except BadInputError as error:
        sys.exit(str(error))
    for message in messages:
        print(message)


if __name__ == "__main__":
    main()
