"""Who is behind the number of a session of MariaDB or MySQL, and which statement ends what it holds, and no more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from stallbench.engines.innodb.ending import statement_to_kill
from stallbench.engines.innodb.literals import LITERALS
from stallbench.observe.diagnostic import Remedy
from stallbench.observe.formatting import format_age, shorten_text
from stallbench.observe.lock_waits import Session

NO_SESSION = "a transaction without a session (as a prepared XA transaction is)"
_DETAILS = """
SELECT process.id, process.user, process.host, coalesce(process.db, ''), lower(process.command), process.time, coalesce(process.info, ''),
  trx.trx_id IS NOT NULL, coalesce(trx.trx_rows_modified, 0), coalesce(trx.trx_autocommit_non_locking, 0)
FROM information_schema.processlist AS process
LEFT JOIN information_schema.innodb_trx AS trx ON trx.trx_mysql_thread_id = process.id
WHERE process.id IN %s
"""
_WITHOUT_TRANSACTIONS = """
SELECT id, user, host, coalesce(db, ''), lower(command), time, coalesce(info, ''), NULL, 0, 0 FROM information_schema.processlist
WHERE id IN %s
"""
_CHANGES = ("ALTER ", "CREATE ", "DROP ", "OPTIMIZE ", "RENAME ", "REPAIR ", "TRUNCATE ", "LOCK ")


class InnoDBSessionDetails(NamedTuple):
    """A session of the server."""

    pid: int
    user: str
    host: str
    database: str
    state: str
    """``sleep`` if its client does nothing."""
    in_state_s: float
    query: str
    """What it executes; empty if nothing."""
    has_transaction: bool | None
    """None if this user may not see transactions."""
    rows_modified: int
    ends_with_select: bool
    """Whether its transaction is one SELECT that locks nothing and ends with it."""

    @property
    def name(self) -> str:
        """Return what an engineer knows it by."""
        known = [
            f"user {self.user}",
            f"from {self.host}" if self.host else "",
            f"database {self.database}" if self.database else "",
        ]
        return f"session {self.pid} ({', '.join(part for part in known if part)})"

    @property
    def command(self) -> str:
        """Return which kind of statement it executes, like ``ALTER TABLE``; ``statement`` if that is not known."""
        words = self.query.upper().split(maxsplit=2)
        if self.is_change and len(words) > 1 and words[1].isalpha():
            return " ".join(words[:2])
        return words[0] if words and words[0].isalpha() else "statement"

    @property
    def doing(self) -> str:
        """Return its state, since when, and its statement."""
        if self.query:
            return f"executing for {format_age(self.in_state_s)}: {shorten_text(self.query, LITERALS)}"
        transaction = " in transaction" if self.has_transaction else ""
        return f"idle{transaction} for {format_age(self.in_state_s)}" if self.state == "sleep" else ""

    @property
    def is_single_select(self) -> bool:
        """Whether it executes a SELECT with whose end everything ends that it holds."""
        return self.ends_with_select or (self.has_transaction is False and self.query.lstrip().upper().startswith("SELECT"))

    @property
    def is_change(self) -> bool:
        """Whether it changes a table, which is no part of a transaction."""
        return is_change(self.query)


def is_change(statement: str) -> bool:
    """Return whether a statement changes or locks a table, which is no part of a transaction."""
    return statement.lstrip().upper().startswith(_CHANGES)


def read_sessions(server: Any, pids: Collection[Session], *, sees_all: bool) -> dict[int, InnoDBSessionDetails]:
    """Return the details of the sessions that still exist. ``sees_all``: whether the user may see transactions. Raises PyMySQL's errors."""
    wanted = sorted({pid for pid in pids if isinstance(pid, int) and pid})
    if not wanted:
        return {}
    found: dict[int, InnoDBSessionDetails] = {}
    for pid, user, host, database, state, in_state_s, query, has_transaction, modified, single in server.fetch(
        _DETAILS if sees_all else _WITHOUT_TRANSACTIONS, (wanted,)
    ):
        found[int(pid)] = InnoDBSessionDetails(
            int(pid),
            str(user),
            str(host),
            str(database),
            str(state),
            float(in_state_s or 0),
            str(query),
            None if has_transaction is None else bool(has_transaction),
            int(modified),
            bool(int(single)),
        )
    return found


def end_session(pid: int, session: InnoDBSessionDetails | None, *, advisory: str = "") -> Remedy:
    """Return the statement that ends what a session holds, with what else that does. ``advisory``: the name of a lock of GET_LOCK that it holds.

    A statement that is ended leaves such locks, and those of its transaction, so that only the end of the session ends a transaction.
    """
    if session and session.is_change and not advisory:
        return Remedy(
            statement=statement_to_cancel(pid),
            caution=f"aborts its change of the table, whose work is lost: {shorten_text(session.query, LITERALS, 60)}; its connection stays",
        )
    if session and session.is_single_select and not advisory:
        return Remedy(
            statement=statement_to_cancel(pid), caution="ends its SELECT, of which only the result is lost; its connection stays"
        )
    if session is None or session.has_transaction is None:
        return Remedy(
            statement=statement_to_kill(pid), caution="closes its connection, and rolls its transaction back if it has one"
        )
    if not session.has_transaction:
        return Remedy(
            statement=statement_to_kill(pid), caution="closes its connection; it has no transaction, so no change is undone"
        )
    return Remedy(statement=statement_to_kill(pid), caution="rolls its transaction back and closes its connection")


def statement_to_cancel(pid: int) -> str:
    """Return the statement that ends what a session executes, and leaves its connection and its transaction."""
    return f"KILL QUERY {pid};"
