"""Compiles Java where the Java runtime has no compiler: by the Eclipse compiler, which is there only during the compilation."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from stallbench.setup.components import CACHE, JAVA_MINIMUM, require_java
from stallbench.setup.jars import download_jars
from stallbench.setup.packages import LOCKS, run


def compile_java(sources: Sequence[Path], libraries: Sequence[Path], target: Path) -> None:
    """Compile ``sources``, which use the jars ``libraries``, into the folder ``target``; raises `InstallError`."""
    with tempfile.TemporaryDirectory(prefix="ecj-", dir=CACHE) as scratch:
        compiler = Path(scratch) / "compiler"
        download_jars(LOCKS / "ecj.jars", compiler)
        (jar,) = compiler.iterdir()
        options = ["-source", str(JAVA_MINIMUM), "-target", str(JAVA_MINIMUM), "-encoding", "UTF-8", "-proc:none", "-nowarn"]
        uses = ["-classpath", ":".join(map(str, libraries))] if libraries else []
        java = require_java().home / "bin" / "java"
        run([str(java), "-jar", str(jar), *options, *uses, "-d", str(target), *map(str, sources)])
