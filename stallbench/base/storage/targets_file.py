"""Where the file of a run's targets is, which `stallbench.processes.targets` writes. The reaper, which removes it, starts without all that writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stallbench.base.storage.private import PROGRAMS, Trust, TrustedFolder, open_trusted


def name_targets(run: Path) -> Path:
    """Return the path of the targets file of a run."""
    return run.parent / "targets" / f"{run.name}.json"


@contextmanager
def open_targets(run: Path) -> Iterator[TrustedFolder]:
    """Open the folder with the targets file of a run; raises `UntrustedError` for another user's: everybody may make one in a shared folder of runs.

    The owner of the folder of runs is trusted, as of a volume in a container. Raises `FileNotFoundError` if there is none.
    """
    owners = PROGRAMS.owners | {run.parent.stat().st_uid}
    with open_trusted(name_targets(run).parent, Trust(root=True, owners=owners)) as folder:
        yield folder


def remove_targets(run: Path) -> None:
    """Remove the file, if it is there; raises as `open_targets` does, but not if there is no folder."""
    path = name_targets(run)
    if os.path.lexists(path.parent):
        with suppress(FileNotFoundError), open_targets(run) as folder:
            folder.remove(path.name)
