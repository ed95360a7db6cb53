"""Where a process of the bench gets its document from: standard input, a file, or the run that it joins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from stallbench.external.registration import join_run
from stallbench.processes.role import EXIT_BAD_DOCUMENT, Stop, read_document

DocumentT = TypeVar("DocumentT", bound=BaseModel)


@contextmanager
def role_document(
    model: type[DocumentT], role: str, argv: list[str], stop: Stop, **own_fields: object
) -> Iterator[DocumentT | None]:
    """Give the block the document of a process of ``role``; none if it is asked to stop before there is one.

    ``argv``: ``--join DIR``, or as `read_document` expects it. ``own_fields``: what a process that joins adds to the document.
    """
    if argv[:1] != ["--join"]:
        yield read_document(model, argv)
        return
    if len(argv) != 2 or not Path(argv[1]).is_dir():
        print("--join: expected one folder: a run's folder, or the folder of all runs", file=sys.stderr)
        sys.exit(EXIT_BAD_DOCUMENT)
    with join_run(role, Path(argv[1]), stop, **own_fields) as document:
        yield None if document is None else model.model_validate(document)
