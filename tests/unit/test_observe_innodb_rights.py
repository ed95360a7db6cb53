"""Which users of MariaDB and MySQL see the sessions of others and the queue's table, so that `stallbench observe` may say that there are none."""

from __future__ import annotations

import pytest

from stallbench.observe.diagnostic import ObserverState, Reading
from stallbench.observe.innodb.queues import InnoDBQueuesDiagnostic
from stallbench.observe.innodb.rights import InnoDBRightsDiagnostic


class Server:
    """Answers as a server whose user has one grant."""

    def __init__(self, grant: str) -> None:
        self.grant = grant

    def fetch(self, query: str, values: object = None) -> list[tuple[object, ...]]:
        if query == "SHOW GRANTS":
            return [("GRANT USAGE ON *.* TO `watch`@`%`",), (self.grant,)]
        if "information_schema.columns" in query:
            return []
        return [("Uptime", "60")] if "Uptime" in query else [("watch@%", "app", "10.11.19-MariaDB", 1, 0)]


@pytest.mark.parametrize(
    ("grant", "sees_all"),
    [
        ("GRANT PROCESS ON *.* TO `watch`@`%`", True),
        ("GRANT SELECT, PROCESS, REPLICATION CLIENT ON *.* TO `watch`@`%`", True),
        ("GRANT ALL PRIVILEGES ON *.* TO `watch`@`%` WITH GRANT OPTION", True),
        ("GRANT SUPER ON *.* TO `watch`@`%`", False),
        ("GRANT ALL PRIVILEGES ON `app`.* TO `watch`@`%`", False),
        ("GRANT SELECT ON `PROCESS`.* TO `watch`@`%`", False),
        ("GRANT SELECT ON `PROCESSING`.* TO `watch`@`%`", False),
        ("GRANT SELECT ON *.* TO `PROCESS`@`%`", False),
    ],
)
def test_only_the_process_privilege_shows_other_users_sessions(grant: str, sees_all: bool) -> None:
    known = ObserverState()
    section = InnoDBRightsDiagnostic().read(Reading(server=Server(grant), at_s=0.0, state=known))
    assert known.sees_all is sees_all
    assert bool(section.not_visible) is not sees_all


def test_a_user_from_whom_the_server_hides_the_queue_s_table_learns_which_right_is_missing() -> None:
    """The information schema has no table on which the user has no right, so it cannot be said that there is none."""
    known = ObserverState(user="watch@%", database="app")
    section = InnoDBQueuesDiagnostic().read(Reading(server=Server(""), at_s=0.0, state=known))
    assert section.sentences == (
        "No queue table was recognised; name it with --table TABLE, or DATABASE.TABLE if it is in another database.",
    )
    (hidden,) = section.not_visible
    assert "the server hides a table on which watch@% has no right" in hidden.why
    assert hidden.remedy == "GRANT SELECT ON `app`.TABLE TO 'watch'@'%';"
