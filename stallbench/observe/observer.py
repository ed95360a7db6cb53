"""Reads a server again and again, and takes care to use no more than a hundredth of a processor core for it.

All queries go through one connection, one after the other. So the server spends at most the time for which they were waited for, less the
network's; the next reading comes when a hundred times that has passed. A diagnostic that is expensive on this server is read less often than the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from stallbench.engines import loaded_errors
from stallbench.observe.address import PRIMARY
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, ObserverState, Reading, Section, require_order
from stallbench.visible_text import make_visible

GREATEST_SHARE = 0.01
"""Share of one core's time that readings may take, on the server and on this machine."""
_SHARE_OF_DIAGNOSTIC = GREATEST_SHARE / 2


class Session(Protocol):
    """A read-only session on any engine, as far as the observer needs it; the subjects of an engine know the rest."""

    @property
    def version_text(self) -> str:
        """The server's version."""

    @property
    def spent_s(self) -> float:
        """How long the server has worked for it, at most."""

    def close(self) -> None:
        """Close it in any state."""


class ServerGoneError(Exception):
    """A server ended the session or cannot be reached; the message says why."""

    def __init__(self, name: str, why: str) -> None:
        """``name``: the server's."""
        super().__init__(why)
        self.name = name


class ForeignCodeError(Exception):
    """The read of a table would execute code that another user of the database wrote; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one reading found."""

    at: datetime
    title: str
    """The server, its version, its role, and the user."""
    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()
    """The worst first."""
    not_visible: tuple[NotVisible, ...] = ()
    gone: str = ""
    """Why the server could not be read at all; empty if it could."""
    took_s: float = 0.0
    spent_s: float = 0.0
    """How long the servers worked for it, at most."""


