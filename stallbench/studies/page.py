"""What the pages of all studies have in common, and the page of a study that has no charts of its own: ``report.html``, and ``summary.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.report import open_template
from stallbench.report.outcome_text import OutcomeTile
from stallbench.report.run_index import IndexEntry, name_queue, write_entry
from stallbench.report.templates import format_clock
from stallbench.run.record import RunRecord, read_record
from stallbench.studies.regressions import word_regressions
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
    """Which study it is, in the small line above the title; the server and the time are added."""
    title: str
    """What was tried."""
    subject: str
    """The scenario, or the queue that is under test."""
    sentences: Sequence[str]
    """The results, the most important one, which is the headline, first."""
    tiles: Sequence[OutcomeTile] = ()
    """The results as figures."""
    notes: Sequence[str] = ()
    """What a reader must know before relying on them."""
    tables: Sequence[PageTable]
    command: str
    """What repeats the study."""


def read_first_record(folders: Iterable[Path]) -> RunRecord | None:
    """Return the record of the first run whose folder still exists."""
    return next((read_record(folder / "run.json") for folder in folders if (folder / "run.json").is_file()), None)


def describe_where(first: RunRecord | None) -> str:
    """Return the queue and server of a study's first run, and when it began, to follow the name of the study; empty if there is no run."""
    return f" · {name_queue(first)} · {format_clock(first.phases[0].start_ns)}" if first else ""


def write_pages(folder: StudyFolder[Record], record: Record, page: Page) -> None:
    """Write ``report.html``, ``summary.md`` and the row of the index into the study's folder."""
    addresses = [f"{run.folder}/report.html" if run.folder else "" for run in record.runs]
    notes = [*page.notes]
    if record.is_running:
        notes.append(f"The {record.kind} is running.")
    elif record.status != "completed":
        notes.append(f"The {record.kind} is not complete: {record.reason or 'the bench was killed'}. --continue continues it.")
    first = read_first_record(folder.runs / run.folder for run in record.runs if run.folder)
    words = record.words
    content = {
        "record": record,
        "page": replace(page, notes=notes, kicker=page.kicker + describe_where(first)),
        "words": words,
        "said": record.progress,
        "compared": word_regressions(record.regressions),
        "runs": [
            (run, address if address and (folder.path / address).is_file() else "")
            for run, address in zip(record.runs, addresses, strict=True)
        ],
    }
    replace_file(folder.path / "summary.md", open_template("study.md.j2", autoescape=False).render(content))
    replace_file(folder.path / "report.html", open_template("study.html.j2", autoescape=True).render(content))
    entry = IndexEntry(
        kind=record.kind,
        scenario=page.subject,
        queue=name_queue(first) if first else "",
        verdict=words.result,
        verdict_name=words.name,
        outcome=" ".join(page.sentences),
    )
    write_entry(folder.path, entry)
