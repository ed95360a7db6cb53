"""A private MariaDB server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stallbench.engines.innodb.server import InnoDBServer
from stallbench.errors import NotCarriedOutError

_SYSTEM_TABLES = (
    "{}_system_tables.sql",
    "{}_performance_tables.sql",
    "{}_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "{}_sys_schema.sql",
)
"""The files that mariadb-install-db reads into a new data folder, without the help texts and the test database."""
_PREFIXES = ("mariadb", "mysql")
"""How their names begin: since MariaDB 11, and before."""


class MariaDBServer(InnoDBServer):
    """One server, whose data folder is made as mariadb-install-db makes it."""

    engine = "mariadb"

    def create_data_folder(self) -> None:
        """Let the program read the files of its installation that create the tables of the system."""
        self.data.mkdir(parents=True)
        share = _share(self.program.path.resolve().parent.parent)
        prefix = next((one for one in _PREFIXES if (share / _SYSTEM_TABLES[0].format(one)).exists()), _PREFIXES[-1])
        opening = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\nSET @skip_auth_anonymous = 1;\n"
        try:
            statements = opening + "\n".join((share / name.format(prefix)).read_text() for name in _SYSTEM_TABLES)
        except OSError as error:
            raise NotCarriedOutError(f"MariaDB's installation is incomplete: {error.filename}: {error.strerror}") from error
        self.run_to_end("--bootstrap", "--enforce-storage-engine=", "--log-warnings=0", text=statements)

    def remove_default_users(self, secret: str) -> Sequence[str]:
        """Return the statements that remove them all."""
        return "DELETE FROM mysql.global_priv;", "FLUSH PRIVILEGES;"

    def options_of_installation(self, base: Path) -> Sequence[str]:
        """Return where its messages are."""
        return (f"--lc-messages-dir={_share(base)}",)


def _share(base: Path) -> Path:
    """Return the folder with an installation's SQL files and messages: Debian's layout, or that of MariaDB's own archive."""
    return next((folder for folder in (base / "share" / "mysql", base / "share") if folder.is_dir()), base / "share")
