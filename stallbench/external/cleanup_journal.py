"""What the bench owes to servers that it joined: settings to set back, a database to leave empty, proxies to clear.

It stands in a file of the run's scratch folder from before the first change, readable by the bench's user only, so that whoever
cleans up after a bench that was killed can pay: the run itself, its reaper, or ``stallbench clean``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from stallbench.errors import StallbenchError
from stallbench.processes.reaper import CLEANUP_JOURNAL
from stallbench.records.endpoint import Endpoint


class ChangedSetting(BaseModel):
    """A setting that was changed."""

    server: str
    endpoint: Endpoint
    name: str
    before: str
    was_overridden: bool = False
    """Whether its owner had put it where the bench has put another."""


class CleanupEntries(BaseModel):
    """All of it, in the order in which it arose."""

    settings: list[ChangedSetting] = []
    database: tuple[str, Endpoint] | None = None
    toxiproxy: tuple[str, int] | None = None
    used_proxies: list[str] = []
    made_proxies: list[str] = []


class CleanupJournal:
    """What one run owes."""

    def __init__(self, scratch: Path) -> None:
        """Begin with none; nothing is written before there is one."""
        self._path = scratch / CLEANUP_JOURNAL
        self._owed = CleanupEntries()

    def record_setting(self, server: str, endpoint: Endpoint, name: str, before: str, *, was_overridden: bool = False) -> None:
        """Note a setting that is about to be changed."""
        self._owed.settings.append(
            ChangedSetting(server=server, endpoint=endpoint, name=name, before=before, was_overridden=was_overridden)
        )
        self._write()

    def record_database(self, server: str, endpoint: Endpoint) -> None:
        """Note the database that the bench has moved into."""
        self._owed.database = (server, endpoint)
        self._write()

    def record_toxiproxy(self, host: str, port: int) -> None:
        """Note which Toxiproxy the bench has joined."""
        self._owed.toxiproxy = (host, port)
        self._write()

    def record_cleared_proxy(self, name: str) -> None:
        """Note a proxy that was there before, and must be open and without toxics afterwards."""
        self._owed.used_proxies.append(name)
        self._write()

    def record_proxy(self, name: str) -> None:
        """Note a proxy that the bench has made."""
        self._owed.made_proxies.append(name)
        self._write()

    def clean_up(self) -> list[str]:
        """Pay all; returns a sentence for each that could not be paid. Done again, it does nothing."""
        return clean_up(self._path)

    def _write(self) -> None:
        fresh = self._path.with_suffix(".fresh")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(_with_passwords(self._owed))
        fresh.replace(self._path)


def _with_passwords(owed: CleanupEntries) -> str:
    """Return it as JSON that can be used: for the scratch folder and nothing else."""
    plain = owed.model_copy(
        update={
            "settings": [
                {**change.model_dump(exclude={"endpoint"}), "endpoint": change.endpoint.with_password()}
                for change in owed.settings
            ],
            "database": owed.database and (owed.database[0], owed.database[1].with_password()),
        }
    )
    return plain.model_dump_json(warnings=False)


def clean_up(path: Path) -> list[str]:
    """Pay what stands in a file, and remove it; returns a sentence for each debt that could not be paid.

    The file stays as long as there is one, so that somebody may try again.
    """
    from stallbench.external.join import find_adapters
    from stallbench.servers.toxiproxy import ToxiproxyServer

    if not path.exists():
        return []
    owed = CleanupEntries.model_validate_json(path.read_text())
    unpaid = []
    if owed.toxiproxy:
        toxiproxy = ToxiproxyServer(*owed.toxiproxy)
        try:
            for name in owed.used_proxies:
                toxiproxy.clear(name)
            for name in owed.made_proxies:
                toxiproxy.remove_proxy(name)
        except StallbenchError as error:
            unpaid.append(f"Toxiproxy's proxies may still be cut or have toxics: {error}")
    if owed.database:
        name, endpoint = owed.database
        try:
            adapter = find_adapters()[endpoint.engine](name, endpoint)
            try:
                adapter.revert()
            finally:
                adapter.close()
        except Exception as error:  # noqa: BLE001 - any driver's; the other debts are still to be paid
            unpaid.append(f"the queue's tables are still in database {endpoint.database} on {name}: {error}")
    for change in reversed(owed.settings):
        try:
            adapter = find_adapters()[change.endpoint.engine](change.server, change.endpoint)
            try:
                adapter.reset_setting(change.name, change.before, was_overridden=change.was_overridden)
            finally:
                adapter.close()
        except Exception as error:  # noqa: BLE001 - as above
            unpaid.append(f"{change.server} still has {change.name} as the scenario set it; it was {change.before!r}: {error}")
    if not unpaid:
        path.unlink()
    return unpaid


if __name__ == "__main__":
    print(*clean_up(Path(sys.argv[1])), sep="\n", file=sys.stderr)
