"""Which of the settings that write a stall into the log are on, and what is not known without them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section
from stallbench.observe.since import NO_READING

_SETTINGS = """
SELECT name, setting::pg_catalog.text, unit FROM pg_catalog.pg_settings WHERE name = ANY(%s::pg_catalog.text[])
"""


class _Logged(NamedTuple):
    """What a setting writes into the log."""

    tells: str
    is_on: Callable[[str], bool]
    value: str
    """What is offered if it is not on."""
    but: str = ""
    """What else that does."""


def _is_at_most(limit: int) -> Callable[[str], bool]:
    return lambda setting: 0 <= int(setting) <= limit


_LOGGED: Mapping[str, _Logged] = {
    "log_lock_waits": _Logged(
        "who waited for a lock for longer than deadlock_timeout, and for whom", lambda found: found == "on", "on"
    ),
    "log_autovacuum_min_duration": _Logged("what each vacuum removed, and what it had to leave", _is_at_most(60_000), "'1s'"),
    "log_min_duration_statement": _Logged(
        "which statements were slow, and when",
        _is_at_most(10_000),
        "'1s'",
        "; with it, the log has the values of these statements",
    ),
    "log_temp_files": _Logged("which statements wrote temporary files", _is_at_most(1 << 20), "'10MB'"),
    "log_recovery_conflict_waits": _Logged(
        "which sessions the replay on a replica waited for", lambda found: found == "on", "on"
    ),
    "log_checkpoints": _Logged("how long checkpoints took, and how much they wrote", lambda found: found == "on", "on"),
}


class LoggedSettingsDiagnostic(Diagnostic):
    """Reads the settings; each that is off is something that cannot be seen, also the next time."""

    name = "logged_settings"
    what = "what the server writes into its log"
    position = 90

    def read(self, reading: Reading) -> Section:
        """Return the settings, what each tells, and what would switch it on."""
        found = {
            name: (setting, unit or "") for name, setting, unit in reading.server.execute(_SETTINGS, (list(_LOGGED),)).fetchall()
        }
        rows, not_visible = [], []
        for name, logged in _LOGGED.items():
            if name not in found or (name == "log_recovery_conflict_waits" and not reading.state.is_replica):
                continue
            setting, unit = found[name]
            value = "off" if setting == "-1" else f"{setting} {unit}".rstrip()
            rows.append((name, value, logged.tells))
            if not logged.is_on(setting):
                not_visible.append(
                    NotVisible(
                        what=logged.tells,
                        why=f"{name} is {value}, so the log does not have it{logged.but}",
                        remedy=f"ALTER SYSTEM SET {name} = {logged.value}; SELECT pg_catalog.pg_reload_conf();",
                        is_of_next_time=True,
                    )
                )
        return Section(
            title="What the server writes into its log",
            columns=("setting", "value", "tells"),
            rows=tuple(rows),
            not_visible=(*not_visible, NO_READING),
        )
