"""How the adapter that shows the contract module alone is started, in each language."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stallbench.libraries import find_library
from stallbench.libraries.installation import command_of, environment_of, require_installed

HERE = Path(__file__).parent
CONTRACT = HERE.parents[1] / "libraries" / "contract"


@dataclass(frozen=True)
class ProbeCommand:
    """The command of a probe, and the environment that it needs."""

    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def _of_python(scratch: Path) -> ProbeCommand:
    return ProbeCommand([sys.executable, str(HERE / "probe.py")], {"PYTHONPATH": str(CONTRACT / "python")})


def _of_javascript(scratch: Path) -> ProbeCommand:
    library = find_library("graphile_worker")
    require_installed(library, print)
    return ProbeCommand([command_of(library, "work")[0], str(HERE / "probe.mjs")], environment_of(library))


def _of_php(scratch: Path) -> ProbeCommand:
    library = find_library("laravel")
    require_installed(library, print)
    return ProbeCommand([command_of(library, "work")[0], str(HERE / "probe.php")], environment_of(library))


PROBES: dict[str, Callable[[Path], ProbeCommand]] = {
    "javascript": _of_javascript,
    "php": _of_php,
    "python": _of_python,
}
"""By language; the argument is a folder in which a probe can be compiled."""
