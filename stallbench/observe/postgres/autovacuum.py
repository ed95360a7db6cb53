"""Do dead rows stay because autovacuum is switched off: for their table, for the values beside it (TOAST), or on the whole server?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines.postgres.collectors.autovacuum import OWN_VACUUM_SETTINGS, VACUUM_THRESHOLD
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Remedy, Section, Severity
from stallbench.observe.postgres.dead_rows import find_keeper
from stallbench.sql_names import write_quoted

MANY_DEAD = 10_000
"""A table with fewer dead rows is small enough to be read past them."""
_MOST_NAMED = 3
_SETTINGS = """
SELECT pg_catalog.current_setting('autovacuum')::boolean, pg_catalog.current_setting('track_counts')::boolean, source
FROM pg_catalog.pg_settings WHERE name = 'autovacuum'
"""
# The TOAST table of a table whose own settings say nothing has those of the table.
_OVERDUE = f"""
WITH counted AS MATERIALIZED (
  SELECT oid, pg_catalog.pg_stat_get_dead_tuples(oid) AS dead
  FROM pg_catalog.pg_class
  WHERE relkind IN ('r', 'm', 't') AND relpersistence <> 't'
)
SELECT named.oid::bigint, named.oid::pg_catalog.regclass::pg_catalog.text, pg_class.relkind = 't', dead,
  pg_catalog.pg_stat_get_live_tuples(counted.oid), coalesce(own.enabled, 'true')::boolean
FROM counted
JOIN pg_catalog.pg_class ON pg_class.oid = counted.oid
JOIN pg_catalog.pg_class AS named ON named.oid = pg_class.oid OR pg_class.relkind = 't' AND named.reltoastrelid = pg_class.oid
{OWN_VACUUM_SETTINGS.replace("(reloptions)", "(pg_class.reloptions)")}
WHERE dead >= {MANY_DEAD} AND named.relkind <> 't' AND dead > {VACUUM_THRESHOLD.replace("reltuples", "pg_class.reltuples")}
AND (%(is_off)s OR NOT coalesce(own.enabled, 'true')::boolean)
ORDER BY dead DESC
LIMIT 20
"""


class Overdue(NamedTuple):
    """A table that autovacuum would vacuum if it were on."""

    oid: int
    name: str
    is_toast: bool
    """Whether the dead rows are those of its values, which are stored beside it."""
    dead: int
    live: int
    is_enabled: bool
    """Whether its own settings let autovacuum vacuum it."""

    @property
    def setting(self) -> str:
        """The setting of the table that switches it off."""
        return "toast.autovacuum_enabled" if self.is_toast else "autovacuum_enabled"


class AutovacuumDiagnostic(Diagnostic):
    """Reads the settings that switch autovacuum off, and which tables would be due."""

    name = "autovacuum"
    what = "whether autovacuum is on"
    position = 25
    shortest_pause_s = 4.0

    def __init__(self) -> None:
        """Know no table."""
        self._switched_off: list[Overdue] = []

    def judge(self, reading: Reading) -> tuple[Finding, ...]:
        """Return a finding for each table that has many dead rows because it is switched off."""
        return tuple(_judge_table(one, reading) for one in self._switched_off)

    def read(self, reading: Reading) -> Section:
        """Return a finding for each table that has many dead rows because of such a setting."""
        reading.state.without_autovacuum = ()
        self._switched_off = []
        if reading.state.is_replica:
            return Section(title="")
        is_on, counts, source = reading.server.execute(_SETTINGS).fetchone() or (True, True, "")
        if not counts:
            return Section(title="", findings=(_judge_counts(),))
        overdue = [
            Overdue(oid, write_quoted(name), *rest)
            for oid, name, *rest in reading.server.execute(_OVERDUE, {"is_off": not is_on}).fetchall()
        ]
        switched_off = [one for one in overdue if not one.is_enabled]
        reading.state.without_autovacuum = [one.oid for one in switched_off if not one.is_toast]
        self._switched_off = switched_off
        findings = []
        if not is_on and (others := [one for one in overdue if one.is_enabled]):
            findings.append(_judge_server(others, source, reading.state.queue_oids))
        return Section(title="", findings=tuple(findings))


def _judge_table(one: Overdue, reading: Reading) -> Finding:
    """Return the finding; a VACUUM is offered only if it would remove the rows now."""
    is_queue = one.oid in reading.state.queue_oids
    where = "The values of {} that are stored beside it (TOAST) have" if one.is_toast else "{} has"
    rows = reading.state.dead_rows.get(one.oid) if not one.is_toast else None
    old = next((each for each in reading.state.holders if not each.is_young), None)
    keeper = find_keeper(rows, reading.state.holders)[1] if rows else old
    is_removable = keeper is None
    until = f"; removes none that died since {keeper.name} began" if keeper else ""
    return Finding(
        severity=Severity.CRITICAL if is_queue else Severity.WARNING,
        subject=AutovacuumDiagnostic.name,
        about=f"{one.name}, {one.setting}",
        sentence=f"{where.format(one.name)} {format_count(one.dead)} dead rows beside {format_plural(one.live, 'live row')}, and nothing "
        f"removes them: autovacuum is switched off for the table ({one.setting} = off).",
        because="each claim reads past dead rows" if is_queue and not one.is_toast else "",
        statement=f"ALTER TABLE {one.name} RESET ({one.setting});",
        caution="blocks neither readers nor writers; autovacuum then removes the dead rows when it next readings, usually within a minute"
        + until,
        other_ways=(
            Remedy(
                statement=f"VACUUM {one.name};",
                caution="removes them now, and reads and writes the whole table once; they pile up again",
            ),
        )
        if is_removable
        else (),
    )


def _judge_server(overdue: Sequence[Overdue], source: str, queue_oids: Sequence[int]) -> Finding:
    named = ", ".join(f"{one.name} ({format_count(one.dead)})" for one in overdue[:_MOST_NAMED])
    more = f" and {format_count(len(overdue) - _MOST_NAMED)} more" if len(overdue) > _MOST_NAMED else ""
    is_lasting = source == "command line"
    return Finding(
        severity=Severity.CRITICAL if any(one.oid in queue_oids for one in overdue) else Severity.WARNING,
        subject=AutovacuumDiagnostic.name,
        about="server",
        sentence=f"Autovacuum is switched off on this server (autovacuum = off), and dead rows pile up: {named}{more}."
        + (
            " It was switched off on the command line that started the server, so only a restart switches it on."
            if is_lasting
            else ""
        ),
        because="nothing removes dead rows, and each claim reads past them",
        statement="" if is_lasting else "ALTER SYSTEM SET autovacuum = on; SELECT pg_catalog.pg_reload_conf();",
        caution="" if is_lasting else "lets autovacuum work in all databases of the server, beginning within a minute",
    )


def _judge_counts() -> Finding:
    return Finding(
        severity=Severity.WARNING,
        subject=AutovacuumDiagnostic.name,
        about="track_counts",
        sentence="The server counts no dead rows (track_counts = off), so autovacuum removes none.",
        because="each claim reads past dead rows, and how many there are is not known",
        statement="ALTER SYSTEM RESET track_counts; SELECT pg_catalog.pg_reload_conf();",
        caution="lets the server count from then on; tables that already have dead rows need a VACUUM",
    )
