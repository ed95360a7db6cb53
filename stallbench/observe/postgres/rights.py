"""What may the user see, what kind of server is it, and what would let the user see the rest?"""

from __future__ import annotations

from stallbench.engines.postgres.trust import Extension
from stallbench.observe.diagnostic import Diagnostic, NotVisible, ObserverState, Reading, Section
from stallbench.sql_names import quote_name

OLDEST_VERSION, NEWEST_VERSION = 14, 18
"""Major versions for which the queries were written; `stallbench observe` was tested on a part of them (docs/observe.md)."""
_SERVER = """
SELECT session_user, pg_catalog.current_database(), pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery(),
  pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
  extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_postmaster_start_time())::double precision,
  pg_catalog.current_setting('track_counts')::boolean, pg_catalog.current_setting('track_activities')::boolean,
  (SELECT CASE WHEN rolsuper THEN 'a superuser' WHEN rolbypassrls THEN 'a role with BYPASSRLS' END
   FROM pg_catalog.pg_roles WHERE rolname = session_user)
"""
_MONITORING_ROLE = "CREATE ROLE observer LOGIN PASSWORD '..'; GRANT pg_monitor TO observer;"
"""Short enough for a line of any terminal."""


class RightsDiagnostic(Diagnostic):
    """Looks first: other subjects need to know whether the server is a replica."""

    name = "rights"
    what = "what kind of server it is"
    position = 0

    def read(self, reading: Reading) -> Section:
        """Return no table; only what cannot be seen, and a warning if the user has more rights than are needed."""
        row = reading.server.execute(_SERVER).fetchone()
        assert row is not None
        user, database, version, is_replica, sees_all, up_s, counts, activities, has_more_rights = row
        state = reading.state
        state.user, state.database, state.version = user, database, version
        state.is_replica, state.sees_all, state.up_s = is_replica, sees_all, up_s
        not_visible = []
        if not sees_all:
            what = "the transactions, states and statements of other users' sessions, so holders of the horizon may be missing"
            not_visible.append(describe_hidden_from(user, what))
        for is_on, setting, what in (
            (counts, "track_counts", "dead rows and vacuums"),
            (activities, "track_activities", "states and statements of sessions"),
        ):
            if not is_on:
                not_visible.append(NotVisible(what=what, why=f"the server runs with {setting} = off"))
        major = reading.server.version // 10_000
        if not OLDEST_VERSION <= major <= NEWEST_VERSION:
            not_visible.append(
                NotVisible(
                    what=f"what is different in PostgreSQL {major}",
                    why=f"this version of stallbench knows {OLDEST_VERSION} to {NEWEST_VERSION}; what it could not read is listed here",
                )
            )
        if is_replica:
            not_visible.append(
                NotVisible(
                    what="vacuums, dead rows and prepared transactions",
                    why="this server is a replica, and they are the primary's",
                    remedy="observe the primary; give this one as a replica: --dsn NAME=.. with the name under which it streams",
                )
            )
        warning = (
            f"Warning: {user} is {has_more_rights}, and observe needs far fewer rights. As a superuser, on this server:",
            f"  {_MONITORING_ROLE}",
        )
        return Section(
            title="Rights", says_nothing=True, summary=warning if has_more_rights else (), not_visible=tuple(not_visible)
        )


def describe_hidden_from(user: str, what: str) -> NotVisible:
    """Return that ``user`` cannot see ``what``, because only members of pg_monitor can."""
    return NotVisible(what=what, why=f"{user} is not a member of pg_monitor", remedy=f"GRANT pg_monitor TO {quote_name(user)};")


def describe_untrusted(what: str, name: str, extension: Extension, state: ObserverState) -> NotVisible:
    """Return that ``what`` cannot be seen, because the functions of an extension are not called, and what lets them be called."""
    if extension.is_schema_untrusted:
        remedy = (
            f"CREATE SCHEMA monitoring; GRANT USAGE ON SCHEMA monitoring TO PUBLIC; ALTER EXTENSION {name} SET SCHEMA monitoring; "
            f"as a superuser, in database {state.database}"
        )
    else:
        remedy = f"DROP EXTENSION {name}; CREATE EXTENSION {name}; as a superuser, in database {state.database}"
    if extension.is_of_database_owner:
        remedy += f"; or observe as a user with fewer rights than {extension.untrusted_owner}: {_MONITORING_ROLE}"
    return NotVisible(
        what=what,
        why=f"the extension {name} is not used: {extension.untrusted} belongs to {extension.untrusted_owner}, who could have {state.user} "
        "execute another function",
        remedy=remedy,
    )
