"""How many jobs are ready on MariaDB or MySQL, how old is the oldest, and which run for longer than their library would let them?

Every count stops at a limit, and the server ends it with every other statement of the session.
"""

from __future__ import annotations

import re
from typing import Any

import pymysql

from stallbench.engines.innodb.driver import DRIVER
from stallbench.engines.innodb.error_codes import LOCK_TIMEOUT, STATEMENT_TIMEOUTS
from stallbench.observe.diagnostic import NotVisible, Reading
from stallbench.observe.innodb.rights import quote_account
from stallbench.observe.known_queue import find_known_queues
from stallbench.observe.postgres.job_counts import MOST_COUNTED, MOST_RUNNING, JobCounts
from stallbench.observe.postgres.queues import DROPPED, REFUSED, TOO_LONG, QueuesDiagnostic
from stallbench.observe.postgres.recognition import QueueTable, recognise
from stallbench.visible_text import raw_of

_COLUMNS = """
SELECT table_schema, table_name, lower(column_name) FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND {condition}
"""
_RECOGNISABLE = "table_schema = database() AND table_name REGEXP %s"
_NAMED = "table_schema = coalesce(%s, database()) AND table_name = %s"
_NAME = re.compile(r"(?:(?P<schema>`(?:[^`]|``)+`|[^`.]+)\.)?(?P<table>`(?:[^`]|``)+`|[^`.]+)")
"""As the user writes it: of the connected database, or with the name of another one; a name that contains a dot in backticks."""
_BESIDE = re.compile(r"\{schema\}\.(\w+)")
_AGE = "timestampdiff(MICROSECOND, min(since), now(6)) / 1e6"
_READY = (
    f"SELECT count(*), {_AGE} FROM (SELECT {{since}} AS since FROM {{table}} AS job WHERE {{where}} LIMIT {{limit}}) AS ready"
)
_RUNNING = f"""
SELECT count(*), {_AGE}, coalesce(sum(rescue_at < now()), 0)
FROM (SELECT {{since}} AS since, {{rescue_at}} AS rescue_at FROM {{table}} AS job WHERE {{where}} LIMIT {{limit}}) AS running
"""
_ROWS = "SELECT count(*), NULL FROM (SELECT 1 FROM {table} LIMIT {limit}) AS present"
_ERRORS = {
    "1142": REFUSED,
    "1044": REFUSED,
    "1143": REFUSED,
    **dict.fromkeys(STATEMENT_TIMEOUTS, TOO_LONG),
    "1146": DROPPED,
    "1347": "it, or a table beside it, is no table but a view, whose read could execute code of others",
    "1031": "it, or a table beside it, is of a storage engine without HANDLER, by which alone a table is read without executing code of others",
    LOCK_TIMEOUT: "another session has locked the table",
}


def read_tables(server: Any, query: str, table: QueueTable) -> list[tuple[Any, ...]]:
    """Return the rows of a query that reads a queue's tables, which must be tables: a view executes functions with its definer's rights.

    HANDLER opens nothing but a table, executes nothing, and keeps the table from being dropped or renamed until it is closed.
    Raises PyMySQL's errors: 1347 if one is a view.
    """
    known = table.known.innodb if table.known else None
    named = [known.running.table] if known and known.running and known.running.table else []
    expressions = [known.running.rescue_from] if known and known.running else []
    named += [name for each in expressions for name in _BESIDE.findall(each)]
    read = [table.name, *(f"{table.schema}.{name}" for name in dict.fromkeys(named))]
    opened: list[str] = []
    try:
        for number, name in enumerate(each for each in read if each in query):
            server.fetch(f"HANDLER {name} OPEN AS observed_{number}")
            opened.append(f"observed_{number}")
        return list(server.fetch(query))
    finally:
        for alias in opened:
            server.fetch(f"HANDLER {alias} CLOSE")


