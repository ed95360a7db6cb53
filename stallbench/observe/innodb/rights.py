"""What kind of server is it, and what may the user not see?"""

from __future__ import annotations

import re

from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section
from stallbench.visible_text import raw_of

KNOWN_VERSIONS = {"MariaDB": ((10, 6), (11, 8)), "MySQL": ((8, 0), (9, 7))}
"""The oldest and the newest for which the queries were written; `stallbench observe` was tested on a part of them (docs/observe.md)."""
_SERVER = "SELECT current_user(), database(), version(), @@performance_schema, @@read_only"
_UP = "SHOW GLOBAL STATUS LIKE 'Uptime'"
_SESSIONS = "SELECT count(DISTINCT user) FROM information_schema.processlist"


class InnoDBRightsDiagnostic(Diagnostic):
    """Looks first: the title of the report needs what it reads."""

    name = "rights"
    what = "what kind of server it is"
    position = 0

    def read(self, reading: Reading) -> Section:
        """Return no table; only what cannot be seen."""
        ((user, database, version, counts, read_only),) = reading.server.fetch(_SERVER)
        ((_, up_s),) = reading.server.fetch(_UP)
        state = reading.state
        state.user, state.database, state.version = user, database, str(version)
        state.is_replica, state.up_s = bool(read_only), float(up_s)
        not_visible = []
        state.sees_all = any(_shows_all_sessions(str(grant)) for (grant,) in reading.server.fetch("SHOW GRANTS"))
        if not state.sees_all:
            grantee = quote_account(state.user)
            not_visible.append(
                NotVisible(
                    what="other users' sessions, transactions, read views and locks",
                    why=f"{user} has no PROCESS privilege",
                    remedy=f"GRANT PROCESS, REPLICATION CLIENT ON *.* TO {grantee}; "
                    f"GRANT SELECT ON performance_schema.* TO {grantee}; GRANT SELECT, EXECUTE ON sys.* TO {grantee};",
                )
            )
        if not counts:
            not_visible.append(
                NotVisible(
                    what="times of statements",
                    why="the server runs with performance_schema = off",
                    remedy="it needs a restart to be on",
                )
            )
        not_visible += _find_unknown_version(state.version)
        return Section(title="", not_visible=tuple(not_visible))


def quote_account(user: str) -> str:
    """Return what ``current_user()`` has returned, ``reader@%``, as GRANT needs it."""
    name, _, host = raw_of(user).partition("@")
    return f"'{name}'@'{host}'"


def _shows_all_sessions(grant: str) -> bool:
    """Return whether a row of SHOW GRANTS has PROCESS; SUPER does not include it, and a database can have its name."""
    rights = re.match(r"GRANT ([A-Z_, ]+) ON \*\.\* ", grant)
    return rights is not None and not {"PROCESS", "ALL PRIVILEGES"}.isdisjoint(rights[1].split(", "))


def _find_unknown_version(version: str) -> list[NotVisible]:
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    oldest, newest = KNOWN_VERSIONS[product]
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and oldest <= (int(numbers[1]), int(numbers[2])) <= newest:
        return []
    return [
        NotVisible(
            what=f"what is different in {product} {numbers[0] if numbers else version}",
            why=f"this version of stallbench knows {_format(oldest)} to {_format(newest)}; what it could not read is listed here",
        )
    ]


def _format(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
