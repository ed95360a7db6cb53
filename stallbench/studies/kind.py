"""What a kind of study does with a folder of its own, and which kind a folder is of."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from stallbench.errors import BadInputError
from stallbench.run.folder import STUDY
from stallbench.studies.study import StudyRecord
from stallbench.verdicts.baseline.baseline_file import Baseline


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A study whose results and pages were made."""

    record: StudyRecord
    show: Callable[[str], None]
    """Prints the results; takes the path of the page."""


class StudyKind(ABC):
    """One kind of study. The module ``kind`` in its folder has an instance as ``KIND``."""

    title: ClassVar[str]
    """As a sentence names it, like ``comparison``."""
    model: ClassVar[type[StudyRecord]]
    has_baseline: ClassVar[bool] = True
    """Whether it can be compared with a baseline."""

    @abstractmethod
    def conclude(self, folder: Path) -> Conclusion:
        """Make results, pages and JUnit from the record and the folders of the runs, and write the record if no process carries the study out.

        It can be repeated at any time. Raises `BadInputError` if the folder holds no such study.
        """

    def read_baselines(self, folder: Path) -> Sequence[tuple[str, Baseline]]:
        """Return the figures of the study as baselines, each with the name of what it is of. Raises `BadInputError` if the study has none."""
        raise BadInputError(
            f"{folder}: a {self.title} has no figures to compare; expected a run, comparison, search for a limit or soak"
        )


def find_kind(name: object, where: str) -> StudyKind:
    """Return the kind of that name; raises `BadInputError`, which names the file ``where``, if there is none."""
    known = sorted(path.parent.name for path in Path(__file__).parent.glob("*/kind.py"))
    if name not in known:
        raise BadInputError(f"{where}: not a study's record: kind is {json.dumps(name)}; expected {' or '.join(known)}")
    kind: StudyKind = import_module(f"stallbench.studies.{name}.kind").KIND
    return kind


def read_kind(folder: Path) -> StudyKind:
    """Return which kind of study is in a folder with a ``study.json``; raises `BadInputError` if that is no study's record."""
    return parse_kind((folder / STUDY).read_text(errors="replace"), str(folder / STUDY))


def parse_kind(text: str, where: str) -> StudyKind:
    """Return which kind of study the ``text`` of the file ``where`` is a record of; raises as `read_kind` does."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{where}: not a study's record: {error}") from None
    return find_kind(content.get("kind") if isinstance(content, dict) else None, where)
