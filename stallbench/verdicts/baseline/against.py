"""``against.json`` in a run's folder: the baseline that the run is compared with, and the tolerance. The verdict can then be made again anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.record_text import read_record_text
from stallbench.errors import BadInputError
from stallbench.verdicts.baseline.baseline_file import Baseline, parse_baseline
from stallbench.verdicts.baseline.tolerance import Tolerance, read_tolerance

AGAINST = "against.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineChoice:
    """What a run or a comparison is compared with."""

    baseline: Baseline
    options: tuple[str, ...] = ()
    """As the options ``--tolerance`` have them."""

    @property
    def tolerance(self) -> Tolerance:
        """How much worse a metric may be."""
        return read_tolerance(self.options)


def write_against(folder: AnyPath, against: BaselineChoice) -> None:
    """Write it into the folder of a run or a comparison."""
    content = {"baseline": against.baseline.model_dump(mode="json"), "tolerance": list(against.options)}
    replace_file(folder / AGAINST, json.dumps(content, indent=1, sort_keys=True))


def read_against(folder: AnyPath) -> BaselineChoice | None:
    """Return what the folder of a run or a comparison has; none if it was not compared. Raises `BadInputError` if the file is damaged."""
    path = folder / AGAINST
    try:
        text = read_record_text(path)
    except FileNotFoundError:
        return None
    try:
        content = json.loads(text)
        baseline, options = content["baseline"], content["tolerance"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInputError(f"{path}: damaged: {error}; compare again with --against") from None
    if not isinstance(options, Sequence) or isinstance(options, str):
        raise BadInputError(f"{path}: damaged: the tolerance is no list; compare again with --against")
    return BaselineChoice(baseline=parse_baseline(json.dumps(baseline), str(path)), options=tuple(map(str, options)))
