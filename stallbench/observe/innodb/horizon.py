"""Whose read view keeps purge back, since when, how long is the history list, and which statement ends it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines.innodb.collectors.purge import read_history_list_length
from stallbench.engines.innodb.literals import LITERALS
from stallbench.engines.innodb.views import OpenTransaction, read_open_transactions
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Section, Severity
from stallbench.observe.formatting import capitalize_first, format_age, format_since, shorten_text
from stallbench.observe.innodb.blocking import end_head, read_tree
from stallbench.observe.innodb.sessions import InnoDBSessionDetails, end_session, read_sessions
from stallbench.observe.lock_waits import Session
from stallbench.observe.thresholds import BRIEF_S, LONG_TRANSACTION_S, VERY_LONG_TRANSACTION_S
from stallbench.observe.wait_tree import WaitTree

_MOST_SHOWN = 6
_LONG_LIST, _VERY_LONG_LIST = 100_000, 1_000_000
_MEANS = "purge cannot remove row versions that are younger, so every claim reads past more of them"


class InnoDBHorizonDiagnostic(Diagnostic):
    """Reads the open transactions, their read views, and the history list."""

    name = "horizon"
    what = "read views and the history list"
    position = 10

    def __init__(self) -> None:
        """Know no earlier length."""
        self._last: tuple[float, int] | None = None

    def read(self, reading: Reading) -> Section:
        """Return the oldest transactions, and a finding for the one whose read view is the oldest if it is old."""
        found = [one for one in read_open_transactions(reading.server) if one.age_s >= BRIEF_S]
        unknown = [one for one in found if one.view_unknown_because]
        holding = sorted(
            (one for one in found if one.view_age_xids is not None), key=lambda one: (-(one.view_age_xids or 0), -one.age_s)
        )
        shown = holding[:_MOST_SHOWN]
        tree = read_tree(reading)
        sessions = read_sessions(reading.server, [one.thread_id for one in shown], sees_all=reading.state.sees_all)
        causes = {one.thread_id: heads[0] for one in shown if (heads := tree.waits.find_heads(one.thread_id))}
        length = read_history_list_length(reading.server)
        growth = ""
        if length is not None:
            if self._last and reading.at_s > self._last[0]:
                growth = f" ({(length - self._last[1]) / (reading.at_s - self._last[0]):+,.1f}/s)"
            self._last = (reading.at_s, length)
        rows = tuple(
            (
                _name(one, sessions),
                format_since(one.age_s),
                format_age(one.age_s),
                format_count(one.view_age_xids),
                "idle in transaction" if one.state == "sleep" else one.state,
                f"waits for {_name_cause(causes[one.thread_id])}"
                if one.thread_id in causes
                else end_session(one.thread_id, sessions.get(one.thread_id)).statement,
            )
            for one in shown
        )
        return Section(
            title="Who holds purge back",
            columns=("session", "since", "age", "view, transactions ago", "state", "statement that ends it") if rows else (),
            rows=rows,
            has_statements=True,
            sentences=(
                *_count_others(len(found) - len(holding) - len(unknown), len(holding), len(unknown)),
                f"History list: {format_count(length)} transactions whose old row versions are not purged{growth}.",
            ),
            findings=tuple(
                _judge(one, sessions, length, causes.get(one.thread_id), tree) for one in holding[:1] if _is_long(one, length)
            )
            or _judge_without_view([*holding, *unknown], length),
            not_visible=tuple(
                NotVisible(what=f"which session holds purge back: the read views of {_name_some(those)}", why=why)
                for why in dict.fromkeys(one.view_unknown_because for one in unknown)
                if (those := [one for one in unknown if one.view_unknown_because == why])
            ),
        )


def _name_some(unknown: Sequence[OpenTransaction]) -> str:
    names = ", ".join(f"session {one.thread_id}" for one in unknown[:_MOST_SHOWN])
    return names if len(unknown) <= _MOST_SHOWN else f"{names}, and {len(unknown) - _MOST_SHOWN:,} more"


def _count_others(without_view: int, holding: int, unknown: int) -> Iterator[str]:
    if unknown:
        count = format_plural(unknown, "transaction that is older than a second", "transactions that are older than a second")
        yield f"Of {count} it is not known whether there is a read view."
    if without_view:
        more = format_plural(
            without_view, "transaction that is older than a second has", "transactions that are older than a second have"
        )
        yield f"{more} no read view, and {'keeps' if without_view == 1 else 'keep'} nothing from being purged."
    elif not unknown:
        yield (
            "Each transaction that is older than a second has a read view."
            if holding
            else "No transaction is older than a second."
        )


def _is_long(oldest: OpenTransaction, length: int | None) -> bool:
    return oldest.age_s >= LONG_TRANSACTION_S or (length or 0) >= _LONG_LIST


def _judge(
    one: OpenTransaction, sessions: Mapping[int, InnoDBSessionDetails], length: int | None, cause: Session | None, tree: WaitTree
) -> Finding:
    """Return what the oldest read view means. ``cause``: whom its session waits for; that is to be ended, and not the session."""
    session = sessions.get(one.thread_id)
    doing = ""
    if session and session.query:
        doing = f"; it executes {shorten_text(session.query, LITERALS)}"
    elif one.state == "sleep":
        doing = ", and its client does nothing"
    waits = f" It waits for {_name_cause(cause)}." if cause is not None else ""
    remedy = tree.end_with_middle(cause, end_head(cause, tree)) if cause is not None else end_session(one.thread_id, session)
    is_urgent = one.age_s >= VERY_LONG_TRANSACTION_S or (length or 0) >= _VERY_LONG_LIST
    return Finding(
        severity=Severity.CRITICAL if is_urgent else Severity.WARNING,
        subject=InnoDBHorizonDiagnostic.name,
        about=str(one.thread_id),
        sentence=f"{capitalize_first(_name(one, sessions))} has had a read view for {format_age(one.age_s)}, since {format_since(one.age_s)} "
        f"({format_plural(one.view_age_xids or 0, 'transaction')} ago){doing}.{waits} The history list has {format_count(length)} entries.",
        because=_MEANS,
        statement=remedy.statement,
        caution=remedy.caution,
    )


def _judge_without_view(holding: Sequence[OpenTransaction], length: int | None) -> tuple[Finding, ...]:
    if holding or (length or 0) < _VERY_LONG_LIST:
        return ()
    return (
        Finding(
            severity=Severity.WARNING,
            subject=InnoDBHorizonDiagnostic.name,
            about="history list",
            sentence=f"The history list has {format_count(length)} entries, and no old read view is there: purge does not keep up with writes.",
            because="claims read past row versions that are not purged",
        ),
    )


def _name(one: OpenTransaction, sessions: Mapping[int, InnoDBSessionDetails]) -> str:
    return sessions[one.thread_id].name if one.thread_id in sessions else f"session {one.thread_id} (user {one.user})"


def _name_cause(cause: Session) -> str:
    return f"session {cause}" if isinstance(cause, int) else cause
