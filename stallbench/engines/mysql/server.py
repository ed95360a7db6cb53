"""A private MySQL server."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from stallbench.engines.innodb.server import InnoDBServer
from stallbench.engines.mysql.data_folder import create_data_folder


class MySQLServer(InnoDBServer):
    """One server, whose data folder is a copy of one that its program has made."""

    engine = "mysql"
    own_settings = MappingProxyType({"mysqlx": False})

    def create_data_folder(self) -> None:
        """Copy it, or let the program make it."""
        create_data_folder(self.program.path, self.data, lambda: self.run_to_end("--initialize-insecure"))

    def remove_default_users(self, secret: str) -> Sequence[str]:
        """Return the statement that gives root, which is the only one, the password."""
        return (f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{secret}';",)
