"""How the adapter that shows the contract module alone is started, in each language."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stallbench.libraries import find_library
from stallbench.libraries.installation import command_of, environment_of, require_installed
from stallbench.libraries.packages.java import compile_java
from stallbench.setup.components import require_java
from stallbench.setup.go_toolchain import build_module
from stallbench.setup.steps import one_at_a_time

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


def _of_go(scratch: Path) -> ProbeCommand:
    (scratch / "go.mod").write_text(
        f"module probe\n\ngo 1.22.0\n\nrequire stallbench/contract v0.0.0\n\nreplace stallbench/contract => {CONTRACT / 'go'}\n"
    )
    shutil.copy(HERE / "probe.go", scratch / "main.go")
    with one_at_a_time():
        build_module(scratch, scratch / "probe")
    return ProbeCommand([str(scratch / "probe")])


def _of_ruby(scratch: Path) -> ProbeCommand:
    library = find_library("delayed_job")
    require_installed(library, print)
    return ProbeCommand([command_of(library, "work")[0], str(HERE / "probe.rb")], environment_of(library))


def _of_java(scratch: Path) -> ProbeCommand:
    with one_at_a_time():
        compile_java([HERE / "Probe.java", *(CONTRACT / "java").iterdir()], [], scratch)
    return ProbeCommand([str(require_java().home / "bin" / "java"), "Probe"], {"CLASSPATH": str(scratch)})


PROBES: dict[str, Callable[[Path], ProbeCommand]] = {
    "go": _of_go,
    "java": _of_java,
    "javascript": _of_javascript,
    "php": _of_php,
    "python": _of_python,
    "ruby": _of_ruby,
}
"""By language; the argument is a folder in which a probe can be compiled."""
