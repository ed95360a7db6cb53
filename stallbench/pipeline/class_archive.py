"""Java classes, loaded once and kept: with them in an archive, Spark starts in half the time.

The archive is a file of Java's (class data sharing) in the project's cache. Without it, or with one that does not fit, everything works and
takes some seconds longer, so nothing here ever fails a run. Set-up builds it once, by `stallbench.pipeline.training`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from stallbench.setup.components import CACHE, JavaRuntime


def use_archive(java: JavaRuntime) -> list[str]:
    """Return the options by which Java uses the archive, if there is one for this Java and this Spark."""
    archive = archive_path(java)
    if not os.access(archive, os.R_OK):
        return []
    # Java checks that the archive fits and does without it if not; it need not speak of that.
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]


def archive_path(java: JavaRuntime) -> Path:
    """Where the archive for this Java and this Spark is: Java takes an archive only with the very files that it was built from."""
    jars = Path(pyspark.__file__).parent / "jars"
    parts = [java.home.resolve(), java.version, pyspark.__version__, jars, jars.stat().st_mtime_ns]
    key = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    return CACHE / "spark" / f"classes-{key}.jsa"
