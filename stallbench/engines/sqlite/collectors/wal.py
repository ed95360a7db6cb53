"""Does the WAL file of a SQLite database grow? It does while a reader keeps it from being reset, or if checkpoints come too rarely."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stallbench.engines.collectors.collector import Collector, samples_of
from stallbench.records.samples import Sample


class SQLiteWalCollector(Collector):
    """Reads the sizes of the files."""

    name = "sqlite_wal"

    def sample(self) -> Iterator[Sample]:
        """Yield the size of the database and of its WAL; a database that nobody has open has no WAL file."""
        database = Path(self.document.primary.endpoint.database)
        wal = database.with_name(f"{database.name}-wal")
        sizes = {"wal_kept_bytes": wal.stat().st_size if wal.exists() else 0, "database_bytes": database.stat().st_size}
        yield from samples_of(self.document.primary.name, "server", sizes)
