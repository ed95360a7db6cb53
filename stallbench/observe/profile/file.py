"""Makes the file of a recorded load, and validates it as `stallbench run` would before it takes the place of an older one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import NotCarriedOutError
from stallbench.observe.profile.estimate import estimate_load
from stallbench.observe.profile.reading import LoadReading
from stallbench.observe.profile.scenario_text import write_scenario
from stallbench.scenario.file import read_scenario
from stallbench.scenario.toml import ScenarioError


def write_profile(
    path: Path, readings: Sequence[LoadReading], queue: Mapping[str, str], *, server: str, engine: str, every_s: float
) -> None:
    """Write the scenario, atomically. ``queue``: the bench's queue that stands in for the observed one. ``server``: product and major version.
    ``engine``: of the observed server, which the scenario has, too.

    Raises `NotCarriedOutError` with everything that was not seen and that a scenario needs, or if the file cannot be written; then there is no new file.
    """
    try:
        text = write_scenario(estimate_load(readings), queue, server=server, engine=engine, every_s=every_s)
        _validate(text)
        replace_file(path, text)
    except (NotCarriedOutError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NotCarriedOutError(f"no profile was written to {path}: {why}") from error


def _validate(text: str) -> None:
    with tempfile.TemporaryDirectory(prefix=f"stallbench-profile-{os.getpid()}-") as folder:
        file = Path(folder) / "profile.toml"
        file.write_text(text)
        try:
            read_scenario(str(file))  # with all of its variants
        except ScenarioError as error:
            raise NotCarriedOutError(f"the recorded load does not make a valid scenario: {error}") from error
