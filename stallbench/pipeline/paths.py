"""Paths of a run's files, as the file systems that Spark reads name them."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_LOCAL = "file:"
_GLOB = re.compile(r"([\\{}\[\]*?])")


def name_folder(run_folder: str | Path) -> str:
    """Return a run's folder as Spark names it: an address (``s3a://..``, ``hdfs://..``) as it is, else a local folder.

    Spark has a file system for ``s3a``, but not for ``s3``, the other name of an S3 bucket.
    """
    text = str(run_folder)
    if text.lower().startswith("s3://"):
        text = f"s3a{text[2:]}"
    return text.rstrip("/") if _SCHEME.match(text) else f"{_LOCAL}{Path(text).resolve()}"


def escape_glob(path: str) -> str:
    """Return ``path`` so that Spark reads exactly this name: a bracket or a star in it is not a pattern."""
    return _GLOB.sub(r"\\\1", path)


def find_local_folder(path: str) -> Path | None:
    """Return the folder on this machine that `name_folder` has named so; none if it is elsewhere."""
    return Path(path.removeprefix(_LOCAL)) if path.startswith(_LOCAL) else None


def read_whole_text(spark: SparkSession, path: str) -> str | None:
    """Return the text of one small file; none if there is none."""
    if (local := find_local_folder(path)) is not None:
        return local.read_text(errors="replace") if local.is_file() else None
    try:
        return str(spark.read.text(escape_glob(path), wholetext=True).head(1)[0]["value"])
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
