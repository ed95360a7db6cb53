"""What kind of server is it, and what may the user not see?"""

from __future__ import annotations

from stallbench.observe.subject import Look, Section, Subject, Unseen

_SERVER = "SELECT current_user(), database(), version(), @@performance_schema, @@read_only"
_UP = "SHOW GLOBAL STATUS LIKE 'Uptime'"
_SESSIONS = "SELECT count(DISTINCT user) FROM information_schema.processlist"


class InnoDBRightsSubject(Subject):
    """Looks first: the title of the report needs what it reads."""

    name = "rights"
    what = "what kind of server it is"
    position = 0

    def look(self, look: Look) -> Section:
        """Return no table; only what cannot be seen."""
        ((user, database, version, counts, read_only),) = look.server.fetch(_SERVER)
        ((_, up_s),) = look.server.fetch(_UP)
        known = look.known
        known.user, known.database, known.version = str(user), str(database), str(version)
        known.is_replica, known.up_s = bool(read_only), float(up_s)
        grants = " ".join(row[0] for row in look.server.fetch("SHOW GRANTS"))
        unseen = []
        if not any(right in grants for right in ("PROCESS", "ALL PRIVILEGES ON *.*", "SUPER")):
            name, _, host = str(user).partition("@")
            unseen.append(
                Unseen(
                    what="other users' sessions, transactions, read views and locks",
                    why=f"{user} has no PROCESS privilege",
                    remedy=f"GRANT PROCESS, REPLICATION CLIENT ON *.* TO '{name}'@'{host}'; "
                    f"GRANT SELECT ON performance_schema.* TO '{name}'@'{host}'; GRANT SELECT, EXECUTE ON sys.* TO '{name}'@'{host}';",
                )
            )
        if not counts:
            unseen.append(
                Unseen(
                    what="times of statements",
                    why="the server runs with performance_schema = off",
                    remedy="it needs a restart to be on",
                )
            )
        return Section(title="", unseen=tuple(unseen))
