"""An archive of loaded Java classes, with which Spark starts in half the time.

The archive is a file in the project's cache that Java reads (class data sharing). If it is missing or does not fit this Java, everything still
works and takes some seconds longer, so a problem with it never fails a run. Set-up builds it once, by `stallbench.pipeline.class_archive_preparation`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from stallbench.base.storage.private import is_trusted
from stallbench.setup.components import CACHE, JavaRuntime


def use_archive(java: JavaRuntime) -> list[str]:
    """Return the options by which Java uses the archive, if there is one for this Java and this Spark that no other user can have written.

    It is code that Java executes.
    """
    archive = archive_path(java)
    if not os.access(archive, os.R_OK) or not is_trusted(archive):
        return []
    # Java checks that the archive fits and does without it if not; it need not speak of that.
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]


def archive_path(java: JavaRuntime) -> Path:
    """The path of the archive for this Java and this Spark: Java accepts an archive only with exactly the files that it was built from."""
    jars = Path(pyspark.__file__).parent / "jars"
    parts = [java.home.resolve(), java.version, pyspark.__version__, jars, jars.stat().st_mtime_ns]
    key = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    return CACHE / "spark" / f"classes-{key}.jsa"
