"""What a kind of study does with a folder of its own, and which kind a folder is of."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic

from stallbench.base.storage.record_text import read_record_text
from stallbench.errors import BadInputError
from stallbench.run.folder import STUDY
from stallbench.studies.study import Record, StudyFolder
from stallbench.verdicts.baseline.baseline_file import Baseline


@dataclass(frozen=True, slots=True)
class Conclusion(Generic[Record]):
    """What a study has shown. It can be printed even if the disk is full."""

    folder: StudyFolder[Record]
    record: Record
    """With the results."""
    write_pages: Callable[[], None]
    """Writes the pages and the JUnit file."""
    show: Callable[[str], None]
    """Prints the results; takes the path of the page."""

    def write(self) -> None:
        """Write the pages, the JUnit file, and the record, if no other process carries the study out. Raises `OSError`."""
        if not self.record.is_running:
            self.folder.write(self.record)
        self.write_pages()


class StudyKind(ABC, Generic[Record]):
    """One kind of study. The module ``kind`` in its folder has an instance as ``KIND``."""

    title: ClassVar[str]
    """As a sentence names it, like ``comparison``."""
    folder: ClassVar[type[StudyFolder[Any]]]
    has_baseline: ClassVar[bool] = True
    """Whether it can be compared with a baseline."""

    def conclude(self, path: Path, record: Record | None = None) -> Conclusion[Record]:
        """Find what the study in ``path`` has shown, from its record and the folders of its runs; nothing is written yet.

        It can be repeated at any time. ``record``: of a study that has just ended, as the file would have it; none to read the file. Raises
        `BadInputError` if the folder holds no such study.
        """
        folder = self.folder(path)
        return self.conclude_record(folder, folder.read() if record is None else record)

    @abstractmethod
    def conclude_record(self, folder: Any, record: Record) -> Conclusion[Record]:
        """Find what a study has shown, as `conclude` does. ``folder``: of the type `folder`."""

    def read_baselines(self, folder: Path) -> Sequence[tuple[str, Baseline]]:
        """Return the figures of the study as baselines, each with the name of what it is of. Raises `BadInputError` if the study has none."""
        raise BadInputError(
            f"{folder}: a {self.title} has no figures to compare; expected a run, comparison, search for a limit or soak"
        )


def find_kind(name: object, where: str) -> StudyKind[Any]:
    """Return the kind of that name; raises `BadInputError`, which names the file ``where``, if there is none."""
    known = sorted(path.parent.name for path in Path(__file__).parent.glob("*/kind.py"))
    if name not in known:
        raise BadInputError(f"{where}: not a study's record: kind is {json.dumps(name)}; expected {' or '.join(known)}")
    kind: StudyKind[Any] = import_module(f"stallbench.studies.{name}.kind").KIND
    return kind


def read_kind(folder: Path) -> StudyKind[Any]:
    """Return which kind of study is in a folder with a ``study.json``; raises `BadInputError` if that is no study's record."""
    return parse_kind(read_record_text(folder / STUDY), str(folder / STUDY))


def parse_kind(text: str, where: str) -> StudyKind[Any]:
    """Return which kind of study the ``text`` of the file ``where`` is a record of; raises as `read_kind` does."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{where}: not a study's record: {error}") from None
    return find_kind(content.get("kind") if isinstance(content, dict) else None, where)
