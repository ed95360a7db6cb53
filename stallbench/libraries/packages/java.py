"""Java libraries by the checksums in ``packages.jars``. The adapter is compiled when they are installed; the Java that Spark needs runs it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.libraries.definition import Library
from stallbench.libraries.packages.kind import CONTRACT, PackageKind, present
from stallbench.setup.components import CACHE, JAVA_MINIMUM, find_java, require_java
from stallbench.setup.jars import download_jars
from stallbench.setup.packages import LOCKS, run

_LOCK = "packages.jars"
_ADAPTER = "Adapter.java"


class JavaLibraries(PackageKind):
    """Downloaded by Ivy from Maven's repository."""

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the lock, the sources of the adapter, and the statements that it needs."""
        own = present(folder, _LOCK, _ADAPTER)
        others = sorted({*folder.glob("*.java"), *folder.glob("*.sql")}.difference(own))
        return [*own, *others, *_contract()] if own else []

    def install(self, library: Library, target: Path) -> None:
        """Download the libraries, compile the adapter, and put the statements beside it, where it can read them."""
        download_jars(library.folder / _LOCK, target / "jars")
        compile_java(
            [*sorted(library.folder.glob("*.java")), *_contract()], sorted((target / "jars").iterdir()), target / "classes"
        )
        for statements in library.folder.glob("*.sql"):
            shutil.copy(statements, target / "classes")

    def programs(self, target: Path) -> Mapping[str, Path]:
        """Return Java."""
        java = find_java()
        return {"{java}": java.home / "bin" / "java"} if java else {}

    def environment(self, target: Path) -> Mapping[str, str]:
        """Let Java find the adapter and the libraries."""
        return {"CLASSPATH": f"{target / 'classes'}:{target / 'jars'}/*"}


def compile_java(sources: Sequence[Path], libraries: Sequence[Path], target: Path) -> None:
    """Compile ``sources``, which use the jars ``libraries``, into the folder ``target``; raises `InstallError`.

    The Java runtime has no compiler: this is the Eclipse compiler, which is installed only for the compilation.
    """
    with tempfile.TemporaryDirectory(prefix="ecj-", dir=CACHE) as scratch:
        compiler = Path(scratch) / "compiler"
        download_jars(LOCKS / "ecj.jars", compiler)
        (jar,) = compiler.iterdir()
        options = ["-source", str(JAVA_MINIMUM), "-target", str(JAVA_MINIMUM), "-encoding", "UTF-8", "-proc:none", "-nowarn"]
        uses = ["-classpath", ":".join(map(str, libraries))] if libraries else []
        java = require_java().home / "bin" / "java"
        run([str(java), "-jar", str(jar), *options, *uses, "-d", str(target), *map(str, sources)])


def _contract() -> list[Path]:
    return sorted((CONTRACT / "java").iterdir())