class InnoDBQueuesDiagnostic(QueuesDiagnostic):
    """Recognises the libraries that its files in ``known_queues/`` describe for InnoDB."""

    why_missing = "this user sees no such table"
    form = "TABLE, or DATABASE.TABLE if it is in another database"

    def find_all(self, reading: Reading) -> list[QueueTable]:
        """Return the tables of these libraries in the database."""
        names = "|".join(sorted({known.usual_table for known in find_known_queues().values() if known.innodb}))
        found = self._read(reading, _RECOGNISABLE, (names,))
        return [table for table in found if table.known is not None and table.known.innodb is not None]

    def describe_form(self, name: str) -> str:
        """Return how to give the name of a table that was not found."""
        return f"give it as {self.form}"

    def describe_none(self, reading: Reading) -> NotVisible:
        """Return, too, that the server may hide the table from this user."""
        user = reading.state.user
        return NotVisible(
            what=self.what,
            why=f"no queue table was recognised in this database; name it with --table TABLE; the server hides a table on which {user} has no right",
            remedy=f"GRANT SELECT ON {_quote(reading.state.database)}.TABLE TO {quote_account(user)};",
        )

    def find_named(self, reading: Reading, name: str) -> QueueTable | None:
        """Return the table that the user named, in the connected database or in another one; none if there is no such table."""
        written = _NAME.fullmatch(name)
        if written is None:
            return None
        schema = _unquote(written["schema"]) if written["schema"] else None
        return next(iter(self._read(reading, _NAMED, (schema, _unquote(written["table"])))), None)

    def count(self, reading: Reading, table: QueueTable) -> JobCounts:
        """Count the jobs of one queue; raises PyMySQL's errors."""
        known = table.known.innodb if table.known else None
        if known is None or table.known is None:
            ((rows, _),) = read_tables(reading.server, _ROWS.format(table=table.name, limit=MOST_COUNTED + 1), table)
            return JobCounts(ready=int(rows), oldest_s=None)
        values: dict[str, Any] = {"table": table.name, "where": known.ready.where, "since": known.ready.since}
        ((ready, oldest_s),) = read_tables(reading.server, _READY.format(**values, limit=MOST_COUNTED + 1), table)
        oldest_s = None if oldest_s is None else float(oldest_s)
        if known.running is None:
            return JobCounts(ready=int(ready), oldest_s=oldest_s)
        own, rescue = known.running, table.known.rescue_on_innodb
        rescue_from = (own.rescue_from or own.since).format(schema=table.schema)
        values = {
            "table": f"{table.schema}.{own.table}" if own.table else table.name,
            "where": own.where,
            "since": own.since,
            "rescue_at": f"({rescue_from}) + {rescue}" if rescue else "NULL",
        }
        ((running, longest_s, overdue),) = read_tables(reading.server, _RUNNING.format(**values, limit=MOST_RUNNING + 1), table)
        return JobCounts(
            ready=int(ready),
            oldest_s=oldest_s,
            running=int(running),
            longest_s=None if longest_s is None else float(longest_s),
            overdue=int(overdue) if rescue else None,
        )

    def explain(self, error: Exception) -> str | None:
        """Return why a count failed; none if only the server's words tell."""
        return _ERRORS.get(DRIVER.code(error)) if isinstance(error, pymysql.Error) else None

    def _read(self, reading: Reading, condition: str, values: tuple[str | None, ...]) -> list[QueueTable]:
        columns: dict[tuple[str, str], set[str]] = {}
        for schema, table, column in reading.server.fetch(_COLUMNS.format(condition=condition), values):
            columns.setdefault((schema, table), set()).add(column)
        return [
            QueueTable(
                schema=_quote(schema),
                table=_quote(table),
                plain_schema=schema,
                plain_name=table,
                known=recognise(table, names),
                is_readable=True,
                leaves=(),
                # The collectors look in the connected database, and must not find another table of the same name there.
                leaf_names=(raw_of(table) if schema == reading.state.database else f"{raw_of(schema)}.{raw_of(table)}",),
            )
            for (schema, table), names in sorted(columns.items())
        ]


def _quote(name: str) -> str:
    return f"`{raw_of(name).replace('`', '``')}`"


def _unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
