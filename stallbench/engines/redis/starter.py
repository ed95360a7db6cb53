"""Starts Redis with its own defaults, except for its address, its folder and its password."""

from __future__ import annotations

from stallbench.base.ports import LOOPBACK
from stallbench.engines.database import Database
from stallbench.engines.redis.driver import DRIVER
from stallbench.engines.single_server import SingleServer
from stallbench.engines.starter import StartContext, Starter
from stallbench.engines.volatile_disk import VolatileDisk
from stallbench.setup.server_programs import require_server


class RedisStarter(Starter):
    """A private Redis."""

    def __init__(self, context: StartContext, database: Database) -> None:
        """Find the program."""
        super().__init__(context, database)
        self._program = require_server("redis")

    def primary(self) -> SingleServer:
        """Start it as the server of the queue."""
        return self.second_server("primary")

    def second_server(self, name: str) -> SingleServer:
        """Start it on an empty folder. Its password is in a file and not on its command line."""
        data = self.context.scratch / name
        data.mkdir()
        configuration = data / "redis.conf"
        configuration.touch(mode=0o600)
        settings = {
            "bind": LOOPBACK,
            "dir": str(data),
            "daemonize": False,
            # Its process title would overwrite its environment and command line, by which the reaper recognises it.
            **({"set-proc-title": False} if _has_titles(self._program.version) else {}),
            "requirepass": self.context.password.get_secret_value(),
            **self.database.settings,
        }
        configuration.write_text("".join(f"{key} {_text(value)}\n" for key, value in settings.items()))
        server = SingleServer(
            name,
            "redis",
            self._program,
            self.context,
            port=self.database.port,
            password=self.context.password,
            disk=VolatileDisk(data, user=None, context=self.context) if self.database.volatile_cache else None,
        )
        server.start(lambda port: [str(configuration), "--port", str(port)])
        client = DRIVER.connect(server.endpoint, "start")
        server.version = str(client.info("server")["redis_version"])
        server.settings_in_force = {key: _text(value) for key, value in self.database.settings.items()}
        DRIVER.close(client)
        return server


def _has_titles(version: str) -> bool:
    """Whether it knows the setting: since 6.2; an older version always writes its title."""
    return [int(number) for number in version.split(".")[:2]] >= [6, 2]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f'"{value}"' if value == "" or " " in str(value) else str(value)
