"""Which XA transactions are prepared, belong to no session any more, and keep their locks until somebody commits them or rolls them back?"""

from __future__ import annotations

from typing import Any, NamedTuple

import pymysql

from stallbench.base.number_text import format_plural
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Section, Severity
from stallbench.observe.formatting import format_age, format_since
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S
from stallbench.visible_text import raw_of

# A session's own transaction, prepared or not, has the session's number.
_WITHOUT_SESSION = """
SELECT timestampdiff(MICROSECOND, trx_started, now(6)) / 1e6, trx_rows_locked, trx_rows_modified
FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0
ORDER BY trx_started
"""
_RECOVER, _RECOVER_HEXADECIMAL = "XA RECOVER", "XA RECOVER CONVERT XID"
"""MariaDB's, and MySQL's, whose first form returns bytes as text."""
_REFUSED = 1401
"""XAER_RMERR: MySQL's answer to a user without the privilege."""
_MOST_SHOWN = 6
_MEANS = "no session owns it, so neither KILL nor a restart ends it, and its locks block all claims of these rows"


class PreparedXA(NamedTuple):
    """A prepared XA transaction, by its identifier."""

    format_id: int
    gtrid: bytes
    """Global part."""
    bqual: bytes
    """Branch."""

    @property
    def xid(self) -> str:
        """Return it as a statement needs it, whatever bytes it consists of."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"

    @property
    def name(self) -> str:
        """Return its global part as text if it is text, else the whole identifier."""
        text = self.gtrid.decode("ascii", "replace")
        return repr(text) if text.isprintable() and "\ufffd" not in text else self.xid


class InnoDBPreparedDiagnostic(Diagnostic):
    """Reads the list of transactions; that of prepared ones, which needs another privilege, only if one belongs to no session."""

    name = "prepared"
    what = "prepared XA transactions"
    position = 15

    def read(self, reading: Reading) -> Section:
        """Return the prepared transactions, and a finding if one without a session is older than a moment."""
        detached = [row for row in read_without_session(reading.server) if row[0] >= BRIEF_S]
        if not detached:
            return Section(title="")
        try:
            prepared = read_prepared(reading.server, is_mariadb="mariadb" in reading.state.version.lower())
        except pymysql.Error as error:
            why = NotVisible(
                what="the names of prepared XA transactions",
                why="XA RECOVER needs the privilege XA_RECOVER_ADMIN" if error.args[0] == _REFUSED else str(error.args[-1]),
                remedy=f"GRANT XA_RECOVER_ADMIN ON *.* TO {_quote_user(reading.state.user)};",
            )
            return Section(title="", findings=(_judge(detached, [], self.name),), not_visible=(why,))
        if not prepared:
            return Section(title="")  # the server's own: it rolls back what a crash left, for example
        return Section(
            title="Prepared XA transactions",
            columns=("transaction", "statement that ends it"),
            has_statements=True,
            rows=tuple((one.name, f"XA ROLLBACK {one.xid};") for one in prepared[:_MOST_SHOWN]),
            findings=(_judge(detached, prepared, self.name),),
        )


def read_without_session(server: Any) -> list[tuple[float, int, int]]:
    """Return age (s), locked rows and changed rows of each transaction without a session, the oldest first. Raises PyMySQL's errors."""
    return [(float(age_s or 0), int(locked), int(changed)) for age_s, locked, changed in server.fetch(_WITHOUT_SESSION)]


def read_prepared(server: Any, *, is_mariadb: bool) -> list[PreparedXA]:
    """Return the prepared XA transactions. Raises PyMySQL's errors: MySQL asks for the privilege XA_RECOVER_ADMIN."""
    found = []
    for format_id, length, _, data in server.fetch(_RECOVER if is_mariadb else _RECOVER_HEXADECIMAL):
        raw = bytes(data) if is_mariadb else bytes.fromhex(str(data).removeprefix("0x"))
        found.append(PreparedXA(int(format_id), raw[: int(length)], raw[int(length) :]))
    return found


def _judge(detached: list[tuple[float, int, int]], prepared: list[PreparedXA], subject: str) -> Finding:
    age_s, locked, changed = detached[0]
    many = len(prepared) if prepared else len(detached)
    names = f": {', '.join(one.name for one in prepared[:3])}{', ...' if many > 3 else ''}" if prepared else ""
    return Finding(
        severity=Severity.CRITICAL if age_s >= LONG_WAIT_S else Severity.WARNING,
        subject=subject,
        about="prepared XA transactions",
        sentence=f"{format_plural(many, 'XA transaction is prepared and belongs', 'XA transactions are prepared and belong')} "
        f"to no session{names}. "
        f"The oldest began {format_age(age_s)} ago, at {format_since(age_s)}, has changed {format_plural(changed, 'row')} "
        f"and locks {format_plural(locked, 'row')}.",
        because=_MEANS,
        statement=f"XA ROLLBACK {prepared[0].xid};" if len(prepared) == 1 else "",
        caution="undoes its changes; XA COMMIT instead if its transaction manager has decided to commit"
        if len(prepared) == 1
        else "",
    )


def _quote_user(user: str) -> str:
    name, _, host = raw_of(user).partition("@")
    return f"'{name}'@'{host}'"
