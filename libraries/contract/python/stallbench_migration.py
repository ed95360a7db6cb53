"""What an adapter in Python needs if its library has a migration: one of several versions, and the answer of the verb ``migrate``.

Standard library only, like `stallbench_contract`.
"""

import importlib
import os
import sys
from pathlib import Path

from stallbench_codes import code_of
from stallbench_faults import send


def import_version(package, version):
    """Import a version of a package. An earlier one has a folder of its own; what it depends on is that of the newest one."""
    earlier = Path(os.environ["STALLBENCH_LIBRARY"], f"earlier-{version}")
    if earlier.is_dir():
        sys.path.insert(0, str(earlier))
    return importlib.import_module(package)


def answer_for(migrate):
    """Carry out a migration, and answer like a batch: ok, or the error's code and message, with exit code 1."""
    try:
        migrate()
    except Exception as error:  # noqa: BLE001 - any error of the library is an answer
        send(error=code_of(error), message=" ".join(str(error).split()))
        sys.exit(1)
    send(ok=True)
