"""Starts NATS with JetStream and its own defaults, except for its address, its folder and its password."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from stallbench.base.ports import LOOPBACK
from stallbench.base.section import SettingValue
from stallbench.engines.single_server import SingleServer
from stallbench.engines.starter import Starter
from stallbench.engines.volatile_disk import VolatileDisk
from stallbench.setup.server_programs import require_server

USER = "stallbench"
_SIZE_OR_TIME = re.compile(r"\d+[A-Za-z]{1,2}")


class NatsStarter(Starter):
    """A private server."""

    def primary(self) -> SingleServer:
        """Start it as the server of the queue."""
        return self.second_server("primary")

    def second_server(self, name: str) -> SingleServer:
        """Start it on an empty folder. Its password is in a file and not on its command line."""
        program = require_server(self.database.engine)
        data = self.context.scratch / name
        data.mkdir()
        configuration = self.context.scratch / f"{name}.conf"
        configuration.touch(mode=0o600)
        own: dict[str, SettingValue] = {
            "host": LOOPBACK,
            "jetstream.store_dir": str(data),
            "authorization.user": USER,
            "authorization.password": self.context.password.get_secret_value(),
        }
        configuration.write_text(_write_settings({**own, **self.database.settings}))
        server = SingleServer(
            name,
            self.database.engine,
            program,
            self.context,
            port=self.database.port,
            user=USER,
            password=self.context.password,
            disk=VolatileDisk(data, user=None, context=self.context) if self.database.volatile_cache else None,
        )
        server.start(lambda port: ["--config", str(configuration), "--port", str(port)])
        server.settings_in_force = {key: str(value) for key, value in self.database.settings.items()}
        return server


def _write_settings(settings: Mapping[str, SettingValue]) -> str:
    """Return the text of a configuration: a setting ``jetstream.sync_interval`` is in the block ``jetstream``."""
    blocks: dict[str, list[str]] = {}
    for key, value in settings.items():
        block, _, name = key.rpartition(".")
        blocks.setdefault(block, []).append(f"{name}: {_write(value)}\n")
    return "".join("".join(lines) if not block else f"{block} {{\n{''.join(lines)}}}\n" for block, lines in blocks.items())


def _write(value: SettingValue) -> str:
    if isinstance(value, str) and _SIZE_OR_TIME.fullmatch(value):
        return value  # 8MB, which is none in quotation marks
    return json.dumps(value)
