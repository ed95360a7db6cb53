"""``python -m stallbench.processes ROLE [ARGUMENT ...]``: starts a role, in a clone and in an installed bench.

A role is a package at the root (``producers``, ``workers``, ``schedulers``, ``longrunners``), or ``locust``, which gets the bench's own file of users.
In a clone, ``python -m ROLE`` does the same from the root. The folder of the roles is not left on Python's path: only the role's own package takes
precedence over a package of the same name in the working directory.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys

from stallbench import PROJECT
from stallbench.errors import EXIT_BAD_INPUT
from stallbench.processes.role_command import LOCUST, PACKAGES

_WITHOUT_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


def main() -> None:
    """Start the role that the command line names."""
    roles = ", ".join((*PACKAGES, LOCUST))
    if len(sys.argv) < 2 or sys.argv[1] not in (*PACKAGES, LOCUST):
        print(f"usage: python -m stallbench.processes ROLE [ARGUMENT ...]; expected one of {roles} as ROLE", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    role = sys.argv.pop(1)
    sys.path.insert(0, str(PROJECT))
    importlib.import_module(PACKAGES[0] if role == LOCUST else role)
    sys.path.remove(str(PROJECT))
    if role != LOCUST:
        _import_quickly(f"{role}.__main__")
    else:
        sys.argv[1:1] = ["-f", str(PROJECT / PACKAGES[0] / "locustfile.py")]
    runpy.run_module(role, run_name="__main__", alter_sys=True)


def _import_quickly(module: str) -> None:
    """Import what a role needs, without what makes a fifth of its start.

    Until `run_role` no garbage is collected: what is imported stays. Pydantic looks for plugins in all installed packages when the first model is
    defined; here it does not, but it does for what is imported later, like a user's queue.
    """
    gc.disable()
    plugins = os.environ.get(_WITHOUT_PLUGINS)
    os.environ[_WITHOUT_PLUGINS] = "__all__"
    importlib.import_module(module)
    del sys.modules[module]  # which is about to be executed
    if plugins is None:
        del os.environ[_WITHOUT_PLUGINS]
    else:
        os.environ[_WITHOUT_PLUGINS] = plugins


main()
