"""Lists what the bench has to undo on external servers: longrunners to release, settings to reset, a database or sets to empty, proxies to clear.

Each change is recorded in a file of the run's scratch folder before it is made. So it can be undone even if the bench is killed: by the run
itself, by its reaper, or by ``stallbench clean``. Only the bench's user can read the file, because it contains passwords.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.private import TrustedFolder, UntrustedError, open_trusted
from stallbench.engines import ENGINES, driver_of
from stallbench.errors import StallbenchError
from stallbench.processes.reaper import CLEANUP_JOURNAL
from stallbench.processes.role_command import role_command
from stallbench.records.endpoint import Endpoint

_RELEASE_S = 20.0
"""How long the release of a longrunner may take."""


class ChangedSetting(BaseModel):
    """A setting that was changed."""

    server: str
    endpoint: Endpoint
    name: str
    before: str
    was_overridden: bool = False
    """See `ServerAdapter.is_overridden`."""


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The result of an attempt to undo everything, as sentences."""

    remaining: Sequence[str] = ()
    """What could not be undone."""
    others: Sequence[str] = ()
    """What appeared in the database during the run and is not known to be the bench's; it stays."""

    @property
    def sentences(self) -> list[str]:
        """All of them."""
        return [*self.remaining, *self.others]


class CleanupEntries(BaseModel):
    """Everything to undo, in the order in which it was done."""

    longrunners: list[dict[str, Any]] = []
    """Documents of longrunners that may hold the horizon of a server: a slot or a prepared transaction outlives its process."""
    settings: list[ChangedSetting] = []
    database: tuple[str, Endpoint] | None = None
    """Name of the server, and the database that is the bench's for the run."""
    list_key: str = ""
    """See `ServerAdapter.list_key`; of that database."""
    sets: tuple[str, Endpoint] | None = None
    """Kind of the queue, and the Aerospike namespace and prefix of the run's sets."""
    toxiproxy: tuple[str, int] | None = None
    cleared_proxies: list[str] = []
    """Proxies that were there before the run; they must be open and without toxics afterwards."""
    created_proxies: list[str] = []


class CleanupJournal:
    """What one run has to undo."""

    def __init__(self, scratch: Path) -> None:
        """Begin without an entry; the file is written with the first one."""
        self._scratch = scratch
        self._entries = CleanupEntries()

    def record_longrunner(self, document: Mapping[str, object]) -> None:
        """Record a longrunner that is about to start. ``document``: its own, with a direct address, because the bench's proxy ends with the bench."""
        self._entries.longrunners.append(dict(document))
        self._write()

    def forget_longrunner(self, name: str) -> None:
        """Remove the longrunner ``name``, which was verified to be gone."""
        self._entries.longrunners = [each for each in self._entries.longrunners if each["name"] != name]
        self._write()

    def record_setting(self, server: str, endpoint: Endpoint, name: str, before: str, *, was_overridden: bool = False) -> None:
        """Record a setting that is about to be changed."""
        self._entries.settings.append(
            ChangedSetting(server=server, endpoint=endpoint, name=name, before=before, was_overridden=was_overridden)
        )
        self._write()

    def record_database(self, server: str, endpoint: Endpoint, list_key: str) -> None:
        """Record the database in which the queue will be, and the key of the list of what the run creates there."""
        self._entries.database = (server, endpoint)
        self._entries.list_key = list_key
        self._write()

    def record_sets(self, queue: str, endpoint: Endpoint) -> None:
        """Record the sets in which the records of a queue of kind ``queue`` will be, if the server belongs to the user."""
        if endpoint.engine in {name for name, traits in ENGINES.items() if traits.belongs_to_user}:
            self._entries.sets = (queue, endpoint)
            self._write()

    def record_toxiproxy(self, host: str, port: int) -> None:
        """Record the external Toxiproxy that the run uses."""
        self._entries.toxiproxy = (host, port)
        self._write()

    def record_cleared_proxy(self, name: str) -> None:
        """Record a proxy that was there before the run."""
        self._entries.cleared_proxies.append(name)
        self._write()

    def record_created_proxy(self, name: str) -> None:
        """Record a proxy that the bench created."""
        self._entries.created_proxies.append(name)
        self._write()

    def clean_up(self) -> Cleanup:
        """Undo everything. A second call does nothing."""
        return clean_up(self._scratch)

    def _write(self) -> None:
        replace_file(self._scratch / CLEANUP_JOURNAL, _with_passwords(self._entries), mode=0o600)


