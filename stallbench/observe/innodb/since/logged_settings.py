"""Which of the settings that write a stall into a log are on, and what is not known without them?"""

from __future__ import annotations

from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section
from stallbench.observe.since import NO_READING

_SETTINGS = """
SHOW GLOBAL VARIABLES WHERE variable_name IN ('slow_query_log', 'slow_query_log_file', 'long_query_time', 'log_output', 'log_error',
  'innodb_print_all_deadlocks', 'datadir')
"""


class InnoDBLoggedSettingsDiagnostic(Diagnostic):
    """Reads the settings; each that is off is something that cannot be seen, also the next time."""

    name = "logged_settings"
    what = "what the server writes into its logs"
    position = 90

    def read(self, reading: Reading) -> Section:
        """Return where the logs are, what they have, and what would switch on the rest."""
        found = dict(reading.server.fetch(_SETTINGS))
        not_visible = []
        if found.get("slow_query_log") != "ON":
            not_visible.append(
                NotVisible(
                    what="which statements were slow, and when",
                    why="slow_query_log is off; a slow log has the values of statements",
                    remedy="SET GLOBAL long_query_time = 1; SET GLOBAL slow_query_log = ON;",
                    is_of_next_time=True,
                )
            )
        if found.get("innodb_print_all_deadlocks") != "ON":
            not_visible.append(
                NotVisible(
                    what="deadlocks before the latest one",
                    why="innodb_print_all_deadlocks is off, so the error log does not have them; it would have the values of statements",
                    remedy="SET GLOBAL innodb_print_all_deadlocks = ON;",
                    is_of_next_time=True,
                )
            )
        return Section(
            title="What the server writes into its logs",
            columns=("setting", "value"),
            rows=tuple((name, str(value)) for name, value in sorted(found.items())),
            sentences=("Relative paths of logs are within datadir. They are not read: look there for the time asked for.",),
            not_visible=(*not_visible, NO_READING),
        )
