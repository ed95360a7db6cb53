"""What ``stallbench observe --json`` prints and ``--record`` keeps: one JSON document per reading, in a line each."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Literal, Self, TextIO

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stallbench.observe import diagnostic
from stallbench.observe.diagnostic import Finding, Remedy, Section, Severity
from stallbench.observe.observer import Observation

_Severity = Literal["critical", "warning", "note"]
_SEVERITIES: Mapping[Severity, _Severity] = {
    Severity.CRITICAL: "critical",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}


class Part(BaseModel):
    """A part of a document for other programs."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Way(Part):
    """One way to end a problem."""

    statement: str = Field(description="the SQL statement, for a person to execute; empty if none ends the problem")
    where: str = Field(description="where to execute it, if not on the observed database")
    consequence: str = Field(description="what else it does, as the end of a sentence that begins with 'which'")
    only_shows: bool = Field(description="whether it ends nothing, but shows what to end")


class FoundProblem(Part):
    """One thing that is wrong."""

    severity: _Severity
    subject: str = Field(description="what was looked at: horizon, blocking, tables, queues, ..")
    also_found_by: tuple[str, ...] = Field(description="further subjects, if the same statement ends what they found, too")
    about: str = Field(description="a session, a slot, a table; with `subject` it identifies the problem from reading to reading")
    sentence: str = Field(description="what is wrong, with figures and names")
    because: str = Field(description="what that does to a queue")
    ways: tuple[Way, ...] = Field(description="how to end it, the best first")


class NotVisible(Part):
    """Something that could not be read."""

    what: str
    why: str
    remedy: str = Field(description="what would let the user see it")
    could_change_the_answer: bool = Field(description="whether the cause of a slow queue could be among it")
    is_of_next_time: bool = Field(
        default=False, description="whether the remedy shows it from then on alone, and not what is over"
    )


class Figures(Part):
    """What was read of one subject, as the report shows it; only with ``--all``."""

    subject: str = Field(description="what was looked at, as in a finding")
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...]
    has_statements: bool = Field(default=False, description="whether the last column has statements")

    @model_validator(mode="after")
    def _require_columns(self) -> Self:
        if wrong := [row for row in self.rows if len(row) != len(self.columns)]:
            raise ValueError(f"a row has {len(wrong[0])} values for {len(self.columns)} columns")
        return self


class ReadingDocument(Part):
    """One reading of a server. Every text is visible: control and format characters of the server are written as escapes."""

    format: Literal[1] = 1
    at: datetime = Field(description="when it began, in UTC")
    server: str = Field(description="the server, its version, its role, and the user")
    gone: str = Field(description="why the server could not be read; empty if it could")
    took_s: float = Field(description="how long the reading took, in seconds")
    findings: tuple[FoundProblem, ...] = Field(description="the worst first")
    queues: tuple[str, ...] = Field(description="each queue in a line")
    cannot_see: tuple[NotVisible, ...]
    figures: tuple[Figures, ...] = Field(description="all figures that were read; empty without --all")


class JsonLines:
    """Prints each observation as a line, in the place of `stallbench.observe.screen.ObserveScreen`."""

    is_redrawn = False

    def __init__(self, file: TextIO | None = None, *, shows_all: bool = False) -> None:
        """Print to ``file``; to standard output if it is None. ``shows_all``: all figures, too, not only the findings."""
        self._file = file or sys.stdout
        self._shows_all = shows_all

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        return

    def show(self, observation: Observation, footer: str = "") -> None:
        """Print one observation; ``footer`` is for a terminal."""
        self.print(observation)

    def print(self, observation: Observation) -> None:
        """Print one observation."""
        self._file.write(describe_reading(observation, shows_all=self._shows_all).model_dump_json() + "\n")
        self._file.flush()


def describe_reading(observation: Observation, *, shows_all: bool, subjects: Collection[str] | None = None) -> ReadingDocument:
    """Return what one reading found. ``shows_all``: with all figures. ``subjects``: findings and figures of these alone."""
    return ReadingDocument(
        at=observation.at,
        server=observation.title,
        gone=observation.gone,
        took_s=round(observation.took_s, 3),
        findings=tuple(
            describe_finding(finding)
            for finding in observation.findings
            if subjects is None or not {finding.subject, *finding.also_found_by}.isdisjoint(subjects)
        ),
        queues=tuple(line for section in observation.sections for line in section.summary),
        cannot_see=tuple(map(_describe_not_visible, observation.not_visible)),
        figures=tuple(
            _describe_section(section)
            for section in observation.sections
            if shows_all and not section.says_nothing and (subjects is None or section.subject in subjects)
        ),
    )


def describe_finding(finding: Finding) -> FoundProblem:
    """Return a finding as every document has it."""
    first = Way(statement=finding.statement, where=finding.where, consequence=finding.caution, only_shows=finding.only_shows)
    others = [
        Way(statement=way.statement, where=way.where, consequence=way.caution, only_shows=False) for way in finding.other_ways
    ]
    return FoundProblem(
        severity=_SEVERITIES[finding.severity],
        subject=finding.subject,
        also_found_by=finding.also_found_by,
        about=finding.about,
        sentence=finding.sentence,
        because=finding.because,
        ways=((first,) if first.statement or first.consequence else ()) + tuple(others),
    )


def _describe_not_visible(not_visible: diagnostic.NotVisible) -> NotVisible:
    return NotVisible(
        what=not_visible.what,
        why=not_visible.why,
        remedy=not_visible.remedy,
        could_change_the_answer=not_visible.could_change_the_answer,
        is_of_next_time=not_visible.is_of_next_time,
    )


def _describe_section(section: Section) -> Figures:
    return Figures(
        subject=section.subject,
        title=section.title,
        columns=section.columns,
        rows=section.rows,
        sentences=section.sentences,
        has_statements=section.has_statements,
    )


def read_observation(document: ReadingDocument) -> Observation:
    """Return what a document has of a look, for the report on a terminal."""
    figures = (
        Section(
            title=one.title,
            columns=one.columns,
            rows=one.rows,
            sentences=one.sentences,
            has_statements=one.has_statements,
            subject=one.subject,
        )
        for one in document.figures
    )
    return Observation(
        at=document.at,
        title=document.server,
        gone=document.gone,
        took_s=document.took_s,
        sections=(Section(title="", summary=document.queues, says_nothing=True), *figures),
        findings=tuple(map(_read_finding, document.findings)),
        not_visible=tuple(
            diagnostic.NotVisible(
                what=one.what,
                why=one.why,
                remedy=one.remedy,
                could_change_the_answer=one.could_change_the_answer,
                is_of_next_time=one.is_of_next_time,
            )
            for one in document.cannot_see
        ),
    )


def _read_finding(found: FoundProblem) -> Finding:
    first, *others = found.ways or (Way(statement="", where="", consequence="", only_shows=False),)
    return Finding(
        severity=next(severity for severity, name in _SEVERITIES.items() if name == found.severity),
        subject=found.subject,
        also_found_by=found.also_found_by,
        about=found.about,
        sentence=found.sentence,
        because=found.because,
        statement=first.statement,
        where=first.where,
        caution=first.consequence,
        only_shows=first.only_shows,
        other_ways=tuple(Remedy(statement=way.statement, where=way.where, caution=way.consequence) for way in others),
    )
