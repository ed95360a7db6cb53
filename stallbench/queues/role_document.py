"""Reads the document of a process: from standard input, from a file, or from the run that it joins."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from stallbench.processes.role import EXIT_BAD_DOCUMENT, Stop, read_document

DocumentT = TypeVar("DocumentT", bound=BaseModel)


@contextmanager
def role_document(
    model: type[DocumentT], role: str, arguments: Namespace, stop: Stop, **own_fields: object
) -> Iterator[DocumentT | None]:
    """Give the block the document of a process of ``role``; none if it is asked to stop before there is one.

    ``arguments``: as `stallbench.processes.role_arguments` parses them. ``own_fields``: what a process that joins adds to the document.
    """
    if arguments.join is None:
        yield read_document(model, arguments.document)
        return
    if not Path(arguments.join).is_dir():
        print(f"--join {arguments.join}: expected one folder: a run's folder, or the folder of all runs", file=sys.stderr)
        sys.exit(EXIT_BAD_DOCUMENT)
    from stallbench.queues.registration import join_run, read_trust  # the bench's own processes never join

    with join_run(model, role, Path(arguments.join), stop, read_trust(arguments.group), **own_fields) as document:
        yield document
