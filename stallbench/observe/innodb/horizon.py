"""Whose read view keeps purge back, since when, how long is the history list, and which statement ends it?"""

from __future__ import annotations

from stallbench.collectors.innodb_purge import read_history_list_length
from stallbench.collectors.innodb_views import OpenTransaction, read_open_transactions
from stallbench.observe.formatting import capitalize_first, format_age, format_count, format_plural, format_since, shorten_text
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject
from stallbench.observe.thresholds import BRIEF_S, LONG_TRANSACTION_S, VERY_LONG_TRANSACTION_S

_MOST_SHOWN = 6
_LONG_LIST, _VERY_LONG_LIST = 100_000, 1_000_000
_MEANS = "purge cannot remove row versions that are younger, so every claim reads past more of them"
_DETAILS = "SELECT id, host, coalesce(db, ''), coalesce(info, '') FROM information_schema.processlist WHERE id IN %s"


class InnoDBHorizonSubject(Subject):
    """Reads the open transactions, their read views, and the history list."""

    name = "horizon"
    what = "read views and the history list"
    position = 10

    def __init__(self) -> None:
        """Know no earlier length."""
        self._last: tuple[float, int] | None = None

    def look(self, look: Look) -> Section:
        """Return the oldest transactions, and a finding for the one whose read view is the oldest if it is old."""
        found = [one for one in read_open_transactions(look.server) if one.age_s >= BRIEF_S]
        found.sort(key=lambda one: (one.view_age_xids is None, -(one.view_age_xids or 0), -one.age_s))
        shown = found[:_MOST_SHOWN]
        details = {row[0]: row[1:] for row in look.server.fetch(_DETAILS, ([one.thread_id for one in shown],))} if shown else {}
        length = read_history_list_length(look.server)
        growth = ""
        if length is not None:
            if self._last and look.at_s > self._last[0]:
                growth = f" ({(length - self._last[1]) / (look.at_s - self._last[0]):+,.1f}/s)"
            self._last = (look.at_s, length)
        holding = [one for one in shown if one.view_age_xids is not None]
        rows = tuple(
            (
                _name(one, details),
                format_since(one.age_s),
                format_age(one.age_s),
                format_count(one.view_age_xids) if one.view_age_xids is not None else "no read view",
                "idle in transaction" if one.state == "sleep" else one.state,
                f"KILL {one.thread_id};",
            )
            for one in shown
        )
        return Section(
            title="Who holds purge back",
            columns=("session", "since", "age", "view, transactions ago", "state", "statement that ends it") if rows else (),
            rows=rows,
            sentences=(
                *(() if rows else ("No transaction is older than a second.",)),
                f"History list: {format_count(length)} transactions whose old row versions are not purged{growth}.",
            ),
            findings=tuple(_judge(holding[:1], details, length)),
        )


def _judge(oldest: list[OpenTransaction], details: dict[int, tuple[str, ...]], length: int | None) -> list[Finding]:
    listed = length or 0
    if oldest and (oldest[0].age_s >= LONG_TRANSACTION_S or listed >= _LONG_LIST):
        one = oldest[0]
        _, _, info = details.get(one.thread_id, ("", "", ""))
        doing = f"; it executes {shorten_text(info)}" if info else ", and its client does nothing" if one.state == "sleep" else ""
        is_urgent = one.age_s >= VERY_LONG_TRANSACTION_S or listed >= _VERY_LONG_LIST
        return [
            Finding(
                severity=Severity.CRITICAL if is_urgent else Severity.WARNING,
                subject=InnoDBHorizonSubject.name,
                about=str(one.thread_id),
                sentence=f"{capitalize_first(_name(one, details))} has had a read view for {format_age(one.age_s)}, since {format_since(one.age_s)} "
                f"({format_plural(one.view_age_xids or 0, 'transaction')} ago){doing}. The history list has {format_count(length)} entries.",
                because=_MEANS,
                statement=f"KILL {one.thread_id};",
                caution="rolls its transaction back and closes its connection",
            )
        ]
    if listed >= _VERY_LONG_LIST:
        return [
            Finding(
                severity=Severity.WARNING,
                subject=InnoDBHorizonSubject.name,
                about="history list",
                sentence=f"The history list has {format_count(length)} entries, and no old read view is there: purge does not keep up with writes.",
                because="claims read past row versions that are not purged",
            )
        ]
    return []


def _name(one: OpenTransaction, details: dict[int, tuple[str, ...]]) -> str:
    host, database, _ = details.get(one.thread_id, ("", "", ""))
    about = ", ".join(
        part for part in (f"user {one.user}", f"from {host}" if host else "", f"database {database}" if database else "") if part
    )
    return f"session {one.thread_id} ({about})"
