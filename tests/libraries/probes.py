"""How the adapter that shows the contract module alone is started, in each language."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stallbench.libraries import find_library
from stallbench.libraries.installation import command_of, environment_of, require_installed
from stallbench.libraries.packages.java import compile_java
from stallbench.setup.components import CACHE, require_java
from stallbench.setup.go_toolchain import build_module
from stallbench.setup.steps import one_at_a_time

HERE = Path(__file__).parent
CONTRACT = HERE.parents[1] / "libraries" / "contract"


@dataclass(frozen=True)
class ProbeCommand:
    """The command of a probe, and the environment that it needs."""

    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def _of_python() -> ProbeCommand:
    return ProbeCommand([sys.executable, str(HERE / "probe.py")], {"PYTHONPATH": str(CONTRACT / "python")})


def _of_javascript() -> ProbeCommand:
    library = find_library("graphile_worker")
    require_installed(library, print)
    return ProbeCommand([command_of(library, "work")[0], str(HERE / "probe.mjs")], environment_of(library))


def _of_php() -> ProbeCommand:
    library = find_library("laravel")
    require_installed(library, print)
    return ProbeCommand([command_of(library, "work")[0], str(HERE / "probe.php")], environment_of(library))


def _of_go() -> ProbeCommand:
    def build(folder: Path) -> None:
        (folder / "go.mod").write_text(
            f"module probe\n\ngo 1.22.0\n\nrequire stallbench/contract v0.0.0\n\nreplace stallbench/contract => {CONTRACT / 'go'}\n"
        )
        shutil.copy(HERE / "probe.go", folder / "main.go")
        build_module(folder, folder / "probe")

    return ProbeCommand([str(_kept("go", [HERE / "probe.go", *(CONTRACT / "go").iterdir()], build) / "probe")])


def _of_ruby() -> ProbeCommand:
    library = find_library("delayed_job")
    require_installed(library, print)
    return ProbeCommand([command_of(library, "work")[0], str(HERE / "probe.rb")], environment_of(library))


def _of_java() -> ProbeCommand:
    sources = [HERE / "Probe.java", *(CONTRACT / "java").iterdir()]
    folder = _kept("java", sources, lambda folder: compile_java(sources, [], folder))
    return ProbeCommand([str(require_java().home / "bin" / "java"), "Probe"], {"CLASSPATH": str(folder)})


def _kept(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """Return a folder in which ``build`` has compiled ``sources``; it is kept until one of them changes. Go compiles its whole library each time."""
    key = hashlib.sha256()
    for source in sorted(sources):
        key.update(f"{source.name} {hashlib.sha256(source.read_bytes()).hexdigest()}\n".encode())
    folder = CACHE / "probes" / f"{name}-{key.hexdigest()[:16]}"
    with one_at_a_time():
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                fresh = Path(scratch) / "fresh"
                fresh.mkdir()
                build(fresh)
                fresh.rename(folder)
    return folder


PROBES: dict[str, Callable[[], ProbeCommand]] = {
    "go": _of_go,
    "java": _of_java,
    "javascript": _of_javascript,
    "php": _of_php,
    "python": _of_python,
    "ruby": _of_ruby,
}
"""By language."""