class Observer:
    """Reads one server. Use it from one thread."""

    def __init__(
        self,
        connect: Callable[[str], Session],
        replicas: Sequence[str],
        diagnostics: Sequence[Diagnostic],
        *,
        describe: Callable[[Reading], str],
        explain: Callable[[Diagnostic, Exception], NotVisible],
    ) -> None:
        """Open nothing yet.

        ``connect`` opens the session to the server of a name, ``primary`` or one of ``replicas``, and raises `ServerGoneError`. ``describe``: the
        title of a reading. ``explain``: what an error of the server's driver kept a diagnostic from seeing.
        """
        self._connect = connect
        self._replicas = tuple(replicas)
        self._diagnostics = require_order(diagnostics)
        self._describe = describe
        self._explain = explain
        self._sessions: dict[str, Session] = {}
        self._sections: dict[str, Section] = {}
        self._not_before_s: dict[str, float] = {}
        self._state = ObserverState()
        self._title = ""

    def read(self, *, reads_everything: bool = False) -> Observation:
        """Read once. ``reads_everything``: also what would be left to a later reading because it is expensive."""
        began_s = time.monotonic()
        at, spent_before_s = datetime.now(UTC), self.spent_s
        not_visible: list[NotVisible] = []
        try:
            server = self._session(PRIMARY)
            self._state.replicas = self._open_replicas(not_visible)
            reading = Reading(server=server, at_s=began_s, state=self._state)
            for diagnostic in self._diagnostics:
                if reads_everything or began_s >= self._not_before_s.get(diagnostic.name, 0.0):
                    self._read(diagnostic, reading)
            self._title = make_visible(self._describe(reading), in_one_line=True)
        except ServerGoneError as error:
            self._forget(PRIMARY)
            return Observation(
                at=at, title=self._title, gone=make_visible(str(error), in_one_line=True), took_s=time.monotonic() - began_s
            )
        sections = [self._sections[diagnostic.name] for diagnostic in self._diagnostics if diagnostic.name in self._sections]
        findings = _join_by_statement(
            finding
            for diagnostic in self._diagnostics
            if diagnostic.name in self._sections
            for finding in (*self._sections[diagnostic.name].findings, *_judge(diagnostic, reading))
        )
        return Observation(
            at=at,
            title=self._title,
            sections=tuple(section for section in sections if section.title),
            findings=tuple(sorted(findings, key=lambda finding: finding.severity)),
            not_visible=(*not_visible, *(one for section in sections for one in section.not_visible)),
            took_s=time.monotonic() - began_s,
            spent_s=self.spent_s - spent_before_s,
        )

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The open sessions, by the name of their server."""
        return dict(self._sessions)

    @property
    def spent_s(self) -> float:
        """How long the servers have worked for the open sessions, at most."""
        return float(sum(session.spent_s for session in self._sessions.values()))

    def close(self) -> None:
        """Close every session."""
        for name in list(self._sessions):
            self._forget(name)

    def _read(self, diagnostic: Diagnostic, reading: Reading) -> None:
        before_s = self.spent_s
        section = replace(self._read_without_lost_replicas(diagnostic, reading).in_lines(), subject=diagnostic.name)
        took_s = self.spent_s - before_s
        self._sections[diagnostic.name] = section
        pause_s = max(diagnostic.shortest_pause_s, took_s / _SHARE_OF_DIAGNOSTIC)
        self._not_before_s[diagnostic.name] = reading.at_s + pause_s

    def _read_without_lost_replicas(self, diagnostic: Diagnostic, reading: Reading) -> Section:
        """Let the diagnostic read, and again without each replica that is lost meanwhile. Raises `ServerGoneError` if the primary is gone."""
        while True:
            try:
                return diagnostic.read(reading)
            except ServerGoneError as error:
                if error.name not in reading.state.replicas:
                    raise
                self._forget(error.name)
                reading.state.replicas = {name: one for name, one in reading.state.replicas.items() if name != error.name}
            except loaded_errors() as error:
                return Section(title="", not_visible=(self._explain(diagnostic, error),))

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self._connect(name)
        return self._sessions[name]

    def _open_replicas(self, not_visible: list[NotVisible]) -> Mapping[str, Session]:
        sessions = {}
        for name in self._replicas:
            try:
                sessions[name] = self._session(name)
            except ServerGoneError as error:
                not_visible.append(NotVisible(what=f"replica {name}", why=make_visible(str(error), in_one_line=True)))
        return sessions

    def _forget(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()


def pause_after(spent_s: float, cpu_s: float, every_s: float) -> float:
    """Return how long to wait after a reading for which the servers worked ``spent_s``, and this process ``cpu_s``."""
    return max(every_s, max(spent_s, cpu_s) / GREATEST_SHARE)


def _is_ended_alike(one: Finding, other: Finding) -> bool:
    """Whether the same statement ends both. On two servers, or in two databases, it is not the same."""
    if one.statement or other.statement:
        return one.statement == other.statement and (one.where == other.where or not one.where or not other.where)
    return (one.subject, one.about) == (other.subject, other.about)


def _judge(diagnostic: Diagnostic, reading: Reading) -> tuple[Finding, ...]:
    return Section(title="", findings=diagnostic.judge(reading)).in_lines().findings


def _join_by_statement(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings that the same statement ends: a session that holds the horizon and blocks others is one problem.

    ``findings``: in the order of their subjects, in which their sentences follow each other.
    """
    groups: list[list[Finding]] = []
    for finding in findings:
        group = next((one for one in groups if all(_is_ended_alike(finding, other) for other in one)), None)
        if group is None:
            groups.append([finding])
        else:
            group.append(finding)
    for group in groups:
        group.sort(key=lambda one: one.is_of_victim)
    return [
        replace(
            group[0],
            severity=min(one.severity for one in group),
            sentence=" ".join(one.sentence for one in group),
            because=next((one.because for one in group if one.because), ""),
            where=next((one.where for one in group if one.where), ""),
            caution=next((one.caution for one in group if one.caution), ""),
            other_ways=tuple(dict.fromkeys(way for one in group for way in one.other_ways)),
            also_found_by=tuple(dict.fromkeys(one.subject for one in group if one.subject != group[0].subject)),
        )
        for group in groups
    ]
