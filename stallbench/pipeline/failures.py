"""Errors of the pipeline that have an external cause, each with its exit code."""

from __future__ import annotations

from stallbench.errors import StallbenchError


class PipelineError(StallbenchError):
    """The tables could not be made; the message says why."""


class RunFolderError(PipelineError):
    """The folder is not a run's, or its record cannot be read."""

    exit_code = 2


class MasterError(PipelineError):
    """What was named as Spark's master is none."""

    exit_code = 2


class SettingError(PipelineError):
    """A setting for Spark is not valid, or must not be given like this."""

    exit_code = 2


class NoTableError(PipelineError):
    """A table is not there, or only in part."""

    exit_code = 2


def explain(error: Exception) -> str:
    """Describe in one line what Spark failed on. Spark's Java process must still run, because it has the cause."""
    from py4j.protocol import Py4JJavaError  # reading tables needs no Spark

    message = str(error)
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        message = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    return next((line.strip() for line in message.splitlines() if line.strip()), type(error).__name__)
