"""Reads and checks the options of `stallbench observe`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.observe.address import ObservedServers, read_addresses
from stallbench.observe.observer import Observer
from stallbench.scenario.duration import parse_duration_s

_SHORTEST_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveOptions:
    """What the user asked for."""

    servers: ObservedServers
    every_s: float
    tables: tuple[str, ...]
    log: Path | None

    def make_observer(self) -> Observer:
        """Return an observer of the server; nothing is connected yet."""
        from stallbench.observe.postgres.observer import make_postgres_observer

        return make_postgres_observer(self.servers, self.tables, self.log)


def read_options(dsn: Sequence[str], *, every: str, tables: Sequence[str], log: Path | None) -> ObserveOptions:
    """Return the options; raises `BadInputError` that names the option, what was found and what is expected."""
    try:
        every_s = parse_duration_s(every)
    except ValueError as error:
        raise BadInputError(f"--every {every}: {error}") from None
    if every_s < _SHORTEST_PAUSE_S:
        raise BadInputError(f"--every {every}: expected at least {_SHORTEST_PAUSE_S:g}s: each look is work for the server")
    if log is not None and not log.is_file():
        raise BadInputError(
            f"--log {log}: there is no such file on this machine; leave the option out if the server is on another one"
        )
    return ObserveOptions(servers=read_addresses(dsn), every_s=every_s, tables=tuple(tables), log=log)