def _with_passwords(entries: CleanupEntries) -> str:
    """Return the entries as JSON with readable passwords: for the scratch folder and nothing else."""
    plain = entries.model_copy(
        update={
            "settings": [
                {**change.model_dump(exclude={"endpoint"}), "endpoint": change.endpoint.with_password()}
                for change in entries.settings
            ],
            "database": entries.database and (entries.database[0], entries.database[1].with_password()),
            "sets": entries.sets and (entries.sets[0], entries.sets[1].with_password()),
        }
    )
    return plain.model_dump_json(warnings=False)


def clean_up(scratch: Path) -> Cleanup:
    """Undo what the journal in a temporary folder lists, and remove it.

    If something could not be undone, the journal stays, so that the cleanup can be tried again. A journal that another user can have written is not
    carried out: it names servers, settings and passwords.
    """
    try:
        with open_trusted(scratch) as folder:
            return _carry_out(folder)
    except FileNotFoundError:
        return Cleanup()
    except UntrustedError as error:
        return Cleanup([f"the cleanup journal is not carried out: {error}"])
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]  # without what it found: that may be a password
        key = ".".join(str(part) for part in issue["loc"])
        return Cleanup([f"the cleanup journal is not carried out: {scratch / CLEANUP_JOURNAL}: {key}: {issue['msg']}"])


def _carry_out(folder: TrustedFolder) -> Cleanup:
    from stallbench.servers.join import open_adapter

    if (content := folder.read(CLEANUP_JOURNAL)) is None:
        return Cleanup()
    entries = CleanupEntries.model_validate_json(content)
    remaining: list[str] = []
    others: list[str] = []
    if entries.toxiproxy:
        remaining += _clear_proxies(entries.toxiproxy, entries.cleared_proxies, entries.created_proxies)
    for document in entries.longrunners:  # before the database is emptied: they may hold locks
        remaining += _release(document)
    if entries.database:
        server, endpoint = entries.database
        try:
            with open_adapter(server, endpoint, entries.list_key) as adapter:
                remaining += adapter.empty_database()
                others = adapter.describe_others()
        except Exception as error:  # noqa: BLE001 - any driver's; the other entries are still to be undone
            remaining.append(f"the queue's tables are still in database {endpoint.database} on {server}: {error}")
    if entries.sets:
        remaining += _empty_sets(*entries.sets)
    for change in reversed(entries.settings):
        try:
            with open_adapter(change.server, change.endpoint) as adapter:
                adapter.reset_setting(change.name, change.before, was_overridden=change.was_overridden)
        except Exception as error:  # noqa: BLE001 - as above
            remaining.append(f"{change.server} still has {change.name} as the scenario set it; it was {change.before!r}: {error}")
    if not remaining:
        folder.remove(CLEANUP_JOURNAL)
    return Cleanup(remaining, others)


def _clear_proxies(address: tuple[str, int], cleared: Sequence[str], created: Sequence[str]) -> list[str]:
    """Open the proxies ``cleared``, without toxics, and remove the proxies ``created``, each even if another is no longer there."""
    from stallbench.servers.toxiproxy import ToxiproxyServer

    toxiproxy = ToxiproxyServer(*address)
    what = "Toxiproxy's proxies may still be cut or have toxics"
    if not toxiproxy.answers():
        return [f"{what}: nothing answers on http://{toxiproxy.host}:{toxiproxy.port}"]
    remaining = []
    undoing = [(toxiproxy.clear, name) for name in cleared] + [(toxiproxy.remove_proxy, name) for name in created]
    for undo, name in undoing:
        try:
            undo(name)
        except StallbenchError as error:
            remaining.append(f"{what}: {error}")
    return remaining


def _release(document: Mapping[str, object]) -> list[str]:
    """Remove what a longrunner has left, in a process of its own, as at the end of its phase."""
    text = json.dumps({**document, "release": True})
    try:
        ended = subprocess.run(
            role_command("longrunners"), input=text, capture_output=True, text=True, timeout=_RELEASE_S, check=False
        )
    except subprocess.TimeoutExpired:
        why = f"its release did not end within {_RELEASE_S:.0f} s"
    else:
        if ended.returncode == 0:
            return []
        why = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    return [f"the longrunner {document['name']} may still hold the horizon of {document['on']}: {why}"]


def _empty_sets(queue: str, endpoint: Endpoint) -> list[str]:
    driver = driver_of(endpoint.engine)
    try:
        with closing(driver.connect(endpoint, "cleanup")) as connection:
            connection.empty(queue)
    except driver.errors as error:
        where = f"{endpoint.host}:{endpoint.port}"
        return [f"the queue's records are still in the sets {endpoint.database}_* on {where}: {driver.describe(error)}"]
    return []


if __name__ == "__main__":
    done = clean_up(Path(sys.argv[1]))
    print(*done.others, sep="\n")
    print(*done.remaining, sep="\n", file=sys.stderr)
