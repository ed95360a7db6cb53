"""What can go wrong with the pipeline through nobody's bug, each with the exit code of its kind."""

from __future__ import annotations


class PipelineError(Exception):
    """The tables could not be made; the message says why."""

    exit_code = 3


class RunFolderError(PipelineError):
    """The folder is not a run's, or its record cannot be read."""

    exit_code = 2


class MasterError(PipelineError):
    """What was named as Spark's master is none."""

    exit_code = 2


class NoTableError(PipelineError):
    """A table is not there, or only in part."""

    exit_code = 2
