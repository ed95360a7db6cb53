"""The page of a study that has no charts of its own, ``report.html``, and ``summary.md`` for a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stallbench.base.storage.atomic_file import replace_file
from stallbench.report import open_template
from stallbench.studies.regressions import describe_outcome
from stallbench.studies.study import Record, StudyFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table, as text."""

    title: str
    hint: str = ""
    """What its figures mean."""
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a kind of study shows, as text."""

    kicker: str
    """Which study it is, in the small line above the title."""
    title: str
    sentences: Sequence[str]
    """The results, the most important one first."""
    notes: Sequence[str] = ()
    """What a reader must know before relying on them."""
    tables: Sequence[PageTable]
    command: str
    """What repeats the study."""


def write_pages(folder: StudyFolder[Record], record: Record, page: Page) -> None:
    """Write ``report.html`` and ``summary.md`` into the study's folder."""
    addresses = [f"{run.folder}/report.html" if run.folder else "" for run in record.runs]
    notes = [*page.notes]
    if record.is_running:
        notes.append(f"The {record.kind} is running.")
    elif record.status != "completed":
        notes.append(f"The {record.kind} is not complete: {record.reason or 'the bench was killed'}. --continue continues it.")
    content = {
        "record": record,
        "page": replace(page, notes=notes),
        "verdict": record.verdict if record.status == "completed" else "unknown",
        "outcome": describe_outcome(record.regressions),
        "runs": [
            (run, address if address and (folder.path / address).is_file() else "")
            for run, address in zip(record.runs, addresses, strict=True)
        ],
    }
    replace_file(folder.path / "summary.md", open_template("study.md.j2", autoescape=False).render(content))
    replace_file(folder.path / "report.html", open_template("study.html.j2", autoescape=True).render(content))
