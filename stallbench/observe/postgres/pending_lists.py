"""How long is the pending list of a queue's GIN index, which every search through the index reads whole?

New entries of a GIN index wait in a list (``fastupdate``) until a vacuum, or an insert that finds it too long, moves them into the index.
"""

from __future__ import annotations

from stallbench.base.number_text import format_bytes, format_plural
from stallbench.engines.postgres.trust import Extension, find_extension
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, ObserverState, Reading, Remedy, Section, Severity
from stallbench.observe.postgres.rights import describe_untrusted
from stallbench.sql_names import quote_name, quote_text

_MANY_PAGES = 128
"""A megabyte: a search reads a few pages of the index itself."""
_PAGE_BYTES = 8192
_INDEXES = """
SELECT pg_class.oid::bigint, pg_class.oid::pg_catalog.regclass::pg_catalog.text, indrelid::pg_catalog.regclass::pg_catalog.text,
  pg_catalog.pg_stat_get_numscans(pg_class.oid)
FROM pg_catalog.pg_index
JOIN pg_catalog.pg_class ON pg_class.oid = indexrelid
JOIN pg_catalog.pg_am ON pg_am.oid = relam AND amname = 'gin'
WHERE indrelid = ANY(%s::pg_catalog.oid[]) AND indisvalid AND NOT EXISTS (
  SELECT FROM pg_catalog.pg_options_to_table(reloptions) WHERE option_name = 'fastupdate' AND NOT option_value::boolean
)
ORDER BY 2
LIMIT 20
"""
_EXTENSION, _FUNCTION = "pgstattuple", "pgstatginindex"
_PENDING = f"SELECT pending_pages, pending_tuples FROM {{schema}}.{_FUNCTION}(%s::pg_catalog.oid::pg_catalog.regclass)"


class PendingListsDiagnostic(Diagnostic):
    """Reads the lists of the queue's indexes with the extension pgstattuple, if all who own a part of it are trusted."""

    name = "pending lists"
    what = "pending lists of GIN indexes"
    position = 32
    shortest_pause_s = 4.0

    def read(self, reading: Reading) -> Section:
        """Return a finding for each index whose list is long."""
        if reading.state.is_replica or not reading.state.queue_oids:
            return Section(title="")
        indexes = reading.server.execute(_INDEXES, (list(reading.state.queue_oids),)).fetchall()
        if not indexes:
            return Section(title="")
        extension = find_extension(reading.server, _EXTENSION, _FUNCTION)
        if extension is None or extension.untrusted or not extension.is_granted:
            searched = [name for _, name, _, scans in indexes if scans]
            return Section(title="", not_visible=(_describe_not_visible(searched, reading.state, extension),) if searched else ())
        findings = []
        for oid, name, table, _ in indexes:
            pages, entries = reading.server.execute(_PENDING.format(schema=extension.schema), (oid,)).fetchone() or (0, 0)
            if pages >= _MANY_PAGES:
                findings.append(_judge(name, table, pages, entries))
        return Section(title="", findings=tuple(findings))


def _judge(name: str, table: str, pages: int, entries: int) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        subject=PendingListsDiagnostic.name,
        about=name,
        sentence=f"{format_plural(entries, 'new row')} of {table} wait in a list of {format_bytes(pages * _PAGE_BYTES)} beside its GIN index {name} "
        "(the pending list).",
        because="every search through the index reads the whole list",
        statement=f"SELECT pg_catalog.gin_clean_pending_list({quote_text(name).strip()}::pg_catalog.regclass);",
        where="as the owner of the index",
        caution="moves them into the index, beside reads and writes; the list grows again until the next vacuum",
        other_ways=(
            Remedy(
                statement=f"ALTER INDEX {name} SET (fastupdate = off);",
                caution="adds new rows to the index at once, so that each insert takes longer; what is in the list stays there until it is cleaned",
            ),
        ),
    )


def _describe_not_visible(indexes: list[str], state: ObserverState, extension: Extension | None) -> NotVisible:
    what = f"how many new rows wait beside the GIN index {', '.join(indexes)}"
    if extension and extension.untrusted:
        return describe_untrusted(what, _EXTENSION, extension, state)
    return NotVisible(
        what=what,
        why=f"only the extension {_EXTENSION} shows it, and this user cannot use it here",
        remedy=f"CREATE EXTENSION {_EXTENSION}; GRANT pg_stat_scan_tables TO {quote_name(state.user)};",
    )
